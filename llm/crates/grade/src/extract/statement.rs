//! A grammar of statements: the values of a sentence, their parts in it, and the one that the sentence states.
//!
//! A sentence is a list of function words, marks and values (`language.rs`). Each value is new (after a verb), a
//! circumstance (after a preposition), known (after a definite article), or none of the statement (in a condition, a
//! comparison, a question, a remark, or denied). Of the highest rank the last value is stated; after words that
//! announce an answer the first.

use std::ops::Range;

use super::chain::{Kind, formula, symbols};
use super::clause::{Item, Rank, Stated, ranked};
use super::clean::lowered;
use super::environments::{Environment, environments};
use super::found::place_of;
use super::language::{Language, Role, language};
use super::prose::{balanced, is_prose, runs, unit_of_a_letter};
use crate::units;
use crate::words::{self, Logic};

/// A text with its mathematics and its language.
pub(super) struct Prose<'a> {
    pub(super) text: &'a str,
    pub(super) found: Vec<Environment>,
    pub(super) language: &'static Language,
}

impl<'a> Prose<'a> {
    pub(super) fn read(text: &'a str) -> Prose<'a> {
        Prose { text, found: environments(text), language: language(text) }
    }
}

/// The places of sentences, in order. A full stop inside mathematics ends none, but one at its end does.
pub(super) fn sentences(Prose { text, found, .. }: &Prose<'_>) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let (mut start, mut at, mut next) = (0, 0, 0);
    while at < text.len() {
        while next < found.len() && found[next].outer.start < at {
            next += 1;
        }
        let end = if let Some(environment) = found.get(next).filter(|e| e.outer.start == at) {
            let display = text[at..].starts_with('\\') || text[at..].starts_with("$$");
            at = environment.outer.end;
            let inside = text[environment.inner.clone()].trim_end();
            let inside = inside.rfind("\\end{").map_or(inside, |end| inside[..end].trim_end());
            let capital = text[at..].trim_start().starts_with(char::is_uppercase);
            (inside.ends_with(['.', '?']) || display && capital).then_some(at)
        } else {
            let c = text[at..].chars().next().unwrap_or(' ');
            let (from, before) = (at, &text[start..at]);
            at += c.len_utf8();
            let after = text[at..].chars().next();
            let ends = match c {
                '\n' => {
                    let before = before.trim_end();
                    // `Simplify` above `\[18/24\]`
                    let ahead = || found.get(next).is_some_and(|e| text[at..e.outer.start].trim().is_empty());
                    let goes_on = |c: char| c.is_alphanumeric() || c == ',';
                    !(before.ends_with([':', '=']) || before.ends_with(goes_on) && ahead())
                }
                '。' | '।' | '؟' | '？' | '！' => true,
                '!' if before.ends_with('\\') => false,
                '.' | '?' | '!' => {
                    let closes = after.is_none_or(|a| a.is_whitespace() || matches!(a, ')' | '"' | '”'));
                    let ends = closes && !before.ends_with('.');
                    at += usize::from(ends && after == Some(')'));
                    ends
                }
                _ => false,
            };
            ends.then_some(if c == '\n' { from } else { at })
        };
        if let Some(end) = end {
            out.push(start..end);
            start = end;
        }
    }
    out.push(start..text.len());
    out.retain(|place| {
        text[place.clone()].contains(|c: char| c.is_alphanumeric() || matches!(c, '$' | '\\' | ')'))
    });
    out
}

/// The text of a sentence with blanks in place of remarks in brackets: `35 (5 rows of 7)`, `3/8 (37.5%)`.
fn without_remarks(text: &str) -> String {
    let mut out = text.to_owned();
    let mut from = 0;
    while let Some(open) = out[from..].find(" (").map(|at| from + at + 1) {
        let Some(close) = out[open..].find(')').map(|at| open + at) else { break };
        let inside = &out[open + 1..close];
        if is_prose(inside) || inside.ends_with('%') {
            out.replace_range(open..=close, &" ".repeat(close + 1 - open));
        }
        from = close;
    }
    out
}

/// The values and words of a sentence in order.
fn items(Prose { text, found, .. }: &Prose<'_>, sentence: Range<usize>) -> Vec<Item> {
    let mut out = Vec::new();
    let mut at = sentence.start;
    let inside = found.iter().filter(|e| e.outer.start >= sentence.start && e.outer.end <= sentence.end);
    for environment in inside {
        plain_items(text, at..environment.outer.start, &mut out);
        // `200 $m^3$`
        let inner = &text[environment.inner.clone()];
        if let (Some(Item::Value(number)), Some((unit, length))) = (out.last_mut(), unit_of_a_letter(inner))
            && length == inner.trim_end().len()
        {
            number.formula.answer += &format!("\\text{{ {unit}}}");
            number.outer.end = environment.outer.end;
            at = environment.outer.end;
            continue;
        }
        if let Some(formula) = formula(text, environment.inner.clone()) {
            let (comma, outer) = (inner.trim_end().ends_with(','), environment.outer.clone());
            out.push(Item::Value(Stated { formula, rank: Rank::New, outer, comma }));
            out.extend(comma.then_some(Item::Mark(',')));
        }
        at = environment.outer.end;
    }
    plain_items(text, at..sentence.end.max(at), &mut out);
    out
}

fn plain_items(text: &str, place: Range<usize>, out: &mut Vec<Item>) {
    let start = place.start;
    let plain = without_remarks(&text[place]);
    let mut at = 0;
    let all = runs(&plain);
    for (i, run) in all.iter().cloned().enumerate().filter(|(_, run)| !run.is_empty()) {
        if run.start < at {
            continue;
        }
        words_and_marks(&plain[at..run.start], out);
        at = run.end;
        let kept = balanced(&plain[run.clone()]);
        let Some(mut formula) = formula(&plain, place_of(kept, &plain)) else { continue };
        if formula.kind != Kind::Name
            && let Some((unit, length)) = unit_of_a_letter(&plain[at..])
            && all.get(i + 1).is_none_or(|next| next.start >= at + length || next.end <= at + length)
        {
            formula.answer += &format!("\\text{{ {unit}}}");
            at += length;
        } else if let Some(split) = with_glued_unit(&formula.answer) {
            formula.answer = split;
        }
        formula.place = formula.place.start + start..formula.place.end + start;
        let outer = start + run.start..start + at;
        out.push(Item::Value(Stated { formula, rank: Rank::New, outer, comma: false }));
    }
    words_and_marks(&plain[at..], out);
}

/// `18,000/year` and `12m²` as a number with its unit.
fn with_glued_unit(answer: &str) -> Option<String> {
    let number = answer.trim_end_matches(|c: char| c.is_alphabetic() || matches!(c, '/' | ' ' | '²' | '³'));
    let unit = answer[number.len()..].trim();
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '$' | '€' | '£' | ',' | '.' | ' ' | '-');
    let marked = unit.starts_with('/') && unit.len() > 2
        || unit_of_a_letter(unit).is_some_and(|(_, n)| n == unit.len() && (n > 1 || number.len() > 2));
    (number.chars().all(plain) && marked)
        .then(|| format!("{number}\\text{{ {}}}", unit.replace('²', "^2").replace('³', "^3")))
}

