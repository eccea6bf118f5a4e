//! From values to positions: ranges, ticks, and how numbers are written.

use super::{Axis, Mark, Panel, Scale};
use anyhow::ensure;

/// Beyond this a difference of two values could overflow; such values count as not finite.
const HUGE: f64 = 1e300;

/// True if `v` can be drawn.
pub(super) fn usable(v: f64) -> bool {
    v.is_finite() && v.abs() < HUGE
}

/// True if the mark is a series of values with a colour of its own.
pub(super) fn is_series(mark: &Mark) -> bool {
    !matches!(mark, Mark::HeatMap { .. } | Mark::HLine { .. } | Mark::VLine { .. })
}

/// An axis with its ends and ticks decided.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) log: bool,
    /// The axis has named positions, or is the axis of a heat map.
    pub(super) discrete: bool,
}

impl Domain {
    fn warp(&self, v: f64) -> f64 {
        if self.log { v.log10() } else { v }
    }
    /// True if `v` has a position on this axis (perhaps outside its ends).
    pub(super) fn has(&self, v: f64) -> bool {
        usable(v) && (!self.log || v > 0.0)
    }
    /// The position of `v`: 0 at `low`, 1 at `high`.
    pub(super) fn place(&self, v: f64) -> f64 {
        let (a, b) = (self.warp(self.low), self.warp(self.high));
        (self.warp(v) - a) / (b - a)
    }
    /// The place of the low end of an interval: a value that a log axis cannot show lies below it.
    pub(super) fn place_low(&self, v: f64) -> f64 {
        if self.log && v <= 0.0 { -1.0 } else { self.place(v) }
    }
}

/// The range of the usable values among those offered.
#[derive(Clone, Copy)]
struct Extent {
    low: f64,
    high: f64,
    log: bool,
}

impl Extent {
    fn add(&mut self, v: f64) {
        if usable(v) && (!self.log || v > 0.0) {
            self.low = self.low.min(v);
            self.high = self.high.max(v);
        }
    }
}

/// Extents and kinds of a panel's marks.
pub(super) struct Domains {
    pub(super) x: Domain,
    pub(super) y: Domain,
    /// There are marks with data, or no marks at all, and none of the data can be drawn.
    pub(super) empty: bool,
    /// Values left out because a log axis has no place for them.
    pub(super) skipped: usize,
}

/// Decides both axes of a panel.
pub(super) fn domains(panel: &Panel) -> anyhow::Result<Domains> {
    let mut reach = Reach::new(panel);
    let slot = if reach.bars { bar_spacing(panel) / 2.0 } else { 0.0 };
    let (x, y) = (&mut reach.x, &mut reach.y);
    if reach.bars && !y.log {
        y.add(0.0);
    }
    if reach.bars && !x.log && x.low <= x.high {
        (x.low, x.high) = (x.low - slot, x.high + slot);
    }
    let room_x = match (reach.bars, reach.spread) {
        (true, _) => 0.01,
        (false, true) => 0.04,
        (false, false) => 0.015,
    };
    Ok(Domains {
        x: domain(&panel.x, reach.x, room_x, reach.columns, false, "x")?,
        y: domain(&panel.y, reach.y, 0.05, reach.rows, reach.bars, "y")?,
        empty: !reach.drawn && (reach.series || panel.marks.is_empty()),
        skipped: reach.skipped,
    })
}

/// The extents of a panel's marks, and their kinds.
struct Reach {
    x: Extent,
    y: Extent,
    /// Some mark holds data.
    series: bool,
    /// Some datum can be drawn.
    drawn: bool,
    /// Data left out because a log axis has no place for them.
    skipped: usize,
    /// Cells of the largest heat-map.
    rows: usize,
    columns: usize,
    bars: bool,
    /// Marks wider than a point need room at the ends of the axis.
    spread: bool,
}

