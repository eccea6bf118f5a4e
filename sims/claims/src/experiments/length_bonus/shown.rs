//! Tables and figures.

use super::law::LawRow;
use super::spread::{self, ARMS as OF_TASKS, PAPER};
use super::{CLAMPS, LAMBDAS, Numbers, REDUCTIONS, Slope, UPDATES};
use crate::experiments::common::at_least_exact;
use crate::experiments::common::chart::chart;
use crate::experiments::common::record::{Record, table};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;
use grpo_lambda_tools::length_direction::POLICIES;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let law = n.law.iter().map(|row| LawRow { off: row.off.map(at_least_exact), ..row.clone() });
    vec![
        (String::new(), Table::from_rows(&n.noise)),
        ("slope".into(), Table::from_rows(&n.slopes)),
        ("horizon".into(), Table::from_rows(&n.sweep)),
        ("tasks".into(), task_rows(n)),
        ("law".into(), Table::from_rows(law)),
        ("credit".into(), Table::from_rows(&n.credit)),
    ]
}

/// A row per task, reduction and arm.
fn task_rows(n: &Numbers) -> Table {
    table(n.tasks.iter().flat_map(|on| {
        OF_TASKS.iter().zip(on.cosine).map(|((arm, ..), cosine)| {
            Record::default()
                .with("task", &*on.task)
                .with("family", on.family)
                .with("reduction", on.reduction)
                .with("longer_is_better", on.longer_is_better)
                .with("arm", *arm)
                .with("cosine_with_gradient", cosine)
        })
    }))
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![("tasks".into(), over_tasks(n)), (String::new(), horizons(n)), ("slope".into(), slopes(n))]
}

/// The direction of the paper's update over tasks, against whether longer responses are better.
fn over_tasks(n: &Numbers) -> Figure {
    let reversed = spread::REDUCTIONS.map(|(_, reduction)| {
        let own = || n.tasks.iter().filter(|on| on.reduction == reduction);
        let against = own().filter(|on| on.cosine[PAPER] < 0.0).count();
        format!("{against} of {} tasks ({reduction})", own().count())
    });
    let figure = Figure::new(format!(
        "Trace and clamp together turn the update against the reward on {}",
        reversed.join(" and on ")
    ))
    .caption(
        "Exact cosine of GRPO-λ's expected update with ∇J (recent, λ = 0.99, clamp -0.1, G = 8, z-scores) at the \
         start policy, one dot a task: the named ones and random trees of horizon 4 and 6. Left of 0 shorter \
         responses are better, right of it longer ones. The paper does not print the reduction; both are shown. Tasks \
         whose responses are all equally long are not drawn.",
    )
    .panel_size(440, 330);
    chart(n.tasks.iter().filter_map(|on| Some((on, on.longer_is_better?))))
        .panels(|(on, _)| format!("reduction: {}", on.reduction))
        .x(Axis::new("cosine of ∇E[T] and ∇J").range(-1.05, 1.05))
        .y(Axis::new("cosine with ∇J").range(-1.05, 1.05))
        .points(|(on, _)| on.family, |(on, longer)| (*longer, on.cosine[PAPER]))
        .hline(0.0, "below: lowers J")
        .on(figure)
}

/// The front page: direction against horizon.
fn horizons(n: &Numbers) -> Figure {
    let title = |policy| match policy == POLICIES[0] {
        true => "EOS as likely as in the zoo",
        false => "EOS a tenth as likely: longer responses",
    };
    let figure = Figure::new(
        "Trace and clamp together turn the update against the reward as responses may grow longer; neither does alone \
         on this task",
    )
    .caption(
        "Exact cosine of the expected update with ∇J (task eos_hazard_dependent: stop after the right symbol). G = 8, \
         z-scores, token mean, λ = 0.99, clamp -0.1. Below 0 the update lowers the expected reward.",
    )
    .panel_size(440, 330);
    chart(&n.sweep)
        .panels(|p| title(p.policy))
        .x(Axis::new("horizon: the longest response, tokens").log())
        .y(Axis::new("cosine with ∇J").range(-1.05, 1.05))
        .series(
            |p| p.arm,
            |p| (p.horizon as f64, p.cosine),
            |panel, arm, points| panel.line(arm.clone(), points.clone()).points(arm, points),
        )
        .hline(0.0, "below: lowers J")
        .on(figure)
}

/// The clamp's pay per token, and its push on the length.
fn slopes(n: &Numbers) -> Figure {
    let names = ["mean of sums (constant)", "token mean (the paper's)", "1/T per response"];
    let place = |of: &str, all: &[&str]| all.iter().position(|known| *known == of).unwrap_or(0);
    let drawn: Vec<&Slope> =
        n.slopes.iter().filter(|s| s.style == "recent" && s.clamp == CLAMPS[1] && s.rate == 0.5).collect();
    let counts = UPDATES.map(|update| {
        let count =
            |kept: fn(f64) -> bool| drawn.iter().filter(|s| s.update == update && kept(s.slope)).count();
        let (longer, shorter, all) = (count(|x| x > 0.0), count(|x| x < 0.0), count(|_| true));
        format!("longer with ε-{update} in {longer} of {all} settings and shorter in {shorter}")
    });
    let push = Panel::new("What the clamp pays for a token")
        .x(Axis::new("success rate"))
        .y(Axis::new("ā = E[max(A, clamp)]").range(0.0, 0.5));
    let push = n
        .pushes
        .iter()
        .fold(push, |push, (clamp, points)| push.line(format!("clamp {clamp}"), points.clone()));
    let figure = Figure::new(format!(
        "With noise for rewards the clamp pays for every token: responses grow {}",
        counts.join(", ")
    ))
    .caption(
        "Exact, G = 8, z-scores, style recent; rewards do not depend on the response. Middle and right: a chain of at \
         most 24 tokens, clamp -0.1; the direction depends neither on the success rate nor on the clamp. Where no \
         point stands, the update is 0.",
    )
    .columns(3)
    .panel_size(330, 280)
    .panel(push);
    let at = |lambda: f64| LAMBDAS.iter().position(|l| *l == lambda).unwrap_or(0) as f64;
    chart(drawn.iter().filter_map(|s| Some((*s, s.cosine?))))
        .panels(|(s, _)| format!("ε-{}: direction of the length", s.update))
        .x(Axis::new("λ").categories(LAMBDAS.map(|l| l.to_string())))
        .y(Axis::new("cosine with ∇E[T]").range(-1.05, 1.05))
        .points(|(s, _)| names[place(s.reduction, &REDUCTIONS)], |(s, cosine)| (at(s.lambda), *cosine))
        .hline(0.0, "below: shorter")
        .on(figure)
}
