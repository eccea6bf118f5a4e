//! The free mode: places of an answer, the surest first.

use std::ops::Range;

use super::boxes::joined;
use super::clean::cleaned;
use super::environments::{Environment, environments};
use super::phrases::{ANSWER, FINAL, RESULT, announced};
use super::prose::{balanced, is_prose, runs};
use crate::units;
use crate::words::{self, is_among};

/// Bytes at the end of a response that may hold an answer without a box.
const WINDOW: usize = 32 * 1024;
/// Longest line behind `####` that is an answer and no heading with a text.
const LINE: usize = 200;
/// Longest text without mathematics that is taken as an answer.
const WORDS: usize = 80;

pub(super) fn answer(text: &str) -> Option<String> {
    let text = cleaned(tail(text));
    let found = marked(&text)
        .or_else(|| option(&text))
        .or_else(|| whole(&text))
        .or_else(|| last_statement(&text))
        .or_else(|| short_text(&text));
    found.map(|answer| answer.trim().to_owned()).filter(|answer| !answer.is_empty())
}

/// The answer that a reference marks; itself if it marks none.
pub(super) fn reference(text: &str) -> String {
    let clean = cleaned(tail(text));
    let environment_only = || {
        let found = environments(&clean);
        let joined = group(&clean, &found, found.len().checked_sub(1)?);
        (!is_prose(&outside(&clean, &found))).then_some(joined)
    };
    marked(&clean).or_else(environment_only).unwrap_or(clean).trim().to_owned()
}

/// The part that may hold an answer: a box is looked for everywhere, the rest in a window at the end.
fn tail(text: &str) -> &str {
    if text.contains("box") { text } else { window(text) }
}

fn window(text: &str) -> &str {
    if text.len() <= WINDOW {
        return text;
    }
    let start = (text.len() - WINDOW..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[start..]
}

/// The marked answer: boxes, tags, `####`, a phrase.
fn marked(text: &str) -> Option<String> {
    if let Some(found) = joined(text).filter(|t| !t.trim().is_empty()) {
        return Some(found.to_owned());
    }
    let text = window(text);
    if let Some(inside) = super::lenient_tag(text) {
        return Some(statement(inside).unwrap_or_else(|| inside.to_owned())).filter(|t| !t.trim().is_empty());
    }
    if let Some(line) = super::after_hashes(text).map(str::trim).filter(|line| line.len() <= LINE) {
        return if is_prose(line) { statement(line) } else { Some(line.to_owned()) };
    }
    let lower = lowered(text);
    [FINAL, ANSWER, RESULT].into_iter().find_map(|phrases| {
        let start = announced(&lower, phrases)?;
        statement(&text[start..])
    })
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

/// `Option B`.
fn option(text: &str) -> Option<String> {
    let (word, rest) = text.trim().split_once(' ')?;
    let named = is_among(&word.to_lowercase(), "option|choice|选项|вариант|opción|opção");
    choice(rest.trim()).filter(|_| named).map(str::to_owned)
}

/// A text that is nothing but mathematics.
fn whole(text: &str) -> Option<String> {
    let text = text.trim();
    let plain = environments(text).is_empty() && !text.is_empty() && !is_prose(text);
    plain.then(|| text.to_owned())
}

/// The text with line breaks in place of its environments, every character at the same offset.
fn outside(text: &str, found: &[Environment]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for one in found {
        out += &text[at..one.outer.start];
        out.extend(std::iter::repeat_n('\n', one.outer.len()));
        at = one.outer.end;
    }
    out + &text[at..]
}

/// The answer behind a phrase, in its first sentence that says something.
fn statement(rest: &str) -> Option<String> {
    let found = environments(rest);
    let sentence = first_sentence(rest, &found);
    let text = rest[sentence.clone()].trim();
    if let Some(letter) = choice(text) {
        return Some(letter.to_owned());
    }
    let first = found.iter().position(|e| e.outer.start < sentence.end);
    let before = &rest[sentence.start..first.map_or(sentence.end, |i| found[i].outer.start)];
    let run = runs(before, true).first().map(|run| balanced(&before[run.clone()]).to_owned());
    if let Some(at) = first {
        // A value before the mathematics is the answer, and the mathematics its reason; a name is part of it.
        return run.filter(|_| ends_statement(before)).or_else(|| Some(group_from(rest, &found, at)));
    }
    if text.is_empty() {
        return None;
    }
    if !is_prose(text) {
        return Some(unmarked(text).to_owned());
    }
    run.or_else(|| (text.len() <= WORDS).then(|| unmarked(text).to_owned()))
}

/// True if the text before an environment has said something that the environment goes on to explain.
fn ends_statement(before: &str) -> bool {
    const REASONS: &str = "because|since|as|for|where|when|so|(|因为|car|porque|weil|denn|так как|потому что";
    REASONS.split('|').any(|word| before.trim().trim_end_matches([' ', ',']).ends_with(word))
}

/// Removes quotation marks, emphasis and the full stop.
pub(super) fn unmarked(text: &str) -> &str {
    text.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '“' | '”' | '*' | '_' | '`' | '。' | '।')
    })
    .trim_end_matches('.')
}

