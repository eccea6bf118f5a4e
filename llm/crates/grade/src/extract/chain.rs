//! The answer that a formula states: the last side of a chain, the last row, an assignment, an equation with its value.

use std::collections::BTreeSet;
use std::ops::Range;

use super::environments::inside_of_rows;
use crate::lex::{function, spelled_symbol};
use crate::units;
use crate::words;

/// The kind of a formula in a statement, the surest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A symbol, which names a value and is none.
    Name,
    /// A value, an assignment, an equation, an inequality.
    Value,
    /// The value at the end of a computation with numbers.
    Result,
}

/// A formula as far as it states an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// `\equiv`.
    Congruent,
    About,
    /// An inequality or a membership.
    Compares,
    /// `\\to`: a limit is taken.
    Tends,
    /// The end of a row.
    Row,
    /// A new statement begins behind it.
    Implies,
    /// A comma or a connective in a text command: the formula is a list if signs stand on both sides.
    Comma,
}

const CONGRUENT: &str = "equiv|cong";
const ABOUT: &str = "approx|simeq|doteq";
const IMPLIES: &str = "Rightarrow|implies|Longrightarrow|therefore|iff|Leftrightarrow";
const TENDS: &str = "to|rightarrow";
const COMPARES: &str = "le|leq|leqslant|ge|geq|geqslant|lt|gt|ne|neq|in|subset|subseteq|mid|perp|not";

/// Signs that end a proof.
const END_OF_PROOF: &str = "\\blacksquare|\\square|\\Box|\\qed|\\qedsymbol|\\blacksquare.|\\square.";

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
                // Before a letter the backslash of a command was written twice.
                let command = rest.get(2..).is_some_and(|r| r.starts_with(|c: char| c.is_ascii_alphabetic()));
                mark = (rest.starts_with("\\\\") && !command).then_some(Mark::Row);
                length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            '\\' => {
                length = 1 + letters;
                match command {
                    "begin" => depth += 1,
                    "end" => depth = depth.saturating_sub(1),
                    "text" | "mbox" if connects(&rest[length..]) => mark = Some(Mark::Comma),
                    _ if words::is_among(command, CONGRUENT) => mark = Some(Mark::Congruent),
                    _ if words::is_among(command, ABOUT) => mark = Some(Mark::About),
                    _ if words::is_among(command, IMPLIES) => mark = Some(Mark::Implies),
                    _ if words::is_among(command, TENDS) => mark = Some(Mark::Tends),
                    _ if words::is_among(command, COMPARES) => mark = Some(Mark::Compares),
                    _ => {}
                }
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '=' if rest.starts_with("=>") => (mark, length) = (Some(Mark::Implies), 2),
            '=' if text[..at].ends_with(['<', '>', ':']) => {}
            // A factorial before the sign: `4!=24`, but `x != 3`.
            '=' if text[..at].ends_with('!') && !factorial(&text[..at - 1]) => mark = Some(Mark::Compares),
            '≡' => mark = Some(Mark::Congruent),
            '=' | '＝' => mark = Some(Mark::Equal),
            '≈' | '≃' => mark = Some(Mark::About),
            ',' | ';' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => mark = Some(Mark::Comma),
            '⇒' | '⟹' | '∴' => mark = Some(Mark::Implies),
            '<' | '>' | '≤' | '≥' | '≠' | '∈' => mark = Some(Mark::Compares),
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
    let inside =
        rest.strip_prefix('{').and_then(|inside| inside.split_once('}')).map(|(inside, _)| inside.trim());
    inside.is_some_and(|word| words::connective(word.trim_matches([',', ' '])).is_some())
}

/// True if signs stand on both sides of a comma: `x = 1, y = 2`.
fn is_list(marks: &[(Range<usize>, Mark)]) -> bool {
    let signs = |m: &(Range<usize>, Mark)| matches!(m.1, Mark::Equal | Mark::Compares);
    let comma = marks.iter().position(|m| m.1 == Mark::Comma);
    comma.is_some_and(|at| marks[..at].iter().any(signs) && marks[at..].iter().any(signs))
        && !marks.iter().any(|m| m.1 == Mark::Row)
}

/// True if a text ends in something of which one takes the factorial.
fn factorial(before: &str) -> bool {
    before.ends_with(|c: char| c.is_ascii_digit() || c == ')' || c == '}')
}

/// The sides of one statement with the sign before each but the first, and true if it compares.
#[derive(Clone, Debug, Default)]
struct Statement {
    sides: Vec<(Option<Mark>, Range<usize>)>,
    compares: bool,
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
        let dots = if now[to.len()..].starts_with("...") { 3 } else { 0 };
        let behind = LAYOUT.split('|').find(|l| dots == 0 && to.ends_with(l)).map_or(0, str::len);
        let next = start + to.len() + dots - behind;
        if ahead == 0 && next == end {
            return start..end;
        }
        end = next;
    }
}

