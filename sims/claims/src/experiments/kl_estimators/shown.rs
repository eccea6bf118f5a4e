//! Findings, tables and figures.

use super::measure::{AtScale, MDPS, Row, SCALES};
use super::{Gradient, Numbers};
use crate::experiment::Finding;
use crate::experiments::common::claim::claim;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{EXACT, extremes, indexed, largest, rounding_error};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let all: [fn(&Numbers) -> Finding; 6] =
        [k3_as_loss, worked_table, identities, sign_of_beta, summed_over_visits, whole_responses];
    all.map(|finding| finding(n)).into()
}

fn k3_as_loss(n: &Numbers) -> Finding {
    let s = &n.states;
    let (cosine, kl) = s.lowest;
    claim("k3_as_loss", "With k3 in the loss the expected gradient is that of KL(π||ref), which k3 estimates")
        .holds_or(cosine > 1.0 - 1e-9, "E[∇k3] = π - ref is the gradient of KL(ref||π) instead")
        .value("random pairs of 3-action softmax policies", s.pairs)
        .value("lowest cosine with ∇KL(π||ref)", cosine)
        .value("its KL", kl)
        .value("largest difference from ∇KL(ref||π)", rounding_error(s.identities[2]))
        .value("largest difference of E[k1], E[k3], E[ρ k3] from KL(π||ref)", rounding_error(s.values))
        .value("of E[k2]", s.k2_value)
}

fn worked_table(n: &Numbers) -> Finding {
    claim(
        "worked_table",
        "On a softmax with three actions the expected gradient is (0, 0, 0) with k1, (0.0033, 0.2365, -0.2398) \
         with k2 or ratio·k3, and (0.1509, 0.2927, -0.4436) with k3",
    )
    .holds_or(n.hand.off < 5.1e-5, "a row differs")
    .value("largest difference", format!("{:.0e}", n.hand.off))
    .value("cosine of k3's row with ∇KL(π||ref)", n.hand.published_cosine)
    .rows("hand", &[])
    .note(
        "The pair of policies is the only one that gives the first and the last row, recovered numerically.",
    )
}

fn identities(n: &Numbers) -> Finding {
    let finding = claim(
        "identities",
        "On-policy, in each state, E[∇k1] = 0, E[∇k2] = E[∇(ratio·k3)] = ∇KL(π||ref), and E[∇k3] = ∇KL(ref||π)",
    )
    .identity(largest(n.states.identities));
    finding.note("log ref - log π (seen in public code) is -k1: expectation 0, sign wrong sample by sample.")
}

/// The least and the greatest cosine of an estimator over the MDPs.
fn range(n: &Numbers, estimator: &str, cosine: fn(&Row) -> Option<f64>) -> [f64; 2] {
    extremes(n.responses.rows.iter().filter(|r| r.estimator == estimator).filter_map(cosine)).into()
}

fn sign_of_beta(n: &Numbers) -> Finding {
    let [k2, k3] = ["k2", "k3"].map(|estimator| range(n, estimator, |r| r.reverse)[0]);
    let condition = "the text's objective is maximised, the algorithms' loss -min(..)δ + βℓ_KL is minimised, and \
        the value loss is left out, which the text adds to ℓ_PPO = ℓ_ψ + ℓ_GAE - βℓ_KL although it maximises \
        ℓ_PPO";
    claim(
        "sign_of_beta",
        "The text's ℓ_GRPO = ℓ_NAE - βℓ_KL and the algorithms' ℓ_GRPO-λ + βℓ_KL agree in the sign of the KL term",
    )
    .holds_when(false, k2.min(k3) > 0.0, condition, "a registered KL term moves away from the reference")
    .value("MDPs", MDPS.len())
    .value("least cosine of a step that minimises +β k2 with -∇KL(π||ref)", k2)
    .value("with k3", k3)
}

fn summed_over_visits(n: &Numbers) -> Finding {
    claim(
        "summed_over_visits",
        "On whole responses the gradient of a KL term of this library is the sum over states s of d(s) times the \
         gradient in s, where d(s) is the probability of a visit (`rloo`, β = 1, on-policy)",
    )
    .identity(largest(n.responses.rows.iter().map(|r| r.off)))
}

fn whole_responses(n: &Numbers) -> Finding {
    let k2 = range(n, "k2", |r| r.reverse);
    let (k3, k3_forward) = (range(n, "k3", |r| r.reverse), range(n, "k3", |r| r.forward));
    let condition = "a response is a single choice, or d(s) is held fixed. A loss per token ignores that a token can \
        lead to states with more KL, and k3 weighs states by the visits of π instead of ref";
    claim(
        "whole_responses",
        "As terms of the loss, k2 and ratio·k3 give the gradient of KL(π||ref) between distributions of whole \
         responses, and k3 gives that of KL(ref||π)",
    )
    .holds_when(k2[0].min(k3_forward[0]) > 1.0 - 1e-9, true, condition, "")
    .value("cosines over MDPs: k2 and ratio_k3 with ∇KL(π||ref)", k2)
    .value("k3 with ∇KL(π||ref)", k3)
    .value("k3 with ∇KL(ref||π)", k3_forward)
    .value("difference of both gradients from finite ones", rounding_error(n.responses.gradient_check))
    .note("k1 in the reward, with the whole log-ratio as the credit, does give ∇KL(π||ref).")
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("hand".into(), table(n.hand.rows.iter().map(hand_row))),
        ("distance".into(), Table::from_rows(&n.states.at_scales)),
        ("responses".into(), Table::from_rows(&n.responses.rows)),
    ]
}

