//! The free mode: places of an answer, the surest first.

use std::ops::Range;

use super::boxes::{answer_place, last_box, places};
use super::chain::{Formula, Kind, formula};
use super::clause::{Rank, Stated};
use super::clean::{Clean, cleaned, lowered};
use super::environments::{Environment, environments};
use super::found::{Found, FoundBy, place_of};
use super::language::{Language, Role, language};
use super::phrases::{PHRASES, announced};
use super::prose::{balanced, count_brackets, is_prose};
use super::statement::{self, Prose, is_remark, sentences, stated};
use crate::words::{is_among, is_ordinal_ending, parts};

/// Bytes at the end of a response that may hold an answer without a box.
const WINDOW: usize = 32 * 1024;
/// Longest line after `####` that is an answer and no heading with a text.
const LINE: usize = 200;
/// Longest text without mathematics that is taken as an answer.
const WORDS: usize = 80;
/// Sentences that are looked through for a statement, from the last one backwards.
const SENTENCES: usize = 40;

pub(super) fn answer(original: &str) -> Option<Found> {
    let clean = cleaned(original, tail(original));
    let text = &clean.text;
    let unmarked = || whole(text).or_else(|| last_statement(text)).or_else(|| short_text(text));
    let found = marked(text).unwrap_or_else(unmarked)?;
    Some(Found { span: clean.place_in(original, &found.span), ..found })
}

/// The answer that a reference marks; itself if it marks none.
pub(super) fn reference(original: &str) -> String {
    let Clean { text, .. } = cleaned(original, tail(original));
    let environment_only = || {
        let found = environments(&text);
        group(&text, &found).filter(|_| !is_prose(&outside(&text, 0..text.len(), &found)))
    };
    let found = marked(&text).flatten().map(|found| found.answer).or_else(environment_only);
    found.unwrap_or(text).trim().to_owned()
}

/// The start of the part that may hold an answer: a box is looked for everywhere, the rest in a window at the end.
fn tail(text: &str) -> usize {
    if text.contains("box") { 0 } else { window(text) }
}

