//! Figures, described as data and drawn in one place.
//!
//! A caller says *what* is shown (series, intervals, heat maps, reference lines) and nothing
//! about pixels; [`Figure::to_svg`] and [`Figure::to_png`] draw the same description twice. No system
//! library and no system font is used: the DejaVu Sans faces in `assets/` are compiled in.
//!
//! Rules that hold for every figure:
//! - one name has one colour in all panels, and one legend above the panels explains all names;
//! - non-finite values are skipped (a line is interrupted there), never drawn and never a panic;
//! - a log axis skips values that are not positive and says under the panel title how many;
//! - a panel without any value to draw says "no data";
//! - equal descriptions give equal bytes.
//!
//! ```text
//! Figure::new("λ = 0.95 weighs early tokens least")
//!     .caption("closed form; T = 64 tokens")
//!     .panel(
//!         Panel::new("weights").x("token position t").y(Axis::new("weight").log())
//!             .line("recent", points).hline(1.0, "uniform"),
//!     )
//!     .to_svg()?
//! ```

mod bitmap;
mod canvas;
mod colours;
mod labels;
mod layout;
mod paint;
mod palette;
mod scale;
mod sizes;
mod text;

/// A figure: a finding, the method in a line, and panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The finding, as a sentence; wraps when long.
    pub title: String,
    /// Below the title: method, units, number of runs, what the intervals are.
    pub caption: String,
    /// The panels, filled row by row.
    pub panels: Vec<Panel>,
    /// Panels per row (0 counts as 1).
    pub columns: usize,
    /// Width and height of a panel with its axes and title, in logical pixels. A row grows when its
    /// labels would leave too little room for the data.
    pub panel_size: (u32, u32),
    /// Names that take the first colours in this order, so that several figures agree on them.
    pub names: Vec<String>,
}

/// One pair of axes with marks on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// A short title above the axes; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The marks, in this order within a kind (bands lie below bars, bars below lines, and so on).
    pub marks: Vec<Mark>,
}

/// The map of an axis from values to positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences, equal lengths.
    #[default]
    Linear,
    /// Equal ratios, equal lengths; only positive values.
    Log,
}

/// An axis: what it measures and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// Linear or logarithmic; ignored when `categories` is not empty.
    pub scale: Scale,
    /// The values at both ends; `None` takes the range of the data with a little room.
    pub range: Option<(f64, f64)>,
    /// Names of the positions 0, 1, 2, …; empty for a numeric axis. A vertical axis with categories
    /// counts from the top.
    pub categories: Vec<String>,
    /// Names of runs of positions with the number of positions in each, in order: a vertical axis with categories shows them
    /// next to the names, with a rule between neighbours. Empty for none.
    pub groups: Vec<(String, usize)>,
}

/// The stroke of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Unbroken.
    #[default]
    Solid,
    /// Dashes.
    Dashed,
    /// Dots.
    Dotted,
}

/// Something drawn in a panel. A mark with an empty name has no legend entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A line through points, interrupted where a value is not finite.
    Line {
        /// The series.
        name: String,
        /// (x, y).
        points: Vec<(f64, f64)>,
        /// The stroke.
        style: Style,
    },
    /// A shaded region between two curves.
    Band {
        /// The series it belongs to.
        name: String,
        /// (x, low, high).
        points: Vec<(f64, f64, f64)>,
    },
    /// Separate points.
    Points {
        /// The series.
        name: String,
        /// (x, y).
        points: Vec<(f64, f64)>,
    },
    /// Single observations of a summary: small grey dots.
    Dots {
        /// The series.
        name: String,
        /// (x, y).
        points: Vec<(f64, f64)>,
    },
    /// Dots with vertical error bars. Several series are moved aside by a few pixels, so that equal
    /// x stay readable; lines and bands of the same name are moved with them.
    Intervals {
        /// The series.
        name: String,
        /// (x, low, mid, high).
        points: Vec<(f64, f64, f64, f64)>,
    },
    /// Dots with horizontal error bars, for a vertical axis of names.
    Spans {
        /// The series.
        name: String,
        /// (y, low, mid, high).
        points: Vec<(f64, f64, f64, f64)>,
    },
    /// Bars from zero; several series stand side by side.
    Bars {
        /// The series.
        name: String,
        /// (x, height).
        values: Vec<(f64, f64)>,
        /// (low, high) for each value; empty for no error bars.
        intervals: Vec<(f64, f64)>,
    },
    /// A matrix as colours with a colour bar. Cell (i, j) is centred at y = i (counted from the top)
    /// and x = j; the axes' `categories` name rows and columns.
    HeatMap {
        /// Rows of values; a value that is not finite is a grey cell.
        values: Vec<Vec<f64>>,
        /// Write the values into the cells; left out where they would be too small to read.
        annotate: bool,
        /// Values at both ends of the colours; `None` takes the data's.
        range: Option<(f64, f64)>,
        /// Blue through white at zero to red, instead of dark to bright. White stays at zero whatever the range; the end that lies
        /// farther from it has the full colour.
        diverging: bool,
        /// The quantity of the colour.
        label: String,
    },
    /// A horizontal reference line, labelled in the margin at the right.
    HLine {
        /// The position.
        y: f64,
        /// May be empty.
        label: String,
    },
    /// A vertical reference line, labelled above the axes.
    VLine {
        /// The position.
        x: f64,
        /// May be empty.
        label: String,
    },
}

impl Mark {
    /// The series name, empty for marks that have none.
    pub fn name(&self) -> &str {
        match self {
            Mark::Line { name, .. }
            | Mark::Band { name, .. }
            | Mark::Points { name, .. }
            | Mark::Dots { name, .. }
            | Mark::Intervals { name, .. }
            | Mark::Spans { name, .. }
            | Mark::Bars { name, .. } => name,
            Mark::HeatMap { .. } | Mark::HLine { .. } | Mark::VLine { .. } => "",
        }
    }
}

