//! Sizes of type and distances of a figure, in logical pixels.

pub(super) const TITLE: f64 = 17.0;
pub(super) const CAPTION: f64 = 12.0;
pub(super) const PANEL_TITLE: f64 = 13.0;
pub(super) const LABEL: f64 = 12.0;
pub(super) const TICK: f64 = 11.0;
pub(super) const NOTE: f64 = 10.5;
/// Line height per size of type.
pub(super) const LEADING: f64 = 1.3;
/// Around the whole figure.
pub(super) const EDGE: f64 = 14.0;
/// Between neighbouring panels.
pub(super) const GUTTER: f64 = 16.0;
/// The sample left of a name in the legend, and the space before the text.
pub(super) const SAMPLE: f64 = 26.0;
pub(super) const SAMPLE_GAP: f64 = 6.0;
/// Length of ticks, and the space between a tick and its label.
pub(super) const TICK_LENGTH: f64 = 4.0;
pub(super) const TICK_GAP: f64 = 4.0;
/// Between the names of positions and those of their groups.
pub(super) const GROUP_GAP: f64 = 8.0;
/// The colour bar: space before it and its breadth.
pub(super) const BAR_GAP: f64 = 12.0;
pub(super) const BAR: f64 = 12.0;
