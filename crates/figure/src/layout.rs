//! The layout of a figure: margins from the texts they hold, then the frames of the panels.

use super::colours::{Colours, colours};
use super::labels::{Labels, horizontal_labels, vertical_labels};
use super::palette::Palette;
use super::scale::{Domains, domains};
use super::sizes::{
    BAR, BAR_GAP, CAPTION, EDGE, GROUP_GAP, GUTTER, LABEL, LEADING, NOTE, PANEL_TITLE, SAMPLE, SAMPLE_GAP,
    TICK, TICK_GAP, TICK_LENGTH, TITLE,
};
use super::text::{width, wrap};
use super::{Figure, Mark, Panel, Style};

/// A figure with all positions decided.
pub(super) struct Layout {
    pub(super) size: (f64, f64),
    pub(super) title: Vec<String>,
    pub(super) caption: Vec<String>,
    pub(super) legend: Vec<Entry>,
    pub(super) palette: Palette,
    pub(super) panels: Vec<Cell>,
}

/// A name in the legend.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) lines: Vec<String>,
    /// The left end of the sample, centred vertically on the first line.
    pub(super) at: (f64, f64),
    pub(super) line: Option<Style>,
    pub(super) band: bool,
    pub(super) marker: bool,
    /// Single observations.
    pub(super) dot: bool,
    pub(super) bar: bool,
}

/// The rectangle in which data is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// A panel with its positions decided.
pub(super) struct Cell {
    pub(super) domains: Domains,
    /// The top of the row, where titles start.
    pub(super) top: f64,
    pub(super) frame: Frame,
    pub(super) title: Vec<String>,
    /// Says what is not shown; below the title.
    pub(super) note: Option<String>,
    pub(super) x_label: Vec<String>,
    pub(super) y_label: Vec<String>,
    pub(super) x_ticks: Labels,
    pub(super) y_ticks: Labels,
    /// Labels of horizontal reference lines: (y of the line, y of the first line of text, lines).
    pub(super) h_labels: Vec<(f64, f64, Vec<String>)>,
    /// Labels of vertical reference lines: (x of the line, x of the middle of the text, row, text).
    pub(super) v_labels: Vec<(f64, f64, usize, String)>,
    pub(super) colours: Option<Colours>,
    margins: Margins,
}

#[derive(Clone, Copy, Default)]
struct Margins {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }
    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }
    /// The x of a share of the horizontal axis.
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + share * self.width()
    }
    /// The y of a share of the vertical axis; positions with names count from the top.
    pub(super) fn y(&self, share: f64, from_top: bool) -> f64 {
        if from_top { self.top + share * self.height() } else { self.bottom - share * self.height() }
    }
}

impl Cell {
    /// Horizontal position of a value the axis has.
    pub(super) fn px(&self, v: f64) -> f64 {
        self.frame.x(self.domains.x.place(v))
    }
    /// Vertical position of a value the axis has.
    pub(super) fn py(&self, v: f64) -> f64 {
        self.frame.y(self.domains.y.place(v), self.domains.y.discrete)
    }
    /// The y of the low end of an interval, also if a log axis has no place for it.
    pub(super) fn py_low(&self, v: f64) -> f64 {
        self.frame.y(self.domains.y.place_low(v), self.domains.y.discrete)
    }
}

impl Layout {
    pub(super) fn new(figure: &Figure) -> anyhow::Result<Self> {
        let columns = figure.columns.max(1).min(figure.panels.len().max(1));
        let cell_w = f64::from(figure.panel_size.0.clamp(180, 4000));
        let cell_h = f64::from(figure.panel_size.1.clamp(140, 4000));
        let total_w = 2.0 * EDGE + columns as f64 * (cell_w + GUTTER) - GUTTER;
        let text_w = total_w - 2.0 * EDGE;
        let title = wrap(&figure.title, TITLE, true, text_w, true);
        let caption = wrap(&figure.caption, CAPTION, false, text_w, true);
        let mut y =
            EDGE + title.len() as f64 * TITLE * LEADING + caption.len() as f64 * CAPTION * LEADING + 8.0;
        let legend = legend(figure, &mut y, text_w);

        let sides = figure.panels.iter().map(|p| Cell::sides(p, cell_w, cell_h));
        let mut cells = sides.collect::<anyhow::Result<Vec<Cell>>>()?;
        for column in 0..columns {
            let (mut left, mut right) = (0.0f64, 0.0f64);
            for cell in cells.iter().skip(column).step_by(columns) {
                (left, right) = (left.max(cell.margins.left), right.max(cell.margins.right));
            }
            let start = EDGE + column as f64 * (cell_w + GUTTER);
            for (cell, panel) in cells.iter_mut().zip(&figure.panels).skip(column).step_by(columns) {
                (cell.frame.left, cell.frame.right) = (start + left, start + cell_w - right);
                cell.ends(panel, start);
            }
        }
        for (row, panels) in cells.chunks_mut(columns).zip(figure.panels.chunks(columns)) {
            let top = row.iter().map(|c| c.margins.top).fold(0.0, f64::max);
            let bottom = row.iter().map(|c| c.margins.bottom).fold(0.0, f64::max);
            let height = cell_h.max(top + bottom + 0.55 * cell_h);
            for (cell, panel) in row.iter_mut().zip(panels) {
                (cell.top, cell.frame.top, cell.frame.bottom) = (y, y + top, y + height - bottom);
                cell.reference_labels(panel);
            }
            y += height + GUTTER / 2.0;
        }
        let size = (total_w.ceil(), (y + EDGE / 2.0).ceil());
        Ok(Layout { size, title, caption, legend, palette: Palette::new(figure), panels: cells })
    }
}

