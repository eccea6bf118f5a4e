//! Colours: a categorical palette and two colour maps, all readable with colour-vision deficiency.

use super::{Figure, Mark, Style};

/// Red, green, blue.
pub(super) type Rgb = (u8, u8, u8);

pub(super) const INK: Rgb = (34, 34, 34);
pub(super) const MUTED: Rgb = (92, 92, 92);
pub(super) const REFERENCE: Rgb = (118, 118, 118);
pub(super) const GRID: Rgb = (230, 230, 230);
pub(super) const MISSING: Rgb = (214, 214, 214);
pub(super) const WHITE: Rgb = (255, 255, 255);

/// Okabe & Ito (2008) without yellow, which is too faint on white; the most distinct first.
const SERIES: [Rgb; 7] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (34, 34, 34),
];

/// The look of the series of one name: a colour and, after seven names, another variant of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) colour: Rgb,
    /// 0, 1 or 2: the marker, and the stroke where the mark asks for a solid one.
    pub(super) variant: usize,
}

impl Look {
    fn nth(index: usize) -> Self {
        Look { colour: SERIES[index % SERIES.len()], variant: (index / SERIES.len()) % 3 }
    }
    pub(super) fn stroke(self, asked: Style) -> Style {
        match (asked, self.variant) {
            (Style::Solid, 1) => Style::Dashed,
            (Style::Solid, 2) => Style::Dotted,
            _ => asked,
        }
    }
    /// The colour of a filled bar: lighter for later variants.
    pub(super) fn fill(self) -> Rgb {
        mix(self.colour, WHITE, [0.0, 0.45, 0.72][self.variant])
    }
}

/// The names of a figure in the order in which they take colours.
pub(super) struct Palette(Vec<String>);

impl Palette {
    pub(super) fn new(figure: &Figure) -> Self {
        let mut names = Vec::<String>::new();
        let is_coloured = |m: &&Mark| super::scale::is_series(m) && !matches!(m, Mark::Dots { .. });
        let used = figure.panels.iter().flat_map(|p| &p.marks).filter(is_coloured);
        for name in figure.names.iter().map(String::as_str).chain(used.map(|m| m.name())) {
            if !names.iter().any(|n| n == name) {
                names.push(name.into());
            }
        }
        Palette(names)
    }
    pub(super) fn look(&self, name: &str) -> Look {
        Look::nth(self.0.iter().position(|n| n == name).unwrap_or(0))
    }
}

/// `share` of the way from `a` to `b`.
pub(super) fn mix(a: Rgb, b: Rgb, share: f64) -> Rgb {
    let one = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    (one(a.0, b.0), one(a.1, b.1), one(a.2, b.2))
}

/// Nine values of the viridis map (van der Walt & Smith 2015).
const SEQUENTIAL: [Rgb; 9] = [
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
];

/// Seven values of ColorBrewer's RdBu, blue first.
const DIVERGING: [Rgb; 7] = [
    (33, 102, 172),
    (103, 169, 207),
    (209, 229, 240),
    (250, 250, 250),
    (253, 219, 199),
    (239, 138, 98),
    (178, 24, 43),
];

/// The colour at `t` in 0..=1.
pub(super) fn map_colour(t: f64, diverging: bool) -> Rgb {
    let stops: &[Rgb] = if diverging { &DIVERGING } else { &SEQUENTIAL };
    let at = t.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let i = (at.floor() as usize).min(stops.len() - 2);
    mix(stops[i], stops[i + 1], at - i as f64)
}

/// Black or white, whichever has the larger WCAG contrast ratio on `ground`.
pub(super) fn contrast(ground: Rgb) -> Rgb {
    let linear = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    let luminance = 0.2126 * linear(ground.0) + 0.7152 * linear(ground.1) + 0.0722 * linear(ground.2);
    // (1.05)/(L + 0.05) > (L + 0.05)/0.05
    if luminance < 0.179 { WHITE } else { INK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_names_look_different() {
        let looks: Vec<Look> = (0..20).map(Look::nth).collect();
        for (i, a) in looks.iter().enumerate() {
            assert!(looks[..i].iter().all(|b| a != b));
        }
    }

    #[test]
    fn text_contrasts_with_its_ground() {
        assert_eq!(contrast((68, 1, 84)), WHITE);
        assert_eq!(contrast((253, 231, 37)), INK);
        assert_eq!(map_colour(0.5, true), (250, 250, 250));
        assert_eq!(map_colour(-3.0, false), SEQUENTIAL[0]);
        assert_eq!(map_colour(9.0, false), SEQUENTIAL[8]);
    }
}
