//! The tables and the figures.

use super::{
    AfterStep, DRIFT_MDP, Distance, FORMS, Numbers, PPO, PRINTED, TWO_SIDED, advantages, loss, ratios,
};
use crate::experiments::common::record::{Record, table};
use crate::figure::{Axis, Figure, Mark, Panel, Style};
use grpo_lambda::surrogate::Surrogate;
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (String::new(), points(n)),
        ("off_policy".into(), off_policy(n)),
        ("trust_region".into(), trust_region(n)),
    ]
}

fn points(n: &Numbers) -> Table {
    table(n.points.iter().flat_map(|p| {
        [("ppo", p.ppo), ("printed", p.printed), ("two_sided", p.two_sided)].map(|(form, loss)| {
            Record::default()
                .with("ratio", p.ratio)
                .with("advantage", p.advantage)
                .with("form", form)
                .with("loss", loss.value)
                .with("slope", loss.slope)
        })
    }))
}

fn off_policy(n: &Numbers) -> Table {
    table(n.off_policy.iter().flat_map(|&AfterStep { mdp, step, cosines, norms }| {
        let forms = FORMS.into_iter().zip(cosines.into_iter().zip(norms));
        forms.map(move |((form, _), (cosine_with_grad_j, norm))| {
            Record::default()
                .with("mdp", mdp)
                .with("step", step)
                .with("form", form)
                .with("cosine_with_grad_j", cosine_with_grad_j)
                .with("norm", norm)
        })
    }))
}

/// Every tenth update.
fn trust_region(n: &Numbers) -> Table {
    table(n.drifts.iter().flat_map(|drift| {
        drift.steps.iter().enumerate().step_by(10).map(|(updates, at)| {
            Record::default()
                .with("mdp", DRIFT_MDP)
                .with("form", drift.form)
                .with("updates", updates)
                .with("kl_from_sampling_policy", at.kl)
                .with("smallest_ratio", at.ratio)
                .with("j", at.j)
        })
    }))
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), shapes()), ("map".into(), map(n)), ("off_policy".into(), reuse(n))]
}

fn shapes() -> Figure {
    Figure::new("For A < 0 the printed clip acts on the wrong side: pushes on below 1-ε, no pull above 1+ε")
        .caption("One token, ε = 0.2. Push: minus the derivative of the loss with respect to log π; positive raises the token's probability. Lines on each other: equal.")
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

fn map(n: &Numbers) -> Figure {
    let rows = n.points.chunk_by(|a, b| a.advantage == b.advantage);
    let values = rows.map(|row| row.iter().map(|p| p.printed.slope - p.ppo.slope).collect()).collect();
    let panel = Panel::new("d loss / d log π: printed minus PPO")
        .x(Axis::new("ratio π/π_old").categories(ratios().iter().map(|r| format!("{r:.2}"))))
        .y(Axis::new("advantage A").categories(advantages().iter().map(|a| format!("{a}").replace('-', "−"))))
        .mark(Mark::HeatMap {
            values,
            annotate: false,
            range: None,
            diverging: true,
            label: "difference of slopes".into(),
        });
    Figure::new("The two forms differ only where the advantage is negative and the ratio has left [0.8, 1.2]")
        .caption("Slope of the printed loss minus slope of PPO's, with respect to log π; ε = 0.2. Red: printed pushes the token further down; blue: printed leaves out PPO's pull back; white: the same.")
        .columns(1)
        .panel_size(900, 330)
        .panel(panel)
}

fn reuse(n: &Numbers) -> Figure {
    let figure = Figure::new(
        "On-policy the forms agree; off-policy PPO's clip holds the policy, the printed one lets it drift",
    );
    let cosines = n.off_policy.chunk_by(|a, b| a.mdp == b.mdp).map(cosines);
    cosines
        .fold(figure, Figure::panel)
        .caption("Exact expected update of GRPO (G = 8, sum over tokens, ε = 0.2). Above: the policy has moved along ∇J since sampling. Below: 200 steps of rate 0.2 in expectation over groups of the first policy.")
        .panel(drift(n, "MDP noisy: distance from the sampling policy", Axis::new("KL (nats per response)"), |at| at.kl))
        .panel(drift(n, "MDP noisy: smallest token ratio", Axis::new("smallest π/π_old").log(), |at| at.ratio))
}

fn cosines(moved: &[AfterStep]) -> Panel {
    let panel = Panel::new(format!("MDP {}: cosine of update and ∇J", moved[0].mdp))
        .x("step taken along ∇J since sampling (nats of the largest logit)")
        .y(Axis::new("cosine with ∇J at the current policy").range(-1.05, 1.05));
    let lines = FORMS.into_iter().enumerate();
    let line = |panel: Panel, (f, (form, _)): (usize, (&str, &str))| {
        panel.line(form, moved.iter().map(|m| (m.step, m.cosines[f])))
    };
    lines.fold(panel, line).vline(0.0, "on-policy")
}

fn drift(n: &Numbers, title: &str, y: Axis, value: fn(&Distance) -> f64) -> Panel {
    let panel = Panel::new(title).x("expected updates on groups of the first policy").y(y);
    n.drifts.iter().fold(panel, |panel, drift| {
        panel.line(drift.form, drift.steps.iter().enumerate().map(|(k, at)| (k as f64, value(at))))
    })
}
