//! The table and the figure.

use super::{CRITICS, Curve, Numbers, REPORTED, STEPS, lambda};
use crate::experiments::common::{mean, quantile};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;
use serde::Serialize;

/// A critic at a λ, on an MDP or in the mean over the random ones; a row of `lambda_direction.csv`.
#[derive(Serialize)]
struct Row {
    mdp: String,
    critic: &'static str,
    lambda: f64,
    bias: f64,
    relative_bias: f64,
    variance: f64,
    variance_p10: Option<f64>,
    variance_p90: Option<f64>,
}

impl Row {
    /// The mean over some curves, with the quantiles of the variance where there are several.
    fn new(mdp: String, critic: &'static str, i: usize, curves: &[Curve]) -> Row {
        let values = |f: &dyn Fn(&Curve) -> f64| curves.iter().map(f).collect::<Vec<f64>>();
        let variance = values(&|c| c.variance[i]);
        let spread = |p: f64| (curves.len() > 1).then(|| quantile(&variance, p));
        Row {
            mdp,
            critic,
            lambda: lambda(i),
            bias: mean(&values(&|c| c.visible_bias(i))),
            relative_bias: mean(&values(&|c| c.relative_bias(i))),
            variance: mean(&variance),
            variance_p10: spread(0.1),
            variance_p90: spread(0.9),
        }
    }
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut rows = Vec::new();
    for ((critic, _), curves) in CRITICS.into_iter().zip(&n.curves) {
        let (random, named) = curves.split_at(n.random);
        let mean = format!("mean of {} random", random.len());
        rows.extend((0..=STEPS).map(|i| Row::new(mean.clone(), critic, i, random)));
        for (mdp, curve) in n.named.iter().zip(named) {
            rows.extend(REPORTED.map(|i| Row::new(mdp.clone(), critic, i, std::slice::from_ref(curve))));
        }
    }
    vec![(String::new(), Table::from_rows(rows))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let bias =
        Panel::new(format!("Bias, {} random MDPs", n.random)).x("λ").y("relative bias |E g - ∇J| / |∇J|");
    let variance = Panel::new(format!("Variance, {} random MDPs", n.random))
        .x("λ")
        .y(Axis::new("tr Cov g, relative to λ = 1"));
    let one_bias = Panel::new("Bias, MDP lucky_guess (constant lies under zero)").x("λ").y("|E g - ∇J|");
    let one_variance = Panel::new("Variance, MDP lucky_guess").x("λ").y("tr Cov g");
    let figure = Figure::new("Raising λ removes bias and, with a good critic, adds variance: the reverse of the \
        paper's sentence")
        .caption(
            "Exact moments of the GAE policy-gradient estimator of one response, γ = 1, by enumeration. Top: median \
             over MDPs, band 25-75 % (exact and perturbed critic). Critics: exact V; V + 0.3 normal noise; V of \
             another policy; V(s₀); 0.",
        )
        .names(CRITICS.map(|(name, _)| name))
        .panel(medians(n, bias, |c, i| c.visible_bias(i) / c.gradient))
        .panel(medians(n, variance, |c, i| c.variance[i] / c.variance[STEPS]))
        .panel(first_named(n, one_bias, Curve::visible_bias))
        .panel(first_named(n, one_variance, |c, i| c.variance[i]));
    vec![(String::new(), figure)]
}

fn style(critic: &str) -> Style {
    if critic == "exact" { Style::Solid } else { Style::Dashed }
}

/// Adds the medians over the random MDPs, with the quartiles of two critics.
fn medians(n: &Numbers, mut panel: Panel, value: fn(&Curve, usize) -> f64) -> Panel {
    for ((critic, _), curves) in CRITICS.into_iter().zip(&n.curves) {
        let quartiles = |i: usize| {
            let values: Vec<f64> = curves[..n.random].iter().map(|c| value(c, i)).collect();
            [0.25, 0.5, 0.75].map(|p| quantile(&values, p))
        };
        let points: Vec<(f64, [f64; 3])> = (0..=STEPS).map(|i| (lambda(i), quartiles(i))).collect();
        if critic == "exact" || critic == "perturbed" {
            panel = panel.band(critic, points.iter().map(|(x, q)| (*x, q[0], q[2])));
        }
        panel = panel.styled_line(critic, style(critic), points.iter().map(|(x, q)| (*x, q[1])));
    }
    panel
}

/// Adds the curves of the first MDP of the zoo.
fn first_named(n: &Numbers, mut panel: Panel, value: fn(&Curve, usize) -> f64) -> Panel {
    for ((critic, _), curves) in CRITICS.into_iter().zip(&n.curves) {
        let curve = &curves[n.random];
        panel = panel.styled_line(critic, style(critic), (0..=STEPS).map(|i| (lambda(i), value(curve, i))));
    }
    panel
}
