//! The figure.

use super::measure::{Curve, Numbers, STEPS, lambda};
use super::moments::CRITICS;
use crate::experiments::common::vectors::quantile;
use crate::figure::{Axis, Figure, Panel, Style};

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let bias =
        Panel::new(format!("Bias, {} random MDPs", n.random)).x("λ").y("relative bias |E g - ∇J| / |∇J|");
    let variance = Panel::new(format!("Variance, {} random MDPs", n.random))
        .x("λ")
        .y(Axis::new("tr Cov g, relative to λ = 1"));
    let one_bias = Panel::new("Bias, MDP lucky_guess (constant lies under zero)").x("λ").y("|E g - ∇J|");
    let one_variance = Panel::new("Variance, MDP lucky_guess").x("λ").y("tr Cov g");
    let figure = Figure::new("Raising λ removes bias and, with a good critic, adds variance: the reverse of the paper's sentence")
        .caption(
            "Exact moments of the GAE policy-gradient estimator of one response, γ = 1, by enumeration. Top: median over MDPs, \
             band 25-75 % (exact and perturbed critic). Critics: exact V; V + 0.3 normal noise; V of another policy; V(s₀); 0.",
        )
        .names(CRITICS)
        .panel(medians(n, bias, |c, i| c.visible_bias(i) / c.gradient))
        .panel(medians(n, variance, |c, i| c.variance[i] / c.variance[STEPS]))
        .panel(first_named(n, one_bias, Curve::visible_bias))
        .panel(first_named(n, one_variance, |c, i| c.variance[i]));
    vec![(String::new(), figure)]
}

fn style(critic: &str) -> Style {
    if critic == "exact" { Style::Solid } else { Style::Dashed }
}

/// The median over the random MDPs, with the quartiles of two critics.
fn medians(n: &Numbers, mut panel: Panel, of: fn(&Curve, usize) -> f64) -> Panel {
    for (critic, curves) in CRITICS.into_iter().zip(&n.curves) {
        let quartiles = |i: usize| {
            let values: Vec<f64> = curves[..n.random].iter().map(|c| of(c, i)).collect();
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

/// The first MDP of the zoo.
fn first_named(n: &Numbers, mut panel: Panel, of: fn(&Curve, usize) -> f64) -> Panel {
    for (critic, curves) in CRITICS.into_iter().zip(&n.curves) {
        let curve = &curves[n.random];
        panel = panel.styled_line(critic, style(critic), (0..=STEPS).map(|i| (lambda(i), of(curve, i))));
    }
    panel
}
