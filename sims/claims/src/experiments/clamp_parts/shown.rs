//! The tables and the figure.

use super::{ByArm, CLAMP, Nested, Numbers, Outcome, PARTS};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::short;
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::Table;
use serde::{Deserialize, Serialize};

fn row(c: &Outcome, arm: usize, seeds: usize) -> Record {
    let level = |level: ByArm| Some(level[arm]).filter(|x| x.is_finite());
    Record::default()
        .with("optimiser", c.optimiser.as_str())
        .with("rate", c.rate)
        .with("rate_over_best_of_grpo", c.ratio)
        .with("part", PARTS[arm].name())
        .with("seeds", seeds)
        .with("accuracy", level(c.accuracy))
        .interval("gain", c.gain[arm].interval)
        .with("p", c.gain[arm].p)
        .with("p_holm", c.gain[arm].corrected)
        .with("sampled", level(c.sampled))
        .with("ungradable", level(c.ungradable))
        .with("entropy", level(c.entropy))
        .with("kl", level(c.kl))
        .with("grad_norm", level(c.grad_norm))
}

/// A row of `clamp_parts_overall.csv`: every seed at the rate that the other seeds choose.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GainRow {
    pub(crate) optimiser: String,
    pub(crate) gain_of: String,
    pub(crate) gain: f64,
    pub(crate) gain_low: f64,
    pub(crate) gain_high: f64,
    p: f64,
    pub(crate) p_holm: f64,
}

/// Comparisons other than those of the parts.
pub(super) const OTHERS: [&str; 2] = ["both beyond the sum of the parts", "re-weighting minus the offset"];

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let rows = n.cells.iter().flat_map(|c| (0..PARTS.len()).map(|arm| row(c, arm, n.seeds)));
    let overall = n.nested.iter().flat_map(|o| {
        let names = PARTS[1..].iter().map(|part| part.name()).chain(OTHERS);
        names.zip(&o.gains).map(|(gain_of, gain)| {
            let Interval { low, mid, high, .. } = gain.interval;
            let (optimiser, gain_of) = (o.optimiser.clone(), gain_of.to_owned());
            let (p, p_holm) = (gain.p, gain.corrected);
            GainRow { optimiser, gain_of, gain: mid, gain_low: low, gain_high: high, p, p_holm }
        })
    });
    vec![(String::new(), table(rows)), ("overall".into(), Table::from_rows(overall))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let gained = |o: &Nested| format!("{:+.3} ({})", o.gains[CLAMP - 1].interval.mid, o.optimiser);
    let mut figure = Figure::new(format!(
        "Addition: at rates chosen on other seeds the clamp changes the share of solved problems by {}",
        n.nested.iter().map(gained).collect::<Vec<_>>().join(" and ")
    ))
    .caption(format!(
        "A transformer after a little imitation, single-digit addition, {} paired seeds. Top: share of the 100 problems that the most probable response solves, minus GRPO's, \
         at each rate and where every seed has the rate that the others choose; bars: Student's t, 95 %, not corrected. Bottom: that share itself, mean over seeds; none is GRPO.",
        n.seeds
    ))
    .columns(2)
    .panel_size(440, 260)
    .names(PARTS.iter().map(|part| part.name()));
    for panel in [gains, levels] {
        for o in &n.nested {
            let cells: Vec<&Outcome> = n.cells.iter().filter(|c| c.optimiser == o.optimiser).collect();
            figure = figure.panel(panel(o, &cells));
        }
    }
    vec![(String::new(), figure)]
}

fn rates(cells: &[&Outcome]) -> impl Iterator<Item = String> {
    cells.iter().map(|c| short(c.rate))
}

fn gains(o: &Nested, cells: &[&Outcome]) -> Panel {
    let places = rates(cells).chain(["chosen".to_owned()]);
    let panel = Panel::new(format!("{}: gain over GRPO", o.optimiser))
        .x(Axis::new("learning rate").categories(places))
        .y("gain in solved problems");
    let arms = PARTS.iter().enumerate().skip(1);
    let drawn = arms.fold(panel, |panel, (arm, part)| {
        let by_rate = cells.iter().map(|c| c.gain[arm].interval).chain([o.gains[arm - 1].interval]);
        let at = |k: usize| k as f64 + 0.2 * (arm as f64 - 2.0);
        panel.intervals(part.name(), by_rate.enumerate().map(|(k, g)| (at(k), g.low, g.mid, g.high)))
    });
    drawn.hline(0.0, "GRPO")
}

fn levels(o: &Nested, cells: &[&Outcome]) -> Panel {
    let panel = Panel::new(format!("{}: solved problems", o.optimiser))
        .x(Axis::new("learning rate").log())
        .y("share of problems solved");
    PARTS.iter().enumerate().fold(panel, |panel, (arm, part)| {
        let points = || cells.iter().map(|c| (c.rate, c.accuracy[arm]));
        panel.styled_line(part.name(), Style::Solid, points()).points(part.name(), points())
    })
}
