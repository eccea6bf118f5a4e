//! Shapes and text in logical pixels on the plotters backends.

use super::Style;
use super::bitmap::{OVERSAMPLE, encode, shrink};
use super::palette::Rgb;
use super::text::{face, face_height, width};
use ab_glyph::{Font, ScaleFont};
use anyhow::anyhow;
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBColor, ShapeStyle, TextStyle,
};

/// A list of families for SVG viewers; widths are those of the first, the compiled-in one.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
/// Steps per logical pixel in an SVG, where coordinates are whole numbers.
const SVG_STEPS: f64 = 10.0;
const MAX_PNG_WIDTH: f64 = 2400.0;
/// Half the height of capitals and digits, per em.
const HALF_CAPITAL: f64 = 0.3645;

/// The place of a text's x in it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Size in logical pixels, weight and colour of a text.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) colour: Rgb,
}

/// A marker at a point.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
}

/// A surface in logical pixels, origin at the top left.
pub(super) struct Canvas<'a> {
    surface: Surface<'a>,
    /// Backend pixels per logical pixel.
    k: f64,
}

enum Surface<'a> {
    Svg(SVGBackend<'a>),
    Bitmap(BitMapBackend<'a>),
}

/// Runs a drawing call on whichever backend there is.
macro_rules! on {
    ($canvas:expr, $backend:ident => $call:expr) => {
        match &mut $canvas.surface {
            Surface::Svg($backend) => $call.map_err(|e| anyhow!("drawing the SVG: {e}")),
            Surface::Bitmap($backend) => $call.map_err(|e| anyhow!("drawing the bitmap: {e}")),
        }
    };
}

fn ink(colour: Rgb, alpha: f64, stroke: u32) -> ShapeStyle {
    let color = RGBColor(colour.0, colour.1, colour.2).mix(alpha);
    ShapeStyle { color, filled: true, stroke_width: stroke }
}

impl Canvas<'_> {
    fn at(&self, (x, y): (f64, f64)) -> (i32, i32) {
        ((x * self.k).round() as i32, (y * self.k).round() as i32)
    }
    fn is_bitmap(&self) -> bool {
        matches!(self.surface, Surface::Bitmap(_))
    }

    /// A filled rectangle between two corners (left, top) and (right, bottom).
    pub(super) fn rect(
        &mut self,
        a: (f64, f64),
        b: (f64, f64),
        colour: Rgb,
        alpha: f64,
    ) -> anyhow::Result<()> {
        let (a, b) = (self.at(a), self.at(b));
        let (mut right, mut bottom) = (b.0.max(a.0 + 1), b.1.max(a.1 + 1));
        if self.is_bitmap() {
            // This backend includes the last row and column.
            (right, bottom) = (right - 1, bottom - 1);
        }
        on!(self, d => d.draw_rect(a, (right, bottom), &ink(colour, alpha, 1), true))
    }

    /// A filled polygon.
    pub(super) fn polygon(&mut self, points: &[(f64, f64)], colour: Rgb, alpha: f64) -> anyhow::Result<()> {
        let points: Vec<_> = points.iter().map(|&p| self.at(p)).collect();
        on!(self, d => d.fill_polygon(points.iter().copied(), &ink(colour, alpha, 1)))
    }

    /// The region between two curves with common x, ascending: (x, top, bottom).
    pub(super) fn ribbon(
        &mut self,
        points: &[(f64, f64, f64)],
        colour: Rgb,
        alpha: f64,
    ) -> anyhow::Result<()> {
        if !self.is_bitmap() {
            let top = points.iter().map(|&(x, y, _)| (x, y));
            let bottom = points.iter().rev().map(|&(x, _, y)| (x, y));
            return self.polygon(&top.chain(bottom).collect::<Vec<_>>(), colour, alpha);
        }
        // Column by column: no column twice, so that no seam shows through the transparency.
        let k = self.k;
        let mut next = i32::MIN;
        for pair in points.windows(2) {
            let ((x0, t0, b0), (x1, t1, b1)) = (pair[0], pair[1]);
            let first = ((x0 * k).ceil() as i32).max(next);
            for column in first..=(x1 * k).floor() as i32 {
                let s =
                    if x1 > x0 { ((f64::from(column) / k - x0) / (x1 - x0)).clamp(0.0, 1.0) } else { 0.0 };
                let (top, bottom) = ((t0 + s * (t1 - t0)) * k, (b0 + s * (b1 - b0)) * k);
                let (from, to) = ((column, top.round() as i32), (column, bottom.round() as i32));
                on!(self, d => d.draw_line(from, to, &ink(colour, alpha, 1)))?;
                next = column + 1;
            }
        }
        Ok(())
    }

    /// A straight horizontal or vertical line, crisp.
    pub(super) fn rule(
        &mut self,
        a: (f64, f64),
        b: (f64, f64),
        stroke: f64,
        colour: Rgb,
    ) -> anyhow::Result<()> {
        let h = stroke / 2.0;
        if a.1 == b.1 {
            self.rect((a.0.min(b.0), a.1 - h), (a.0.max(b.0), a.1 + h), colour, 1.0)
        } else {
            self.rect((a.0 - h, a.1.min(b.1)), (a.0 + h, a.1.max(b.1)), colour, 1.0)
        }
    }

    /// A line through points.
    pub(super) fn path(
        &mut self,
        points: &[(f64, f64)],
        stroke: f64,
        style: Style,
        colour: Rgb,
    ) -> anyhow::Result<()> {
        match style {
            Style::Solid => self.solid(points, stroke, colour),
            Style::Dashed => {
                dashes(points, &[6.5, 3.5]).iter().try_for_each(|d| self.solid(d, stroke, colour))
            }
            Style::Dotted => {
                dashes(points, &[1.8, 2.6]).iter().try_for_each(|d| self.solid(d, stroke, colour))
            }
        }
    }

    fn solid(&mut self, points: &[(f64, f64)], stroke: f64, colour: Rgb) -> anyhow::Result<()> {
        let pixels = (stroke * self.k).round().max(1.0);
        if !self.is_bitmap() {
            let points: Vec<_> = points.iter().map(|&p| self.at(p)).collect();
            return on!(self, d => d.draw_path(points.iter().copied(), &ink(colour, 1.0, pixels as u32)));
        }
        // The bitmap backend has no round joins: a rectangle per piece and a disc per corner.
        for (i, pair) in points.windows(2).enumerate() {
            let (a, b) = (pair[0], pair[1]);
            let (dx, dy) = (b.0 - a.0, b.1 - a.1);
            let length = dx.hypot(dy);
            if length > 1e-9 {
                let (nx, ny) = (-dy / length * stroke / 2.0, dx / length * stroke / 2.0);
                let corners =
                    [(a.0 + nx, a.1 + ny), (b.0 + nx, b.1 + ny), (b.0 - nx, b.1 - ny), (a.0 - nx, a.1 - ny)];
                self.polygon(&corners, colour, 1.0)?;
            }
            if i > 0 {
                let centre = self.at(a);
                on!(self, d => d.draw_circle(centre, (pixels / 2.0 - 0.5).max(1.0) as u32, &ink(colour, 1.0, 1), true))?;
            }
        }
        Ok(())
    }

    /// A marker of the given radius.
    pub(super) fn marker(
        &mut self,
        at: (f64, f64),
        radius: f64,
        shape: Shape,
        colour: Rgb,
        alpha: f64,
    ) -> anyhow::Result<()> {
        let (x, y) = at;
        match shape {
            Shape::Circle => {
                let (centre, r) = (self.at(at), (radius * self.k).round() as u32);
                on!(self, d => d.draw_circle(centre, r, &ink(colour, alpha, 1), true))
            }
            Shape::Square => {
                let r = radius * 0.9;
                self.rect((x - r, y - r), (x + r, y + r), colour, alpha)
            }
            Shape::Triangle => {
                let r = radius * 1.25;
                let corners = [(x, y - r), (x + 0.87 * r, y + r / 2.0), (x - 0.87 * r, y + r / 2.0)];
                self.polygon(&corners, colour, alpha)
            }
        }
    }

    /// A line of text whose capitals are vertically centred at y; with `upright`, turned to read from
    /// bottom to top around the same point.
    pub(super) fn text(
        &mut self,
        (x, y): (f64, f64),
        text: &str,
        pen: Pen,
        anchor: Anchor,
        upright: bool,
    ) -> anyhow::Result<()> {
        if self.is_bitmap() {
            return self.bitmap_text((x, y), text, pen, anchor, upright);
        }
        // This backend centres half the height of an x, and divides sizes by 1.24.
        let shift = (HALF_CAPITAL - 0.2735) * pen.size;
        let (x, y) = if upright { (x + shift, y) } else { (x, y + shift) };
        let transform = if upright { FontTransform::Rotate270 } else { FontTransform::None };
        let style = if pen.bold { FontStyle::Bold } else { FontStyle::Normal };
        let font =
            FontDesc::new(FontFamily::Name(FAMILY), pen.size * self.k * 1.24, style).transform(transform);
        let h_pos = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let colour = RGBColor(pen.colour.0, pen.colour.1, pen.colour.2);
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(h_pos, VPos::Center));
        let at = self.at((x, y));
        on!(self, d => d.draw_text(text, &style, at))
    }

    /// Text on a bitmap, glyph by glyph: the backend's own drops the space left of each glyph.
    fn bitmap_text(
        &mut self,
        at: (f64, f64),
        text: &str,
        pen: Pen,
        anchor: Anchor,
        upright: bool,
    ) -> anyhow::Result<()> {
        let (x, y) = self.at(at);
        let size = pen.size * self.k;
        let length = width(text, size, pen.bold);
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -length / 2.0,
            Anchor::End => -length,
        };
        let (mut along, base) = (start as f32, (HALF_CAPITAL * size).round() as f32);
        let face = face(pen.bold).as_scaled((size * face_height(pen.bold)) as f32);
        let mut last = None;
        for c in text.chars() {
            let id = face.glyph_id(c);
            along += last.map_or(0.0, |l| face.kern(l, id));
            last = Some(id);
            let glyph = id.with_scale_and_position(face.scale(), ab_glyph::point(along, base));
            along += face.h_advance(id);
            let Some(outline) = face.font.outline_glyph(glyph) else { continue };
            let corner = outline.px_bounds().min;
            let mut covered = Vec::new();
            outline.draw(|gx, gy, share| {
                covered.push((corner.x as i32 + gx as i32, corner.y as i32 + gy as i32, f64::from(share)));
            });
            for (gx, gy, share) in covered.into_iter().filter(|c| c.2 > 0.0) {
                let point = if upright { (x + gy, y - gx) } else { (x + gx, y + gy) };
                let colour = ink(pen.colour, share.min(1.0), 1).color.to_backend_color();
                on!(self, d => d.draw_pixel(point, colour))?;
            }
        }
        Ok(())
    }
}