/// The entries of the legend in rows, `y` moved below them.
fn legend(figure: &Figure, y: &mut f64, text_w: f64) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let marks = figure.panels.iter().flat_map(|p| &p.marks);
    for mark in marks.filter(|m| !m.name().is_empty()) {
        let name = mark.name();
        let i = entries.iter().position(|e| e.name == name).unwrap_or_else(|| {
            let lines = wrap(name, LABEL, false, text_w - SAMPLE - SAMPLE_GAP, true);
            let (line, at) = (None, (0.0, 0.0));
            entries.push(Entry {
                name: name.into(),
                lines,
                at,
                line,
                band: false,
                marker: false,
                dot: false,
                bar: false,
            });
            entries.len() - 1
        });
        let entry = &mut entries[i];
        match mark {
            Mark::Line { style, .. } => entry.line = entry.line.or(Some(*style)),
            Mark::Band { .. } => entry.band = true,
            Mark::Points { .. } | Mark::Intervals { .. } | Mark::Spans { .. } => entry.marker = true,
            Mark::Dots { .. } => entry.dot = true,
            _ => entry.bar = true,
        }
    }
    if entries.is_empty() {
        return entries;
    }
    *y += 6.0;
    let (mut x, mut tallest) = (0.0, 1);
    for entry in &mut entries {
        let text = entry.lines.iter().map(|l| width(l, LABEL, false)).fold(0.0, f64::max);
        let w = SAMPLE + SAMPLE_GAP + text;
        if x > 0.0 && x + w > text_w {
            *y += tallest as f64 * LABEL * LEADING + 2.0;
            (x, tallest) = (0.0, 1);
        }
        entry.at = (EDGE + x, *y + LABEL * LEADING / 2.0);
        tallest = tallest.max(entry.lines.len());
        x += w + 20.0;
    }
    *y += tallest as f64 * LABEL * LEADING + 8.0;
    entries
}

impl Cell {
    /// Widths that decide the left and right margins.
    fn sides(panel: &Panel, cell_w: f64, cell_h: f64) -> anyhow::Result<Self> {
        let domains = domains(panel)?;
        // The height of the frame is not known yet; the number of ticks follows from this guess.
        let guess = cell_h * 0.7;
        let y_ticks = vertical_labels(panel, &domains.y, guess, cell_w * 0.3);
        let y_label = wrap(&panel.y.label, LABEL, false, guess * 0.95, true);
        let labelled = panel.marks.iter().filter_map(|m| match m {
            Mark::HLine { y, label } if domains.y.has(*y) => Some(label),
            _ => None,
        });
        let h_lines = labelled.flat_map(|l| wrap(l, NOTE, false, cell_w * 0.22, true));
        let h_width = h_lines.map(|l| width(&l, NOTE, false) + 6.0).fold(0.0, f64::max);
        let mut colours = colours(panel, guess)?;
        let mut right = 6.0 + h_width;
        if let Some(c) = &mut colours {
            let ticks = c.ticks.major.iter().map(|t| width(&t.1, TICK, false)).fold(0.0, f64::max);
            let label = if c.label.is_empty() { 0.0 } else { LABEL * LEADING + 2.0 };
            (c.left, c.right) = (h_width + BAR_GAP, h_width + BAR_GAP + BAR);
            right = c.right + TICK_GAP + TICK_LENGTH + ticks + label + 8.0;
        }
        let mut left = TICK_LENGTH + TICK_GAP + y_ticks.depth;
        if !y_label.is_empty() {
            left += 6.0 + y_label.len() as f64 * LABEL * LEADING;
        }
        if !panel.y.groups.is_empty() {
            left += GROUP_GAP + LABEL * LEADING;
        }
        // Half of a label at the end of the horizontal axis.
        let margins = Margins { left: left.max(14.0), right: right.max(18.0), ..Margins::default() };
        let values = if domains.skipped == 1 { "value" } else { "values" };
        let note =
            (domains.skipped > 0).then(|| format!("{} {values} ≤ 0 not shown (log axis)", domains.skipped));
        Ok(Cell {
            domains,
            top: 0.0,
            frame: Frame::default(),
            title: Vec::new(),
            note,
            x_label: Vec::new(),
            y_label,
            x_ticks: Labels::level(Vec::new()),
            y_ticks,
            h_labels: Vec::new(),
            v_labels: Vec::new(),
            colours,
            margins,
        })
    }

