//! The figure.

use super::measure::{Arm, CLAMP, Numbers};
use crate::figure::{Axis, Figure, Panel, Style};

/// The parts of the clamp with the names that a reader sees.
const PARTS: [(&str, &str); 3] = [
    ("none", "no clamp"),
    ("both (the clamp)", "clamp -0.1"),
    ("re-weighting only", "clamp -0.1, put back to mean 0"),
];

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let mut lambdas: Vec<f64> = n.arms.iter().map(|a| a.lambda).collect();
    lambdas.sort_by(f64::total_cmp);
    lambdas.dedup();
    let adamw = n.arms.iter().any(|a| !a.plain());
    let (also, columns) = if adamw { (format!(", AdamW at {}", n.rates[1]), 3) } else { (String::new(), 2) };
    let figure = Figure::new(title(&n.arms))
    .caption(format!(
        "A small transformer after imitation, rewards 1 or 0 by a fair coin; change of the mean length after {} steps (plain gradient descent at rate {}{also}), mean over {} seeds with 95 % \
         intervals (title: intervals for all settings together, Bonferroni). Predicted: lr ā <g_λ, ∇E[T]> / E[T] per step, from the start weights. λ = 0 is GRPO with a token mean.",
        n.steps, n.rates[0], n.seeds
    ))
    .columns(columns)
    .panel_size(if adamw { 360 } else { 450 }, 320)
    .panel(by_lambda(n, true, &lambdas))
    .panel(by_dose(n, lambdas.last().copied().unwrap_or(0.0)));
    vec![(String::new(), if adamw { figure.panel(by_lambda(n, false, &lambdas)) } else { figure })]
}

/// What is seen: the pattern that the theorem says, or else how many settings move.
fn title(arms: &[Arm]) -> String {
    let expected = |a: &Arm| !a.shortens() && a.lengthens() == (a.pays() && a.lambda > 0.0);
    if arms.iter().all(expected) {
        return "With coins for rewards a trace with a clamp lengthens a transformer's responses, and nothing else does".to_owned();
    }
    let (up, down) =
        (arms.iter().filter(|a| a.lengthens()).count(), arms.iter().filter(|a| a.shortens()).count());
    format!(
        "Rewards that are coins lengthen a transformer's responses in {up} of {} settings and shorten them in {down}",
        arms.len()
    )
}

fn by_lambda(n: &Numbers, plain: bool, lambdas: &[f64]) -> Panel {
    let mut panel = Panel::new(if plain { "Plain gradient descent" } else { "AdamW" })
        .x(Axis::new("λ")
            .categories(lambdas.iter().map(|l| if *l == 0.0 { "0 (GRPO)".into() } else { l.to_string() })))
        .y(Axis::new("change of the mean length, tokens"));
    let place = |a: &Arm| lambdas.iter().position(|l| *l == a.lambda).unwrap_or(0) as f64;
    for (k, (part, name)) in PARTS.into_iter().enumerate() {
        let own = n.arms.iter().filter(|a| a.plain() == plain && a.part == part && a.clamp == CLAMP);
        let aside = 0.22 * (k as f64 - 1.0);
        panel =
            panel.intervals(name, own.map(|a| (place(a) + aside, a.change.low, a.change.mid, a.change.high)));
    }
    let paying = n.arms.iter().filter(|a| a.plain() == plain && a.pays() && a.clamp == CLAMP);
    let predicted: Vec<(f64, f64)> = paying.filter_map(|a| Some((place(a), a.predicted?[0].mid))).collect();
    if predicted.is_empty() {
        panel.hline(0.0, "")
    } else {
        panel.points("predicted", predicted).hline(0.0, "")
    }
}

fn by_dose(n: &Numbers, longest: f64) -> Panel {
    let of = |a: &&Arm| a.plain() && a.lambda == longest && (a.pays() || a.part == "none");
    let mut own: Vec<&Arm> = n.arms.iter().filter(of).collect();
    own.sort_by(|a, b| a.mean_advantage.total_cmp(&b.mean_advantage));
    Panel::new(format!("Dose: no clamp to -0.1, λ = {longest}"))
        .x(Axis::new("ā, mean advantage of a response"))
        .y(Axis::new("change of the mean length, tokens"))
        .intervals(
            "measured",
            own.iter().map(|a| (a.mean_advantage, a.change.low, a.change.mid, a.change.high)),
        )
        .styled_line(
            "predicted",
            Style::Dashed,
            own.iter().filter_map(|a| Some((a.mean_advantage, a.predicted?[0].mid))),
        )
        .hline(0.0, "")
}