fn words_and_marks(text: &str, out: &mut Vec<Item>) {
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_alphanumeric() || matches!(c, '\'' | '’' | '✓' | '✔') {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            out.push(Item::Word(std::mem::take(&mut word)));
        }
        if matches!(c, ',' | ';' | ':' | '，' | '；' | '：' | '—' | '–' | '=' | '(' | '≈') {
            out.push(Item::Mark(c));
        }
    }
}

/// True for a sentence that states nothing of the answer: a question, a check, a remark.
pub(super) fn is_remark(sentence: &str, language: &Language) -> bool {
    let lower = sentence.trim().to_lowercase();
    if lower.ends_with(['?', '？']) {
        return true;
    }
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '✓' | '✔');
    let words: Vec<&str> = words::parts(&lower, in_word).collect();
    let opens = |role| words.iter().take(4).any(|w| language.is(w, role));
    // `check again` works it out once more, and books are checked out.
    let checks = |i: usize| words[i] == "check" && !matches!(words.get(i + 1), Some(&("again" | "out")));
    let confirms =
        || words.iter().any(|w| language.is(w, Role::Confirm)) || (0..words.len().min(4)).any(checks);
    // `so there are 12`, `which is 12`
    let concludes = || {
        let which =
            |pair: &[&str]| pair[0] == "which" && words::is_among(pair[1], "is|makes|gives|leaves|means");
        words.iter().any(|w| language.is(w, Role::So)) || words.windows(2).any(which)
    };
    words.starts_with(&["this", "is", "because"])
        || (opens(Role::Remark) || reports(&words)) && !concludes()
        || opens(Role::Check) && confirms()
}

