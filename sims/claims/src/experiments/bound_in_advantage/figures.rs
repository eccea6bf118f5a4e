//! The figure.

use super::effect::Effect;
use super::findings::ROUNDING;
use super::measure::Numbers;
use crate::experiments::common::vectors::{extremes, mean};
use crate::figure::{Axis, Figure, Panel};

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let change = panel(
        n,
        Panel::new("Change of the expected update").y("relative change |E g' - E g| / |E g|"),
        |e| if e.relative < ROUNDING { 0.0 } else { e.relative },
    );
    let variance = panel(
        n,
        Panel::new("Change of the variance (1: none)").y(Axis::new("variance ratio tr Cov g' / tr Cov g")),
        |e| e.variance_ratio,
    );
    let figure = Figure::new("Lemma 1's bound is a baseline under constant reduction (no change); a trace makes it a bias")
        .caption(format!(
            "Exact, groups of 4; g is the update without, g' the one with the bound added to every token's advantage. Bars: least, mean and largest of {} random MDPs; dots: three named ones. \
             trace: recent with that λ, centred rewards, constant reduction.",
            n.mdps.len() - n.of_zoo
        ))
        .panel_size(480, 360)
        .panel(change)
        .panel(variance.hline(1.0, ""));
    vec![(String::new(), figure)]
}

/// A bar over the random MDPs and a dot per MDP of the zoo, by reading.
fn panel(n: &Numbers, panel: Panel, of: fn(&Effect) -> f64) -> Panel {
    let mut panel = panel.x(Axis::new("method").categories(n.readings.iter().map(|r| r.reading.name)));
    let dots = |m: usize| n.readings.iter().enumerate().map(move |(i, r)| (i as f64, of(&r.effects[m])));
    let bar = |(i, r): (usize, &super::measure::OfReading)| {
        let values: Vec<f64> = r.effects[n.of_zoo..].iter().map(of).collect();
        let (low, high) = extremes(values.iter().copied());
        (i as f64, low, mean(&values), high)
    };
    panel = panel.intervals("random MDPs", n.readings.iter().enumerate().map(bar));
    for (m, name) in n.mdps[..n.of_zoo].iter().enumerate() {
        panel = panel.points(name.as_str(), dots(m));
    }
    panel
}