/// Cuts a path into the "on" stretches of an on-off pattern of lengths.
fn dashes(points: &[(f64, f64)], pattern: &[f64; 2]) -> Vec<Vec<(f64, f64)>> {
    let mut out = Vec::new();
    let (mut on, mut left) = (true, pattern[0]);
    let mut current: Vec<(f64, f64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let (mut a, b) = (pair[0], pair[1]);
        loop {
            let length = (b.0 - a.0).hypot(b.1 - a.1);
            if length <= left {
                left -= length;
                if on {
                    current.push(b);
                }
                break;
            }
            let s = left / length;
            a = (a.0 + s * (b.0 - a.0), a.1 + s * (b.1 - a.1));
            if on {
                current.push(a);
                out.push(std::mem::take(&mut current));
            } else {
                current = vec![a];
            }
            on = !on;
            left = pattern[usize::from(!on)];
        }
    }
    if current.len() > 1 {
        out.push(current);
    }
    out
}

/// Draws on an SVG of the given logical size.
pub(super) fn svg(
    (w, h): (f64, f64),
    draw: impl FnOnce(&mut Canvas) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let size = ((w * SVG_STEPS).round() as u32, (h * SVG_STEPS).round() as u32);
    let mut text = String::new();
    let mut canvas = Canvas { surface: Surface::Svg(SVGBackend::with_string(&mut text, size)), k: SVG_STEPS };
    canvas.rect((0.0, 0.0), (w, h), super::palette::WHITE, 1.0)?;
    draw(&mut canvas)?;
    on!(canvas, d => d.present())?;
    drop(canvas);
    // The coordinates are in steps; the picture is shown in logical pixels.
    let fine = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    let shown = format!("width=\"{w:.0}\" height=\"{h:.0}\" stroke-linejoin=\"round\"");
    Ok(text.replacen(&fine, &shown, 1))
}

/// Draws on a bitmap of the given logical size and encodes it.
pub(super) fn png(
    (w, h): (f64, f64),
    scale: f64,
    draw: impl FnOnce(&mut Canvas) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<u8>> {
    let scale = scale.min(MAX_PNG_WIDTH / w);
    let (width, height) = ((w * scale).round() as u32, (h * scale).round() as u32);
    let large = (width * OVERSAMPLE, height * OVERSAMPLE);
    let mut pixels = vec![255u8; large.0 as usize * large.1 as usize * 3];
    let surface = Surface::Bitmap(BitMapBackend::with_buffer(&mut pixels, large));
    let mut canvas = Canvas { surface, k: scale * f64::from(OVERSAMPLE) };
    draw(&mut canvas)?;
    on!(canvas, d => d.present())?;
    drop(canvas);
    encode(&shrink(&pixels, width as usize), width, height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_cover_their_share() {
        let on: f64 = dashes(&[(0.0, 0.0), (30.0, 0.0), (100.0, 0.0)], &[6.0, 4.0])
            .iter()
            .map(|d| d[d.len() - 1].0 - d[0].0)
            .sum();
        assert!((on - 60.0).abs() < 1e-9);
    }
}
