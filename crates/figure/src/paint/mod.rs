//! Draws a laid-out figure.

mod axes;
mod marks;

use super::canvas::{Anchor, Canvas, Pen, Shape};
use super::layout::*;
use super::palette::{INK, Look, MUTED, REFERENCE};
use super::sizes::*;
use super::{Figure, Mark, Panel};

const STROKE: f64 = 1.8;
const THIN: f64 = 1.0;
const BAND_ALPHA: f64 = 0.2;
const MARKER: f64 = 3.2;
const DOT: f64 = 2.6;

type Done = anyhow::Result<()>;
type Point = (f64, f64);

fn pen(size: f64) -> Pen {
    Pen { size, bold: false, colour: INK }
}

/// Everything.
pub(super) fn figure(canvas: &mut Canvas, figure: &Figure, layout: &Layout) -> Done {
    let mut y = EDGE;
    let (title, caption) = (Pen { bold: true, ..pen(TITLE) }, Pen { colour: MUTED, ..pen(CAPTION) });
    for (lines, pen) in [(&layout.title, title), (&layout.caption, caption)] {
        for line in lines {
            let height = pen.size * LEADING;
            canvas.text((EDGE, y + height / 2.0), line, pen, Anchor::Start, false)?;
            y += height;
        }
    }
    for entry in &layout.legend {
        legend_entry(canvas, entry, layout.palette.look(&entry.name))?;
    }
    figure
        .panels
        .iter()
        .zip(&layout.panels)
        .try_for_each(|(panel, cell)| Painter { canvas, panel, cell, layout }.panel())
}

fn legend_entry(canvas: &mut Canvas, entry: &Entry, look: Look) -> Done {
    let (x, y) = entry.at;
    if entry.band {
        canvas.rect((x, y - 5.5), (x + SAMPLE, y + 5.5), look.colour, BAND_ALPHA)?;
    }
    if entry.bar && entry.line.is_none() && !entry.marker {
        canvas.rect((x + 7.0, y - 5.0), (x + 19.0, y + 5.0), look.fill(), 1.0)?;
    }
    if let Some(style) = entry.line {
        canvas.path(&[(x, y), (x + SAMPLE, y)], STROKE, look.stroke(style), look.colour)?;
    }
    if entry.marker {
        canvas.marker((x + SAMPLE / 2.0, y), MARKER, shape(look), look.colour, 1.0)?;
    }
    if entry.dot {
        dot(canvas, (x + SAMPLE / 2.0, y))?;
    }
    for (i, line) in entry.lines.iter().enumerate() {
        let at = (x + SAMPLE + SAMPLE_GAP, y + i as f64 * LABEL * LEADING);
        canvas.text(at, line, pen(LABEL), Anchor::Start, false)?;
    }
    Ok(())
}

/// A single observation.
fn dot(canvas: &mut Canvas, at: Point) -> Done {
    canvas.marker(at, DOT, Shape::Circle, REFERENCE, 1.0)
}

fn shape(look: Look) -> Shape {
    [Shape::Circle, Shape::Square, Shape::Triangle][look.variant]
}

struct Painter<'a, 'b> {
    canvas: &'a mut Canvas<'b>,
    panel: &'a Panel,
    cell: &'a Cell,
    layout: &'a Layout,
}

impl Painter<'_, '_> {
    fn look(&self, mark: &Mark) -> Look {
        self.layout.palette.look(mark.name())
    }

    /// True if a point lies in the frame, with a hair of room for rounding.
    fn inside(&self, (x, y): Point) -> bool {
        let f = &self.cell.frame;
        x >= f.left - 0.01 && x <= f.right + 0.01 && y >= f.top - 0.01 && y <= f.bottom + 0.01
    }

    /// The position of a point that both axes have.
    fn at(&self, x: f64, y: f64) -> Option<Point> {
        let domains = &self.cell.domains;
        (domains.x.has(x) && domains.y.has(y)).then(|| (self.cell.px(x), self.cell.py(y)))
    }

    fn panel(&mut self) -> Done {
        let cell = self.cell;
        let maps = self.panel.marks.iter().any(|m| matches!(m, Mark::HeatMap { .. }));
        self.heading()?;
        if cell.domains.empty {
            let middle = (cell.frame.x(0.5), cell.frame.y(0.5, true));
            let pen = Pen { colour: MUTED, ..pen(PANEL_TITLE) };
            self.axes(false)?;
            return self.canvas.text(middle, "no data", pen, Anchor::Middle, false);
        }
        if !maps {
            self.grid()?;
        }
        type Layer = fn(&Mark) -> bool;
        let layers: [Layer; 7] = [
            |m| matches!(m, Mark::HeatMap { .. }),
            |m| matches!(m, Mark::Band { .. }),
            |m| matches!(m, Mark::Bars { .. }),
            |m| matches!(m, Mark::HLine { .. } | Mark::VLine { .. }),
            |m| matches!(m, Mark::Line { .. }),
            |m| matches!(m, Mark::Dots { .. }),
            |m| matches!(m, Mark::Points { .. } | Mark::Intervals { .. } | Mark::Spans { .. }),
        ];
        for layer in layers {
            for mark in self.panel.marks.iter().filter(|m| layer(m)) {
                self.mark(mark)?;
            }
        }
        self.axes(maps)?;
        self.reference_labels()?;
        self.colour_bar()
    }

    fn heading(&mut self) -> Done {
        let cell = self.cell;
        let line = PANEL_TITLE * LEADING;
        let mut y = cell.top;
        for text in &cell.title {
            let pen = Pen { bold: true, ..pen(PANEL_TITLE) };
            self.canvas.text((cell.frame.left, y + line / 2.0), text, pen, Anchor::Start, false)?;
            y += line;
        }
        if let Some(text) = &cell.note {
            let at = (cell.frame.left, y + NOTE * LEADING / 2.0);
            self.canvas.text(at, text, Pen { colour: MUTED, ..pen(NOTE) }, Anchor::Start, false)?;
        }
        Ok(())
    }
}
