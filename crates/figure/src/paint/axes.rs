//! The surroundings of a panel's marks: grid, axes with ticks and labels, the colour bar.

use super::{Done, Painter, THIN, pen};
use crate::canvas::{Anchor, Pen};
use crate::palette::{GRID, INK, MUTED, map_colour};
use crate::sizes::*;
use crate::text::{width, wrap};

/// Between groups of positions.
const GROUP_RULE: f64 = 2.0;

impl Painter<'_, '_> {
    pub(super) fn grid(&mut self) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        if !cell.domains.y.discrete {
            for (v, _) in &cell.y_ticks.at {
                let y = cell.py(*v);
                self.canvas.rule((f.left, y), (f.right, y), THIN, GRID)?;
            }
        }
        if !cell.domains.x.discrete {
            for (v, _) in &cell.x_ticks.at {
                let x = cell.px(*v);
                self.canvas.rule((x, f.top), (x, f.bottom), THIN, GRID)?;
            }
        }
        Ok(())
    }

    pub(super) fn axes(&mut self, boxed: bool) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        self.canvas.rule((f.left, f.bottom), (f.right, f.bottom), THIN, INK)?;
        self.canvas.rule((f.left, f.top), (f.left, f.bottom), THIN, INK)?;
        if boxed {
            self.canvas.rule((f.left, f.top), (f.right, f.top), THIN, INK)?;
            self.canvas.rule((f.right, f.top), (f.right, f.bottom), THIN, INK)?;
        }
        if !cell.domains.empty || cell.domains.x.discrete {
            self.x_ticks()?;
        }
        if !cell.domains.empty || cell.domains.y.discrete {
            self.y_ticks()?;
        }
        self.labels()
    }

    fn x_ticks(&mut self) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        let (pen, line) = (pen(cell.x_ticks.size), cell.x_ticks.size * LEADING);
        for v in &cell.x_ticks.minor {
            let x = cell.px(*v);
            self.canvas.rule((x, f.bottom), (x, f.bottom + TICK_LENGTH * 0.6), THIN, INK)?;
        }
        for (v, lines) in &cell.x_ticks.at {
            let x = cell.px(*v);
            self.canvas.rule((x, f.bottom), (x, f.bottom + TICK_LENGTH), THIN, INK)?;
            let top = f.bottom + TICK_LENGTH + TICK_GAP;
            for (i, text) in lines.iter().enumerate() {
                let i = i as f64;
                if cell.x_ticks.upright {
                    let x = x + (i - (lines.len() as f64 - 1.0) / 2.0) * line;
                    self.canvas.text((x, top), text, pen, Anchor::End, true)?;
                } else {
                    let y = top + (i + 0.5) * line - 2.0;
                    self.canvas.text((x, y), text, pen, Anchor::Middle, false)?;
                }
            }
        }
        Ok(())
    }

    fn y_ticks(&mut self) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        let (pen, line) = (pen(cell.y_ticks.size), cell.y_ticks.size * LEADING);
        for v in &cell.y_ticks.minor {
            let y = cell.py(*v);
            self.canvas.rule((f.left - TICK_LENGTH * 0.6, y), (f.left, y), THIN, INK)?;
        }
        for (v, lines) in &cell.y_ticks.at {
            let y = cell.py(*v);
            self.canvas.rule((f.left - TICK_LENGTH, y), (f.left, y), THIN, INK)?;
            for (i, text) in lines.iter().enumerate() {
                let y = y + (i as f64 - (lines.len() as f64 - 1.0) / 2.0) * line;
                let x = f.left - TICK_LENGTH - TICK_GAP;
                self.canvas.text((x, y), text, pen, Anchor::End, false)?;
            }
        }
        Ok(())
    }

    /// Titles below the horizontal axis and left of the vertical one.
    fn labels(&mut self) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        let below = f.bottom + TICK_LENGTH + TICK_GAP + cell.x_ticks.depth + 4.0;
        for (i, text) in cell.x_label.iter().enumerate() {
            let y = below + (i as f64 + 0.5) * LABEL * LEADING;
            self.canvas.text((f.x(0.5), y), text, pen(LABEL), Anchor::Middle, false)?;
        }
        let mut neighbour = f.left - TICK_LENGTH - TICK_GAP - cell.y_ticks.depth - 6.0;
        if !self.panel.y.groups.is_empty() {
            neighbour = self.groups(neighbour - GROUP_GAP)?;
        }
        for (i, text) in cell.y_label.iter().rev().enumerate() {
            let x = neighbour - (i as f64 + 0.5) * LABEL * LEADING;
            self.canvas.text((x, f.y(0.5, true)), text, pen(LABEL), Anchor::Middle, true)?;
        }
        Ok(())
    }

    /// The names of groups of positions, right of which `right` is free, and the rules between them; returns what is free left of them.
    fn groups(&mut self, right: f64) -> anyhow::Result<f64> {
        let (f, cell) = (self.cell.frame, self.cell);
        let left = right - LABEL * LEADING;
        let mut first = 0.0;
        for (i, (name, n)) in self.panel.y.groups.iter().enumerate() {
            let last = first + *n as f64;
            let (top, bottom) = (cell.py(first - 0.5).max(f.top), cell.py(last - 0.5).min(f.bottom));
            if i > 0 && top < f.bottom {
                self.canvas.rule((left, top), (f.right, top), GROUP_RULE, INK)?;
            }
            if top < bottom {
                let pen = Pen { bold: true, ..pen(LABEL) };
                let name = wrap(name, LABEL, true, bottom - top, true).into_iter().next().unwrap_or_default();
                let at = ((left + right) / 2.0, (top + bottom) / 2.0);
                self.canvas.text(at, &name, pen, Anchor::Middle, true)?;
            }
            first = last;
        }
        Ok(left)
    }

    pub(super) fn reference_labels(&mut self) -> Done {
        let (f, cell) = (self.cell.frame, self.cell);
        let pen = Pen { colour: MUTED, ..pen(NOTE) };
        for (_, first, lines) in &cell.h_labels {
            for (i, text) in lines.iter().enumerate() {
                let at = (f.right + 5.0, first + i as f64 * NOTE * LEADING);
                self.canvas.text(at, text, pen, Anchor::Start, false)?;
            }
        }
        for (_, middle, row, text) in &cell.v_labels {
            let at = (*middle, f.top - 3.0 - (*row as f64 + 0.5) * NOTE * LEADING);
            self.canvas.text(at, text, pen, Anchor::Middle, false)?;
        }
        Ok(())
    }

    pub(super) fn colour_bar(&mut self) -> Done {
        let f = self.cell.frame;
        let Some(c) = &self.cell.colours else { return Ok(()) };
        const STEPS: usize = 64;
        let share = |v: f64| (v - c.low) / (c.high - c.low);
        // From the top, each step down to the bottom of the bar: where two meet, nothing shines through.
        for i in (0..STEPS).rev() {
            let top = f.y((i + 1) as f64 / STEPS as f64, false).max(f.top);
            let value = c.low + (i as f64 + 0.5) / STEPS as f64 * (c.high - c.low);
            let colour = map_colour(c.place(value), c.diverging);
            self.canvas.rect((c.left, top), (c.right, f.bottom), colour, 1.0)?;
        }
        for (a, b) in [
            ((c.left, f.top), (c.right, f.top)),
            ((c.left, f.bottom), (c.right, f.bottom)),
            ((c.left, f.top), (c.left, f.bottom)),
            ((c.right, f.top), (c.right, f.bottom)),
        ] {
            self.canvas.rule(a, b, THIN, INK)?;
        }
        let mut reach = 0.0f64;
        for (v, text) in &c.ticks.major {
            let y = f.y(share(*v), false);
            self.canvas.rule((c.right, y), (c.right + TICK_LENGTH, y), THIN, INK)?;
            let at = (c.right + TICK_LENGTH + TICK_GAP, y);
            self.canvas.text(at, text, pen(TICK), Anchor::Start, false)?;
            reach = reach.max(width(text, TICK, false));
        }
        let x = c.right + TICK_LENGTH + TICK_GAP + reach + 6.0 + LABEL * LEADING / 2.0;
        self.canvas.text((x, f.y(0.5, true)), &c.label, pen(LABEL), Anchor::Middle, true)
    }
}
