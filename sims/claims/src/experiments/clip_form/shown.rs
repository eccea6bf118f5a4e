//! The tables and the figures.

use super::{Distance, Numbers, PPO, PRINTED, TWO_SIDED, loss};
use crate::experiment::CASES;
use crate::experiments::common::chart::chart;
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda::surrogate::Surrogate;
use grpo_lambda_stats::table::Table;
use serde::Serialize;

/// A form at a ratio and an advantage; a row of `clip_form.csv`.
#[derive(Serialize)]
struct FormRow {
    ratio: f64,
    advantage: f64,
    form: &'static str,
    loss: f64,
    slope: f64,
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let points = n.points.iter().flat_map(|p| {
        [("ppo", p.ppo), ("printed", p.printed), ("two_sided", p.two_sided)].map(|(form, at)| FormRow {
            ratio: p.ratio,
            advantage: p.advantage,
            form,
            loss: at.value,
            slope: at.slope,
        })
    });
    let every_tenth = n.distances.iter().filter(|d| d.updates % 10 == 0);
    vec![
        (String::new(), Table::from_rows(points)),
        (CASES.into(), Table::from_rows(&n.off_policy)),
        ("trust_region".into(), Table::from_rows(every_tenth)),
    ]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), shapes()), ("off_policy".into(), reuse(n))]
}

fn shapes() -> Figure {
    Figure::new("For A < 0 the printed clip acts on the wrong side: pushes on below 1-ε, no pull above 1+ε")
        .caption(
            "One token, ε = 0.2. Push: minus the derivative of the loss with respect to log π; positive raises the \
             token's probability. Lines on each other: equal.",
        )
        .panel(shape("Loss, A = +1: all forms agree", "loss", |form, ratio| loss(form, ratio, 1.0).value))
        .panel(shape("Loss, A = −1: they differ outside 1±ε", "loss", |form, ratio| {
            loss(form, ratio, -1.0).value
        }))
        .panel(shape("Push, A = +1: all forms agree", "push on log π", |form, ratio| {
            -loss(form, ratio, 1.0).slope
        }))
        .panel(shape("Push, A = −1: they differ outside 1±ε", "push on log π", |form, ratio| {
            -loss(form, ratio, -1.0).slope
        }))
}

fn shape(title: &str, y: &str, value: fn(Surrogate, f64) -> f64) -> Panel {
    let curve = |form: Surrogate| {
        let ratios = (0..=1400).map(|i| 0.4 + 0.001 * f64::from(i));
        ratios.map(move |ratio| (ratio, value(form, ratio)))
    };
    Panel::new(title)
        .x("ratio π/π_old")
        .y(y)
        .styled_line("as printed", Style::Solid, curve(PRINTED))
        .styled_line("PPO", Style::Dashed, curve(PPO))
        .styled_line("two-sided, cap 1.6", Style::Dotted, curve(TWO_SIDED))
        .vline(0.8, "1-ε")
        .vline(1.2, "1+ε")
}

fn reuse(n: &Numbers) -> Figure {
    let figure = Figure::new(
        "On-policy the forms agree; off-policy PPO's clip holds the policy, the printed one lets it move away",
    )
    .caption(
        "Exact expected update of GRPO (G = 8, sum over tokens, ε = 0.2). Above: the policy has moved along ∇J since \
         sampling. Below: 200 steps of rate 0.2 in expectation over groups of the first policy.",
    );
    let figure = chart(&n.off_policy)
        .panels(|m| format!("MDP {}: cosine of update and ∇J", m.mdp))
        .x("step taken along ∇J since sampling (nats of the largest logit)")
        .y(Axis::new("cosine with ∇J at the current policy").range(-1.05, 1.05))
        .lines(|m| m.form, |m| (m.step, m.cosine_with_grad_j))
        .each(|panel, _| panel.vline(0.0, "on-policy"))
        .on(figure);
    let distance = |figure, title: &str, y: Axis, value: fn(&Distance) -> f64| {
        chart(&n.distances)
            .panels(|_| title.to_owned())
            .x("expected updates on groups of the first policy")
            .y(y)
            .lines(|at| at.form, |at| (at.updates as f64, value(at)))
            .on(figure)
    };
    let kl = Axis::new("KL (nats per response)");
    let figure = distance(figure, "MDP noisy: distance from the sampling policy", kl, |at| at.kl);
    let ratio = Axis::new("smallest π/π_old").log();
    distance(figure, "MDP noisy: smallest token ratio", ratio, |at| at.ratio)
}
