//! Findings, tables and figures.

use super::{AfterStep, Distance, FORMS, GROUP, Numbers, PPO, PRINTED, Point, TWO_SIDED, UPDATES, loss};
use crate::experiment::{CASES, Finding};
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::largest;
use crate::figure::{Axis, Figure, Panel, Style};
use crate::sentences::SentenceId;
use grpo_lambda::surrogate::Surrogate;
use grpo_lambda_stats::table::Table;
use serde::Serialize;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![same_objective(n), lower_bound(n), on_policy(n), trust_region(n), off_policy(n)]
}

fn same_objective(n: &Numbers) -> Finding {
    let differs = |p: &Point| p.apart() > 1e-12;
    let where_said = n.points.iter().filter(|p| differs(p) && p.lowered_outside()).count();
    let elsewhere = n.points.iter().filter(|p| differs(p) != p.lowered_outside()).count();
    let raised = largest(n.points.iter().filter(|p| p.advantage >= 0.0).map(Point::apart));
    let [below, above] = &n.examples;
    quoted(SentenceId::ClippedObjective)
        .holds_when(
            elsewhere == 0 && where_said == 0,
            elsewhere == 0 && raised == 0.0,
            "δ_t ≥ 0 or 1-ε ≤ ratio ≤ 1+ε. For δ_t < 0 and a ratio outside that range it does the opposite of \
             PPO: below 1-ε it keeps pushing the token down, and above 1+ε it does not pull the token back",
            format!("{elsewhere} points differ from that statement"),
        )
        .value("points of ratio and advantage", n.points.len())
        .value("points that differ, all with δ < 0 and the ratio outside [0.8, 1.2]", where_said)
        .value("slopes at ratio 0.5, δ = -1, printed and PPO", [below.printed.slope, below.ppo.slope])
        .value("at ratio 1.5", [above.printed.slope, above.ppo.slope])
}

fn lower_bound(n: &Numbers) -> Finding {
    let off = largest(n.points.iter().map(Point::off_formula));
    claim(
        "lower_bound",
        "The printed loss is -min(ratio, 1+ε) δ for either sign of δ, so that its lower bound never acts",
    )
    .identity(off)
}

fn on_policy(n: &Numbers) -> Finding {
    let difference = n.on_policy.difference;
    claim("on_policy", "With one update per batch the printed form and PPO's have the same expected update")
        .holds_or(difference == 0.0, "expected updates differ")
        .value("MDPs", n.on_policy.mdps)
        .value("G", GROUP)
        .value("largest difference of the expected updates", difference)
}

fn trust_region(n: &Numbers) -> Finding {
    let end = |form| n.distances.iter().rfind(|d| d.form == form).map(|d| d.ratio);
    let kept = end(FORMS[1].0).zip(end(FORMS[0].0)).is_some_and(|(printed, ppo)| printed > 0.9 * ppo);
    claim(
        "trust_region",
        "\"clipping π_ratio between 1-ϵ and 1+ϵ discourages π_θ from changing too much from π_θold\" in the \
         printed form, too",
    )
    .holds_or(kept, "with the printed form the policy moves farther than with PPO's")
    .rows("trust_region", &["form", "updates", "kl_from_sampling_policy", "smallest_ratio", "j"])
    .only("updates", &[UPDATES])
}

fn off_policy(n: &Numbers) -> Finding {
    let under = |form: &'static str| n.off_policy.iter().filter(move |m| m.form == form);
    let pairs: Vec<_> = under(FORMS[0].0).zip(under(FORMS[1].0)).collect();
    let apart = |(a, b): &(&AfterStep, &AfterStep)| (a.cosine_with_grad_j - b.cosine_with_grad_j).abs();
    let is_apart = pairs.iter().any(|pair| apart(pair) > 1e-6);
    // The first of the largest differences, of policies that have got worse and of those that have improved.
    claim("off_policy", "Off-policy the updates of the printed form and of PPO's form differ in direction")
        .holds_or(is_apart, "the same everywhere")
        .each([("got worse", false), ("improved", true)], |finding, (name, improved)| {
            let moved = pairs.iter().filter(|(m, _)| (m.step > 0.0) == improved);
            let most = moved.reduce(|worst, m| if apart(m) > apart(worst) { m } else { worst });
            let Some((a, b)) = most else { return finding };
            finding
                .value(format!("policy that has {name}: MDP"), a.mdp)
                .value(format!("policy that has {name}: step along ∇J"), a.step)
                .value(format!("policy that has {name}: cosine with ∇J, PPO"), a.cosine_with_grad_j)
                .value(format!("policy that has {name}: cosine, printed"), b.cosine_with_grad_j)
        })
}

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

/// A number of a form against the ratio.
type Curve = fn(Surrogate, f64) -> f64;

fn shapes() -> Figure {
    let figure =
        Figure::new("For A < 0 the printed clip acts on the wrong side: pushes on below 1-ε, no pull above 1+ε").caption(
            "One token, ε = 0.2. Push: minus the derivative of the loss with respect to log π; positive raises the \
             token's probability. Lines on each other: equal.",
        );
    let panels: [(&str, &str, Curve); 4] = [
        ("Loss, A = +1: all forms agree", "loss", |form, ratio| loss(form, ratio, 1.0).value),
        ("Loss, A = −1: they differ outside 1±ε", "loss", |form, ratio| loss(form, ratio, -1.0).value),
        ("Push, A = +1: all forms agree", "push on log π", |form, ratio| -loss(form, ratio, 1.0).slope),
        ("Push, A = −1: they differ outside 1±ε", "push on log π", |form, ratio| {
            -loss(form, ratio, -1.0).slope
        }),
    ];
    panels.into_iter().fold(figure, |figure, (title, y, value)| figure.panel(shape(title, y, value)))
}

fn shape(title: &str, y: &str, value: Curve) -> Panel {
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

#[cfg(test)]
mod tests {
    use super::super::{Distance, OnPolicy};
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda::surrogate::ValueAndSlope;

    /// The two forms as they are, on a batch whose reuse they treat equally.
    fn numbers(difference: f64, printed_ratio: f64, printed_cosine: f64) -> Numbers {
        let distance = |form, ratio| Distance { form, ratio, ..Distance::default() };
        let moved = |form, cosine_with_grad_j| AfterStep {
            step: 1.0,
            form,
            cosine_with_grad_j,
            ..AfterStep::default()
        };
        Numbers {
            points: Point::grid(),
            examples: Point::examples(),
            on_policy: OnPolicy { mdps: 3, difference },
            off_policy: vec![moved("PPO", 0.9), moved("as printed", printed_cosine)],
            distances: vec![distance("PPO", 0.5), distance("as printed", printed_ratio)],
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 0.5, 0.9)), ["Holds when", "Holds", "Holds", "Holds", "Fails"]);
        assert_eq!(verdicts(numbers(0.1, 0.01, 0.2)), ["Holds when", "Holds", "Fails", "Fails", "Holds"]);
    }

    #[test]
    fn the_condition_on_the_forms_is_tested_point_by_point() {
        let mut same = numbers(0.0, 0.5, 0.9);
        same.points.retain(|p| !p.lowered_outside());
        assert_eq!(words(&findings(&same))[0], "Holds");
        let mut elsewhere = numbers(0.0, 0.5, 0.9);
        elsewhere.points[0].printed = ValueAndSlope { value: 7.0, slope: 7.0 };
        assert_eq!(words(&findings(&elsewhere))[..2], ["Fails", "Fails"]);
    }
}
