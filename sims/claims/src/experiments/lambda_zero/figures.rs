//! The figure.

use super::measure::{AtLambda, LEN, Numbers};
use crate::experiments::common::vectors::indexed;
use crate::figure::{Axis, Figure, Panel};

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let along = |of: fn(&AtLambda) -> f64| n.by_lambda.iter().map(move |at| (at.lambda, of(at)));
    let distances = Panel::new(format!("Distance from GRPO, T = {LEN}"))
        .x("λ")
        .y("distance of weights (0 = GRPO)")
        .line("δ_t = A_NAE at every token (the paper)", along(|at| at.recent))
        .line("TD errors of the critic GRPO implies", along(|at| at.implied_critic))
        .hline(0.0, "GRPO");
    let bars = Panel::new("Token weights at λ = 0, T = 6")
        .x(Axis::new("token k").categories((0..6).map(|k| k.to_string())))
        .y("weight (GRPO = 1)")
        .bars("recent", indexed(&n.weights.recent))
        .bars("both", indexed(&n.weights.both))
        .bars("ϵ-weight", indexed(&n.weights.weight))
        .bars("recent, terminal δ", indexed(&n.weights.terminal))
        .hline(1.0, "GRPO");
    let figure = Figure::new("λ = 0 gives GRPO for the style recent only; with true TD errors GRPO is λ = 1, the other end")
        .caption("Exact, on-policy, no advantage clamp, γ = 1; ϵ-weight at log π = -0.5. Left: style recent, Euclidean distance of the T weights from 1, over √T. Right: the weights themselves; a missing bar is 0.")
        .panel(distances)
        .panel(bars);
    vec![(String::new(), figure)]
}
