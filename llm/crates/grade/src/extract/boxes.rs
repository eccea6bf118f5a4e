//! Boxes: the last one, and those that belong to one answer.

use std::borrow::Cow;
use std::ops::Range;

use super::environments::Environment;
use crate::answer::Answer;
use crate::words::{self, parts};

/// The beginning of a box.
pub const BOXED: &[u8] = br"\boxed{";

/// Words before a box that may deny it.
const BEFORE: usize = 4;

/// The content of the last box that is closed and not denied, with those that commas, "and" or "or" join to it.
pub(super) fn last_box(text: &str) -> Option<Cow<'_, str>> {
    let places = places(text);
    // `\boxed{6}. (Without order it would be \boxed{3}.)`
    let said = |place: &Environment| !denied(text, place);
    let plain = |place: &Environment| {
        said(place) && !sentence(&text[..place.outer.start]).trim_start().starts_with('(')
    };
    let last = places.iter().rposition(plain).or_else(|| places.iter().rposition(said))?;
    let joins = |at: &usize| {
        let between = text.get(places[at - 1].outer.end..places[*at].outer.start);
        let Some(between) = between.map(|between| between.replace("\\text", " ")) else { return false };
        let mut words = parts(&between, |c| !" ${}~\\()".contains(c));
        // `x = \boxed{1}, y = \boxed{2}`, `\boxed{18} for part (a) and \boxed{25}`
        const BETWEEN: &str = "|also|for|part|maybe|perhaps|possibly|the|other|is|one|another|as|well";
        let named = [",", "and", "or"].iter().any(|joint| between.contains(joint));
        let joint = |word: &str| matches!(word.trim_matches([',', ';', '.']), "" | "and" | "or");
        let more = |word: &str| word.trim_end_matches('=').len() < 2 || words::is_among(word, BETWEEN);
        !between.contains('\n') && words.all(|word| joint(word) || named && more(word))
    };
    let first = last - (1..=last).rev().take_while(joins).count();
    Some(if first == last {
        Cow::Borrowed(&text[places[last].inner.clone()])
    } else {
        let parts: Vec<&str> = places[first..=last].iter().map(|place| &text[place.inner.clone()]).collect();
        // `\boxed{0.5}, or \boxed{\frac12}` says one value.
        let one = Answer::read(parts[0]);
        let again = parts.iter().all(|part| one.compare(&Answer::read(part)).is_equal());
        if again { Cow::Borrowed(parts[parts.len() - 1]) } else { Cow::Owned(parts.join(" , ")) }
    })
}

/// The place of the content of the last closed box after the reasoning, in bytes. `\{` and `\}` are no braces.
///
/// ```
/// let text = r"\boxed{1} so \boxed{12}";
/// assert_eq!(grpo_lambda_grade::answer_place(text), Some(20..22));
/// assert_eq!(grpo_lambda_grade::answer_place(r"<think>\boxed{1}</think> I do not know"), None);
/// ```
pub fn answer_place(text: &str) -> Option<Range<usize>> {
    let places = places(text);
    let last = places.iter().rfind(|place| !denied(text, place)).or(places.last())?;
    Some(last.inner.clone())
}

/// The closed boxes after the reasoning, in the order in which they open; nested ones, too: the inner one counts.
pub(super) fn places(text: &str) -> Vec<Environment> {
    let mut i = match text.rfind("</think>") {
        Some(at) => at + "</think>".len(),
        // Reasoning that does not end holds no answer.
        None if text.contains("<think>") => text.len(),
        None => 0,
    };
    let bytes = text.as_bytes();
    // The beginning of a box and of its content; `None` for a brace.
    let mut open: Vec<Option<(usize, usize)>> = Vec::new();
    let mut found = Vec::new();
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => match opening(&bytes[i..]) {
                Some(length) => {
                    open.push(Some((i, i + length)));
                    i += length - 1;
                }
                // A backslash takes the next character with it, unless that one begins a box.
                None if opening(&bytes[i + 1..]).is_none() => i += 1,
                None => {}
            },
            b'{' => open.push(None),
            b'}' => {
                if let Some(Some((outer, inner))) = open.pop() {
                    found.push(Environment { outer: outer..i + 1, inner: inner..i });
                }
            }
            _ => {}
        }
        i += 1;
    }
    found.sort_by_key(|place| place.outer.start);
    found
}

