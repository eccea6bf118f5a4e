//! The findings.

use super::{BETA, GradientSize, LEN, Numbers, Q};
use crate::experiment::Finding;
use crate::experiments::common::{EXACT, extremes, finding_on, gap, holds_or, keyed, largest, mean, short};
use crate::sentences::SentenceId;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![
        same_reweighting(n),
        decay(n),
        larger_gradients(n),
        kl_grows_along(n),
        early_as_late(n),
        td_errors(n),
        unit_mean(n),
        closed_form(n),
    ]
}

/// The sizes at the paper's best λ and its lengths: those of its 1.5B and 3B models, and of its 7B model.
pub(super) fn paper_sizes(n: &Numbers) -> Vec<&GradientSize> {
    n.sizes.iter().filter(|s| s.lambda == 0.99 && [256, 768].contains(&s.tokens)).collect()
}

/// The least and the greatest factor at the paper's lengths.
pub(super) fn paper_factors(n: &Numbers) -> (f64, f64) {
    extremes(paper_sizes(n).iter().map(|s| s.factor))
}

/// The soft clamp at the flat log-probability of -0.5.
fn soft_clamp() -> f64 {
    1.0 + 1.0 / (1.0 + 1.5f64.exp())
}

fn same_reweighting(n: &Numbers) -> Finding {
    let v = soft_clamp();
    let unclamped: Vec<f64> = n.weight.iter().map(|w| w / v).collect();
    let reversed: Vec<f64> = n.trace.iter().rev().map(|c| c * v).collect();
    finding_on(
        SentenceId::WeightIsTrace,
        holds_or(
            gap(&n.trace, &unclamped) < EXACT,
            format!(
                "they are time reversals of each other, w_t = c_(T-1-t) (relative error {}): at T = {LEN}, λ = {Q} ϵ-trace weighs token 0 with {} and the last with {}, ϵ-weight's w with {} and {}",
                short(gap(&n.weight, &reversed) / reversed[LEN - 1]),
                short(n.trace[0]),
                short(n.trace[LEN - 1]),
                short(unclamped[0]),
                short(unclamped[LEN - 1])
            ),
        ),
        format!(
            "style recent, on-policy, δ_t = A_NAE; ϵ-weight's soft clamp multiplies w by {} at log π = -0.5",
            short(v)
        ),
    )
}

fn decay(n: &Numbers) -> Finding {
    let falling = n.trace.windows(2).all(|w| w[0] > w[1]);
    finding_on(
        SentenceId::ExponentialDecay,
        holds_or(
            !falling,
            format!(
                "summed over the ratios it enters, a token's weight grows going back in time, c_k = (1 - q^(T-k))/(1 - q): {} at the last token, {} at T/2, {} at token 0",
                short(n.trace[LEN - 1]),
                short(n.trace[LEN / 2]),
                short(n.trace[0])
            ),
        ),
        format!("T = {LEN}, λ = {Q}; the decay holds inside each single ratio only"),
    )
}

fn larger_gradients(n: &Numbers) -> Finding {
    let (low, high) = paper_factors(n);
    let said = |s: &&GradientSize| format!("T = {} {} {:.1}", s.tokens, s.style, s.factor);
    finding_on(
        SentenceId::LargerGradients,
        holds_or(low > 1.0, format!("smallest factor {}", short(low))),
        format!(
            "{} to {} times GRPO's at the paper's lengths and λ = 0.99: {}",
            short(low),
            short(high),
            paper_sizes(n).iter().map(said).collect::<Vec<_>>().join(", ")
        ),
    )
}

fn kl_grows_along(n: &Numbers) -> Finding {
    let (low, high) = paper_factors(n);
    let sizes = paper_sizes(n);
    let kl_same = sizes.iter().all(|s| (s.kl - 1.0).abs() < 1e-9);
    let said = |s: &&GradientSize| format!("T = {} {}: {}", s.tokens, s.style, short(s.effective_beta));
    keyed(
        "kl_grows_along",
        "The KL term grows with the policy term, so that β = 0.04 means the same for GRPO and GRPO-λ",
        holds_or(
            !kl_same || high < 1.0 + EXACT,
            format!(
                "the KL gradient is GRPO's (ratio {}), so the effective β is {} to {}",
                short(sizes[0].kl),
                short(BETA / high),
                short(BETA / low)
            ),
        ),
        sizes.iter().map(said).collect::<Vec<_>>().join(", "),
    )
}