fn window(text: &str) -> usize {
    let from = text.len().saturating_sub(WINDOW);
    (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The marked answer: boxes, tags, `####`, a phrase, a field. Of several marks the later one counts. `None` without a
/// mark; `Some(None)` for a mark without an answer in it, and none after it: the response gives none.
fn marked(text: &str) -> Option<Option<Found>> {
    if is_taken_back(text) {
        return Some(None);
    }
    let from = window(text);
    let after = |end: usize| hashes(text, end.max(from)).or_else(|| announcement(text, end.max(from)));
    if let Some(last) = places(text).pop() {
        let inside = last_box(text).filter(|inside| !inside.trim().is_empty());
        let Some((place, inside)) = answer_place(text).zip(inside) else {
            return Some(after(last.outer.end));
        };
        let boxed = || {
            let found = Found::part(text, &text[place.clone()], FoundBy::Boxed)?;
            Some(Found { answer: inside.trim().to_owned(), ..found })
        };
        return Some(after(place.end).or_else(|| concluded(text, place.end.max(from))).or_else(boxed));
    }
    if let Some(inside) = super::lenient_tag(&text[from..]) {
        let stated = statement_from(text, place_of(inside, text), FoundBy::Tag);
        return Some(stated.or_else(|| Found::part(text, inside, FoundBy::Tag)));
    }
    let empty = text[from..].contains("####") && super::after_hashes(&text[from..]).is_none();
    let found = match (hashes(text, from), announcement(text, from)) {
        (Some(hashes), said) => said.filter(|said| said.span.start > hashes.span.end).or(Some(hashes)),
        (None, said) if empty => said.filter(|said| text[said.span.end..].rfind("####").is_none()),
        (None, said) => field(text, from).or(said).or_else(|| code(text)),
    };
    found.map(Some).or(empty.then_some(None))
}

/// True if the last sentence, or its last clause, says of the answer before it that it is wrong: `Hmm, actually no.`,
/// `No, that's wrong.`, but not `15 is not correct.`
fn is_taken_back(text: &str) -> bool {
    const OF_THE_ANSWER: &str = "that|that's|this|it|it's|hmm|no|wait|actually";
    const JUDGES: &str = "|oh|sorry|but|is|isn't|be|can't|cannot|not|wrong|incorrect|right|correct";
    let text = text.trim_end().trim_end_matches(['.', '!', '*']);
    let sentence = text.rsplit(['.', '!', '?', '\n']).next().unwrap_or("");
    let clause = sentence.rsplit([',', ';']).next().unwrap_or("");
    [sentence, clause].into_iter().filter(|part| part.len() < text.len()).any(|part| {
        let part = lowered(part).replace('’', "'");
        let words: Vec<&str> = parts(&part, |c| !" ,;*".contains(c)).collect();
        let of_the_answer = words.iter().any(|word| is_among(word, OF_THE_ANSWER));
        let only = words.iter().all(|word| is_among(word, OF_THE_ANSWER) || is_among(word, JUDGES));
        let denied = words.iter().any(|word| is_among(word, "not|isn't|can't|cannot"));
        let wrong = match words.last() {
            Some(&("wrong" | "incorrect")) => !denied,
            Some(&("right" | "correct")) => denied,
            Some(&"no") => words.len() > 1,
            _ => false,
        };
        of_the_answer && only && wrong
    })
}

/// The value of a last sentence that concludes, after the box of a step: `The total is therefore $25$.`
fn concluded(text: &str, from: usize) -> Option<Found> {
    let rest = &text[from..];
    let prose = Prose::read(rest);
    let tongue = prose.language;
    let last = sentences(&prose).into_iter().next_back().filter(|last| last.start > 0)?;
    let lower = lowered(&rest[last.clone()]);
    let first = parts(&lower, char::is_alphabetic).next()?;
    let says = |phrases: &str| phrases.split('|').any(|phrase| lower.contains(phrase));
    let concludes = tongue.is(first, Role::So) || says("therefore|conclude that|solution:|final answer");
    let named = says("is the answer|is our answer|is the final answer");
    let one = stated(&prose, last.clone(), false)
        .filter(|one| (named || concludes && one.rank >= Rank::New) && one.rank > Rank::None)?;
    (!is_remark(&rest[last], tongue)).then(|| found_in(one, FoundBy::Statement, from))
}

/// The line after the last `####`.
fn hashes(text: &str, from: usize) -> Option<Found> {
    let line = super::after_hashes(&text[from..]).map(str::trim).filter(|line| line.len() <= LINE)?;
    // `#### The total is 56`
    if is_prose(line) {
        return statement_from(text, place_of(line, text), FoundBy::Hashes);
    }
    Found::part(text, line, FoundBy::Hashes)
}

/// The statement after the last words that announce an answer, past those whose statement is denied.
fn announcement(text: &str, from: usize) -> Option<Found> {
    let (lower, tongue) = (lowered(&text[from..]), language(&text[from..]));
    [&PHRASES.last, &PHRASES.answer].into_iter().find_map(|phrases| {
        let mut end = lower.len();
        for _ in 0..4 {
            let (noun, start) = announced(&lower[..end], phrases)?;
            // `One might think that the answer is 5.`
            let before = lower[..noun].rsplit(['.', '\n', '!', '?']).next().unwrap_or("");
            let conceded = before.split(' ').any(|word| tongue.is(word, Role::Concede))
                || PHRASES.unknown.split('|').any(|phrase| before.contains(phrase));
            if !conceded && let Some(found) = statement_from(text, from + start..text.len(), FoundBy::Marker)
            {
                return Some(corrected(text, found.span.end).unwrap_or(found));
            }
            end = noun;
        }
        None
    })
}

/// The statement of a later sentence that takes back what was announced: `However, the correct value is 9.`
fn corrected(text: &str, from: usize) -> Option<Found> {
    let rest = &text[from..];
    let prose = Prose::read(rest);
    let tongue = prose.language;
    sentences(&prose).into_iter().find_map(|sentence| {
        let mut words = rest[sentence.clone()].split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
        let first = words.find(|word| !is_among(word, "|hmm|wait|oh"))?;
        let opens = tongue.is(&first, Role::Contrast);
        let one = stated(&prose, sentence.clone(), false).filter(|s| opens && s.rank >= Rank::Computed)?;
        (!is_remark(&rest[sentence], tongue)).then(|| found_in(one, FoundBy::Statement, from))
    })
}

/// The value of the last field `"answer"` of an object of JSON.
fn field(text: &str, from: usize) -> Option<Found> {
    let keys = ["\"answer\"", "\"final_answer\"", "\"result\""];
    let (at, key) = keys.iter().filter_map(|key| Some((text[from..].rfind(key)? + from, key))).max()?;
    let rest = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start();
    let value = match rest.strip_prefix('"') {
        Some(inside) => inside.split_once('"')?.0,
        None => rest.split([',', '}', '\n']).next()?,
    };
    Found::part(text, value, FoundBy::Json)
}

/// The content of a code block at the end of the text.
fn code(text: &str) -> Option<Found> {
    let inside = text.trim_end().strip_suffix("```")?;
    let (_, block) = inside.rsplit_once("```")?.1.split_once('\n')?;
    // The output after a prompt: `>>> 17 % 5`.
    let block = block.trim();
    let line = if block.starts_with(">>>") { block.lines().next_back()? } else { block };
    Found::part(text, line, FoundBy::Code).filter(|_| !line.contains('\n') && !is_prose(line))
}

/// A text that is nothing but mathematics.
fn whole(text: &str) -> Option<Found> {
    // Of the lines of a computation the last one counts; `x = 1` above `y = 2` is a system.
    let computed = |line: &str| line.split_once('=').is_some_and(|(left, _)| left.trim().len() > 3);
    let several = text.trim().lines().count() > 1 && text.lines().any(computed);
    let plain = !several && environments(text).is_empty() && !is_prose(text);
    // The marks of a quotation and of a heading.
    let said = text.trim_start_matches(['>', '#', ' ', '\n']);
    Found::part(text, said, FoundBy::Whole).filter(|_| plain).map(reduced)
}

/// A part of the text with line breaks in place of its environments, every character at the same offset.
fn outside(text: &str, part: Range<usize>, found: &[Environment]) -> String {
    let mut out = String::with_capacity(part.len());
    let mut at = part.start;
    for one in found.iter().filter(|e| e.outer.start >= part.start && e.outer.end <= part.end) {
        out += &text[at..one.outer.start];
        out.extend(std::iter::repeat_n('\n', one.outer.len()));
        at = one.outer.end;
    }
    out + &text[at..part.end]
}

/// The environments at the end of a text that belong together, with the unit after them.
fn group(text: &str, found: &[Environment]) -> Option<String> {
    let mut first = found.len().checked_sub(1)?;
    while first > 0 && statement::joins(&text[found[first - 1].outer.end..found[first].outer.start]) {
        first -= 1;
    }
    let part = |e: &Environment| text[e.inner.clone()].trim().trim_end_matches(['.', ',']).to_owned();
    let parts: Vec<String> = found[first..].iter().map(part).collect();
    Some(parts.join(" , ") + &statement::unit(&text[found[found.len() - 1].outer.end..]))
}

/// A value stated in the part of a text that begins at `from`.
fn found_in(stated: Stated, rule: FoundBy, from: usize) -> Found {
    let Formula { answer, value, place, .. } = stated.formula;
    Found { answer: answer.trim().to_owned(), value, span: place.start + from..place.end + from, rule }
}

/// The answer after words that announce it, in the first sentence there that says something.
fn statement_from(text: &str, place: Range<usize>, rule: FoundBy) -> Option<Found> {
    let rest = &text[place.clone()];
    let lead = rest.len() - rest.trim_start().len();
    let rest = &rest[lead..];
    let start = place.start + lead;
    let prose = Prose::read(rest);
    let sentence = sentences(&prose).into_iter().next()?;
    let said = rest[sentence.clone()].trim();
    if let Some(letter) = choice(said.trim_start_matches(['"', '“', '*', ' '])) {
        return Found::part(text, letter, rule);
    }
    let said = balanced(unmarked(unmarked(said).trim_end_matches(['!', '?', '！', '？'])));
    if said.is_empty() {
        return None;
    }
    if prose.found.iter().all(|e| e.outer.start >= sentence.end) && !is_prose(said) {
        return Found::part(text, said, rule).map(reduced);
    }
    if let Some(one) = stated(&prose, sentence, true) {
        if is_operand(rest, &one.formula.place) {
            return Found::part(text, said, rule);
        }
        return Some(found_in(one, rule, start));
    }
    // `not 50`
    let denied = prose.language.is(&said.split(' ').next().unwrap_or("").to_lowercase(), Role::Deny);
    Found::part(text, said, rule).filter(|_| said.len() <= WORDS && !denied)
}

/// True for a number with which the words next to it do something: `7 squared`, `half of 7`, `7 less than 20`.
fn is_operand(text: &str, place: &Range<usize>) -> bool {
    const AFTER: &str =
        "squared|cubed|factorial|choose|dozen|less|fewer|more|th|st|nd|rd|plus|minus|divided|modulo";
    const BEFORE: &str =
        "square|cube|root|half|twice|double|triple|third|quarter|logarithm|reciprocal|inverse|negation";
    let (before, after) = (text[..place.start].to_lowercase(), text[place.end..].to_lowercase());
    let before = before.rsplit(['.', '\n', ',']).next().unwrap_or("");
    let before: Vec<&str> = parts(before, char::is_alphabetic).rev().take(3).collect();
    let mut after = parts(&after, char::is_alphanumeric);
    let (word, next) = (after.next().unwrap_or(""), after.next().unwrap_or(""));
    let ordinal = is_ordinal_ending(text[place.clone()].trim_start_matches(|c: char| c.is_ascii_digit()));
    // `6 times 7`, `6 to the power of 2`, `the 6th prime`
    let goes_on = word == "times" && next.starts_with(|c: char| c.is_ascii_digit())
        || (word, next) == ("to", "the")
        || ordinal && !word.is_empty();
    goes_on
        || is_among(word, AFTER)
        || match before[..] {
            ["of", noun, ..] => is_among(noun, BEFORE),
            [word, ..] => matches!(word, "twice" | "half" | "double" | "thrice"),
            [] => false,
        }
}

/// The end of a computation in place of all of it: `90 feet` for `15 feet * 6 = 90 feet`.
fn reduced(found: Found) -> Found {
    let one = formula(&found.answer, 0..found.answer.len()).filter(|one| one.kind == Kind::Result);
    let Some(one) = one else { return found };
    let start = found.span.start + one.place.start;
    Found { span: start..start + one.place.len(), answer: one.answer, ..found }
}

/// Removes quotation marks, emphasis and the full stop.
pub(super) fn unmarked(text: &str) -> &str {
    text.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '“' | '”' | '*' | '_' | '`' | '。' | '।')
    })
    .trim_end_matches('.')
}

