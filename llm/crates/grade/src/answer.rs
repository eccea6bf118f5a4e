//! One answer, read once and comparable with any number of others.

use super::budget::{Budget, LONGEST};
use super::compare;
use super::integer::Integer;
use super::node::Node;
use super::parse::parse;
use super::verdict::{Reason, Verdict};
use super::words;

/// An answer as text: what it reads as, or why it does not.
///
/// ```
/// use grpo_lambda_grade::{Answer, Verdict};
/// let half = Answer::read(r"\frac{1}{2}");
/// assert_eq!(half.compare(&Answer::read("0.5")), Verdict::Equal);
/// assert_eq!(half.compare(&Answer::read("2^{-1} + x")), Verdict::Different);
/// ```
#[derive(Clone, Debug)]
pub struct Answer {
    /// The text without dollar signs, with single blanks.
    text: String,
    integer: Option<Integer>,
    /// Its words, where it is nothing but words.
    words: Option<String>,
    /// The letter it chooses, and whether it is nothing else.
    choice: Option<(char, bool)>,
    /// The ways to read it as mathematics; two where a comma can be read in two ways.
    readings: Result<Vec<Node>, Reason>,
}

impl Answer {
    /// Reads an answer that stands alone: the content of a box.
    pub fn read(text: &str) -> Answer {
        let currency = text.contains("\\$");
        let text = tidy(text);
        let integer = Integer::parse(&text);
        let plain = !currency && integer.is_some() && !text.contains(',') && text.len() < 18;
        if plain && let Ok(n) = text.trim_start_matches('+').parse::<i64>() {
            let readings = Ok(vec![Node::integer(n)]);
            return Answer { text, integer, words: None, choice: None, readings };
        }
        let mut readings = readings(&text);
        if currency && let Ok(nodes) = &mut readings {
            for node in nodes {
                let value = std::mem::replace(node, Node::Infinity);
                *node = Node::Unit(Box::new(value), Some("dollar".into()));
            }
        }
        let choice = choice(&text, readings.as_deref().unwrap_or(&[]));
        Answer { words: words_of(&text), integer, choice, readings, text }
    }

    /// Compares two answers. The order does not matter.
    pub fn compare(&self, other: &Answer) -> Verdict {
        if self.text.is_empty() || other.text.is_empty() {
            return Verdict::Ungradable(Reason::NoAnswer);
        }
        let decided = |equal| if equal { Verdict::Equal } else { Verdict::Different };
        if self.text == other.text {
            return Verdict::Equal;
        }
        if let (Some(a), Some(b)) = (&self.integer, &other.integer) {
            // Neither has a unit but a dollar sign, which an integer may have.
            return decided(a == b);
        }
        if self.words.is_some() && self.words == other.words {
            return Verdict::Equal;
        }
        match (self.choice, other.choice) {
            (Some((a, true)), Some((b, _))) | (Some((a, _)), Some((b, true))) => return decided(a == b),
            _ => {}
        }
        match (&self.readings, &other.readings) {
            (Ok(a), Ok(b)) => any_same(a, b).map_or_else(Verdict::Ungradable, decided),
            // A text is no number, whatever it says.
            _ if self.words.is_some() || other.words.is_some() => Verdict::Different,
            (Err(reason), _) | (_, Err(reason)) => Verdict::Ungradable(reason.clone()),
        }
    }
}

/// Whether any reading of one is the same as any of the other.
fn any_same(a: &[Node], b: &[Node]) -> Result<bool, Reason> {
    let mut budget = Budget::new();
    let mut open = None;
    for x in a {
        for y in b {
            match compare::same(x, y, &mut budget) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(reason) => open = Some(reason),
            }
        }
    }
    open.map_or(Ok(false), Err)
}

/// Without dollar signs and the full stop of a sentence, blanks single.
fn tidy(text: &str) -> String {
    let text = text.replace("\\$", "");
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter(|c| *c != '$') {
        if !c.is_whitespace() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    }
    let end = out.trim_end().trim_end_matches('.').trim_end().len();
    // A backslash keeps its blank.
    out.truncate(if out[..end].ends_with('\\') { (end + 1).min(out.len()) } else { end });
    out
}

fn readings(text: &str) -> Result<Vec<Node>, Reason> {
    if text.len() > LONGEST {
        return Err(Reason::TooLarge(format!("an answer of {} bytes, more than {LONGEST}", text.len())));
    }
    let mut budget = Budget::new();
    match parse(text, true, &mut budget) {
        Ok((node, false)) => Ok(vec![node]),
        Ok((node, true)) => {
            Ok(std::iter::once(node).chain(parse(text, false, &mut budget).ok().map(|r| r.0)).collect())
        }
        Err(reason) => parse(text, false, &mut budget).map(|r| vec![r.0]).map_err(|_| reason),
    }
}

/// The canonical spelling of a text that is nothing but words, at least one of them longer than a letter.
fn words_of(text: &str) -> Option<String> {
    if text.len() > LONGEST {
        return None;
    }
    let mut plain = text.replace("\\ ", " ").replace('~', " ");
    for command in ["\\text{", "\\mbox{", "\\textbf{", "\\mathrm{", "\\textit{", "\\operatorname{"] {
        plain = plain.replace(command, " ");
    }
    let marked = plain.len() != text.len();
    let allowed =
        |c: char| c.is_alphabetic() || c == ' ' || "',.-:;!?\"()".contains(c) || (marked && c == '}');
    let long = plain.split(|c: char| !c.is_alphabetic()).any(|w| w.chars().count() > 1);
    (long && plain.chars().all(allowed)).then(|| words::canonical(&plain))
}

/// `C`, `(C)`, `\text{(C)}`, and the letter before `(C) 12` or `C. 12`.
fn choice(text: &str, readings: &[Node]) -> Option<(char, bool)> {
    let mut rest = text;
    for mark in ["\\text{", "\\textbf{", "\\mathrm{", "\\mathbf{"] {
        rest = rest.strip_prefix(mark).unwrap_or(rest);
    }
    let bracket = rest.starts_with('(');
    rest = rest.strip_prefix('(').unwrap_or(rest);
    let letter = rest.chars().next().filter(|c| c.is_ascii_alphabetic())?;
    let upper = letter.to_ascii_uppercase();
    if !('A'..='J').contains(&upper) || (!bracket && letter != upper) {
        return None;
    }
    let alone = matches!(readings, [Node::Symbol(name)] if name.len() == 1);
    if alone {
        return Some((upper, true));
    }
    let after = &rest[1..];
    let closed = if bracket { after.starts_with(')') } else { after.starts_with([')', '.', ':']) };
    closed.then_some((upper, false))
}
