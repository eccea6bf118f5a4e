//! The tables and the figures.

use super::findings::paper_factors;
use super::{BETA, GradientSize, LEN, Numbers, Weighed};
use crate::experiment::CASES;
use crate::experiments::common::chart::chart;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{indexed, mean};
use crate::figure::{Axis, Figure};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let variant = |Weighed { variant, weights, error }: &Weighed| {
        Record::default()
            .with("variant", variant.settings())
            .with("c_0", weights[0])
            .with("c_T/2", weights[LEN / 2])
            .with("c_T-1", weights[LEN - 1])
            .with("mean", mean(weights))
            .with("relative_error_of_closed_form", *error)
    };
    vec![(CASES.into(), table(n.variants.iter().map(variant))), (String::new(), Table::from_rows(&n.sizes))]
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
