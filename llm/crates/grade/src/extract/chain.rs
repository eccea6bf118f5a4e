//! The answer that a formula states: the last side of a chain, the last row, an assignment, an equation with its value.

use std::collections::BTreeSet;
use std::ops::Range;

use super::environments::inside_of_rows;
use super::found::place_of;
use crate::budget::Budget;
use crate::lex::{Spelling, function, spelled_symbol};
use crate::node::{Function, Node};
use crate::parse::{is_label, parse};
use crate::rules::Rules;
use crate::{units, words};

/// The kind of a formula in a statement, the surest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A symbol, which names a value and is none.
    Name,
    /// A value, an assignment, an equation, an inequality.
    #[default]
    Value,
    /// The value at the end of a computation with numbers.
    Result,
}

/// A formula as far as it states an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Formula {
    pub(super) kind: Kind,
    pub(super) answer: String,
    /// The value that an equation states of its left side.
    pub(super) value: Option<String>,
    /// The left side if it must be identical with that value.
    pub(super) left: Option<String>,
    /// The place of the answer.
    pub(super) place: Range<usize>,
    /// True for `x = 5`.
    pub(super) assigns: bool,
    /// True for an equation that is neither an assignment nor a computation.
    pub(super) equation: bool,
}

/// A sign outside brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Equal,
    /// The end of a row or a sign that concludes: a new statement begins after it.
    Row,
    /// A comma or a connective in a text command: the formula is a list if equals signs stand on both sides.
    Comma,
}

/// Longest name.
const NAME: usize = 80;
/// Signs after which a new statement begins.
const IMPLIES: &str = "Rightarrow|implies|Longrightarrow|therefore|iff|Leftrightarrow";

