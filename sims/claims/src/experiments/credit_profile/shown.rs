//! Findings, tables and figures.

use super::{BETA, GradientSize, LEN, Numbers, Q};
use crate::experiment::Finding;
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::{EXACT, extremes, gap, indexed, rounding_error, short};
use crate::figure::{Axis, Figure};
use crate::sentences::SentenceId;
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let all: [fn(&Numbers) -> Finding; 6] =
        [same_reweighting, decay, larger_gradients, kl_grows_along, early_as_late, td_errors];
    all.map(|finding| finding(n)).into()
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
    let unclamped: Vec<f64> = n.weight.iter().map(|w| w / soft_clamp()).collect();
    let reversed: Vec<f64> = n.trace.iter().rev().map(|c| c * soft_clamp()).collect();
    quoted(SentenceId::WeightIsTrace)
        .holds_or(
            gap(&n.trace, &unclamped) < EXACT,
            format!(
                "ϵ-weight's weights are those of ϵ-trace in reverse order. At T = {LEN} and λ = {Q} ϵ-trace \
                 weighs the first token with {} and the last with {}; ϵ-weight weighs them with {} and {}",
                short(n.trace[0]),
                short(n.trace[LEN - 1]),
                short(unclamped[0]),
                short(unclamped[LEN - 1])
            ),
        )
        .value(
            "relative error of the reversal",
            rounding_error(gap(&n.weight, &reversed) / reversed[LEN - 1]),
        )
        .value("factor of ϵ-weight's soft clamp at log π = -0.5", soft_clamp())
        .note("Style recent, on-policy, δ_t = A_NAE.")
}

fn decay(n: &Numbers) -> Finding {
    quoted(SentenceId::ExponentialDecay)
        .holds_or(
            !n.trace.windows(2).all(|w| w[0] > w[1]),
            format!(
                "in the whole loss a token's weight grows towards the start of the response: it is {} at the \
                 last token, {} at T/2 and {} at token 0",
                short(n.trace[LEN - 1]),
                short(n.trace[LEN / 2]),
                short(n.trace[0])
            ),
        )
        .note(format!("T = {LEN}, λ = {Q}; the decay holds inside each single ratio only."))
}

fn larger_gradients(n: &Numbers) -> Finding {
    let (low, high) = paper_factors(n);
    quoted(SentenceId::LargerGradients)
        .holds_or(low > 1.0, format!("smallest factor {}", short(low)))
        .value("least factor at the paper's lengths and λ = 0.99", low)
        .value("greatest", high)
        .rows("", &["tokens", "style", "mean_weight", "effective_beta"])
        .only("lambda", &[0.99])
        .only("tokens", &[256, 768])
}

fn kl_grows_along(n: &Numbers) -> Finding {
    let (low, high) = paper_factors(n);
    let kl_same = paper_sizes(n).iter().all(|s| (s.kl - 1.0).abs() < 1e-9);
    claim(
        "kl_grows_along",
        "The KL term grows with the policy term, so that β = 0.04 has the same effect in GRPO and GRPO-λ",
    )
    .holds_or(
        !kl_same || high < 1.0 + EXACT,
        "the policy gradient grows, but the KL gradient is that of GRPO",
    )
    .value("least effective β", BETA / high)
    .value("greatest", BETA / low)
}

fn early_as_late(n: &Numbers) -> Finding {
    let (first, last) = (n.both[0], n.both[LEN - 1]);
    claim(
        "early_as_late",
        "In the update of style `both`, \"early tokens are considered as important as the late ones\"",
    )
    .holds_or(
        (first - last).abs() < EXACT,
        format!("the first token weighs {} and the last {}", short(first), short(last)),
    )
    .value("weight of token 0", first)
    .value("of the last", last)
    .note(format!("T = {LEN}, λ = {Q}; c_0 = T for every λ."))
}

