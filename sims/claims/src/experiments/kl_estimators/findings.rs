//! The findings.

use super::Numbers;
use super::measure::{MDPS, Row};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{EXACT, holds_or, keyed, largest, quantile, rounding_error, short};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![
        k3_as_loss(n),
        worked_table(n),
        identities(n),
        off_policy(n),
        sign_of_beta(n),
        summed_over_visits(n),
        whole_responses(n),
    ]
}

fn k3_as_loss(n: &Numbers) -> Finding {
    let s = &n.states;
    let (cosine, kl) = s.lowest;
    keyed(
        "k3_as_loss",
        "k3 as a loss term descends the divergence that it estimates, KL(π||ref)",
        holds_or(
            cosine > 1.0 - 1e-9,
            format!(
                "E[∇k3] = π - ref = ∇KL(ref||π), the other divergence; cosine with ∇KL(π||ref) down to {cosine:.2} (at KL {})",
                short(kl)
            ),
        ),
        format!(
            "{} random pairs of 3-action softmax policies: E[∇k3] - ∇KL(ref||π) {}; its value is right, E[k3] = E[k1] = E[ρ k3] = KL(π||ref) ({}), E[k2] is not (off by up to {})",
            s.pairs,
            rounding_error(s.identities[2]),
            rounding_error(s.values),
            short(s.k2_value)
        ),
    )
}

fn worked_table(n: &Numbers) -> Finding {
    let off = n.hand.off;
    keyed(
        "worked_table",
        "The worked table of a 3-action softmax: k1 (0,0,0), k2 and ratio·k3 (0.0033, 0.2365, -0.2398), k3 (0.1509, 0.2927, -0.4436)",
        holds_or(off < 5.1e-5, format!("a row differs by {off}")),
        format!(
            "π = (0.4049, 0.4757, 0.1193), ref = (0.2540, 0.1830, 0.5629), the only pair that gives the first and last row, recovered numerically: every row agrees to {off:.0e}; cosine of k3's row with ∇KL(π||ref) {:.3}",
            n.hand.published_cosine
        ),
    )
}

fn identities(n: &Numbers) -> Finding {
    let worst = largest(n.states.identities);
    let [k1, k2, k3, ratio_k3] = n.states.identities.map(rounding_error);
    keyed(
        "identities",
        "E[∇k1] = 0, E[∇k2] = E[∇(ρ k3)] = ∇KL(π||ref), E[∇k3] = ∇KL(ref||π), on-policy, per state",
        holds_or(worst < EXACT, format!("off by {worst:e}")),
        format!(
            "largest differences: k1 {k1}, k2 {k2}, k3 {k3}, ratio_k3 {ratio_k3}; log ref - log π (seen in public code) is -k1: expectation 0, sign wrong sample by sample"
        ),
    )
}

fn off_policy(n: &Numbers) -> Finding {
    let ratio_k3 = n.off_policy.ratio_k3;
    let [k1, k2, k3] = n.off_policy.medians;
    keyed(
        "off_policy",
        "ratio·k3 stays exact when the sampling policy is another one (unclipped); k2 does not",
        holds_or(ratio_k3 < 1e-9 && k2 > 1e-3, format!("relative error {ratio_k3} of ratio_k3, {k2} of k2")),
        format!(
            "{} random triples (π, π_old, ref), relative error of E[∇]: ratio_k3 {}; medians k2 {}, k3 {}, k1 {}",
            n.off_policy.triples,
            rounding_error(ratio_k3),
            short(k2),
            short(k3),
            short(k1)
        ),
    )
}

/// The least and the greatest cosine of an estimator over the MDPs.
fn range(n: &Numbers, estimator: &str, cosine: fn(&Row) -> Option<f64>) -> (f64, f64) {
    let own = n.responses.rows.iter().filter(|r| r.estimator == estimator);
    let cosines: Vec<f64> = own.filter_map(cosine).collect();
    (quantile(&cosines, 0.0), quantile(&cosines, 1.0))
}

