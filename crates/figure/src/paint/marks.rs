//! The marks of a panel, each kind in its own way.

use super::{BAND_ALPHA, Done, MARKER, Painter, Point, STROKE, THIN, dot, pen, shape};
use crate::canvas::{Anchor, Pen, Shape};
use crate::palette::{INK, Look, MISSING, REFERENCE, contrast, map_colour};
use crate::scale::{bar_spacing, cell_labels, usable};
use crate::sizes::*;
use crate::text::width;
use crate::{Mark, Style};

/// Annotations of a heat map are left out below this size.
const SMALLEST: f64 = 7.5;

impl Painter<'_, '_> {
    pub(super) fn mark(&mut self, mark: &Mark) -> Done {
        let (look, f) = (self.look(mark), self.cell.frame);
        match mark {
            Mark::Line { points, style, .. } => {
                self.line(points, self.aside(mark), look.stroke(*style), look)
            }
            Mark::Band { points, .. } => self.band(points, self.aside(mark), look),
            Mark::Points { points, .. } => self.points(mark, points, look),
            Mark::Dots { points, .. } => points.iter().try_for_each(|&(x, y)| match self.at(x, y) {
                Some(at) if self.inside(at) => dot(self.canvas, at),
                _ => Ok(()),
            }),
            Mark::Intervals { points, .. } => self.intervals(points, self.aside(mark), look),
            Mark::Spans { points, .. } => self.spans(points, look),
            Mark::Bars { values, intervals, .. } => self.bars(mark, values, intervals, look),
            Mark::HeatMap { values, annotate, .. } => self.heat_map(values, *annotate),
            Mark::HLine { y, .. } if self.cell.domains.y.has(*y) => {
                let y = self.cell.py(*y);
                self.reference((f.left, y), (f.right, y))
            }
            Mark::VLine { x, .. } if self.cell.domains.x.has(*x) => {
                let x = self.cell.px(*x);
                self.reference((x, f.bottom), (x, f.top))
            }
            Mark::HLine { .. } | Mark::VLine { .. } => Ok(()),
        }
    }

    fn intervals(&mut self, points: &[(f64, f64, f64, f64)], shift: f64, look: Look) -> Done {
        let f = self.cell.frame;
        points.iter().try_for_each(|&(x, low, mid, high)| {
            let Some((x, y)) = self.at(x, mid) else { return Ok(()) };
            let x = x + shift;
            if x >= f.left && x <= f.right {
                self.error_bar(x, low, high, look.colour)?;
            }
            if self.inside((x, y)) {
                self.canvas.marker((x, y), MARKER, shape(look), look.colour, 1.0)?;
            }
            Ok(())
        })
    }

    fn spans(&mut self, points: &[(f64, f64, f64, f64)], look: Look) -> Done {
        let f = self.cell.frame;
        points.iter().try_for_each(|&(y, low, mid, high)| {
            let Some(at) = self.at(mid, y) else { return Ok(()) };
            if at.1 >= f.top && at.1 <= f.bottom {
                self.level_bar(at.1, low, high, look.colour)?;
            }
            if self.inside(at) {
                self.canvas.marker(at, MARKER, shape(look), look.colour, 1.0)?;
            }
            Ok(())
        })
    }

    /// A dashed line across the frame, where its ends lie inside.
    fn reference(&mut self, from: Point, to: Point) -> Done {
        if !self.inside(from) {
            return Ok(());
        }
        self.canvas.path(&[from, to], 1.2, Style::Dashed, REFERENCE)
    }

    fn line(&mut self, points: &[Point], shift: f64, style: Style, look: Look) -> Done {
        let place = |&(x, y): &Point| self.at(x, y).map(|p| (p.0 + shift, p.1));
        let places: Vec<Option<Point>> = points.iter().map(place).collect();
        for run in places.split(Option::is_none) {
            let run: Vec<Point> = run.iter().flatten().copied().collect();
            if let [only] = run[..]
                && self.inside(only)
            {
                self.canvas.marker(only, STROKE, Shape::Circle, look.colour, 1.0)?;
            }
            for piece in self.clipped(&run) {
                self.canvas.path(&thinned(&piece), STROKE, style, look.colour)?;
            }
        }
        Ok(())
    }