/// True if the words next to a box say that it is not the answer: `not \boxed{7}`, `\boxed{7} is wrong`.
fn denied(text: &str, place: &Environment) -> bool {
    const DENY: &str = "not|isn't|isnt|cannot|can't|never|neither|nor|wrong|incorrect|example|format|e.g";
    const GOES_ON: &str = "but|so|rather|hence|therefore|thus|then|and|we";
    const REPLY: &str = "|no|not|nope|wrong|incorrect|never|wait|isn't|cannot|can't|impossible";
    const FILLERS: &str = "which|but|that|this|it|is|was|must|seems|be|turned|out|to";
    let plain = |c: char| c.is_whitespace() || "$*\\()[]{}:,".contains(c);
    let before = &text[..place.outer.start];
    let clause = sentence(before).rsplit([',', ';']).next().unwrap_or("");
    let words = parts(clause, |c| !plain(c)).rev().map(str::to_lowercase);
    let words: Vec<String> = words.take(BEFORE).take_while(|word| !words::is_among(word, GOES_ON)).collect();
    let after = &text[place.outer.end..];
    // `\boxed{7}? No`, `\boxed{7}? Hmm, that is not right`, but not `\boxed{7}? Yes`
    let asked = after.trim_start_matches(['$', ' ', '*']).strip_prefix('?').is_some_and(|reply| {
        let reply = reply.to_lowercase();
        parts(&reply, |c| c.is_alphanumeric() || c == '\'')
            .find(|word| !words::is_among(word, "hmm|oh|well|actually|it|that|this|is|does|would|be"))
            .is_some_and(|word| words::is_among(word, REPLY))
    });
    let struck = before.ends_with("~~") && after.starts_with("~~");
    let after: Vec<String> = parts(after, |c| !plain(c))
        .filter(|word| *word != "text") // `\boxed{7}\text{ is wrong}`
        .take(FILLERS.split('|').count())
        .map(|word| word.trim_end_matches(['.', '!']).to_lowercase())
        .collect();
    let after: Vec<&str> = after.iter().map(String::as_str).collect();
    let judged = match &after[..] {
        ["is" | "was", "not" | "never", "the" | "a" | "right" | "correct" | "valid" | "possible", ..] => true,
        ["isn't" | "wasn't" | "cannot" | "can't", ..] => true,
        // `, which is incorrect`, `but that turned out to be wrong`
        words => words
            .iter()
            .find(|word| !words::is_among(word, FILLERS))
            .is_some_and(|word| words::is_among(word, "wrong|incorrect|false|impossible|invalid|ruled")),
    };
    let example = sentence(before).trim_start().to_lowercase().starts_with("for example");
    let mut nearest = words.iter().skip_while(|word| words::is_among(word, "the|value|answer|case|option"));
    let ruled_out = nearest.next().is_some_and(|word| word == "out")
        && nearest.next().is_some_and(|word| word.starts_with("rul"));
    judged || struck || asked || example || ruled_out || words.iter().any(|word| words::is_among(word, DENY))
}

/// The part of the last sentence that stands in a text.
fn sentence(before: &str) -> &str {
    let line = before.rsplit(['\n', '!', '?']).next().unwrap_or("");
    line.rsplit(". ").next().unwrap_or("")
}

/// The length of the beginning of a box: `\boxed{`, `\boxed {`, `\fbox{`.
fn opening(bytes: &[u8]) -> Option<usize> {
    let command =
        [&br"\boxed"[..], br"\fbox", br"\framebox"].into_iter().find(|command| bytes.starts_with(command))?;
    let blanks = bytes[command.len()..].iter().take_while(|b| **b == b' ').count();
    (bytes.get(command.len() + blanks) == Some(&b'{')).then_some(command.len() + blanks + 1)
}