fn sign_of_beta(n: &Numbers) -> Finding {
    let (k2, k3) = (range(n, "k2", |r| r.reverse).0, range(n, "k3", |r| r.reverse).0);
    let verdict = if k2.min(k3) > 0.0 {
        Verdict::HoldsWhen("the text's objective is maximised and the algorithms' loss, -min(..)δ + βℓ_KL, minimised; and without the value loss, which the text adds to a maximised ℓ_PPO = ℓ_ψ + ℓ_GAE - βℓ_KL".into())
    } else {
        Verdict::Fails("a registered KL term moves away from the reference".into())
    };
    keyed(
        "sign_of_beta",
        "The sign of β: the text's ℓ_GRPO = ℓ_NAE - βℓ_KL and the algorithms' ℓ_GRPO-λ + βℓ_KL agree",
        verdict,
        format!(
            "{} MDPs, minimising +β: cosine of the step with -∇KL(π||ref) at least {k2:.3} (k2), {k3:.3} (k3)",
            MDPS.len()
        ),
    )
}

fn summed_over_visits(n: &Numbers) -> Finding {
    let off = largest(n.responses.rows.iter().map(|r| r.off));
    keyed(
        "summed_over_visits",
        "On whole responses, the registered KL terms are Σ_s d(s) times the gradients per state (rloo, beta = 1, on-policy)",
        holds_or(off < EXACT, format!("off by {off:e}")),
        format!("{} MDPs, 4 estimators: largest difference {}", MDPS.len(), rounding_error(off)),
    )
}

fn whole_responses(n: &Numbers) -> Finding {
    let (k2, k3) = (range(n, "k2", |r| r.reverse), range(n, "k3", |r| r.reverse));
    let k3_forward = range(n, "k3", |r| r.forward);
    let verdict = if k2.0 > 1.0 - 1e-9 && k3_forward.0 > 1.0 - 1e-9 {
        Verdict::Holds
    } else {
        Verdict::HoldsWhen("responses have one choice, or the visits d(s) are held fixed: a loss per token lacks the term by which a token leads to states with more or less KL, and k3 weighs states by d of π, not of ref".into())
    };
    keyed(
        "whole_responses",
        "On whole responses, k2 and ratio·k3 in the loss give ∇KL(π||ref), and k3 gives ∇KL(ref||π), of the distributions of responses",
        verdict,
        format!(
            "cosine over the named MDPs: k2 and ratio_k3 with ∇KL(π||ref) {:.3} to {:.3}; k3 with ∇KL(π||ref) {:.3} to {:.3}, with ∇KL(ref||π) {:.3} to {:.3}; k1 in the reward (credit = the whole log-ratio) does give ∇KL(π||ref); both gradients agree with finite differences to {}",
            k2.0,
            k2.1,
            k3.0,
            k3.1,
            k3_forward.0,
            k3_forward.1,
            rounding_error(n.responses.gradient_check)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::measure::{OffPolicy, Responses, States};
    use super::super::{ESTIMATORS, Hand};
    use super::*;
    use crate::experiments::common::words_after;

    /// Estimators that all give the gradient they are taken for.
    fn as_claimed() -> Numbers {
        let row = |(estimator, _)| Row {
            mdp: "pivot",
            estimator,
            reverse: Some(1.0),
            forward: Some(1.0),
            norm_ratio: 1.0,
            off: 0.0,
        };
        Numbers {
            states: States {
                pairs: 8,
                at_scales: Vec::new(),
                identities: [0.0; 4],
                values: 0.0,
                k2_value: 0.1,
                lowest: (1.0, 0.0),
            },
            hand: Hand { rows: Vec::new(), off: 0.0, published_cosine: 0.8 },
            off_policy: OffPolicy { triples: 1, ratio_k3: 0.0, medians: [0.5; 3] },
            responses: Responses { rows: ESTIMATORS.map(row).into(), gradient_check: 0.0 },
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |change| words_after(as_claimed(), findings, change);
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        assert_eq!(verdicts(|_| {}), [h, h, h, h, w, h, h]);
        assert_eq!(verdicts(|n| n.states.lowest = (0.3, 1.0))[0], f);
        assert_eq!(verdicts(|n| n.hand.off = 0.01)[1], f);
        assert_eq!(verdicts(|n| n.states.identities[3] = 0.01)[2], f);
        assert_eq!(verdicts(|n| n.off_policy.ratio_k3 = 0.1)[3], f);
        assert_eq!(verdicts(|n| n.off_policy.medians[1] = 0.0)[3], f, "k2 would stay exact, too");
        assert_eq!(verdicts(|n| n.responses.rows[2].reverse = Some(-0.2))[4], f);
        assert_eq!(verdicts(|n| n.responses.rows[1].off = 0.1)[5], f);
        assert_eq!(verdicts(|n| n.responses.rows[2].forward = Some(0.9))[6], w);
    }
}