    /// Heights that decide the top and bottom margins, once the width is known.
    fn ends(&mut self, panel: &Panel, start: f64) {
        let room = self.frame.width();
        self.title = wrap(&panel.title, PANEL_TITLE, true, room + self.margins.right.min(18.0), true);
        self.x_label = wrap(&panel.x.label, LABEL, false, room, true);
        self.x_ticks = horizontal_labels(panel, &self.domains.x, room);
        self.v_labels = self.vline_labels(panel, start);
        let rows = self.v_labels.iter().map(|l| l.2 + 1).max().unwrap_or(0) as f64;
        let note = if self.note.is_some() { NOTE * LEADING } else { 0.0 };
        self.margins.top =
            self.title.len() as f64 * PANEL_TITLE * LEADING + note + rows * NOTE * LEADING + 6.0;
        self.margins.bottom = TICK_LENGTH + TICK_GAP + self.x_ticks.depth + 4.0;
        if !self.x_label.is_empty() {
            self.margins.bottom += 4.0 + self.x_label.len() as f64 * LABEL * LEADING;
        }
        if let Some(c) = &mut self.colours {
            (c.left, c.right) = (c.left + self.frame.right, c.right + self.frame.right);
        }
    }

    /// Labels above the frame, in as many rows as keep them apart.
    fn vline_labels(&self, panel: &Panel, start: f64) -> Vec<(f64, f64, usize, String)> {
        let mut placed: Vec<(f64, f64, usize, String)> = Vec::new();
        for mark in &panel.marks {
            let Mark::VLine { x, label } = mark else { continue };
            if label.is_empty() || !self.domains.x.has(*x) || !(0.0..=1.0).contains(&self.domains.x.place(*x))
            {
                continue;
            }
            let (line, half) = (self.px(*x), width(label, NOTE, false) / 2.0);
            let (least, most) = (start + half, self.frame.right + self.margins.right - half);
            let middle = line.min(most).max(least);
            let free = |row: usize| {
                placed
                    .iter()
                    .filter(|p| p.2 == row)
                    .all(|p| (p.1 - middle).abs() > half + width(&p.3, NOTE, false) / 2.0 + 8.0)
            };
            let row = (0..).find(|&r| free(r)).unwrap_or(0);
            placed.push((line, middle, row, label.clone()));
        }
        placed
    }

    /// Labels right of the frame, moved apart vertically.
    fn reference_labels(&mut self, panel: &Panel) {
        let mut labels: Vec<(f64, f64, Vec<String>)> = Vec::new();
        let cell_w = self.frame.width() / 0.6;
        for mark in &panel.marks {
            let Mark::HLine { y, label } = mark else { continue };
            if label.is_empty() || !self.domains.y.has(*y) || !(0.0..=1.0).contains(&self.domains.y.place(*y))
            {
                continue;
            }
            let room = (self.margins.right.max(cell_w * 0.1) - 12.0).max(40.0);
            let lines = wrap(label, NOTE, false, room, true);
            let at = self.py(*y);
            labels.push((at, at - (lines.len() as f64 - 1.0) * NOTE * LEADING / 2.0, lines));
        }
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let line = NOTE * LEADING;
        let mut free = f64::NEG_INFINITY;
        for l in &mut labels {
            l.1 = l.1.max(free);
            free = l.1 + l.2.len() as f64 * line;
        }
        // The lowest must not leave the frame: push back up.
        let mut limit = self.frame.bottom + line;
        for l in labels.iter_mut().rev() {
            let height = l.2.len() as f64 * line;
            l.1 = l.1.min(limit - height);
            limit = l.1;
        }
        self.h_labels = labels;
    }
}