/// The first sentence behind empty lines; a full stop inside mathematics ends none.
fn first_sentence(rest: &str, found: &[Environment]) -> Range<usize> {
    let start = rest.len() - rest.trim_start().len();
    let inside = |at: usize| found.iter().any(|e| e.outer.contains(&at));
    let ends = rest[start..].char_indices().find(|(at, c)| {
        let at = start + at;
        let after = rest[at + c.len_utf8()..].chars().next();
        let end = match c {
            '\n' => !rest[start..at].trim_end().ends_with([':', '=']),
            '。' | '।' | '؟' => true,
            '!' if rest[..at].ends_with('\\') => false,
            '.' | '?' | '!' => after.is_none_or(char::is_whitespace) && !rest[..at].ends_with('.'),
            _ => false,
        };
        end && !inside(at)
    });
    start..ends.map_or(rest.len(), |(at, _)| start + at)
}

/// The letter of a choice at the beginning, with the text of the choice if it stands behind a mark.
pub(super) fn choice(text: &str) -> Option<&str> {
    let open = text.starts_with('(');
    let rest = text.trim_start_matches('(');
    let letter = rest.chars().next().filter(|c| ('A'..='J').contains(c))?;
    let after = &rest[1..];
    let length = text.len() - rest.len() + 1;
    match after.chars().next() {
        None => Some(text),
        Some(')') if open && after[1..].trim_matches(['.', ' ', '*']).is_empty() => Some(&text[..=length]),
        Some(')') => {
            Some(&text[..if is_prose(&after[1..]) { length + usize::from(open) } else { text.len() }])
        }
        Some('.' | ':' | ',' | ';' | '。' | '，' | '、' | '*' | '\n') => Some(&text[..length]),
        Some(c) if c.is_alphabetic() && !c.is_ascii() => Some(&text[..length]),
        Some(' ')
            if !matches!(letter, 'A' | 'I')
                && after.trim_start().starts_with(|c: char| c.is_alphabetic())
                && is_prose(after) =>
        {
            Some(&text[..length])
        }
        _ => None,
    }
}

/// The environment `at` and those that belong to it, on both sides.
fn group(text: &str, found: &[Environment], at: usize) -> String {
    let mut first = at;
    while first > 0 && joins(&text[found[first - 1].outer.end..found[first].outer.start]) {
        first -= 1;
    }
    group_from(text, found, first)
}

/// The environment `first` and those behind it that belong to it, with the unit behind the last.
fn group_from(text: &str, found: &[Environment], first: usize) -> String {
    let mut last = first;
    while last + 1 < found.len() && joins(&text[found[last].outer.end..found[last + 1].outer.start]) {
        last += 1;
    }
    let mut out = String::new();
    for i in first..=last {
        if i > first {
            let between = &text[found[i - 1].outer.end..found[i].outer.start];
            out += if between.trim().is_empty() { " " } else { " , " };
        }
        out += text[found[i].inner.clone()].trim().trim_end_matches(['.', ',']);
    }
    let behind = text[found[last].outer.end..].trim_start();
    let word: String = behind.chars().take_while(|c| c.is_alphabetic()).collect();
    if behind.starts_with('%') || behind.starts_with("\\%") || units::is_percent(&word) {
        out += "\\%";
    } else if word.chars().count() > 1 && units::canonical(&word.to_lowercase()).is_some() && word != "in" {
        out += &format!("\\text{{ {word}}}");
    }
    out
}

/// True if the text between two environments makes them parts of one answer.
pub(super) fn joins(between: &str) -> bool {
    if between.len() > 24 || between.contains("\n\n") {
        return false;
    }
    let mut words = between.split([' ', ',', ';', '，', '、', '\n']).filter(|w| !w.is_empty());
    !between.chars().all(|c| matches!(c, ' ' | '\n')) && words.all(words::joins_mathematics)
}

/// The last thing said: in the last sentence with mathematics its last mathematics.
fn last_statement(text: &str) -> Option<String> {
    let text = window(text);
    let found = environments(text);
    let runs = runs(&outside(text, &found), false);
    match (found.last(), runs.last()) {
        (Some(last), Some(run))
            if run.start > last.outer.end && ends_sentence(&text[last.outer.end..run.start]) =>
        {
            Some(balanced(&text[run.clone()]).to_owned())
        }
        (Some(_), _) => Some(group(text, &found, found.len() - 1)),
        (None, Some(run)) => Some(balanced(&text[run.clone()]).to_owned()),
        (None, None) => None,
    }
}

fn ends_sentence(text: &str) -> bool {
    text.contains(". ") || text.contains(['。', '\n'])
}

/// A few words: a name, a yes or no.
fn short_text(text: &str) -> Option<String> {
    let text = text.trim();
    (text.len() <= WORDS && !text.contains('\n')).then(|| unmarked(text).to_owned())
}