/// True for a sentence that opens as a report of the problem or of a belief of the past: `We are given 7 equations.`,
/// `The problem says that she bought 14 pears.`, `I first thought that it was 9.`
fn reports(words: &[&str]) -> bool {
    const TEXT: &str = "problem|question|exercise|task|statement|user";
    const SAYS: &str = "says|states|gives|asks|mentions|tells|describes|wants";
    const BELIEVED: &str = "thought|believed|assumed|guessed|expected|supposed";
    const FILLERS: &str = "the|this|at|first|initially|originally|now|here|so|okay|also";
    let mut opening = words.iter().filter(|word| !words::is_among(word, FILLERS));
    let opening = [(); 4].map(|()| *opening.next().unwrap_or(&""));
    match opening {
        ["we" | "i" | "you", "are" | "were" | "am" | "was", "given", _] => true,
        ["we" | "i", "consider" | "examine" | "distinguish", ..] => true,
        ["according", "to", text, _] => words::is_among(text, TEXT),
        ["we" | "i", verb, next, last] if words::is_among(verb, BELIEVED) => {
            ![next, last].iter().any(|word| words::is_among(word, "about|through|of|over"))
                && words.iter().any(|word| words::is_among(word, "was|were|would|had"))
        }
        [text, verb, ..] => words::is_among(text, TEXT) && words::is_among(verb, SAYS),
    }
}

/// True if a sentence that states nothing asks for something: a question, an imperative, or a verb that asks.
pub(super) fn asks(sentence: &str, language: &Language) -> bool {
    let lower = lowered(sentence.trim());
    let mut words = words_of(&lower).peekable();
    let imperative = words.peek().is_some_and(|first| language.is(first, Role::Ask));
    if imperative || lower.ends_with(['?', '？']) {
        return imperative || words.any(|word| language.is(word, Role::Question));
    }
    let mut before = "";
    words.any(|word| {
        language.is(std::mem::replace(&mut before, word), Role::Wish) && language.is(word, Role::Ask)
    })
}

/// The value that a sentence states. `first` takes the first new one, as after words that announce an answer.
pub(super) fn stated(prose: &Prose<'_>, sentence: Range<usize>, first: bool) -> Option<Stated> {
    let values = ranked(&items(prose, sentence.clone()), prose.language);
    let best = values.iter().map(|v| v.rank).max().filter(|rank| *rank > Rank::None)?;
    let at = match first && (Rank::New..Rank::Computed).contains(&best) {
        true => values.iter().position(|v| v.rank >= Rank::New)?,
        false => values.iter().rposition(|v| v.rank == best)?,
    };
    let mut one = with_neighbours(prose, &values, at, sentence.end);
    // The equation of a curve states no value of its left side.
    let curves = |word: &str| prose.language.is(&word.to_lowercase(), Role::Curve);
    let named = words_of(&prose.text[sentence]).any(curves);
    let unknowns = symbols(one.formula.answer.split('=').next().unwrap_or(""));
    let coordinates = unknowns.iter().filter(|name| matches!(name.as_str(), "x" | "y" | "z")).count();
    let curve = first && coordinates > 1 || named && unknowns.len() > 1;
    one.formula.value =
        one.formula.value.filter(|_| !curve).map(|value| with_glued_unit(&value).unwrap_or(value));
    Some(one)
}