impl Reach {
    fn new(panel: &Panel) -> Reach {
        let nothing = |axis: &Axis| {
            let log = axis.scale == Scale::Log && axis.categories.is_empty();
            Extent { low: f64::INFINITY, high: f64::NEG_INFINITY, log }
        };
        let mut reach = Reach {
            x: nothing(&panel.x),
            y: nothing(&panel.y),
            series: false,
            drawn: false,
            skipped: 0,
            rows: 0,
            columns: 0,
            bars: false,
            spread: false,
        };
        for mark in &panel.marks {
            reach.series |= is_series(mark) || matches!(mark, Mark::HeatMap { .. });
            reach.bars |= matches!(mark, Mark::Bars { .. });
            reach.spread |= matches!(
                mark,
                Mark::Points { .. } | Mark::Dots { .. } | Mark::Intervals { .. } | Mark::Spans { .. }
            );
            reach.add(mark);
        }
        reach
    }

    fn add(&mut self, mark: &Mark) {
        match mark {
            Mark::Line { points, .. } | Mark::Points { points, .. } | Mark::Dots { points, .. } => {
                points.iter().for_each(|&(x, y)| self.point(x, y, &[]));
            }
            Mark::Band { points, .. } => {
                points.iter().for_each(|&(x, low, high)| self.point(x, high, &[low]))
            }
            Mark::Intervals { points, .. } => {
                points.iter().for_each(|&(x, low, mid, high)| self.point(x, mid, &[low, high]));
            }
            Mark::Spans { points, .. } => {
                for &(at, low, mid, high) in points {
                    self.point(mid, at, &[]);
                    [low, high].into_iter().for_each(|end| self.x.add(end));
                }
            }
            Mark::Bars { values, intervals, .. } => {
                for (i, &(x, y)) in values.iter().enumerate() {
                    let (low, high) = intervals.get(i).copied().unwrap_or((y, y));
                    self.point(x, y, &[low, high]);
                }
            }
            Mark::HeatMap { values, .. } => {
                self.rows = self.rows.max(values.len());
                self.columns = self.columns.max(values.iter().map(Vec::len).max().unwrap_or(0));
                self.drawn |= values.iter().flatten().any(|&v| usable(v));
            }
            Mark::HLine { y, .. } => self.y.add(*y),
            Mark::VLine { x, .. } => self.x.add(*x),
        }
    }

    /// A datum at `(x, y)` that reaches `more` along y.
    fn point(&mut self, x: f64, y: f64, more: &[f64]) {
        if !(usable(x) && usable(y)) {
            return;
        }
        if (self.x.log && x <= 0.0) || (self.y.log && y <= 0.0) {
            self.skipped += 1;
            return;
        }
        self.drawn = true;
        self.x.add(x);
        self.y.add(y);
        more.iter().for_each(|&v| self.y.add(v));
    }
}

fn domain(
    axis: &Axis,
    data: Extent,
    room: f64,
    cells: usize,
    zero: bool,
    name: &str,
) -> anyhow::Result<Domain> {
    let log = data.log;
    let count = axis.categories.len().max(cells);
    if let Some((low, high)) = axis.range {
        let valid = usable(low) && usable(high) && low < high && (!log || low > 0.0);
        ensure!(valid, "the {name} axis {:?} cannot run from {low} to {high}", axis.label);
        return Ok(Domain { low, high, log, discrete: count > 0 });
    }
    if count > 0 {
        return Ok(Domain { low: -0.5, high: count as f64 - 0.5, log: false, discrete: true });
    }
    let (mut low, mut high) = (data.low, data.high);
    if low > high {
        (low, high) = if log { (0.1, 10.0) } else { (0.0, 1.0) };
    } else if log {
        let (a, b) = (low.log10(), high.log10());
        let pad = if b - a < 1e-9 { 0.5 } else { (b - a) * room };
        (low, high) = (10f64.powf((a - pad).max(-300.0)), 10f64.powf((b + pad).min(300.0)));
    } else {
        // Values equal up to rounding get a range that does not magnify the rounding.
        let flat = high - low <= 1e-12 * low.abs().max(high.abs());
        let pad = match flat {
            true if low == 0.0 => 0.5,
            true => 0.1 * low.abs(),
            false => (high - low) * room,
        };
        let keep = |end: f64| zero && end == 0.0 && !flat;
        (low, high) = (if keep(low) { 0.0 } else { low - pad }, if keep(high) { 0.0 } else { high + pad });
    }
    Ok(Domain { low, high, log, discrete: false })
}