/// The signs outside brackets with their places.
fn marks(text: &str) -> Vec<(Range<usize>, Mark)> {
    let mut found = Vec::new();
    let (mut depth, mut at) = (0usize, 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let letters = rest.bytes().skip(1).take_while(u8::is_ascii_alphabetic).count();
        let command = if c == '\\' { &rest[1..=letters] } else { "" };
        let mut length = c.len_utf8();
        let mut mark = None;
        match c {
            '\\' if command.is_empty() => {
                mark = rest.starts_with("\\\\").then_some(Mark::Row);
                length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            '\\' => {
                length = 1 + letters;
                match command {
                    "begin" => depth += 1,
                    "end" => depth = depth.saturating_sub(1),
                    "text" | "mbox" if connects(&rest[length..]) => mark = Some(Mark::Comma),
                    "equiv" => mark = Some(Mark::Equal),
                    _ if words::is_among(command, IMPLIES) => mark = Some(Mark::Row),
                    _ => {}
                }
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '⇒' | '⟹' | '∴' => mark = Some(Mark::Row),
            '=' if rest.starts_with("=>") => (mark, length) = (Some(Mark::Row), 2),
            '=' if text[..at].ends_with(['<', '>', ':']) => {}
            '=' | '＝' | '≡' => mark = Some(Mark::Equal),
            ',' | ';' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => mark = Some(Mark::Comma),
            _ => {}
        }
        if let Some(mark) = mark.filter(|_| depth == 0) {
            found.push((at..at + length, mark));
        }
        at += length;
    }
    found
}

/// True if braces with a connective stand here.
fn connects(rest: &str) -> bool {
    let inside = rest.strip_prefix('{').and_then(|inside| inside.split_once('}'));
    inside.is_some_and(|(word, _)| words::connective(word.trim_matches([',', ' '])).is_some())
}

/// The sides of one statement, and true for a row that goes on with the one above.
#[derive(Clone, Debug, Default)]
struct Statement {
    sides: Vec<Range<usize>>,
    continued: bool,
}

/// The part of a side that is neither blank nor layout.
fn trimmed(text: &str, side: Range<usize>) -> Range<usize> {
    const LAYOUT: &str = r"&|\qquad|\quad|\,|\;|\ |~|\displaystyle|\!|\left.|\nonumber|\notag";
    let (mut start, mut end) = (side.start, side.end);
    loop {
        let now = &text[start..end];
        let from = now.trim_start();
        let row_space = from.strip_prefix('[').and_then(|r| r.find("pt]")).map(|at| at + 4);
        let layout = LAYOUT.split('|').find(|l| from.starts_with(l)).map(str::len);
        let ahead = row_space.or(layout).unwrap_or(0);
        start = end - from.len() + ahead;
        let now = &text[start..end];
        let to = now.trim_end().trim_end_matches(['.', ',', ';', ':', '。', '，']);
        let to = if now.trim_end().ends_with("...") { now.trim_end() } else { to };
        let after = LAYOUT.split('|').find(|l| to.ends_with(l)).map_or(0, str::len);
        let next = start + to.len() - after;
        if ahead == 0 && next == end {
            return start..end;
        }
        end = next;
    }
}

/// The statements of a formula. A row that begins with a sign goes on with the one above.
fn statements(text: &str, range: Range<usize>) -> Vec<Statement> {
    let mut found = vec![Statement::default()];
    let (mut start, mut link) = (range.start, false);
    let ends = marks(&text[range.clone()])
        .into_iter()
        .filter(|(_, mark)| *mark != Mark::Comma)
        .map(|(place, mark)| (range.start + place.start..range.start + place.end, Some(mark)));
    for (place, mark) in ends.chain(std::iter::once((range.end..range.end, None))) {
        let side = trimmed(text, start..place.start);
        let continues = mark == Some(Mark::Equal);
        if let Some(now) = found.last_mut() {
            if !side.is_empty() {
                now.continued |= link && now.sides.is_empty();
                now.sides.push(side);
            }
            if !continues && !now.sides.is_empty() {
                found.push(Statement::default());
            }
        }
        // The sign opens a row of its own: the statement goes on.
        if continues && found.len() > 1 && found.last().is_some_and(|s| s.sides.is_empty()) {
            found.pop();
        }
        (start, link) = (place.end, continues);
    }
    found.retain(|s| !s.sides.is_empty());
    found
}

/// The symbols of an expression: letters that belong to no command, text, function, unit or word.
pub(super) fn symbols(text: &str) -> BTreeSet<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain += &rest[..at];
        let after = &rest[at + 1..];
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let name = &after[..letters];
        rest = &after[letters.max(after.chars().next().map_or(0, char::len_utf8))..];
        plain.push(' ');
        if matches!(name, "text" | "mathrm" | "mbox" | "textrm" | "operatorname" | "begin" | "end") {
            rest = rest.split_once('}').map_or("", |(_, after)| after);
        } else if spelled_symbol(name) {
            plain += "α";
        }
    }
    plain += rest;
    let mut found = BTreeSet::new();
    let digit = |c: char| c.is_ascii_digit();
    for word in plain.split(|c: char| !c.is_alphabetic()) {
        let at = place_of(word, &plain).start;
        let (before, after) = (&plain[..at], &plain[at + word.len()..]);
        let after_number = before.trim_end_matches([' ', '~']).ends_with(digit);
        let before_number = after.trim_start_matches([' ', '$']).starts_with(digit);
        let product = word.eq_ignore_ascii_case("x") && after_number && before_number;
        // `2 h` and `km/h`
        let above = before
            .strip_suffix('/')
            .map_or(0, |unit| unit.chars().rev().take_while(|c| c.is_alphabetic()).count());
        let unit =
            (above > 1 || after_number && before.ends_with([' ', '~'])) && units::canonical(word).is_some();
        let long =
            word.chars().count() >= 3 && word.chars().any(char::is_lowercase) || function(word).is_some();
        let known = words::is_among(word, "|pi|e|i|π|am|pm|sq|nd|rd|th")
            || units::canonical(word).is_some() && word.len() > 1;
        if !(product || unit || long || known) {
            found.extend(word.chars().map(String::from));
        }
    }
    found
}

/// True for what only names something: `x`, `x_1`, `AB`, `\angle A`, `f(2)`, `(x, y)`, `|AB|`.
fn is_name(side: &str) -> bool {
    let letter = |n: &Node| matches!(n, Node::Symbol(name) if !name.contains(' '));
    let names = |node: &Node| match node {
        Node::Words(_) | Node::Euler | Node::Imaginary => false,
        Node::Pi => true,
        Node::Call(Function::Abs, inner) if side.starts_with('|') => {
            letter(&inner[0]) || inner[0].letters().is_some()
        }
        Node::Apply(name, _) => name.starts_with('\\') || name.chars().count() == 1,
        // `p(p + 1)`
        Node::Product(factors) if side.ends_with(')') => {
            matches!(&factors[..], [(false, Node::Symbol(f)), _] if is_label(node, true) || "pqQS".contains(f))
        }
        other => {
            let points = |all: Vec<&str>| all.iter().all(|name| name.starts_with(char::is_uppercase));
            is_label(other, false) || other.letters().is_some_and(points)
        }
    };
    let reading = || parse(side, Spelling::STRICT, &mut Budget::new(Rules::STRICT));
    let starts = !side.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.' | '$' | '+'));
    starts && side.len() <= NAME && reading().is_ok_and(|reading| names(&reading.node))
}

