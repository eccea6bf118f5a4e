//! Findings, tables and figure.

use super::Numbers;
use super::pairs::{BOTH, Pair, Q, RECENT};
use crate::experiment::Finding;
use crate::experiments::common::{distinct, grouped, holds_or, largest};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![token_ratios(n), weighted_means(n)]
}

fn token_ratios(n: &Numbers) -> Finding {
    let own = n.synthetic.iter().filter(|s| s.lambda == Q && [RECENT, BOTH].contains(&s.trace));
    Finding::new(
        "token_ratios",
        "If every token's ratio lies in [1-ε, 1+ε], so does the ratio that GRPO-λ clips",
        holds_or(largest(own.map(|s| s.outside)) == 0.0, "GRPO-λ's log-ratio is a sum along the rows of its trace"),
    )
    .rows("trust_region", &["lambda", "trace", "share_outside"])
    .only("lambda", &[Q])
    .only("trace", &[RECENT, BOTH])
    .note("64 tokens with log-ratios uniform in [log 0.8, log 1.2]. The rows of the trace sum to up to 1/(1-λ); the mean of a log-ratio, ½ log 0.96, adds up as well.")
}

fn weighted_means(n: &Numbers) -> Finding {
    let in_pairs = |convex: bool| {
        largest(n.pairs.iter().filter(|p| p.convex == convex).map(|p| p.outside_though_inside))
    };
    let synthetic = largest(n.synthetic.iter().filter(|s| s.convex).map(|s| s.outside));
    Finding::new(
        "weighted_means",
        "A trace whose rows are weighted means (P-trace as reconstructed, GSPO) keeps the trust region: if all token \
         ratios lie in the interval, so does its ratio",
        holds_or(synthetic == 0.0 && in_pairs(true) == 0.0, "some leave it"),
    )
    .value("largest share outside, synthetic responses", synthetic)
    .value("largest share outside, real pairs", in_pairs(true))
    .value("that of the traces of GRPO-λ", in_pairs(false))
    .value("pairs", distinct(n.pairs.iter().map(|p| &p.pair)).len())
    .note("A convex combination of numbers in an interval lies in it.")
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("trust_region".into(), Table::from_rows(&n.synthetic)),
        ("trust_region_pairs".into(), Table::from_rows(&n.pairs)),
    ]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![("trust_region".into(), ratios_outside(n))]
}

/// Trace ratios outside the clip interval.
fn ratios_outside(n: &Numbers) -> Figure {
    let mut lines = Panel::new("Synthetic: all token ratios in [0.8, 1.2], 64 tokens")
        .x("λ (γ = 1)")
        .y(Axis::new("share of trace ratios outside [0.8, 1.2]").range(-0.02, 1.0));
    for (trace, own) in grouped(&n.synthetic, |s| s.trace) {
        lines = lines.line(trace, own.iter().map(|s| (s.lambda, s.outside)));
    }
    let mut bars = Panel::new("Real policy pairs, λ = 0.99: responses whose tokens all stay inside")
        .x(Axis::new("").categories(distinct(n.pairs.iter().map(|p| p.pair.as_str()))))
        .y(Axis::new("share of trace ratios outside [0.8, 1.2]").range(0.0, 1.0));
    for (trace, own) in grouped(&n.pairs, |p| p.trace) {
        let height = |(x, p): (usize, &&Pair)| (x as f64, p.outside_though_inside);
        bars = bars.bars(trace, own.iter().enumerate().map(height));
    }
    Figure::new("A summed trace leaves the trust region that every token keeps; a weighted mean never does")
        .caption("Trace ratio exp(z_t). Above, the traces with weights of mean 1 per row lie on the line at 0. Below: a chain of 48 steps, each right with probability 0.97, expectation over all responses; where no bar stands the share is 0.")
        .columns(1)
        .panel_size(900, 380)
        .panel(lines)
        .panel(bars)
}

#[cfg(test)]
mod tests {
    use super::super::pairs::Synthetic;
    use super::*;
    use crate::experiments::common::words_after;

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let synthetic =
            |trace, convex| Synthetic { lambda: Q, trace, convex, outside: 0.0, outside_late: 0.0 };
        let faithful = || Numbers {
            synthetic: vec![
                synthetic(RECENT, false),
                synthetic(BOTH, false),
                synthetic("token (GRPO)", true),
            ],
            pairs: Vec::new(),
        };
        let verdicts = |change| words_after(faithful(), findings, change);
        let [h, f] = ["Holds", "Fails"];
        assert_eq!(verdicts(|_| {}), [h; 2]);
        assert_eq!(verdicts(|n| n.synthetic[0].outside = 0.4), [f, h], "a summed trace leaves the region");
        assert_eq!(verdicts(|n| n.synthetic[2].outside = 0.4), [h, f], "so does a weighted mean");
    }
}