/// The distance between neighbouring bar positions of a panel; 1 when there is only one.
pub(super) fn bar_spacing(panel: &Panel) -> f64 {
    let mut at: Vec<f64> = Vec::new();
    for mark in &panel.marks {
        if let Mark::Bars { values, .. } = mark {
            at.extend(values.iter().map(|v| v.0).filter(|&x| usable(x)));
        }
    }
    at.sort_by(f64::total_cmp);
    at.windows(2).map(|w| w[1] - w[0]).filter(|&d| d > 0.0).min_by(f64::total_cmp).unwrap_or(1.0)
}

/// Ticks with their labels, about `count` of them, and the unlabelled ones between.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticks {
    pub(super) major: Vec<(f64, String)>,
    pub(super) minor: Vec<f64>,
}

/// Ticks of a numeric axis.
pub(super) fn ticks(domain: &Domain, count: usize) -> Ticks {
    if domain.log { log_ticks(domain, count) } else { linear_ticks(domain, count) }
}

fn linear_ticks(domain: &Domain, count: usize) -> Ticks {
    let (low, high) = (domain.low, domain.high);
    let raw = (high - low) / count.max(1) as f64;
    let unit = 10f64.powf(raw.log10().floor());
    // The nearest of 1, 2 and 5 times a power of ten, by ratio.
    let mut step = unit
        * match raw / unit {
            r if r < 1.42 => 1.0,
            r if r < 3.17 => 2.0,
            r if r < 7.08 => 5.0,
            _ => 10.0,
        };
    if domain.discrete {
        step = step.max(1.0);
    }
    // The room for rounding lets 0.3 count as a tick of 0..0.3.
    let (first, last) = ((low / step - 1e-6).ceil(), (high / step + 1e-6).floor());
    let values: Vec<f64> = (0..=100)
        .map(|i| (first + f64::from(i)) * step)
        .take_while(|v| *v <= last * step + step * 1e-6)
        .collect();
    let largest = values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    Ticks { major: values.iter().map(|&v| (v, tick_label(v, step, largest))).collect(), minor: Vec::new() }
}

fn log_ticks(domain: &Domain, count: usize) -> Ticks {
    let (a, b) = (domain.low.log10(), domain.high.log10());
    let inside = |v: f64| v >= domain.low * (1.0 - 1e-9) && v <= domain.high * (1.0 + 1e-9);
    let decades: Vec<i32> = (a.floor() as i32..=b.ceil() as i32).collect();
    let multiples = |of: &[f64]| -> Vec<f64> {
        decades.iter().flat_map(|&e| of.iter().map(move |m| decimal(*m, e))).filter(|&v| inside(v)).collect()
    };
    let all: Vec<f64> = (1..10).map(f64::from).collect();
    let whole = multiples(&[1.0]);
    let every = whole.len().div_ceil(count.max(2)).max(1);
    let major: Vec<f64> = if whole.len() >= 3 {
        // Decades divisible by `every`, so that 1 is among them.
        whole.iter().copied().filter(|v| (v.log10().round() as i32).rem_euclid(every as i32) == 0).collect()
    } else {
        let sets: [&[f64]; 3] = [&all, &[1.0, 2.0, 5.0], &[1.0, 3.0]];
        let found = sets.iter().map(|s| multiples(s)).find(|v| v.len() <= count.max(3)).unwrap_or(whole);
        if found.len() < 2 { return linear_ticks(domain, count) } else { found }
    };
    let minor = if decades.len() <= 9 { multiples(&all) } else { Vec::new() };
    // On a long axis the powers of ten beyond 0.01 and 1000 are all written in the same way.
    let long = major.iter().any(|v| !(1e-4..1e5).contains(v));
    let write = |v: f64| if long && !(0.99e-2..1.01e3).contains(&v) { scientific(v, 3) } else { number(v) };
    Ticks { major: major.iter().map(|&v| (v, write(v))).collect(), minor }
}

/// m·10^e, correctly rounded.
fn decimal(m: f64, e: i32) -> f64 {
    format!("{m}e{e}").parse().unwrap_or(f64::NAN)
}

/// A tick of a linear axis whose ticks are `step` apart and at most `largest`: as many decimals as the
/// step needs, and powers of ten for all ticks of an axis of very large or very small values.
fn tick_label(v: f64, step: f64, largest: f64) -> String {
    let powers = (largest >= 1e6 || step < 1e-4) && largest / step < 1e6;
    if !powers {
        return signed(format!("{v:.*}", decimals(step)));
    }
    if v.abs() < step * 1e-6 {
        return "0".into();
    }
    // Digits of v down to the step.
    scientific(v, (v.abs().log10().floor() - step.log10().floor() + 1e-9).max(0.0) as usize)
}

