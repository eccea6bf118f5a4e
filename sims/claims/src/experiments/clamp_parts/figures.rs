//! The figure.

use super::measure::{CLAMP, Numbers, Outcome, Overall, PARTS};
use crate::experiments::common::text::short;
use crate::figure::{Axis, Figure, Panel, Style};

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let average = |o: &Overall| format!("{:+.3} ({})", o.gains[CLAMP - 1].interval.mid, o.optimiser);
    let mut figure = Figure::new(format!(
        "Addition: over all learning rates the clamp changes the share of solved problems by {}",
        n.overall.iter().map(average).collect::<Vec<_>>().join(" and ")
    ))
    .caption(format!(
        "A transformer after a little imitation, single-digit addition, {} paired seeds. Top: share of the 100 problems that the most probable response solves, less GRPO's, \
         at each rate and averaged over all of them; bars: Student's t, 95 %, not corrected. Bottom: that share itself, mean over seeds; none is GRPO.",
        n.seeds
    ))
    .columns(2)
    .panel_size(440, 260)
    .names(PARTS.iter().map(|part| part.name()));
    for panel in [gains, levels] {
        for o in &n.overall {
            let cells: Vec<&Outcome> = n.cells.iter().filter(|c| c.optimiser == o.optimiser).collect();
            figure = figure.panel(panel(o, &cells));
        }
    }
    vec![(String::new(), figure)]
}

fn rates(cells: &[&Outcome]) -> impl Iterator<Item = String> {
    cells.iter().map(|c| short(c.rate))
}

fn gains(o: &Overall, cells: &[&Outcome]) -> Panel {
    let places = rates(cells).chain(["all".to_owned()]);
    let panel = Panel::new(format!("{}: gain over GRPO", o.optimiser))
        .x(Axis::new("learning rate").categories(places))
        .y("gain in solved problems");
    let arms = PARTS.iter().enumerate().skip(1);
    let drawn = arms.fold(panel, |panel, (arm, part)| {
        let by_rate = cells.iter().map(|c| c.gain[arm]).chain([o.gains[arm - 1].interval]);
        let at = |k: usize| k as f64 + 0.2 * (arm as f64 - 2.0);
        panel.intervals(part.name(), by_rate.enumerate().map(|(k, g)| (at(k), g.low, g.mid, g.high)))
    });
    drawn.hline(0.0, "GRPO")
}

fn levels(o: &Overall, cells: &[&Outcome]) -> Panel {
    let panel = Panel::new(format!("{}: solved problems", o.optimiser))
        .x(Axis::new("learning rate").log())
        .y("share of problems solved");
    PARTS.iter().enumerate().fold(panel, |panel, (arm, part)| {
        let points = || cells.iter().map(|c| (c.rate, c.accuracy.of[arm]));
        panel.styled_line(part.name(), Style::Solid, points()).points(part.name(), points())
    })
}