/// The letter of a choice at the beginning, with the text of the choice if it stands after a mark.
pub(super) fn choice(text: &str) -> Option<&str> {
    let open = text.starts_with('(');
    let rest = text.trim_start_matches('(');
    rest.chars().next().filter(|c| ('A'..='J').contains(c))?;
    let after = rest[1..].trim_start_matches(['"', '”']);
    let length = text.len() - rest.len() + 1;
    match after.chars().next() {
        None => Some(text),
        Some(')') => {
            Some(&text[..if is_prose(&after[1..]) { length + usize::from(open) } else { text.len() }])
        }
        // `C, A, B`
        Some(',') if after[1..].trim_start().starts_with(|c| ('A'..='J').contains(&c)) => None,
        Some('.' | ':' | ',' | ';' | '。' | '，' | '、' | '*' | '\n') => Some(&text[..length]),
        Some(c) if c.is_alphabetic() && !c.is_ascii() => Some(&text[..length]),
        Some(' ') if after.trim_start().starts_with("because") => Some(&text[..length]),
        _ => None,
    }
}

/// The last thing said: the value of the last sentence that states one, or its choice or word.
fn last_statement(text: &str) -> Option<Found> {
    let from = window(text);
    let window = &text[from..];
    let prose = Prose::read(window);
    let (found, tongue) = (&prose.found, prose.language);
    let places = sentences(&prose);
    if let Some(reply) = replied(&prose, &places) {
        return Found::part(text, &window[reply], FoundBy::Word);
    }
    let mut fallback: Option<(Rank, Found)> = None;
    // Whether a sentence was read.
    let (mut brackets, mut spoken) = (0usize, false);
    for sentence in places.into_iter().rev().take(SENTENCES) {
        let said = outside(window, sentence.clone(), found);
        let aside = is_aside(&said, &mut brackets);
        // A text that ends in a question or a request is none that answers.
        let plain = lowered(&said);
        let unknown = PHRASES.unknown.split('|').any(|phrase| plain.contains(phrase));
        if is_remark(&said, tongue) || unknown {
            if !aside && !spoken && (unknown || statement::asks(&window[sentence], tongue)) {
                return None;
            }
            continue;
        }
        if let Some(letter) = statement::choice(window, sentence.clone(), tongue) {
            return Found::part(text, &window[letter], FoundBy::Choice);
        }
        if !aside
            && let Some((_, start)) = announced(&lowered(&window[sentence.clone()]), &PHRASES.result)
            && let Some(found) =
                statement_from(text, from + sentence.start + start..from + sentence.end, FoundBy::Marker)
        {
            return Some(found);
        }
        let one = stated(&prose, sentence.clone(), false);
        let rank = one.as_ref().map_or(Rank::None, |one| one.rank);
        let bare = rank <= Rank::Circumstance && fallback.is_none();
        let word = || statement::word(window, sentence.clone(), tongue).filter(|_| bare);
        let concluded = statement::concluded_word(&prose, sentence.clone());
        if let Some(word) = concluded.or_else(word) {
            return Found::part(text, &window[word], FoundBy::Word);
        }
        let Some(one) = one else {
            if !spoken && statement::asks(&window[sentence], tongue) {
                return None;
            }
            spoken |= !aside;
            continue;
        };
        spoken = true;
        let identity = one.formula.left.is_some();
        let one = found_in(one, FoundBy::Statement, from);
        // A formula and nothing else asks to be solved.
        if let [only] = &found[..]
            && only.outer.len() == window.trim().len()
            && !identity
        {
            return Some(Found { value: None, rule: FoundBy::Whole, ..one });
        }
        let least = if is_comment(&said, tongue) { Rank::New } else { Rank::Circumstance };
        if rank >= least && !aside {
            return Some(one);
        }
        if fallback.as_ref().is_none_or(|(known, _)| *known < rank) {
            fallback = Some((rank, one));
        }
    }
    fallback.map(|(_, found)| found)
}

