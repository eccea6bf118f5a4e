//! The figures.

use super::Comparison;
use super::reading::{BASELINE, PAPER};
use super::run::GROUP;
use super::scores::Regime;
use crate::figure::{Axis, Figure, Panel};

/// The methods whose learning curves are drawn, in the order of their colours.
pub(super) const CURVES: [&str; 6] =
    [BASELINE, PAPER[0], PAPER[1], "RLOO", "recent weight .99", "GRPO clamped"];

/// The methods of the forest plot, top to bottom.
const FOREST: [&str; 13] = [
    "RLOO",
    "Dr. GRPO",
    "GRPO 1/T",
    "GRPO clamped",
    PAPER[0],
    PAPER[1],
    "recent trace .9",
    "recent weight .99",
    "both weight .99",
    "recent trace .99 unclamped",
    "both trace .99 unclamped",
    "recent trace .99 terminal",
    "recent trace .99 printed matrix",
];

/// Learning curves, a panel per MDP.
pub(super) fn curves(c: &Comparison, regime: Regime, title: &str, rates: &str) -> Figure {
    // Learning at best rates is over within a few groups: a logarithmic axis, without the common start.
    let log = regime == Regime::OwnBest;
    let caption = format!(
        "exact J over J*, interquartile mean of {} runs with 95 % bootstrap bands; groups of {GROUP}, plain gradient steps, {rates}; \
         recent, both: GRPO-λ with λ = .99, clamp -0.1; of curves that coincide the last name is on top",
        c.runs
    );
    let mut figure = Figure::new(title).caption(caption).columns(3).panel_size(400, 270).names(CURVES);
    for (t, task) in c.tasks.iter().enumerate() {
        let mut panel = Panel::new(format!("{}: {}", task.name, task.about))
            .x(if log { Axis::new("responses sampled").log() } else { Axis::new("responses sampled") })
            .y(Axis::new("J / J*").range(0.0, 1.02));
        for name in CURVES {
            let Some(curve) = c.scores.curve(regime, c.index(name), t) else { continue };
            let x = |i: usize| (i * c.plan.every * GROUP) as f64;
            let points = || curve.iter().enumerate().skip(usize::from(log));
            panel = panel
                .band(name, points().map(|(i, p)| (x(i), p.low, p.high)))
                .line(name, points().map(|(i, p)| (x(i), p.mid)));
        }
        figure = figure.panel(panel);
    }
    figure
}

/// Gains over GRPO with intervals, a panel per regime.
pub(super) fn forest(c: &Comparison, title: &str) -> Figure {
    let caption = format!(
        "difference to GRPO (token mean) of the area under J/J*: mean over {} MDPs of the interquartile mean of {} runs; \
         95 % stratified bootstrap of pairs of runs",
        c.tasks.len(),
        c.runs
    );
    let mut figure = Figure::new(title).caption(caption).columns(2).panel_size(640, 380);
    let panels = [
        (Regime::Equal, "at GRPO's best rate"),
        (Regime::Cautious, "at a sixteenth of GRPO's best rate"),
        (Regime::OwnBest, "each at its own best rate"),
        (Regime::UnitMean, "weights normalised to mean 1, GRPO's best rate"),
    ];
    for (regime, title) in panels {
        let of = |&name: &&'static str| Some((name, c.overall(regime, c.index(name))?.gain));
        let gains: Vec<_> = FOREST.iter().filter_map(of).collect();
        let points = gains.iter().enumerate().map(|(i, (_, g))| (i as f64, g.low, g.mid, g.high));
        let panel = Panel::new(title)
            .x(Axis::new("").categories(gains.iter().map(|(name, _)| *name)))
            .y("gain in area (share of J*)")
            .hline(0.0, "GRPO")
            .intervals("gain", points)
            .no_legend();
        figure = figure.panel(panel);
    }
    figure
}

/// Gains over GRPO, method by MDP.
pub(super) fn map(c: &Comparison, title: &str) -> Figure {
    let caption = format!(
        "difference to GRPO (token mean) of the area under J/J*, interquartile mean of {} runs, in hundredths of J*",
        c.runs
    );
    let mut figure = Figure::new(title).caption(caption).columns(1).panel_size(900, 640);
    for (regime, title) in
        [(Regime::Equal, "at GRPO's best rate"), (Regime::OwnBest, "each at its own best rate")]
    {
        let value =
            |reading, task: usize| c.overall(regime, reading).map_or(f64::NAN, |o| 100.0 * o.gains[task].mid);
        let rows = (1..c.readings.len())
            .map(|reading| (0..c.tasks.len()).map(|task| value(reading, task)).collect())
            .collect();
        let panel = Panel::new(title)
            .x(Axis::new("MDP").categories(c.tasks.iter().map(|t| t.name)))
            .y(Axis::new("").categories(c.readings[1..].iter().map(|r| r.name.as_str())))
            .diverging_map("gain (hundredths of J*)", rows);
        figure = figure.panel(panel);
    }
    figure
}

/// Area against the learning rate.
pub(super) fn sweep(c: &Comparison, title: &str) -> Figure {
    let caption = format!(
        "mean area under J/J* over the MDPs and the {} selection runs of each; rates relative to GRPO's best on each MDP",
        c.grid.seeds
    );
    let x = || Axis::new("learning rate / GRPO's best rate on the MDP").log();
    let mut raw = Panel::new("weights as they are").x(x()).y("area under J / J*");
    let mut unit = Panel::new("weights normalised to mean 1").x(x()).y("area under J / J*");
    for (name, points) in c.sweeps() {
        match name.strip_suffix(super::UNIT) {
            Some(name) => unit = unit.line(name, points),
            None => {
                if name == BASELINE || name == "GRPO clamped" {
                    unit = unit.line(name.as_str(), points.clone());
                }
                raw = raw.line(name, points);
            }
        }
    }
    Figure::new(title).caption(caption).names(CURVES).panel_size(560, 360).panel(raw).panel(unit)
}