fn td_errors(n: &Numbers) -> Finding {
    let gae: Vec<f64> = (0..LEN).map(|t| Q.powi((LEN - 1 - t) as i32)).collect();
    claim(
        "td_errors",
        "With the TD errors of a constant critic (`delta=terminal`) the token weights are GAE's λ^(T-1-t), which \
         rise towards the last token",
    )
    .identity(gap(&n.terminal, &gae))
    .value("first and last weight", [n.terminal[0], n.terminal[LEN - 1]])
    .value("with a constant δ", [n.trace[0], n.trace[LEN - 1]])
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), Table::from_rows(&n.sizes))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), profiles(n)), ("scale".into(), scale(n))]
}

fn profiles(n: &Numbers) -> Figure {
    let title =
        "ϵ-trace pushes the first tokens hardest, ϵ-weight the last: the same weights reversed in time";
    let figure = Figure::new(title).caption(
        "On-policy gradient over GRPO's, token by token; λ = 0.99, γ = 1, no advantage clamp, log π = -0.5 everywhere. \
         ϵ-weight with its soft clamp (a factor of 1.18) held constant; but for it the reversal is exact for the \
         style recent.",
    );
    // Both styles of an update meet over half of a response: the dashes let the line below show.
    chart(n.by_length.iter().flat_map(|p| indexed(&p.weights).map(move |point| (p, point))))
        .panels(|(p, _)| format!("T = {}", p.tokens))
        .x("token k")
        .y(Axis::new("weight of token k (GRPO = 1)").log())
        .dashed(|name| name.ends_with("both"), |(p, _)| p.name, |(_, point)| *point)
        .hline(1.0, "GRPO")
        .on(figure)
}

fn scale(n: &Numbers) -> Figure {
    let (low, high) = paper_factors(n);
    let figure = Figure::new(format!(
        "At the paper's lengths GRPO-λ's policy gradient is {low:.0} to {high:.0} times GRPO's; its KL term is not"
    ))
    .caption(format!(
        "Exact, on-policy, δ_t = A_NAE, γ = 1; mean over tokens of |∂ loss / ∂ log π| over GRPO's. Title: λ = 0.99, \
         at T = 256 (the paper's 1.5B, 3B) and 768 (7B), where β = {BETA} acts like {:.1e} to {:.1e}. recent at λ = \
         0.99 and both at 0.98 all but coincide.",
        BETA / high,
        BETA / low
    ));
    let panel = |title: String, y: &str, value: fn(&GradientSize) -> f64| {
        // Recent at 0.99 and both at 0.98 nearly coincide: the dashes let the line below show.
        chart(&n.sizes)
            .panels(|_| title.clone())
            .x(Axis::new("tokens T").log())
            .y(Axis::new(y).log())
            .dashed(
                |name| name.starts_with("both"),
                |s| format!("{}, λ = {}", s.style, s.lambda),
                |s| (s.tokens as f64, value(s)),
            )
            .each(|panel, _| panel.vline(256.0, "T = 256").vline(768.0, "T = 768"))
    };
    let factors = panel("Size of the policy gradient".into(), "mean weight (GRPO = 1)", |s| s.factor);
    let betas = panel(format!("What is left of β = {BETA}"), "effective β = β / mean weight", |s| {
        s.effective_beta
    });
    betas.hline(BETA, "GRPO").on(factors.on(figure))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::{words, words_after};

    /// GRPO-lambda as the text has it: every weight 1, and larger gradients with a KL term that grows along.
    fn as_claimed() -> Numbers {
        let size =
            |tokens| GradientSize { tokens, lambda: 0.99, factor: 2.0, kl: 2.0, ..GradientSize::default() };
        let ones = || vec![1.0; LEN];
        Numbers {
            sizes: [256, 768].map(size).into(),
            trace: ones(),
            both: ones(),
            terminal: (0..LEN).map(|t| Q.powi((LEN - 1 - t) as i32)).collect(),
            weight: vec![soft_clamp(); LEN],
            by_length: Vec::new(),
        }
    }

    #[test]
    fn all_hold_where_the_numbers_are_as_claimed() {
        assert_eq!(words(&findings(&as_claimed())), ["Holds"; 6]);
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
    }
}
