//! Characters of other widths and scripts that stand for digits, signs and letters of plain text.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The first of ten digits in the order of their values, for scripts whose digits are read as decimal ones.
const ZEROS: [char; 8] = ['٠', '۰', '०', '০', '੦', '૦', '௦', '๐'];

pub(super) fn plain(c: char) -> char {
    let n = u32::from(c);
    let offset = |from: u32, to: u32| char::from_u32(n - from + to).unwrap_or(c);
    match c {
        '！'..='～' => offset(0xff01, 0x21),
        '\u{3000}' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\u{2007}' => ' ',
        '٫' => '.',
        '٬' => ',',
        // Arrows and pictures that decorate a text.
        '\u{2794}'..='\u{27be}' | '\u{2b00}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}' => ' ',
        '【' => '[',
        '】' => ']',
        // Mathematical letters: bold, italic and so on, each 26 capitals and 26 small ones.
        '\u{1d400}'..='\u{1d6a3}' => {
            let at = (n - 0x1d400) % 52;
            char::from_u32(if at < 26 { 0x41 + at } else { 0x61 + at - 26 }).unwrap_or(c)
        }
        '\u{1d7ce}'..='\u{1d7ff}' => char::from_u32(0x30 + (n - 0x1d7ce) % 10).unwrap_or(c),
        _ => {
            let digit = ZEROS.iter().find_map(|zero| n.checked_sub(u32::from(*zero)).filter(|d| *d < 10));
            digit.and_then(|d| char::from_digit(d, 10)).unwrap_or(c)
        }
    }
}

/// The text in Unicode's normal form C, with such characters in plain spelling: a letter and its accent are one
/// character, whichever system wrote them.
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) && text.chars().all(|c| plain(c) == c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().map(plain).collect())
}