/// True if two values are parts of one answer.
fn equal(a: &Stated, b: &Stated, between: &str) -> bool {
    let plain = |s: &Stated| s.formula.kind != Kind::Result && s.rank > Rank::None && !s.formula.equation;
    let comma = a.comma || between.contains(',');
    let joined = joins(between) || a.comma && between.trim().is_empty();
    let same = plain(a) && plain(b) && a.formula.assigns == b.formula.assigns;
    joined && same && !(comma && between.contains("or"))
}

/// True if a sentence says two things side by side: `23 red cars and 19 blue ones`, `its mean is 4 and its mode is 2`.
fn coordinated(a: &Stated, b: &Stated, between: &str, language: &Language) -> bool {
    let plain = |s: &Stated| s.rank >= Rank::New && s.formula.kind == Kind::Value && !s.formula.assigns;
    let is_its = |word| words::is_among(word, "its|his|her|their|so");
    let is_and = |word| words::connective(word) == Some(Logic::And);
    // `and its mode is 2` goes on from the first to what is asked.
    let last = words_of(between).next_back().unwrap_or("");
    let said = words_of(between).any(is_and) && !words_of(between).any(is_its);
    let and = is_and(last) || said && language.is(last, Role::Copula);
    plain(a) && plain(b) && and && between.len() < 48 && !between.contains([',', ';', ':'])
}

/// True if the text between two values makes them parts of one answer.
pub(super) fn joins(between: &str) -> bool {
    let mut words = words::parts(between, |c| !" ,;，、\n".contains(c));
    between.len() <= 24
        && !between.chars().all(|c| matches!(c, ' ' | '\n'))
        && words.all(words::joins_mathematics)
}

/// The value with those before and after it that belong to it, and its unit.
fn with_neighbours(prose: &Prose<'_>, values: &[Stated], at: usize, end: usize) -> Stated {
    let Prose { text, language, .. } = prose;
    let between =
        |i: usize| &text[values[i].outer.end.min(values[i + 1].outer.start)..values[i + 1].outer.start];
    // `en` is "and" in one language and "in" in others.
    let equal = |a: &Stated, b: &Stated, between: &str| {
        coordinated(a, b, between, language)
            || equal(a, b, between)
                && !between.split_whitespace().any(|w| language.role(w) == Some(Role::Preposition))
    };
    let joins_next = |i: &usize| equal(&values[*i], &values[i + 1], between(*i));
    let joins_before = |i: &usize| joins_next(i) || listed(values, *i, at, &between);
    let mut last = at + (at..values.len() - 1).take_while(joins_next).count();
    let mut first = at - (0..at).rev().take_while(joins_before).count();
    let mut out = values[at].clone();
    // `a ratio of 3 to 4`
    let parted = |i: usize, by: &str| i + 1 < values.len() && between(i).trim() == by;
    let pair = |by| (at.saturating_sub(1)..=at).find(|i| parted(*i, by));
    let before = &text[..values[first].outer.start];
    let ratio = words_of(before).rev().take(4).any(|w| words::is_among(w, "ratio|odds"));
    let chance = words_of(before).any(|w| words::is_among(w, "chance|probability|odds"));
    let stated = |i: usize| ratio || values[i].rank >= Rank::New;
    // `3 to 4`, `4 by 6`, a chance of `1 in 6`
    let pairs = [("to", ":"), ("by", ","), ("in", "/")];
    let joined = pairs
        .into_iter()
        .find_map(|(by, sign)| Some((pair(by).filter(|i| stated(*i) && (by != "in" || chance))?, sign)));
    if let Some((i, sign)) = joined {
        (first, last) = (i, i + 1);
        out.formula.answer =
            format!("{} {sign} {}", values[first].formula.answer, values[last].formula.answer);
    } else if first < last {
        let parts: Vec<&str> = values[first..=last].iter().map(|v| v.formula.answer.as_str()).collect();
        out.formula.answer = parts.join(" , ");
        out.formula.value = None;
    }
    out.formula.place = values[first].formula.place.start..values[last].formula.place.end;
    out.formula.answer += &unit(&text[values[last].outer.end..end.max(values[last].outer.end)]);
    out
}