fn early_as_late(n: &Numbers) -> Finding {
    let (first, last) = (n.both[0], n.both[LEN - 1]);
    keyed(
        "early_as_late",
        "Under the style both, \"early tokens are considered as important as the late ones\" (in the update)",
        holds_or(
            (first - last).abs() < EXACT,
            format!("token 0 weighs {}, the last {}", short(first), short(last)),
        ),
        format!("T = {LEN}, λ = {Q}; c_0 = T for every λ"),
    )
}

fn td_errors(n: &Numbers) -> Finding {
    let gae: Vec<f64> = (0..LEN).map(|t| Q.powi((LEN - 1 - t) as i32)).collect();
    let apart = gap(&n.terminal, &gae);
    keyed(
        "td_errors",
        "With the TD errors of a constant critic (delta=terminal) the weights are GAE's λ^(T-1-t), rising towards the end",
        holds_or(apart < EXACT, format!("largest difference {}", short(apart))),
        format!(
            "token 0: {}, last token: {}; constant δ: {} and {}",
            short(n.terminal[0]),
            short(n.terminal[LEN - 1]),
            short(n.trace[0]),
            short(n.trace[LEN - 1])
        ),
    )
}

fn unit_mean(n: &Numbers) -> Finding {
    let normalised = n.readings.iter().filter(|r| r.reading.normalise == "mean");
    let off = largest(normalised.map(|r| (mean(&r.weights) - 1.0).abs()));
    keyed(
        "unit_mean",
        "Our setting normalise=mean makes the on-policy weights average 1",
        holds_or(off < EXACT, format!("off by {}", short(off))),
        format!("every reading, update=trace and update=weight: 1 to within {}", short(off)),
    )
}

fn closed_form(n: &Numbers) -> Finding {
    let worst = largest(n.readings.iter().map(|r| r.error));
    let geometric = largest(n.sizes.iter().map(|s| s.error));
    keyed(
        "closed_form",
        "The on-policy weights of every reading are those of its closed form",
        holds_or(
            worst < 1e-11 && geometric < 1e-11,
            format!("largest relative error {}", short(worst.max(geometric))),
        ),
        format!(
            "{} readings at T = {LEN}, λ = {Q}: largest error relative to the largest weight {}; geometric sums, T up to 2048: {}",
            n.readings.len(),
            short(worst),
            short(geometric)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, Weighed};
    use super::*;
    use crate::experiments::common::{words, words_after};

    /// GRPO-lambda as the text has it: every weight 1, and larger gradients with a KL term that grows along.
    fn as_claimed() -> Numbers {
        let size = |tokens| GradientSize {
            tokens,
            lambda: 0.99,
            style: "recent",
            factor: 2.0,
            effective_beta: 0.02,
            kl: 2.0,
            error: 0.0,
        };
        let ones = || vec![1.0; LEN];
        let weighed = |reading| Weighed { reading, weights: ones(), error: 0.0 };
        Numbers {
            readings: Reading::every().into_iter().map(weighed).collect(),
            sizes: [256, 768].map(size).into(),
            trace: ones(),
            both: ones(),
            terminal: (0..LEN).map(|t| Q.powi((LEN - 1 - t) as i32)).collect(),
            weight: vec![soft_clamp(); LEN],
            by_length: Vec::new(),
            by_update: Vec::new(),
        }
    }

    #[test]
    fn all_hold_where_the_numbers_are_as_claimed() {
        assert_eq!(words(&findings(&as_claimed())), ["Holds"; 8]);
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let failing = |change| {
            let words = words_after(as_claimed(), findings, change);
            (0..words.len()).filter(|&i| words[i] == "Fails").collect::<Vec<_>>()
        };
        assert_eq!(failing(|n| n.weight[3] = 2.0), [0]);
        assert_eq!(failing(|n| n.trace = (0..LEN).map(|k| (LEN - k) as f64).collect()), [0, 1]);
        assert_eq!(failing(|n| n.sizes[0].factor = 0.5), [2]);
        assert_eq!(failing(|n| n.sizes.iter_mut().for_each(|s| s.kl = 1.0)), [3]);
        assert_eq!(failing(|n| n.both[0] = 256.0), [4]);
        assert_eq!(failing(|n| n.terminal[0] = 1.0), [5]);
        assert_eq!(failing(|n| n.readings.iter_mut().for_each(|r| r.weights[0] = 2.0)), [6]);
        assert_eq!(failing(|n| n.sizes[1].error = 1e-3), [7]);
    }
}