/// `This is based on the 16 that she bought.`, `This is the amount that he saves by his $60 plan.`
fn is_comment(said: &str, tongue: &Language) -> bool {
    let first = said.trim_start().strip_prefix("This is ").and_then(|rest| rest.split(' ').next());
    first.is_some_and(|word| tongue.is(word, Role::Definite) || is_among(word, "based|due"))
}

/// True if a sentence, read from the last to the first, belongs to a remark of one or more in brackets.
fn is_aside(said: &str, brackets: &mut usize) -> bool {
    let (open, close) = count_brackets(said);
    let unclosed = said.trim_start().starts_with('(') && (open > close || said.trim_end().ends_with(')'));
    let aside = *brackets > 0 || close > open || unclosed;
    *brackets = (*brackets + close).saturating_sub(open);
    aside
}

/// The yes or no that at most two sentences open with and then give a reason for, or leave without a computed value.
fn replied(prose: &Prose<'_>, places: &[Range<usize>]) -> Option<Range<usize>> {
    let (text, tongue) = (prose.text, prose.language);
    let (first, last) = (places.first()?, places.last()?);
    let reply = statement::word(text, first.clone(), tongue)?;
    let yes_or_no = tongue.is(&text[reply.clone()].to_lowercase(), Role::Reply);
    let computed = stated(prose, last.clone(), false).is_some_and(|one| one.rank >= Rank::Computed);
    let reasons = text.split(|c: char| !c.is_alphabetic()).any(|w| tongue.is(w, Role::Reason));
    let alone = places.len() < 3 && (!computed || reasons || text[reply.end..].starts_with(':'));
    (yes_or_no && text[..reply.start].trim().is_empty() && alone).then_some(reply)
}

/// A few words: a name, a yes or no.
fn short_text(text: &str) -> Option<Found> {
    let said = unmarked(text.trim());
    // A sentence with a number that states none gives no answer.
    let names = !(said.contains(|c: char| c.is_ascii_digit()) && said.contains(' '));
    let short = names && text.trim().len() <= WORDS && environments(text).is_empty();
    Found::part(text, said, FoundBy::Text).filter(|_| short)
}