/// `1, 2, or 3`: an "or" after a comma joins what a comma has joined before.
fn listed<'a>(values: &[Stated], i: usize, at: usize, between: &impl Fn(usize) -> &'a str) -> bool {
    i + 1 == at && i > 0 && joins(between(i)) && equal(&values[i - 1], &values[i], between(i - 1))
}

/// The sign of percent or the unit that stands after a value.
pub(super) fn unit(after: &str) -> String {
    let after = after.trim_start();
    let word: String = after.chars().take_while(|c| c.is_alphabetic()).collect();
    if after.starts_with(['%']) || after.starts_with("\\%") || units::is_percent(&word) {
        "\\%".to_owned()
    } else if word.chars().count() > 1 && units::canonical(&word).is_some() && word != "in" {
        format!("\\text{{ {word}}}")
    } else {
        String::new()
    }
}

fn words_of(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    words::parts(text, char::is_alphanumeric)
}

/// The letter of a choice that a sentence says to be right: `so B is the correct answer`.
pub(super) fn choice(text: &str, sentence: Range<usize>, language: &Language) -> Option<Range<usize>> {
    let part = &text[sentence.clone()];
    let lower = lowered(part);
    let chosen = |at: usize| {
        let alone = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '\'' || c > '\u{2e80}');
        if !alone(part[..at].chars().next_back()) || !alone(part[at + 1..].chars().next()) {
            return false;
        }
        // In this clause: `A is wrong, so it must be D`, `D, because A is wrong`.
        let clause = &lower[lower[..at].rfind([',', ';', '，']).unwrap_or(0)..];
        let mut said = words_of(clause).take(40).take_while(|w| language.role(w) != Some(Role::Reason));
        let denied = said.any(|w| language.is(w, Role::Deny) || language.is(w, Role::Wrong));
        // `选（D）`, `I think it's D`
        let before = lower[..at].trim_end_matches(['(', '（', ' ', '*']);
        let ends = |before: &str, words: &str| words.split('|').any(|word| before.ends_with(word));
        let chooses = |before: &str| ends(before, "选|it's| choose| pick| select| say");
        // `choose plan B`
        let noun = before.rsplit_once(' ').filter(|(_, noun)| noun.chars().all(char::is_alphabetic));
        if chooses(before) || noun.is_some_and(|(verb, _)| chooses(verb)) && !denied {
            return true;
        }
        // `I go with option B`, but not `option B is too large`
        let named = ends(before, " option| choice| only");
        let after = lower[at + 1..].trim_start_matches([')', '）', ' ', '*']);
        // A letter that another follows is the first of a list: `C, A, B`.
        let listed =
            after.strip_prefix(',').is_some_and(|next| words_of(next).next().is_some_and(|w| w.len() == 1));
        let ended = after.is_empty() || !listed && after.starts_with([',', '.', ';', '。']);
        let said = words_of(before)
            .next_back()
            .is_some_and(|w| w == "be" || language.is(w, Role::Copula) || language.is(w, Role::So));
        let verb = words_of(after).next().unwrap_or("");
        let copula = verb == "must" || language.is(verb, Role::Copula);
        let mut words = words_of(after).take_while(|w| language.role(w) != Some(Role::So)).take(4);
        let right = words.any(|w| language.is(w, Role::Right));
        // `Choice A describes one case`: the subject of its clause is not chosen by that.
        let subject = words_of(clause).next().is_some_and(|w| words::is_among(w, "option|choice"));
        // `Let's consider option C first.`
        let open = || words_of(clause).any(|w| language.is(w, Role::Condition) && w != "take");
        !denied && (named && !copula && (!subject || ended) && !open() || said && ended || copula && right)
    };
    let mut letters = part.char_indices().filter(|(_, c)| ('A'..='J').contains(c));
    let at = sentence.start + letters.rfind(|(at, _)| chosen(*at))?.0;
    Some(at..at + 1)
}

