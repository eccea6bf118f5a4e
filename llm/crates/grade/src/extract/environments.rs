//! Mathematics between delimiters: `$...$`, `$$...$$`, `\(...\)`, `\[...\]`, `\begin{align}...\end{align}`.

use std::ops::Range;

use super::found::place_of;
use crate::words::is_among;

/// A piece of mathematics in a text.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    /// The place with its delimiters.
    pub(super) outer: Range<usize>,
    pub(super) inner: Range<usize>,
}

const NAMES: &str = "align|aligned|equation|gather|gathered|multline|eqnarray|displaymath|math|cases";

/// All environments in order, none inside another.
pub(super) fn environments(text: &str) -> Vec<Environment> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['$', '\\']) {
        let start = at + offset;
        match environment(text, start) {
            Some(one) => {
                at = one.outer.end;
                found.push(one);
            }
            None => {
                // A backslash takes the next character with it.
                let skip = if text[start..].starts_with('\\') { 2 } else { 1 };
                at = (start + skip..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
            }
        }
    }
    found
}

fn environment(text: &str, start: usize) -> Option<Environment> {
    let rest = &text[start..];
    for (open, close) in [("$$", "$$"), ("\\(", "\\)"), ("\\[", "\\]")] {
        if let Some(inside) = rest.strip_prefix(open) {
            let length = inside.find(close)?;
            return Some(bounds(start, open.len(), length, close.len()));
        }
    }
    if rest.starts_with('$') {
        return dollars(rest, start);
    }
    let name = rest.strip_prefix("\\begin{")?.split_once('}')?.0;
    if !is_among(name.trim_end_matches('*'), NAMES) {
        return None;
    }
    let close = format!("\\end{{{name}}}");
    let length = rest.find(&close)? + close.len();
    // Rows need their environment to be read.
    Some(Environment { outer: start..start + length, inner: start..start + length })
}

/// The place between `\\begin{align}` and `\\end{align}` where a text is one such environment, else the place itself.
pub(super) fn inside_of_rows(text: &str, place: Range<usize>) -> Range<usize> {
    let lead = text[place.clone()].trim_start();
    let whole = lead.trim_end_matches(['.', ',', ' ', '\n']);
    let inside = whole.strip_prefix("\\begin{").and_then(|rest| {
        let (name, body) = rest.split_once('}')?;
        let body = body.strip_suffix(&format!("\\end{{{name}}}"))?;
        (name != "cases" && is_among(name.trim_end_matches('*'), NAMES)).then_some(body)
    });
    inside.map_or(place, |body| place_of(body, text))
}

fn bounds(start: usize, open: usize, length: usize, close: usize) -> Environment {
    Environment { outer: start..start + open + length + close, inner: start + open..start + open + length }
}

/// `$x$`. A dollar sign before an amount opens nothing: its partner would stand before a digit, or after a blank.
fn dollars(rest: &str, start: usize) -> Option<Environment> {
    let inside = &rest[1..];
    let mut end = inside.find('$')?;
    while inside[..end].ends_with('\\') {
        end += 1 + inside[end + 1..].find('$')?;
    }
    let (content, after) = (&inside[..end], &inside[end + 1..]);
    let fits = !content.trim().is_empty()
        && !content.contains("\n\n")
        && content.starts_with(' ') == content.ends_with(' ')
        && !after.starts_with(|c: char| c.is_ascii_digit());
    fits.then(|| bounds(start, 1, end, 1))
}