fn hand_row(row: &Gradient) -> Record {
    let named = Record::default().with("in the loss", row.name);
    let actions = row.gradient.iter().zip(1..);
    actions
        .fold(named, |record, (x, a)| {
            record.with(format!("action_{a}"), if x.abs() < EXACT { 0.0 } else { *x })
        })
        .with("variance", row.variance)
        .with("cosine_with_reverse", row.cosine)
}

/// The estimators that have a direction.
const SHOWN: [&str; 3] = ["k2", "k3", "ratio_k3"];

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let figure = Figure::new(
        "k3 as a loss descends KL(ref||π), not KL(π||ref); per state k2 and ratio·k3 are right",
    )
    .caption(format!(
        "Exact expectations, on-policy. Top right and bottom left: {} pairs of 3-action softmax policies per \
             distance, median, band 10-90 % (k3). Bottom right: registered methods on MDPs, \
             against the KL of whole responses.",
        n.states.pairs / SCALES.len()
    ))
    .names(SHOWN)
    .panel(hand(n))
    .panel(length(n))
    .panel(angle(n))
    .panel(whole(n));
    vec![(String::new(), figure)]
}

fn hand(n: &Numbers) -> Panel {
    let mut panel = Panel::new("One state by hand: expected gradient (k1: 0, 0, 0)")
        .x(Axis::new("action").categories(["1", "2", "3"]))
        .y("E[∂ estimator / ∂ logit]");
    for row in n.hand.rows.iter().filter(|row| SHOWN.contains(&row.name)) {
        panel = panel.bars(row.name, indexed(&row.gradient));
    }
    panel
}

fn distance_axis() -> Axis {
    Axis::new("KL(π||ref), median of the pairs (nats)").log()
}

fn length(n: &Numbers) -> Panel {
    let panel = Panel::new("Random states: length relative to ∇KL(π||ref)")
        .x(distance_axis())
        .y(Axis::new("|E ∇ estimator| / |∇KL(π||ref)|").log());
    along_distance(n, panel, |at| [at.norm_ratio_p10, at.norm_ratio, at.norm_ratio_p90].map(Some))
}

fn angle(n: &Numbers) -> Panel {
    let panel = Panel::new("Random states: cosine with ∇KL(π||ref)")
        .x(distance_axis())
        .y(Axis::new("cosine").range(0.0, 1.05));
    along_distance(n, panel, |at| [at.cosine_p10, at.cosine, at.cosine_p90])
}

/// Medians against the distance, with the quantiles of k3.
fn along_distance(n: &Numbers, panel: Panel, quantiles: fn(&AtScale) -> [Option<f64>; 3]) -> Panel {
    let own = |name: &'static str| n.states.at_scales.iter().filter(move |at| at.estimator == name);
    SHOWN.into_iter().fold(panel, |panel, name| {
        let band = own(name).filter_map(|at| Some((at.median_kl, quantiles(at)[0]?, quantiles(at)[2]?)));
        let panel = if name == "k3" { panel.band(name, band) } else { panel };
        let style = if name == "ratio_k3" { Style::Dashed } else { Style::Solid };
        panel.styled_line(name, style, own(name).filter_map(|at| Some((at.median_kl, quantiles(at)[1]?))))
    })
}

fn whole(n: &Numbers) -> Panel {
    let panel = Panel::new("Whole responses: cosine with ∇KL(π||ref)")
        .x(Axis::new("MDP").categories(MDPS))
        .y(Axis::new("cosine").range(0.0, 1.0));
    SHOWN.into_iter().fold(panel, |panel, name| {
        let own = n.responses.rows.iter().filter(|r| r.estimator == name).enumerate();
        panel.bars(name, own.filter_map(|(k, r)| Some((k as f64, r.reverse?))))
    })
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Responses, States};
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
            states: States { pairs: 8, lowest: (1.0, 0.0), ..States::default() },
            hand: Hand { published_cosine: 0.8, ..Hand::default() },
            responses: Responses { rows: ESTIMATORS.map(row).into(), gradient_check: 0.0 },
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |change| words_after(as_claimed(), findings, change);
        let [h, w, f] = ["Holds", "Holds when", "Fails"];
        assert_eq!(verdicts(|_| {}), [h, h, h, w, h, h]);
        assert_eq!(verdicts(|n| n.states.lowest = (0.3, 1.0))[0], f);
        assert_eq!(verdicts(|n| n.hand.off = 0.01)[1], f);
        assert_eq!(verdicts(|n| n.states.identities[3] = 0.01)[2], f);
        assert_eq!(verdicts(|n| n.responses.rows[2].reverse = Some(-0.2))[3], f);
        assert_eq!(verdicts(|n| n.responses.rows[1].off = 0.1)[4], f);
        assert_eq!(verdicts(|n| n.responses.rows[2].forward = Some(0.9))[5], w);
    }
}