impl Figure {
    /// A figure without panels; its title says the finding.
    pub fn new(title: impl Into<String>) -> Self {
        Figure {
            title: title.into(),
            caption: String::new(),
            panels: Vec::new(),
            columns: 2,
            panel_size: (480, 330),
            names: Vec::new(),
        }
    }
    /// Sets the line below the title.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }
    /// Adds a panel.
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }
    /// Sets the number of panels per row (2 unless set).
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns;
        self
    }
    /// Sets the size of a panel in logical pixels (480 × 330 unless set).
    pub fn panel_size(mut self, width: u32, height: u32) -> Self {
        self.panel_size = (width, height);
        self
    }
    /// Gives these names the first colours, so that several figures agree on them.
    pub fn names<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// The figure as an SVG document with real text.
    ///
    /// # Errors
    /// When an axis or heat map asks for an impossible range (empty, reversed, not finite, or not
    /// positive on a log axis).
    pub fn to_svg(&self) -> anyhow::Result<String> {
        let layout = layout::Layout::new(self)?;
        canvas::svg(layout.size, |canvas| paint::figure(canvas, self, &layout))
    }

    /// The figure as PNG bytes, `scale` pixels per logical pixel (2 is sharp on any screen); the
    /// scale is lowered when the picture would be wider than 2400 pixels.
    ///
    /// # Errors
    /// The errors of [`Figure::to_svg`], or when `scale` is not positive and finite.
    pub fn to_png(&self, scale: f64) -> anyhow::Result<Vec<u8>> {
        anyhow::ensure!(scale.is_finite() && scale > 0.0, "the scale of a picture must be positive: {scale}");
        let layout = layout::Layout::new(self)?;
        canvas::png(layout.size, scale, |canvas| paint::figure(canvas, self, &layout))
    }
}

impl Panel {
    /// A panel without marks.
    pub fn new(title: impl Into<String>) -> Self {
        Panel { title: title.into(), ..Panel::default() }
    }
    /// Sets the horizontal axis; a plain text is the label of a linear axis.
    pub fn x(mut self, axis: impl Into<Axis>) -> Self {
        self.x = axis.into();
        self
    }
    /// Sets the vertical axis; a plain text is the label of a linear axis.
    pub fn y(mut self, axis: impl Into<Axis>) -> Self {
        self.y = axis.into();
        self
    }
    /// Adds any mark.
    pub fn mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }
    /// Adds a solid line.
    pub fn line(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.styled_line(name, Style::Solid, points)
    }
    /// Adds a line of the given stroke.
    pub fn styled_line(
        self,
        name: impl Into<String>,
        style: Style,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.mark(Mark::Line { name: name.into(), points: points.into_iter().collect(), style })
    }
    /// Adds a shaded region from (x, low, high).
    pub fn band(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        self.mark(Mark::Band { name: name.into(), points: points.into_iter().collect() })
    }
    /// Adds separate points.
    pub fn points(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.mark(Mark::Points { name: name.into(), points: points.into_iter().collect() })
    }
    /// Adds single observations as grey dots.
    pub fn dots(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.mark(Mark::Dots { name: name.into(), points: points.into_iter().collect() })
    }
    /// Adds dots with error bars from (x, low, mid, high).
    pub fn intervals(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64, f64)>,
    ) -> Self {
        self.mark(Mark::Intervals { name: name.into(), points: points.into_iter().collect() })
    }
    /// Adds dots with horizontal error bars from (y, low, mid, high).
    pub fn spans(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64, f64)>,
    ) -> Self {
        self.mark(Mark::Spans { name: name.into(), points: points.into_iter().collect() })
    }
    /// Adds bars from (x, height).
    pub fn bars(self, name: impl Into<String>, values: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let values = values.into_iter().collect();
        self.mark(Mark::Bars { name: name.into(), values, intervals: Vec::new() })
    }
    /// Adds bars with error bars from (x, low, height, high).
    pub fn bars_with_intervals(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64, f64)>,
    ) -> Self {
        let (values, intervals) = points.into_iter().map(|(x, low, y, high)| ((x, y), (low, high))).unzip();
        self.mark(Mark::Bars { name: name.into(), values, intervals })
    }
    /// Adds a horizontal reference line.
    pub fn hline(self, y: f64, label: impl Into<String>) -> Self {
        self.mark(Mark::HLine { y, label: label.into() })
    }
    /// Adds a vertical reference line.
    pub fn vline(self, x: f64, label: impl Into<String>) -> Self {
        self.mark(Mark::VLine { x, label: label.into() })
    }
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>) -> Self {
        Axis { label: label.into(), ..Axis::default() }
    }
    /// Makes the axis logarithmic.
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }
    /// Fixes the values at both ends.
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
    /// Names the positions 0, 1, 2, ….
    pub fn categories<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.categories = names.into_iter().map(Into::into).collect();
        self
    }
    /// Gathers the positions of a vertical axis with categories: a name and how many of them, from the top.
    pub fn groups<S: Into<String>>(mut self, groups: impl IntoIterator<Item = (S, usize)>) -> Self {
        self.groups = groups.into_iter().map(|(name, n)| (name.into(), n)).collect();
        self
    }
}

impl From<&str> for Axis {
    fn from(label: &str) -> Self {
        Axis::new(label)
    }
}

impl From<String> for Axis {
    fn from(label: String) -> Self {
        Axis::new(label)
    }
}

#[cfg(test)]
mod tests;
