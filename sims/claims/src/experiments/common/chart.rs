//! Panels of typed rows: what is drawn against what, by which name and in which panel, said once.

use super::grouped;
use crate::figure::{Axis, Figure, Panel, Style};

/// Panels, each with its rows.
pub(crate) struct Chart<R>(Vec<(Panel, Vec<R>)>);

/// One panel of some rows.
pub(crate) fn chart<R>(rows: impl IntoIterator<Item = R>) -> Chart<R> {
    Chart(vec![(Panel::default(), rows.into_iter().collect())])
}

impl<R> Chart<R> {
    /// A panel per title, of the rows that have it.
    pub(crate) fn panels<T: ToString + PartialEq>(self, title: impl Fn(&R) -> T) -> Self {
        let of_panel =
            |(_, rows)| grouped(rows, &title).into_iter().map(|(t, own)| (Panel::new(t.to_string()), own));
        Chart(self.0.into_iter().flat_map(of_panel).collect())
    }

    /// Changes every panel, which knows its rows.
    pub(crate) fn each(self, change: impl Fn(Panel, &[R]) -> Panel) -> Self {
        let changed = |(panel, rows): (Panel, Vec<R>)| (change(panel, &rows), rows);
        Chart(self.0.into_iter().map(changed).collect())
    }

    pub(crate) fn x(self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into();
        self.each(|panel, _| panel.x(axis.clone()))
    }

    pub(crate) fn y(self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into();
        self.each(|panel, _| panel.y(axis.clone()))
    }

    /// A series per name in every panel, as `draw` adds it.
    pub(crate) fn series<N: ToString + PartialEq, P>(
        self,
        name: impl Fn(&R) -> N,
        point: impl Fn(&R) -> P,
        draw: impl Fn(Panel, String, Vec<P>) -> Panel,
    ) -> Self {
        self.each(|panel, rows| {
            let named = grouped(rows, |row| name(row)).into_iter();
            named.fold(panel, |panel, (name, own)| {
                draw(panel, name.to_string(), own.into_iter().map(&point).collect())
            })
        })
    }

    /// Solid lines.
    pub(crate) fn lines<N: ToString + PartialEq>(
        self,
        name: impl Fn(&R) -> N,
        point: impl Fn(&R) -> (f64, f64),
    ) -> Self {
        self.series(name, point, Panel::line)
    }

    /// Lines, dashed where the name says so.
    pub(crate) fn dashed<N: ToString + PartialEq>(
        self,
        is_dashed: fn(&str) -> bool,
        name: impl Fn(&R) -> N,
        point: impl Fn(&R) -> (f64, f64),
    ) -> Self {
        self.series(name, point, |panel, name, points| {
            let style = if is_dashed(&name) { Style::Dashed } else { Style::Solid };
            panel.styled_line(name, style, points)
        })
    }

    /// Separate points.
    pub(crate) fn points<N: ToString + PartialEq>(
        self,
        name: impl Fn(&R) -> N,
        point: impl Fn(&R) -> (f64, f64),
    ) -> Self {
        self.series(name, point, Panel::points)
    }

    /// A horizontal line in every panel.
    pub(crate) fn hline(self, y: f64, label: &str) -> Self {
        self.each(|panel, _| panel.hline(y, label))
    }

    /// Adds the panels to a figure.
    pub(crate) fn on(self, figure: Figure) -> Figure {
        self.0.into_iter().map(|(panel, _)| panel).fold(figure, Figure::panel)
    }
}
