//! Characters of other widths and scripts that stand for digits, signs and letters of plain text.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The first of ten digits in the order of their values, for scripts whose digits are read as decimal ones.
const ZEROS: [char; 8] = ['٠', '۰', '०', '০', '੦', '૦', '௦', '๐'];

pub(super) fn plain(c: char) -> char {
    let n = u32::from(c);
    match c {
        '\u{3000}' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\u{2007}' => ' ',
        '٫' => '.',
        '٬' => ',',
        // Arrows and pictures that decorate a text.
        '\u{2794}'..='\u{27be}' | '\u{2b00}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}' => ' ',
        '【' => '[',
        '】' => ']',
        // Characters of double width, and mathematical letters and digits: bold, italic and so on.
        '！'..='～' | '\u{1d400}'..='\u{1d7ff}' => std::iter::once(c).nfkc().next().unwrap_or(c),
        _ => {
            let digit = ZEROS.iter().find_map(|zero| n.checked_sub(u32::from(*zero)).filter(|d| *d < 10));
            digit.and_then(|d| char::from_digit(d, 10)).unwrap_or(c)
        }
    }
}

/// The text in Unicode's normal form C, in which a letter and its accent are one character, in plain spelling.
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) && text.chars().all(|c| plain(c) == c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().map(plain).collect())
}