/// The word that the conclusion of a sentence gives where it has no value: `5 days later, so the meeting is on Monday`.
pub(super) fn concluded_word(prose: &Prose<'_>, sentence: Range<usize>) -> Option<Range<usize>> {
    let Prose { text, language, .. } = prose;
    let part = &text[sentence.clone()];
    let so = part.split(|c: char| !c.is_alphabetic()).rfind(|w| language.is(w, Role::So))?;
    let so = place_of(so, text);
    let values = items(prose, so.end..sentence.end).iter().any(|item| matches!(item, Item::Value(_)));
    word(text, so.start..sentence.end, language).filter(|_| !values)
}

/// The word that a sentence gives: its reply to a question whether, or a name after the copula.
pub(super) fn word(text: &str, sentence: Range<usize>, language: &Language) -> Option<Range<usize>> {
    let part = &text[sentence.clone()];
    let lead = part.len() - part.trim_start().len();
    let first = part[lead..].split(|c: char| !c.is_alphabetic()).next()?;
    let after = part[lead + first.len()..].chars().next();
    if language.is(&first.to_lowercase(), Role::Reply)
        && after.is_none_or(|c| matches!(c, ',' | '.' | ';' | ':' | '!'))
    {
        return Some(sentence.start + lead..sentence.start + lead + first.len());
    }
    // `The equation has no real solutions`
    if let Some(at) = part.rfind(" no ")
        && words::says_none(&words::canonical(&part[at..]))
    {
        return Some(sentence.start + at..sentence.start + part.trim_end().trim_end_matches('.').len());
    }
    let concludes = language.is(&first.to_lowercase(), Role::So);
    // `Hence, Bob is the oldest`
    let mut words = words::parts(&part[lead + first.len()..], |c| !matches!(c, ' ' | ','));
    if let (true, Some(name), Some(copula), Some(article)) =
        (concludes, words.next(), words.next(), words.next())
        && name.starts_with(char::is_uppercase)
        && language.is(copula, Role::Copula)
        && language.is(article, Role::Definite)
    {
        return Some(place_of(name, text));
    }
    // A conclusion that ends in one or two words after its copula, or a statement in a reply.
    let end = part.find(": ").unwrap_or(part.trim_end().trim_end_matches(['.', '!']).len());
    let at = [" is ", " are ", " was ", " est ", " ist ", " es "]
        .iter()
        .filter_map(|c| part[..end].rfind(c).map(|at| at + c.len()))
        .max()?;
    let said = &part[at..end];
    // `a rhombus`, `on Monday`
    let leads = |word| language.is(word, Role::Indefinite) || language.is(word, Role::Preposition);
    let article = said.split_once(' ').filter(|(word, _)| leads(word));
    let said = article.map_or(said, |(_, noun)| noun);
    let at = end - said.len();
    let plain = said.chars().all(|c| c.is_alphabetic() || matches!(c, ' ' | '-' | '\''));
    let judged = said.to_lowercase().split(' ').any(|w| {
        matches!(language.role(w), Some(Role::Right | Role::Wrong | Role::Confirm | Role::Definite))
    });
    let replies = language.is(&said.to_lowercase(), Role::Reply);
    // `The day is Thursday`
    let proper = said.starts_with(char::is_uppercase) && said.chars().count() > 2;
    let short = !said.is_empty() && said.split_whitespace().count() <= 2;
    (short && plain && (replies || (concludes || proper) && !judged))
        .then(|| sentence.start + at..sentence.start + end)
}
