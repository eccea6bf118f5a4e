//! Labels along the axes: ticks with their numbers, or the names of positions.

use super::Panel;
use super::scale::{Domain, Ticks, ticks};
use super::sizes::{LEADING, TICK};
use super::text::{width, wrap};

/// Crowded names of positions shrink down to this.
const SMALL_TICK: f64 = 8.5;

/// Labelled positions along an axis, in the units of that axis.
pub(super) struct Labels {
    pub(super) at: Vec<(f64, Vec<String>)>,
    pub(super) minor: Vec<f64>,
    /// Size of the type: smaller than usual where labels are crowded.
    pub(super) size: f64,
    /// Turned by a quarter.
    pub(super) upright: bool,
    /// The reach of the labels away from the axis.
    pub(super) depth: f64,
}

/// The named positions between both ends of an axis.
fn named<'a>(names: &'a [String], domain: &'a Domain) -> impl Iterator<Item = (f64, &'a String)> {
    let at = names.iter().enumerate().map(|(i, n)| (i as f64, n));
    at.filter(|(i, _)| (domain.low..=domain.high).contains(i))
}

/// The size of labels `slot` apart, and how many positions share a label when it would be too small.
fn crowded(slot: f64) -> (f64, usize) {
    let size = (slot / 1.15).clamp(SMALL_TICK, TICK);
    (size, (size * 1.1 / slot).ceil().max(1.0) as usize)
}

/// Labels of a vertical axis `height` long, none wider than `room` where that can be.
pub(super) fn vertical_labels(panel: &Panel, domain: &Domain, height: f64, room: f64) -> Labels {
    if panel.y.categories.is_empty() {
        let ticks = ticks(domain, ((height / 42.0) as usize).max(2));
        let at = ticks.major.into_iter().map(|(v, l)| (v, vec![l])).collect();
        return Labels::new(at, TICK, false).with_minor(ticks.minor);
    }
    let slot = height / (domain.high - domain.low);
    let (size, every) = crowded(slot);
    let most = ((slot * every as f64 / (size * LEADING)) as usize).max(1);
    let lines = |name: &str| {
        // A wider label is better than a lost one when the slot has no room for its lines.
        let lines = wrap(name, size, false, room, false);
        if lines.len() > most { wrap(name, size, false, room * 1.4, true) } else { lines }
    };
    let at = named(&panel.y.categories, domain).step_by(every).map(|(i, n)| (i, lines(n))).collect();
    Labels::new(at, size, false)
}

impl Labels {
    fn new(at: Vec<(f64, Vec<String>)>, size: f64, upright: bool) -> Self {
        let depth = at.iter().flat_map(|l| &l.1).map(|l| width(l, size, false)).fold(0.0, f64::max);
        Labels { at, minor: Vec::new(), size, upright, depth }
    }
    fn with_minor(mut self, minor: Vec<f64>) -> Self {
        self.minor = minor;
        self
    }
    /// The reach on a horizontal axis: labels that are not turned reach as far as their lines.
    pub(super) fn level(at: Vec<(f64, Vec<String>)>) -> Self {
        let lines = at.iter().map(|l| l.1.len()).max().unwrap_or(1).max(1) as f64;
        Labels { at, minor: Vec::new(), size: TICK, upright: false, depth: lines * TICK * LEADING }
    }
}

/// Labels of a horizontal axis `room` long.
pub(super) fn horizontal_labels(panel: &Panel, domain: &Domain, room: f64) -> Labels {
    let names = &panel.x.categories;
    if names.is_empty() {
        return numeric_labels(domain, room);
    }
    let slot = room / (domain.high - domain.low);
    let all = || named(names, domain).map(|(i, n)| (i, n.as_str()));
    let fits = |lines: &[String]| lines.iter().all(|l| width(l, TICK, false) <= slot * 0.95);
    let wrapped: Vec<(f64, Vec<String>)> =
        all().map(|(i, n)| (i, wrap(n, TICK, false, slot * 0.92, false))).collect();
    if wrapped.iter().all(|w| w.1.len() <= 3 && fits(&w.1)) {
        return Labels::level(wrapped);
    }
    if all().all(|(_, n)| n.trim().replace('−', "-").parse::<f64>().is_ok()) {
        // Numbers stay level; some are left out.
        let longest = all().map(|(_, n)| width(n, TICK, false)).fold(0.0, f64::max) + 8.0;
        let every = (longest / slot).ceil().max(1.0) as usize;
        return Labels::level(all().step_by(every).map(|(i, n)| (i, vec![n.to_string()])).collect());
    }
    let (size, every) = crowded(slot);
    let lines = |n: &str| {
        let fitting = [110.0, 150.0, 200.0].into_iter().map(|w| wrap(n, size, false, w, false));
        let mut fitting = fitting.filter(|l| l.len() as f64 * size * LEADING <= slot * every as f64);
        fitting.next().unwrap_or_else(|| wrap(n, size, false, 250.0, true))
    };
    Labels::new(all().step_by(every).map(|(i, n)| (i, lines(n))).collect(), size, true)
}

/// Ticks, as many as leave space between their labels.
fn numeric_labels(domain: &Domain, room: f64) -> Labels {
    let mut count = ((room / 60.0) as usize).max(2);
    let mut found = ticks(domain, count);
    let apart = |t: &Ticks| {
        t.major.windows(2).all(|w| {
            let distance = (domain.place(w[1].0) - domain.place(w[0].0)) * room;
            distance >= (width(&w[0].1, TICK, false) + width(&w[1].1, TICK, false)) / 2.0 + 8.0
        })
    };
    while count > 2 && !apart(&found) {
        count -= 1;
        found = ticks(domain, count);
    }
    Labels::level(found.major.into_iter().map(|(v, l)| (v, vec![l])).collect()).with_minor(found.minor)
}
