//! The colour scale of a heat map.

use super::scale::{Domain, Ticks, ticks, usable};
use super::{Mark, Panel};
use anyhow::ensure;

/// The colour scale of a heat map.
pub(super) struct Colours {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) diverging: bool,
    pub(super) label: String,
    pub(super) ticks: Ticks,
    pub(super) left: f64,
    pub(super) right: f64,
}

impl Colours {
    /// The place of a value on the colour map, in 0..=1 within the range: that of zero is the middle of a diverging map.
    pub(super) fn place(&self, v: f64) -> f64 {
        if self.diverging {
            0.5 + 0.5 * v / self.low.abs().max(self.high.abs())
        } else {
            (v - self.low) / (self.high - self.low)
        }
    }
}

/// The colour scale of the panel's first heat map, positions relative to the right of the frame.
pub(super) fn colours(panel: &Panel, height: f64) -> anyhow::Result<Option<Colours>> {
    let found = panel.marks.iter().find_map(|m| match m {
        Mark::HeatMap { values, range, diverging, label, .. } => Some((values, range, *diverging, label)),
        _ => None,
    });
    let Some((values, range, diverging, label)) = found else { return Ok(None) };
    let finite = || values.iter().flatten().copied().filter(|v| usable(*v));
    let (mut low, mut high) = match *range {
        Some((low, high)) => {
            ensure!(usable(low) && usable(high) && low <= high, "colours cannot run from {low} to {high}");
            (low, high)
        }
        None if diverging => {
            let most = finite().fold(0.0, |m: f64, v| m.max(v.abs()));
            (-most, most)
        }
        None => (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max)),
    };
    if low > high {
        (low, high) = (0.0, 1.0);
    }
    if low == high {
        let room = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
        (low, high) = (low - room, high + room);
    }
    let domain = Domain { low, high, log: false, discrete: false };
    let ticks = ticks(&domain, (height / 45.0) as usize);
    Ok(Some(Colours { low, high, diverging, label: label.clone(), ticks, left: 0.0, right: 0.0 }))
}