/// The statements of a formula. A row that begins with a sign goes on with the one above.
fn statements(text: &str, range: Range<usize>) -> Vec<Statement> {
    let mut found = vec![Statement::default()];
    let (mut start, mut link) = (range.start, None);
    let marks = marks(&text[range.clone()]);
    let ends = marks
        .into_iter()
        .filter(|(_, mark)| *mark != Mark::Comma)
        .map(|(place, mark)| (range.start + place.start..range.start + place.end, Some(mark)));
    for (place, mark) in ends.chain(std::iter::once((range.end..range.end, None))) {
        let side = trimmed(text, start..place.start);
        let continues =
            matches!(mark, Some(Mark::Equal | Mark::Congruent | Mark::About | Mark::Compares | Mark::Tends));
        if let Some(now) = found.last_mut() {
            if !side.is_empty() {
                now.sides.push((link.take(), side));
            }
            if !continues && !now.sides.is_empty() {
                found.push(Statement::default());
            }
        }
        link = mark.filter(|_| continues);
        if continues {
            // The sign opens a row of its own: the statement goes on.
            if found.len() > 1 && found.last().is_some_and(|s| s.sides.is_empty()) {
                found.pop();
            }
            if let (Some(now), Some(Mark::Compares)) = (found.last_mut(), mark) {
                now.compares = true;
            }
        }
        start = place.end;
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
            rest = rest.split_once('}').map_or("", |(_, behind)| behind);
        } else if spelled_symbol(name) || matches!(name, "Delta" | "mathbf" | "vec" | "sum" | "mathbb") {
            plain += "α";
        }
    }
    plain += rest;
    let mut found = BTreeSet::new();
    let parts: Vec<(usize, &str)> = plain
        .split(|c: char| !c.is_alphabetic())
        .map(|word| (word.as_ptr() as usize - plain.as_ptr() as usize, word))
        .collect();
    for (at, word) in parts {
        let behind_number = plain[..at].trim_end_matches([' ', '~']).ends_with(|c: char| c.is_ascii_digit());
        let before_number =
            plain[at + word.len()..].trim_start_matches([' ', '$']).starts_with(|c: char| c.is_ascii_digit());
        let product = word.eq_ignore_ascii_case("x") && behind_number && before_number;
        // `2 h` and `km/h`
        let per = plain[..at]
            .strip_suffix('/')
            .is_some_and(|unit| unit.chars().rev().take_while(|c| c.is_alphabetic()).count() > 1);
        let unit =
            (per || behind_number && plain[..at].ends_with([' ', '~'])) && units::canonical(word).is_some();
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

/// True for what only names something: `x`, `x_1`, `AB`, `\angle A`, `f(2)`, `(x, y)`, `|AB|`, `\text{total}`.
fn is_name(side: &str) -> bool {
    let mut rest = side.trim();
    for mark in
        ["m\\angle", "\\angle", "\\triangle", "\\vec", "\\overline", "\\mathbf", "\\bold", "\\boldsymbol"]
    {
        rest = rest.strip_prefix(mark).unwrap_or(rest).trim_start();
    }
    if let Some(inside) = rest.strip_prefix("\\text{") {
        return inside.find('}') == Some(inside.len() - 1);
    }
    let letters = |text: &str| {
        let plain =
            text.chars().all(|c| c.is_alphabetic() || matches!(c, ' ' | ',' | ';' | '{' | '}' | '\''));
        plain && text.contains(char::is_alphabetic)
    };
    for (open, close) in [('(', ')'), ('|', '|'), ('[', ']'), ('{', '}')] {
        if let Some(inside) = rest.strip_prefix(open).and_then(|r| r.strip_suffix(close)) {
            return letters(inside) && !inside.contains(open);
        }
    }
    let stem = rest.trim_start_matches('\\');
    let end = stem.find(|c: char| !c.is_alphabetic()).unwrap_or(stem.len());
    let (name, more) = stem.split_at(end);
    let capitals = name.chars().all(char::is_uppercase);
    let greek = rest.starts_with('\\') && (spelled_symbol(name) || name.starts_with(char::is_uppercase));
    if name.is_empty() || !(name.chars().count() == 1 || capitals || greek) {
        return false;
    }
    let more = more.trim_start_matches('\'').trim();
    let more = match more.strip_prefix('_') {
        Some(braced) if braced.starts_with('{') => braced.split_once('}').map_or("", |(_, behind)| behind),
        Some(bare) => bare.get(1..).unwrap_or(""),
        None => more,
    };
    let more = more.strip_prefix("^{-1}").unwrap_or(more).trim_start_matches("\\left").trim();
    let function = "fghpqPFGHQS".contains(name);
    more.is_empty()
        || more.starts_with('(') && more.ends_with(')') && (function || letters(&more[1..more.len() - 1]))
}

/// The rows of a system: each says the value of another unknown.
fn is_system(text: &str, rows: &[Statement]) -> bool {
    let names: BTreeSet<&str> = rows.iter().map(|row| &text[row.sides[0].1.clone()]).collect();
    rows.len() > 1
        && names.len() == rows.len()
        && rows.iter().all(|row| {
            row.sides.len() == 2
                && is_name(&text[row.sides[0].1.clone()])
                && symbols(&text[row.sides[1].1.clone()]).is_empty()
        })
}

/// The answer that the formula in a range of a text states. `None` for an empty one.
pub(super) fn formula(text: &str, range: Range<usize>) -> Option<Formula> {
    if words::is_among(text[range.clone()].trim(), END_OF_PROOF) {
        return None;
    }
    let inside = inside_of_rows(text, range.clone());
    let cells = if inside == range { "&" } else { " " };
    let rows = statements(text, inside);
    let whole = |place: Range<usize>, kind| Formula {
        kind,
        answer: text[place.clone()].replace('&', cells),
        value: None,
        left: None,
        place,
        assigns: false,
        equation: false,
    };
    let marks = marks(&text[range.clone()]);
    let list = is_list(&marks);
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
    if list || is_system(text, &rows) {
        let row = |row: &Statement| text[row.sides[0].1.start..row.sides[1].1.end].replace('&', " ");
        let answer = if list {
            text[range.clone()].to_owned()
        } else {
            rows.iter().map(row).collect::<Vec<_>>().join(" , ")
        };
        return Some(Formula { answer, assigns: true, ..whole(range, Kind::Value) });
    }
    let last = rows.last()?;
    let place = last.sides[0].1.start..last.sides[last.sides.len() - 1].1.end;
    let side = |at: usize| &text[last.sides[at].1.clone()];
    let n = last.sides.len();
    // What a name tends to is a condition, no value.
    if last.sides.iter().any(|(mark, _)| *mark == Some(Mark::Tends)) {
        return Some(whole(place, Kind::Name));
    }
    if last.compares {
        return Some(Formula { equation: true, ..whole(place, Kind::Value) });
    }
    if n == 1 {
        let continued = last.sides[0].0.is_some();
        let named =
            !continued && !side(0).starts_with("\\text") && symbols(side(0)).len() <= 3 && is_name(side(0));
        let kind = if named { Kind::Name } else { Kind::Value };
        return Some(whole(place, if continued { Kind::Result } else { kind }));
    }
    Some(chained(text, last, whole(place, Kind::Value)))
}

/// True for a value that is still to be computed: a step, no final value.
fn computes(side: &str) -> bool {
    ["\\cdot", "\\times", "*"].iter().any(|sign| side.contains(sign))
}

/// The answer of a statement with several sides; `whole` is all of it.
fn chained(text: &str, last: &Statement, whole: Formula) -> Formula {
    let side = |at: usize| &text[last.sides[at].1.clone()];
    let mut n = last.sides.len();
    // `3 + 4 = 7 = x`
    if n > 2 && is_name(side(n - 1)) && !is_name(side(0)) {
        n -= 1;
    }
    let (end, place) = (side(n - 1), last.sides[n - 1].1.clone());
    let named = is_name(side(0));
    if let Some(about) = (1..n).find(|i| last.sides[*i].0 == Some(Mark::About)) {
        let exact = if about == 1 && named { String::new() } else { side(about - 1).to_owned() };
        let label = if named { format!("{} = ", side(0)) } else { String::new() };
        let more = last.sides[about..n].iter().any(|(mark, _)| *mark == Some(Mark::Equal));
        let answer = match (about, named) {
            (1, true) => format!("{} \\approx {end}", side(0)),
            _ => format!("{label}{exact} \\approx {end}"),
        };
        return Formula { answer, value: more.then(|| end.to_owned()), assigns: named, ..whole };
    }
    let known = symbols(side(0));
    if named && symbols(end).is_empty() && side(0).contains('(') && !side(0).starts_with('(') {
        return Formula { answer: end.to_owned(), place, ..whole };
    }
    if named {
        // `g = 40 + 30 = 70`, but not `x = 1 and y = 2`
        let computed = n > 2 && (1..n).all(|at| symbols(side(at)).is_empty());
        return Formula {
            kind: if computed { Kind::Result } else { Kind::Value },
            answer: format!("{} = {end}", side(0)),
            assigns: n == 2 && !computes(end),
            ..whole
        };
    }
    if known.is_empty() && symbols(end).is_empty() {
        let congruent = last.sides[..n].iter().any(|(mark, _)| *mark == Some(Mark::Congruent));
        let kind = if congruent { Kind::Value } else { Kind::Result };
        return Formula { kind, answer: end.to_owned(), place, ..whole };
    }
    if known.is_empty() && n == 2 {
        return Formula { equation: true, ..whole };
    }
    if n > 2 {
        return Formula { answer: end.to_owned(), place, ..whole };
    }
    // Of an equation whose sides share symbols only an identity states the right one.
    let left = (!symbols(end).is_disjoint(&known)).then(|| side(0).to_owned());
    Formula { value: Some(end.to_owned()), left, equation: true, ..whole }
}