/// The answer that the formula in a range of a text states. `None` for an empty one.
pub(super) fn formula(text: &str, range: Range<usize>) -> Option<Formula> {
    let inside = inside_of_rows(text, range.clone());
    let cells = if inside == range { "&" } else { " " };
    let rows = statements(text, inside);
    let whole = |place: Range<usize>, kind| Formula {
        kind,
        answer: text[place.clone()].replace('&', cells),
        place,
        ..Formula::default()
    };
    let marks = marks(&text[range.clone()]);
    // Signs stand on both sides of a comma: `x = 1, y = 2`.
    let signs = |m: &(Range<usize>, Mark)| m.1 == Mark::Equal;
    let comma = marks.iter().position(|m| m.1 == Mark::Comma);
    let list = comma.is_some_and(|at| marks[..at].iter().any(signs) && marks[at..].iter().any(signs));
    // `7 x 6 = 42, and 42 + 8 = 50`: of several computations the last one counts; `x + 2 = 7, x = 5`: the solution.
    if list
        && let Some((comma, _)) = marks.iter().rfind(|m| m.1 == Mark::Comma)
        && let Some(last) = formula(text, range.start + comma.end..range.end)
        && (last.kind == Kind::Result
            || last.assigns
                && formula(text, range.start..range.start + comma.start).is_some_and(|first| first.equation))
    {
        return Some(last);
    }
    // The rows of a system each give another unknown its value.
    let names: BTreeSet<&str> = rows.iter().map(|row| &text[row.sides[0].clone()]).collect();
    let assigns = |row: &Statement| row.sides.len() == 2 && is_name(&text[row.sides[0].clone()]);
    if list || names.len() > 1 && names.len() == rows.len() && rows.iter().all(assigns) {
        let row = |row: &Statement| text[row.sides[0].start..row.sides[1].end].replace('&', " ");
        let rows = || rows.iter().map(row).collect::<Vec<_>>().join(" , ");
        let answer = if list { text[range.clone()].to_owned() } else { rows() };
        return Some(Formula { answer, assigns: true, ..whole(range, Kind::Value) });
    }
    let last = rows.last()?;
    let place = last.sides[0].start..last.sides[last.sides.len() - 1].end;
    let side = &text[last.sides[0].clone()];
    if last.sides.len() == 1 {
        let named = !side.starts_with("\\text") && symbols(side).len() <= 3 && is_name(side);
        let kind = if named { Kind::Name } else { Kind::Value };
        return Some(whole(place, if last.continued { Kind::Result } else { kind }));
    }
    Some(chained(text, last, whole(place, Kind::Value)))
}

/// The answer of a statement with several sides; `whole` is all of it.
fn chained(text: &str, last: &Statement, whole: Formula) -> Formula {
    let side = |at: usize| &text[last.sides[at].clone()];
    let mut n = last.sides.len();
    // `3 + 4 = 7 = x`
    n -= usize::from(n > 2 && is_name(side(n - 1)) && !is_name(side(0)));
    let (end, place) = (side(n - 1), last.sides[n - 1].clone());
    let known = symbols(side(0));
    // `x \ge \frac{11}{10} = 1.1`
    if ["<", ">", "≤", "≥", "\\ge ", "\\le ", "\\geq", "\\leq"].iter().any(|sign| side(0).contains(sign))
    {
        return Formula { equation: true, ..whole };
    }
    if is_name(side(0)) {
        if symbols(end).is_empty() && side(0).contains('(') && !side(0).starts_with('(') {
            return Formula { answer: end.to_owned(), place, ..whole };
        }
        // `g = 40 + 30 = 70`, but not `x = 1 and y = 2`
        let computed = n > 2 && (1..n).all(|at| symbols(side(at)).is_empty());
        return Formula {
            kind: if computed { Kind::Result } else { Kind::Value },
            answer: format!("{} = {end}", side(0)),
            assigns: n == 2,
            ..whole
        };
    }
    if known.is_empty() && symbols(end).is_empty() {
        return Formula { kind: Kind::Result, answer: end.to_owned(), place, ..whole };
    }
    if n > 2 {
        return Formula { answer: end.to_owned(), place, ..whole };
    }
    // Of an equation whose sides share symbols only an identity states the right one.
    let left = (!symbols(end).is_disjoint(&known)).then(|| side(0).to_owned());
    Formula { value: Some(end.to_owned()), left, equation: true, ..whole }
}
