//! Causes of gains and losses: the size of the step, the clamp, the direction of the first update, lengths.

use grpo_lambda_mdp::expected;
use grpo_lambda_stats::table::significant;

use super::over_tasks;
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::findings::{finding, holds_or, holds_when};
use crate::experiments::learning::measure::Comparison;
use crate::experiments::learning::reading::PAPER;
use crate::experiments::learning::scores::Regime;

/// The share of step size in the gain at a cautious rate.
pub(super) fn step_size(c: &Comparison) -> Finding {
    let [recent, both] = c.exact.mean_weights;
    let ratio = |t: usize| c.choices[0][t].rate / c.choices[c.index(PAPER[0])][t].rate;
    let gain = |regime, name| c.against(regime, name).gain.mid;
    let [cautious, own, unit] =
        [Regime::Cautious, Regime::OwnBest, Regime::UnitMean].map(|r| gain(r, PAPER[0]));
    let ratios: Vec<String> =
        (0..c.tasks.len()).map(|t| format!("{} {}", c.tasks[t].name, significant(ratio(t), 2))).collect();
    let longer = cautious > own.max(unit);
    let at_cautious = &c.against(Regime::Cautious, PAPER[0]).over_tasks;
    let numbers = format!(
        "mean weight c̄ {recent:.1} recent, {both:.1} both; GRPO's best rate over that of {}: {}; its gain {cautious:+.3} at a sixteenth of GRPO's best rate (RLOO, without any trace: {:+.3}), {own:+.3} at own best rates, {unit:+.3} with mean weight 1",
        PAPER[0],
        ratios.join(", "),
        gain(Regime::Cautious, "RLOO")
    );
    finding(
        "Under plain SGD the advantage of GRPO-λ at a small equal rate is a larger step, not better credit",
        holds_when(
            longer && at_cautious.positive(),
            longer,
            "means over these tasks are compared: with the tasks as the sample no gain is shown at the small rate, either",
            numbers.clone(),
        ),
        numbers,
    )
}

pub(super) fn clamp(c: &Comparison) -> Finding {
    let list = ["GRPO clamped", PAPER[0], "recent trace .99 unclamped", PAPER[1], "both trace .99 unclamped"];
    let found = list.map(|name| (name, c.against(Regime::OwnBest, name)));
    let helps = found[0].1.over_tasks.positive() && found[1].1.gain.mid > found[2].1.gain.mid;
    let numbers = found.map(|(name, o)| format!("{name} {}", over_tasks(c, o))).join("; ");
    let unit = |name| over_tasks(c, c.against(Regime::UnitMean, name));
    let numbers = format!(
        "{numbers}. At GRPO's best rate with weights of mean 1: {} {}, of which GRPO clamped alone {}, the trace unclamped {}",
        PAPER[0],
        unit(PAPER[0]),
        over_tasks(c, c.against(Regime::Equal, "GRPO clamped")),
        unit("recent trace .99 unclamped")
    );
    let numbers =
        format!("gain over GRPO with its interval over tasks, each at its own best rate: {numbers}");
    finding("Clamping advantages at -0.1 helps learning", holds_or(helps, numbers.clone()), numbers)
}

fn cosine_of(update: Option<expected::Comparison>) -> f64 {
    update.map_or(f64::NAN, |e| e.cosine)
}

/// The direction of the exact first update.
pub(super) fn direction(c: &Comparison) -> Finding {
    let (paper, clamped) = (c.index(PAPER[0]), c.index("GRPO clamped"));
    let cosine = |r: usize, t: usize| cosine_of(c.exact.updates[r][t]);
    let said = |t: usize| {
        format!(
            "{} {:.2} / {:.2} / {:.2} / {:.2}, final {:.3} against {:.3}",
            c.tasks[t].name,
            cosine(0, t),
            cosine(clamped, t),
            cosine(paper, t),
            cosine_of(c.exact.unit_updates[t]),
            c.last[paper][t],
            c.last[0][t]
        )
    };
    let lower: Vec<usize> = (0..c.tasks.len()).filter(|&t| cosine(paper, t) < cosine(0, t) - 1e-9).collect();
    let lowest = lower.iter().copied().min_by(|&a, &b| cosine(paper, a).total_cmp(&cosine(paper, b)));
    let verdict = match lowest {
        None => Verdict::Holds,
        Some(t) => Verdict::Fails(format!(
            "further from ∇J than GRPO on {} of {} MDPs, lowest on {}: {:.3} against GRPO's {:.3}",
            lower.len(),
            c.tasks.len(),
            c.tasks[t].name,
            cosine(paper, t),
            cosine(0, t)
        )),
    };
    finding(
        "GRPO-λ's expected first update is at least as close to ∇J as GRPO's",
        verdict,
        format!(
            "cosine of the exact first update with ∇J: GRPO / GRPO clamped / {} / the same with mean weight 1; final J/J* at own best rates: {}",
            PAPER[0],
            (0..c.tasks.len()).map(said).collect::<Vec<_>>().join("; ")
        ),
    )
}

/// Why GRPO-lambda settles on the longer, worse answer of `fork`.
pub(super) fn inversion(c: &Comparison) -> Finding {
    let last = |name: &str| c.last[c.index(name)][0];
    let said = |(name, w): &(&str, Vec<f64>)| {
        format!("{name} {:.3} short, {:.3} long, final {:.3}", w[0], w[1], last(name))
    };
    let paper = c.exact.credits.iter().find(|(name, _)| *name == PAPER[0]);
    let (short, long) = paper.map_or((f64::NAN, f64::NAN), |(_, w)| (w[0], w[1]));
    finding(
        "GRPO-λ prefers the better of two answers whatever their lengths",
        holds_or(
            short > long,
            format!(
                "on fork the long, worse answer gets credit {long:.2}, the short, better one {short:.2}; runs end at {:.3} J*",
                last(PAPER[0])
            ),
        ),
        format!(
            "fork (short: T = 2, Q = 0.9; long: T = 50, Q = 0.8), exact implied credit of the choice under the initial policy and final J/J* at own best rate (the long answer is {:.3}): {}",
            0.8 / c.tasks[0].best,
            c.exact.credits.iter().map(said).collect::<Vec<_>>().join("; ")
        ),
    )
}

pub(super) fn grid(c: &Comparison) -> Finding {
    let all: Vec<_> = c.choices.iter().flatten().collect();
    let edge = all.iter().filter(|x| x.at_edge).count();
    let widened = all.iter().filter(|x| x.widened > 0).count();
    let g = c.grid;
    finding(
        "Every best learning rate lies inside the grid that was tried",
        match edge {
            0 => Verdict::Holds,
            n => Verdict::HoldsWhen(format!("apart from {n} of {} choices", all.len())),
        },
        format!(
            "grid 2^{} to 2^{}, {} rate(s) per doubling, {} selection runs per rate with streams of their own; {widened} of {} grids widened, {edge} best rates still at an end",
            g.low,
            g.high,
            g.per_octave,
            g.seeds,
            all.len()
        ),
    )
}
