//! The table and the figure.

use super::findings::{as_the_theorems_say, doses, forced_and_shown, of_law};
use super::{Arm, CLAMP, Numbers, TOKEN_MEAN};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{extremes, placed};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let row = |a: &Arm| {
        Record::default()
            .with("optimiser", &*a.optimiser)
            .with("lambda", a.lambda)
            .with("part", &*a.part)
            .with("clamp", a.clamp)
            .with("reduction", &*a.reduction)
            .with("mean_advantage", a.mean_advantage)
            .with("seeds", n.seeds)
            .interval("change", a.change)
            .with("predicted", a.predicted.map(|[predicted, ..]| predicted.mid))
            .interval("beyond", a.predicted.map(|[_, beyond, _]| beyond))
            .bounds("together", a.together)
            .with("grad_norm", a.grad_norm)
    };
    vec![(String::new(), table(n.arms.iter().map(row)))]
}

/// The parts of the clamp with the names that a reader sees.
const PARTS: [(&str, &str); 3] = [
    ("none", "no clamp"),
    ("both (the clamp)", "clamp -0.1"),
    ("re-weighting only", "clamp -0.1, put back to mean 0"),
];

/// The reductions of the length law with the names that a reader sees.
const REDUCTIONS: [(&str, &str); 3] = [
    (TOKEN_MEAN, "token mean"),
    ("1/T per response", "1/T per response"),
    ("constant", "constant (Dr. GRPO)"),
];

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let mut lambdas: Vec<f64> = n.arms.iter().map(|a| a.lambda).collect();
    lambdas.sort_by(f64::total_cmp);
    lambdas.dedup();
    let adamw = n.arms.iter().any(|a| !a.plain());
    let also = if adamw { format!(", AdamW at {}", n.rates[1]) } else { String::new() };
    let figure = Figure::new(title(n))
    .caption(format!(
        "A small transformer after imitation, rewards 1 or 0 by a fair coin; change of the mean length after {} steps (plain gradient descent at rate {}{also}), mean over {} seeds with 95 % \
         intervals (title: intervals for all settings together, Bonferroni). Predicted: lr ā <g_λ, ∇E[T]> / E[T] per step, from the start weights. λ = 0 is GRPO with a token mean.",
        n.steps, n.rates[0], n.seeds
    ))
    .columns(2)
    .panel_size(450, 320)
    .panel(by_lambda(n, true, &lambdas))
    .panel(by_dose(n, lambdas.last().copied().unwrap_or(0.0)));
    let figure = if adamw { figure.panel(by_lambda(n, false, &lambdas)) } else { figure };
    vec![(String::new(), figure.panel(by_force(n)))]
}

/// The pattern that the theorems predict if every finding on it holds, else the number of settings that are shown to follow it.
pub(super) fn title(n: &Numbers) -> String {
    if as_the_theorems_say(n) {
        return "Random rewards lengthen a transformer's responses where a trace meets an offset, and elsewhere move them as the length law says".to_owned();
    }
    let arms: Vec<&Arm> = n.arms.iter().filter(|a| a.of_trace()).collect();
    let count = |kept: fn(&Arm) -> bool| arms.iter().filter(|a| kept(a)).count();
    let law = match forced_and_shown(n) {
        [0, _] => String::new(),
        [forced, shown] => format!(", and move them with the sign of the length law in {shown} of {forced}"),
    };
    format!(
        "Random rewards lengthen a transformer's responses in {} of {} settings of trace and clamp and shorten them in {}{law}",
        count(Arm::lengthens),
        arms.len(),
        count(Arm::shortens)
    )
}

fn by_lambda(n: &Numbers, plain: bool, lambdas: &[f64]) -> Panel {
    let mut panel = Panel::new(if plain { "Plain gradient descent" } else { "AdamW" })
        .x(Axis::new("λ")
            .categories(lambdas.iter().map(|l| if *l == 0.0 { "0 (GRPO)".into() } else { l.to_string() })))
        .y(Axis::new("change of the mean length, tokens"));
    let place = |a: &Arm| lambdas.iter().position(|l| *l == a.lambda).unwrap_or(0) as f64;
    for (k, (part, name)) in PARTS.into_iter().enumerate() {
        let own = n
            .arms
            .iter()
            .filter(|a| a.of_trace() && a.plain() == plain && a.part == part && a.clamp == CLAMP);
        let aside = 0.22 * (k as f64 - 1.0);
        panel = panel.intervals(name, own.map(|a| placed(place(a) + aside, a.change)));
    }
    let paying = n.arms.iter().filter(|a| a.of_trace() && a.plain() == plain && a.pays() && a.clamp == CLAMP);
    let predicted: Vec<(f64, f64)> = paying.filter_map(|a| Some((place(a), a.predicted?[0].mid))).collect();
    if predicted.is_empty() {
        panel.hline(0.0, "")
    } else {
        panel.points("predicted", predicted).hline(0.0, "")
    }
}

fn by_dose(n: &Numbers, longest: f64) -> Panel {
    let own = doses(n);
    Panel::new(format!("Dose: no clamp to -0.1, λ = {longest}"))
        .x(Axis::new("ā, mean advantage of a response"))
        .y(Axis::new("change of the mean length, tokens"))
        .intervals("measured", own.iter().map(|a| placed(a.mean_advantage, a.change)))
        .styled_line(
            "predicted",
            Style::Dashed,
            own.iter().filter_map(|a| Some((a.mean_advantage, a.predicted?[0].mid))),
        )
        .hline(0.0, "")
}

/// The settings of the length law, measured against predicted.
fn by_force(n: &Numbers) -> Panel {
    let law: Vec<(&Arm, f64)> =
        of_law(n).into_iter().filter_map(|(a, _)| Some((a, a.predicted?[0].mid))).collect();
    let (least, most) = extremes(law.iter().map(|(_, force)| *force));
    let mut panel = Panel::new("Length law: every reduction and map, plain gradient descent")
        .x(Axis::new("predicted at the start weights, tokens"))
        .y(Axis::new("change of the mean length, tokens"));
    for (reduction, name) in REDUCTIONS {
        let own = law.iter().filter(|(a, _)| a.reduction == reduction);
        panel = panel.intervals(name, own.map(|(a, force)| placed(*force, a.change)));
    }
    panel.styled_line("measured = predicted", Style::Dashed, [(least, least), (most, most)])
}
