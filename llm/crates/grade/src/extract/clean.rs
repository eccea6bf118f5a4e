//! The response without reasoning, drawings, markup, escapes and emphasis, each byte with its original place.

use std::ops::Range;

use crate::fold::plain;
use crate::words;

/// Openings and closings of what is no part of the text: drawings, annotations of a calculator, struck words.
const HIDDEN: [(&str, &str); 4] = [("[asy]", "[/asy]"), ("<asy>", "</asy>"), ("<<", ">>"), ("~~", "~~")];
/// Short names of tags that mark up text; longer ones are words.
const TAGS: &str = "b|i|s|u|p|br/|br /";
/// Longest tag.
const TAG: usize = 32;

/// A text made of parts of another.
#[derive(Debug, Default)]
pub(super) struct Clean {
    pub(super) text: String,
    /// For each byte of `text` the place of its character in the original.
    places: Vec<usize>,
}

impl Clean {
    fn push(&mut self, c: char, place: usize) {
        self.text.push(c);
        self.places.resize(self.text.len(), place);
    }

    /// The place in the original of a place in the clean text.
    pub(super) fn place_in(&self, original: &str, place: &Range<usize>) -> Range<usize> {
        let at = |byte: usize| self.places.get(byte).copied().unwrap_or(original.len());
        let last = place.end.checked_sub(1).map_or(0, at);
        let end = original[last..].chars().next().map_or(last, |c| last + c.len_utf8());
        at(place.start)..end.max(at(place.start))
    }
}

/// The text that answers, which begins at `from`: after the reasoning, in plain characters.
pub(super) fn cleaned(original: &str, from: usize) -> Clean {
    let text = &original[from..];
    let start = match text.rsplit_once("</think>") {
        Some((before, after)) if !after.trim().is_empty() => from + before.len() + "</think>".len(),
        // Reasoning that does not end holds no answer.
        None if text.contains("<think>") => original.len(),
        _ => from,
    };
    let single = has_doubled_backslashes(&original[start..]);
    let mut out = Clean::default();
    let mut at = start;
    while let Some(c) = original[at..].chars().next() {
        let rest = &original[at..];
        let read =
            hidden(rest).or_else(|| scale(rest, at, &mut out)).or_else(|| number_words(rest, at, &mut out));
        at += if let Some(length) = read {
            length
        } else if single && rest.starts_with("\\\\") {
            1
        } else if rest.starts_with("**") && !between_factors(&out.text, &rest[2..]) {
            2
        } else {
            out.push(plain(c), at);
            c.len_utf8()
        };
    }
    out
}

/// The length of something here that is no part of the text.
fn hidden(rest: &str) -> Option<usize> {
    if !rest.starts_with(['<', '[', '~']) {
        return None;
    }
    for (open, close) in HIDDEN {
        if let Some(inside) = rest.strip_prefix(open) {
            let length = inside.find(close)?;
            let line = !matches!(open, "<<" | "~~") || !inside[..length].contains('\n');
            return line.then_some(open.len() + length + close.len());
        }
    }
    let inside = rest.strip_prefix('<')?;
    let end = inside.bytes().take(TAG).position(|b| b == b'>')?;
    let name = inside[..end].trim_start_matches('/');
    let token = name.len() > 2 && name.starts_with('|') && name.ends_with('|');
    let long = name.len() > 1 && name.bytes().all(|b| b.is_ascii_lowercase()) && name != "answer";
    (token || long || words::is_among(name, TAGS)).then_some(end + 2)
}

fn has_doubled_backslashes(text: &str) -> bool {
    let (mut doubled, mut run) = (false, 0);
    for piece in text.split('\\').skip(1) {
        run += 1;
        if piece.is_empty() {
            continue;
        }
        let letters = piece.bytes().take_while(u8::is_ascii_alphabetic).count();
        if run == 1 && letters > 0 {
            return false;
        }
        doubled |= run == 2 && letters > 1;
        run = 0;
    }
    doubled
}

/// Takes the word of `$3.5$ million` into the mathematics and gives the length of both.
fn scale(rest: &str, at: usize, out: &mut Clean) -> Option<usize> {
    let after = rest.strip_prefix("$ ").filter(|_| out.text.ends_with(|c: char| c.is_ascii_digit()))?;
    let word = &after[..after.find(|c: char| !c.is_alphanumeric()).unwrap_or(after.len())];
    words::power_of_thousand(word)?;
    // The dollar sign stands where the word ends.
    let last = at + 1 + word.len();
    (at + 1..=last).zip(rest[1..].chars()).for_each(|(place, c)| out.push(c, place));
    out.push('$', last);
    Some(2 + word.len())
}

/// Writes a number in words as digits and gives the length of the words.
fn number_words(rest: &str, at: usize, out: &mut Clean) -> Option<usize> {
    let begins = out.text.is_empty() || out.text.ends_with([' ', '\n', '*', '{']);
    let (digits, length) = if begins { words::numeral(rest)? } else { return None };
    for (left, digit) in (0..digits.len()).rev().zip(digits.chars()) {
        // The last digit stands where the words end.
        out.push(digit, if left == 0 { at + length - 1 } else { at });
    }
    Some(length)
}

/// True where asterisks are a power, as in `2**3`, and no emphasis.
fn between_factors(before: &str, after: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, ')' | '(' | '}'));
    inner(before.chars().next_back()) && inner(after.chars().next())
}

/// The text in lower case, every character at the same offset.
pub(super) fn lowered(text: &str) -> String {
    let small = |c: char| {
        let mut lower = c.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(one), None) if one.len_utf8() == c.len_utf8() => one,
            _ => c,
        }
    };
    text.chars().map(small).collect()
}