    /// The pieces of a path within the frame.
    fn clipped(&self, run: &[Point]) -> Vec<Vec<Point>> {
        let f = &self.cell.frame;
        let mut pieces: Vec<Vec<Point>> = Vec::new();
        let mut current: Vec<Point> = Vec::new();
        for pair in run.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let (mut from, mut to) = (0.0f64, 1.0f64);
            let mut outside = false;
            // Liang–Barsky: each side of the frame bounds the share of the segment that is inside.
            for (start, change, low, high) in
                [(a.0, b.0 - a.0, f.left, f.right), (a.1, b.1 - a.1, f.top, f.bottom)]
            {
                if change.abs() < 1e-12 {
                    outside |= start < low - 0.01 || start > high + 0.01;
                } else {
                    let (s, t) = ((low - start) / change, (high - start) / change);
                    from = from.max(s.min(t));
                    to = to.min(s.max(t));
                }
            }
            if outside || from >= to {
                pieces.push(std::mem::take(&mut current));
                continue;
            }
            let point = |s: f64| (a.0 + s * (b.0 - a.0), a.1 + s * (b.1 - a.1));
            if from > 0.0 || current.is_empty() {
                pieces.push(std::mem::replace(&mut current, vec![point(from)]));
            }
            current.push(point(to));
            if to < 1.0 {
                pieces.push(std::mem::take(&mut current));
            }
        }
        pieces.push(current);
        pieces.retain(|p| p.len() > 1);
        pieces
    }

    fn band(&mut self, points: &[(f64, f64, f64)], shift: f64, look: Look) -> Done {
        let f = self.cell.frame;
        let place = |&(x, low, high): &(f64, f64, f64)| {
            let (x, high) = self.at(x, high)?;
            usable(low).then(|| (x + shift, high, self.cell.py_low(low)))
        };
        let places: Vec<Option<(f64, f64, f64)>> = points.iter().map(place).collect();
        for run in places.split(Option::is_none) {
            let mut ribbon: Vec<(f64, f64, f64)> = Vec::new();
            for pair in run.windows(2) {
                let (Some(a), Some(b)) = (pair[0], pair[1]) else { continue };
                // Where either curve or the x leaves the frame, the ribbon gets a corner.
                let mut cuts = vec![0.0, 1.0];
                for (start, change, edges) in [
                    (a.0, b.0 - a.0, [f.left, f.right]),
                    (a.1, b.1 - a.1, [f.top, f.bottom]),
                    (a.2, b.2 - a.2, [f.top, f.bottom]),
                ] {
                    cuts.extend(
                        edges.map(|e| (e - start) / change).into_iter().filter(|s| *s > 0.0 && *s < 1.0),
                    );
                }
                cuts.sort_by(f64::total_cmp);
                for s in cuts {
                    let x = a.0 + s * (b.0 - a.0);
                    if x >= f.left - 0.01 && x <= f.right + 0.01 {
                        let clamp = |y: f64| y.max(f.top).min(f.bottom);
                        ribbon.push((x, clamp(a.1 + s * (b.1 - a.1)), clamp(a.2 + s * (b.2 - a.2))));
                    }
                }
            }
            if ribbon.len() > 1 {
                self.canvas.ribbon(&ribbon, look.colour, BAND_ALPHA)?;
            }
        }
        Ok(())
    }

    fn points(&mut self, mark: &Mark, points: &[Point], look: Look) -> Done {
        let shift = if self.cell.domains.x.discrete { self.aside(mark) } else { 0.0 };
        let (radius, alpha) = match points.len() {
            0..=200 => (MARKER, 1.0),
            201..=1000 => (2.4, 0.6),
            _ => (1.8, 0.4),
        };
        points.iter().try_for_each(|&(x, y)| match self.at(x, y).map(|p| (p.0 + shift, p.1)) {
            Some(p) if self.inside(p) => self.canvas.marker(p, radius, shape(look), look.colour, alpha),
            _ => Ok(()),
        })
    }

    /// The sideways shift of a series with intervals (on named positions also with points).
    fn aside(&self, mark: &Mark) -> f64 {
        let discrete = self.cell.domains.x.discrete;
        let (mut names, mut at) = (Vec::<&str>::new(), Vec::new());
        for m in &self.panel.marks {
            match m {
                Mark::Intervals { points, .. } => at.extend(points.iter().map(|p| p.0)),
                Mark::Points { points, .. } if discrete => at.extend(points.iter().map(|p| p.0)),
                _ => continue,
            }
            if !names.contains(&m.name()) {
                names.push(m.name());
            }
        }
        let mut at: Vec<f64> =
            at.into_iter().filter(|&x| self.cell.domains.x.has(x)).map(|x| self.cell.px(x)).collect();
        at.sort_by(f64::total_cmp);
        let gaps = at.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 0.5);
        let slot = gaps.min_by(f64::total_cmp).unwrap_or(self.cell.frame.width());
        let step = (0.7 * slot / names.len().max(1) as f64).min(if discrete { 14.0 } else { 6.0 });
        let Some(i) = names.iter().position(|n| *n == mark.name()) else { return 0.0 };
        (i as f64 - (names.len() as f64 - 1.0) / 2.0) * step
    }

    /// A vertical bar with caps, cut at the frame.
    fn error_bar(&mut self, x: f64, low: f64, high: f64, colour: (u8, u8, u8)) -> Done {
        let f = self.cell.frame;
        if !(usable(low) && self.cell.domains.y.has(high)) {
            return Ok(());
        }
        let (a, b) = (self.cell.py_low(low), self.cell.py(high));
        let clamp = |y: f64| y.max(f.top).min(f.bottom);
        if clamp(a) == clamp(b) && a != b {
            return Ok(());
        }
        self.canvas.rule((x, clamp(a)), (x, clamp(b)), 1.4, colour)?;
        for y in [a, b] {
            if clamp(y) == y {
                self.canvas.rule((x - 3.0, y), (x + 3.0, y), 1.4, colour)?;
            }
        }
        Ok(())
    }

    /// A horizontal bar with caps, cut at the frame.
    fn level_bar(&mut self, y: f64, low: f64, high: f64, colour: (u8, u8, u8)) -> Done {
        let (f, x) = (self.cell.frame, &self.cell.domains.x);
        if !(usable(low) && x.has(high)) {
            return Ok(());
        }
        let (a, b) = (f.x(x.place_low(low)), f.x(x.place(high)));
        let clamp = |x: f64| x.max(f.left).min(f.right);
        if clamp(a) == clamp(b) && a != b {
            return Ok(());
        }
        self.canvas.rule((clamp(a), y), (clamp(b), y), 1.4, colour)?;
        for x in [a, b] {
            if clamp(x) == x {
                self.canvas.rule((x, y - 3.0), (x, y + 3.0), 1.4, colour)?;
            }
        }
        Ok(())
    }

    fn bars(&mut self, mark: &Mark, values: &[Point], intervals: &[Point], look: Look) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        let series: Vec<&Mark> = self.panel.marks.iter().filter(|m| matches!(m, Mark::Bars { .. })).collect();
        let i = series.iter().position(|m| std::ptr::eq(*m, mark)).unwrap_or(0) as f64;
        let slot = if cell.domains.x.log {
            // No one distance fits a log axis; the closest pair decides.
            let at =
                series.iter().flat_map(|m| if let Mark::Bars { values, .. } = m { &values[..] } else { &[] });
            let mut at: Vec<f64> = at.filter(|v| cell.domains.x.has(v.0)).map(|v| cell.px(v.0)).collect();
            at.sort_by(f64::total_cmp);
            let gaps = at.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 0.5);
            gaps.min_by(f64::total_cmp).unwrap_or(60.0)
        } else {
            bar_spacing(self.panel) / (cell.domains.x.high - cell.domains.x.low) * f.width()
        };
        let breadth = (0.8 * slot / series.len() as f64).min(60.0);
        let base = if cell.domains.y.log { f.bottom } else { cell.py(0.0) };
        for (j, &(x, y)) in values.iter().enumerate() {
            let Some((x, y)) = self.at(x, y) else { continue };
            let left = x + (i - series.len() as f64 / 2.0) * breadth;
            let (a, b) = ((left + 0.05 * breadth).max(f.left), (left + 0.95 * breadth).min(f.right));
            let clamp = |y: f64| y.max(f.top).min(f.bottom);
            if a >= b {
                continue;
            }
            let (top, bottom) = (clamp(y.min(base)), clamp(y.max(base)));
            if bottom > top {
                self.canvas.rect((a, top), (b, bottom), look.fill(), 1.0)?;
            }
            if let Some(&(low, high)) = intervals.get(j) {
                self.error_bar(left + breadth / 2.0, low, high, INK)?;
            }
        }
        if !cell.domains.y.log && self.inside((f.left, base)) {
            self.canvas.rule((f.left, base), (f.right, base), THIN, INK)?;
        }
        Ok(())
    }

    fn heat_map(&mut self, values: &[Vec<f64>], annotate: bool) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        let Some(colours) = &cell.colours else { return Ok(()) };
        let colour = |v: f64| {
            if !usable(v) {
                return MISSING;
            }
            map_colour(colours.place(v), colours.diverging)
        };
        let labels = cell_labels(values);
        let (w, h) = (cell.px(1.0) - cell.px(0.0), cell.py(1.0) - cell.py(0.0));
        let longest = labels.iter().flatten().map(|l| width(l, 1.0, false)).fold(0.1, f64::max);
        let size = (0.86 * w / longest).min(0.6 * h).min(TICK);
        for (i, row) in values.iter().enumerate() {
            for (j, &v) in row.iter().enumerate() {
                let (x, y) = (cell.px(j as f64), cell.py(i as f64));
                // A little too large, so that no background shines through between cells; the next
                // cell covers what is too much.
                let (left, top) = ((x - w / 2.0).max(f.left), (y - h / 2.0).max(f.top));
                let (right, bottom) = ((x + w / 2.0 + 0.7).min(f.right), (y + h / 2.0 + 0.7).min(f.bottom));
                if left < right && top < bottom {
                    self.canvas.rect((left, top), (right, bottom), colour(v), 1.0)?;
                }
            }
        }
        if !annotate || size < SMALLEST {
            return Ok(());
        }
        for (i, row) in values.iter().enumerate() {
            for (j, &v) in row.iter().enumerate() {
                let at = (cell.px(j as f64), cell.py(i as f64));
                if self.inside(at) && usable(v) {
                    let pen = Pen { colour: contrast(colour(v)), ..pen(size) };
                    self.canvas.text(at, &labels[i][j], pen, Anchor::Middle, false)?;
                }
            }
        }
        Ok(())
    }
}

/// The path without points that lie within a third of a pixel of the last kept one.
fn thinned(path: &[Point]) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    for (i, &p) in path.iter().enumerate() {
        let near = kept.last().is_some_and(|l| (l.0 - p.0).abs() < 0.35 && (l.1 - p.1).abs() < 0.35);
        if !near || i + 1 == path.len() {
            kept.push(p);
        }
    }
    kept
}