fn decimals(step: f64) -> usize {
    (-(step.log10() + 1e-9).floor()).clamp(0.0, 15.0) as usize
}

fn scientific(v: f64, digits: usize) -> String {
    let text = format!("{v:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    signed(format!("{mantissa}e{exponent}"))
}

/// A number on its own: 0.3, 1000, 1e-6; at most four significant digits.
pub(super) fn number(v: f64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e5).contains(&v.abs()) {
        return scientific(v, 3);
    }
    let places = (3.0 - v.abs().log10().floor()).clamp(0.0, 8.0) as usize;
    let text = format!("{v:.places$}");
    signed(if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text })
}

/// The values of a heat map written with common decimals.
pub(super) fn cell_labels(values: &[Vec<f64>]) -> Vec<Vec<String>> {
    let finite = || values.iter().flatten().copied().filter(|v| usable(*v));
    let largest = finite().fold(0.0, |m: f64, v| m.max(v.abs()));
    let whole = finite().all(|v| v == v.round());
    let write = |v: f64| match () {
        _ if !usable(v) => String::new(),
        _ if largest >= 1e5 || (largest > 0.0 && largest < 5e-3) => scientific(v, 1),
        _ if whole || largest >= 100.0 => signed(format!("{v:.0}")),
        _ if largest >= 10.0 => signed(format!("{v:.1}")),
        _ => signed(format!("{v:.2}")),
    };
    values.iter().map(|row| row.iter().map(|&v| write(v)).collect()).collect()
}

/// A typographic minus before the number, and none before zero.
fn signed(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.into(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, log: bool, count: usize) -> Vec<String> {
        let domain = Domain { low, high, log, discrete: false };
        ticks(&domain, count).major.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_written_as_people_write_them() {
        assert_eq!(labels(0.0, 0.3, false, 3), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(-1.0, 1.0, false, 4), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(0.0, 4000.0, false, 4), ["0", "1000", "2000", "3000", "4000"]);
        assert_eq!(labels(0.0, 4e-6, false, 4), ["0", "1e-6", "2e-6", "3e-6", "4e-6"]);
        assert_eq!(labels(0.0, 3e6, false, 6), ["0", "5e5", "1e6", "1.5e6", "2e6", "2.5e6", "3e6"]);
        assert_eq!(labels(0.0, 2e5, false, 4), ["0", "50000", "100000", "150000", "200000"]);
        assert_eq!(labels(1e-6, 1e3, true, 9).first().map(String::as_str), Some("1e-6"));
        assert_eq!(labels(1e-2, 1e3, true, 9), ["0.01", "0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(1.0, 20.0, true, 5), ["1", "2", "5", "10", "20"]);
        assert_eq!(labels(1.0, 1.2, true, 4), ["1.00", "1.05", "1.10", "1.15", "1.20"]);
    }

    #[test]
    fn numbers_and_cells() {
        assert_eq!(number(0.1 + 0.2), "0.3");
        assert_eq!(number(1e-6), "1e-6");
        assert_eq!(number(1000.0), "1000");
        assert_eq!(number(-0.25), "−0.25");
        assert_eq!(cell_labels(&[vec![1.0, f64::NAN, -0.001]]), [["1.00", "", "0.00"]]);
        assert_eq!(cell_labels(&[vec![3.0, 12.0]]), [["3", "12"]]);
    }

    #[test]
    fn ranges_ignore_what_cannot_be_drawn() {
        let points = vec![(1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, -1.0), (10.0, 5.0)];
        let panel = Panel::new("").y(Axis::new("").log()).points("a", points);
        let d = domains(&panel).expect("a range");
        assert_eq!((d.skipped, d.empty), (1, false));
        assert!(d.y.low > 0.0 && d.y.low < 5.0 && d.y.high > 5.0);
        assert!(domains(&Panel::new("").x(Axis::new("").range(1.0, 1.0))).is_err());
        assert!(domains(&Panel::new("").x(Axis::new("").log().range(0.0, 1.0))).is_err());
    }
}
