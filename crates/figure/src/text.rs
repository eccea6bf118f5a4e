//! Widths of texts, and their breaks into lines.

use ab_glyph::{Font, FontRef, ScaleFont};
use std::sync::LazyLock;

/// The compiled-in faces: regular, bold.
pub(super) fn face(bold: bool) -> &'static FontRef<'static> {
    static FACES: LazyLock<[FontRef; 2]> = LazyLock::new(|| {
        let regular: &'static [u8] = include_bytes!("../assets/DejaVuSans.ttf");
        let bold: &'static [u8] = include_bytes!("../assets/DejaVuSans-Bold.ttf");
        [regular, bold].map(|bytes| FontRef::try_from_slice(bytes).expect("the compiled-in font is a font"))
    });
    &FACES[usize::from(bold)]
}

/// Ascent minus descent of DejaVu Sans per em: ab_glyph counts sizes in these.
pub(super) fn face_height(bold: bool) -> f64 {
    let face = face(bold);
    f64::from(face.height_unscaled()) / face.units_per_em().map_or(1.0, f64::from)
}

/// The width of a text in logical pixels.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let face = face(bold).as_scaled((size * face_height(bold)) as f32);
    let (mut sum, mut last) = (0.0, None);
    for c in text.chars() {
        let glyph = face.glyph_id(c);
        sum += last.map_or(0.0, |l| face.kern(l, glyph)) + face.h_advance(glyph);
        last = Some(glyph);
    }
    f64::from(sum)
}

/// Breaks a text into lines of at most `max` logical pixels: at spaces, else after `-_/,+=(`, and in
/// the middle of a word only when `hard`. A line that cannot be broken is longer than `max`.
pub(super) fn wrap(text: &str, size: f64, bold: bool, max: f64, hard: bool) -> Vec<String> {
    let fits = |s: &str| width(s.trim_end(), size, bold) <= max;
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_inclusive(' ') {
            if fits(&(line.clone() + word)) {
                line += word;
                continue;
            }
            if fits(word) {
                lines.push(std::mem::replace(&mut line, word.into()));
                continue;
            }
            let soft = |c: char| "-_/,+=)".contains(c);
            for piece in word.split_inclusive(soft) {
                let pieces: Vec<String> = if hard && !fits(piece) {
                    piece.chars().map(String::from).collect()
                } else {
                    vec![piece.into()]
                };
                for piece in pieces {
                    if !line.is_empty() && !fits(&(line.clone() + &piece)) {
                        lines.push(std::mem::take(&mut line));
                    }
                    line += &piece;
                }
            }
        }
        lines.push(line);
    }
    lines.into_iter().map(|l| l.trim_end().to_string()).filter(|l| !l.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_measured_with_the_compiled_in_face() {
        // Advance of "0" in DejaVu Sans: 1303 of 2048 units.
        let zero = width("0", 100.0, false);
        assert!((zero - 63.6).abs() < 0.2, "{zero}");
        assert!(width("λεγθ", 12.0, false) > 20.0);
        assert!(width("mm", 12.0, true) > width("mm", 12.0, false));
    }

    #[test]
    fn wrapping_keeps_every_word() {
        let text = "one two three four five six-seven_eight";
        let lines = wrap(text, 12.0, false, 60.0, false);
        assert!(lines.len() > 2);
        assert!(lines.iter().all(|l| width(l, 12.0, false) <= 60.0), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        assert!(wrap(&"m".repeat(50), 12.0, false, 60.0, true).len() > 5);
        assert!(wrap("", 12.0, false, 60.0, true).is_empty());
    }
}
