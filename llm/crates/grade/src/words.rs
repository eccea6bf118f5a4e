//! Words with a meaning: function names, connectives, numbers, and the canonical spelling of a text.

use super::named::coded;

coded! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    /// A connective of logic; `If` is `\to` and `\implies`.
    Logic by logic: And Or Not If Iff
}

/// True if `text` is one of the words or phrases of `list`, which are parted by `|`.
pub(super) fn is_among(text: &str, list: &str) -> bool {
    list.split('|').any(|one| one == text)
}

/// The longest pieces of a text that are made of such characters.
pub(super) fn parts(text: &str, keep: impl Fn(char) -> bool) -> impl DoubleEndedIterator<Item = &str> {
    text.split(move |c| !keep(c)).filter(|part| !part.is_empty())
}

/// The connective that a word is: "and" or "or", which joins the parts of an answer.
pub(super) fn connective(word: &str) -> Option<Logic> {
    const AND: &str = "and|y|und|et|e|и|и также|和|与|及|と|और|و|en";
    const OR: &str = "or|oder|ou|o|или|或|或者|または|या|أو|или же|either";
    // One letter of plain Latin text is a variable.
    let is = |list, plain| word.len() > 1 && (is_among(word, list) || word.eq_ignore_ascii_case(plain));
    if is(AND, "and") { Some(Logic::And) } else { is(OR, "or").then_some(Logic::Or) }
}

/// True for a word that joins two pieces of mathematics, between which one letter is no variable.
pub(super) fn joins_mathematics(word: &str) -> bool {
    matches!(word, "y" | "e" | "o") || connective(word).is_some()
}

/// Words before a value that do not change it.
pub(super) fn is_hedge(text: &str) -> bool {
    const HEDGES: &str =
        "approximately|approx.|approx|about|exactly|is|are|equals|is equal to|thus|so|therefore";
    is_among(text.to_ascii_lowercase().trim_matches([' ', ',', ':']), HEDGES)
}

/// The number that English words name, below a thousand millions.
pub(super) fn number_word(text: &str) -> Option<u32> {
    const SMALL: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen \
                         fifteen sixteen seventeen eighteen nineteen";
    const TENS: &str = "twenty thirty forty fifty sixty seventy eighty ninety";
    let place = |list: &str, word: &str| (0..).zip(list.split(' ')).find(|(_, w)| *w == word).map(|(n, _)| n);
    if let Some(n) = place(SMALL, text) {
        return Some(n);
    }
    for (scale, power, most) in [("million", 1_000_000, 1000), ("thousand", 1000, 1000), ("hundred", 100, 10)]
    {
        let Some((count, rest)) = text.split_once(scale) else { continue };
        let part = |text: &str, below: u32| match text.trim().trim_start_matches("and ") {
            "" => None,
            words => Some(number_word(words).filter(|n| *n < below)),
        };
        let count = part(count, most).unwrap_or((power == 100).then_some(1))?;
        return Some(count * power + part(rest, power).unwrap_or(Some(0))?);
    }
    let (tens, ones) = text.split_once(' ').unwrap_or((text, "zero"));
    Some((place(TENS, tens)? + 2) * 10 + place(SMALL, ones).filter(|n| *n < 10)?)
}

/// The digits of a number in words that begins a text, and its bytes: `twenty-one`, `two thirds`, but not "one".
pub(super) fn numeral(text: &str) -> Option<(String, usize)> {
    const PARTS: &str = "half third quarter fifth sixth seventh eighth ninth tenth";
    let (mut said, mut end, mut found) = (String::new(), 0, None);
    loop {
        let length = text[end..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = text[end..end + length].to_ascii_lowercase();
        // `one half`, `two thirds`, but not the ordinal `twenty fifth`
        let one = if word == "halves" { "half" } else { word.trim_end_matches('s') };
        let part = PARTS.split(' ').position(|part| part == one);
        if let (Some((n, _)), Some(part)) = (found, part)
            && (n == 1) == (one == word)
        {
            return Some((format!("{n}/{}", part + 2), end + length));
        }
        said += &word;
        end += length;
        if let Some(n) = number_word(&said) {
            found = Some((n, end));
        } else if length == 0 || !is_among(&word, "hundred|and") {
            break;
        }
        if !text[end..].starts_with([' ', '-']) {
            break;
        }
        (said, end) = (said + " ", end + 1);
    }
    let (n, end) = found.filter(|(n, end)| *n > 1 && !text[*end..].starts_with(char::is_alphanumeric))?;
    Some((n.to_string(), end))
}

/// True for the ending of `21st`, `2nd`, `3rd`, `5th`.
pub(super) fn is_ordinal_ending(text: &str) -> bool {
    matches!(text, "st" | "nd" | "rd" | "th")
}

/// True if a text names a number, infinity or the empty set. The text is in canonical spelling.
pub(super) fn has_value(text: &str) -> bool {
    number_word(text).is_some() || says_infinity(text) || says_none(text)
}

/// True if words after a number change it, as in `3 and a half`, `3 or less`, `3 tenths` and `2 dozen eggs`.
pub(super) fn change_a_number(text: &str) -> bool {
    const PARTS: &str = "half|halves|thirds|fourths|fifths|sixths|sevenths|eighths|ninths|tenth|tenths|\
    hundredth|hundredths|\
        thousandth|thousandths|hundred|hundreds|dozen|dozens";
    let mut words = text.split_whitespace();
    words.next().is_some_and(|first| {
        is_among(&first.to_ascii_lowercase(), PARTS) || connective(first).is_some() && words.next().is_some()
    })
}

/// The power of a thousand that a word after a number is.
pub(super) fn power_of_thousand(word: &str) -> Option<usize> {
    ["thousand", "million", "billion", "trillion"].iter().position(|name| *name == word).map(|at| at + 1)
}

/// True if a text names infinity. The text is in canonical spelling.
pub(super) fn says_infinity(text: &str) -> bool {
    matches!(text, "infinity" | "positive infinity")
}

/// True if a text says that there is no solution. The text is in canonical spelling.
pub(super) fn says_none(text: &str) -> bool {
    const PHRASES: &str = "no solution|no solutions|no real solution|no real solutions|none|empty set|the empty set|\
        there is no solution|there are no solutions|does not exist|no such|нет решений|无解|没有解|没有实数解|无实数解|keine lösung|\
        pas de solution|sin solución";
    is_among(text, PHRASES)
}

/// True for a day and its month: `5 march`, `march 5 2024`, `2024 03 05`.
pub(super) fn is_date(text: &str) -> bool {
    const MONTHS: &str =
        "january|february|march|april|may|june|july|august|september|october|november|december";
    let number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let words: Vec<&str> = text.split(' ').collect();
    let named = words.iter().filter(|word| is_among(word, MONTHS)).count() == 1;
    let mut rest = words.iter().filter(|word| !is_among(word, MONTHS));
    words.len() > 1 && (named || words.len() == 3) && rest.all(|word| number(word))
}

/// True if texts of the same words in lower case are words and no symbols: `East` and `east`, but not `kT` and `KT`.
pub(super) fn folds(a: &str, b: &str) -> bool {
    let words = |text: &str| {
        let commands = text.split('\\').enumerate().map(|(i, part)| {
            if i > 0 { part.trim_start_matches(|c: char| c.is_ascii_alphabetic()) } else { part }
        });
        let plain = commands.collect::<Vec<_>>().join(" ");
        parts(&plain, char::is_alphabetic).map(str::to_owned).collect::<Vec<_>>()
    };
    let upper = |word: &str| word.chars().all(char::is_uppercase);
    let plain = |word: &str| word.chars().skip(1).all(char::is_lowercase) || upper(word);
    let equal = |a: &String, b: &String| {
        let vowel = a.chars().any(|c| !c.is_ascii() || "aeiouyAEIOUY".contains(c));
        let long = a.chars().count() >= if upper(a) || upper(b) { 4 } else { 3 };
        let reply = is_among(&a.to_lowercase(), "yes|no|ja|nein|oui|non|sí|si");
        a == b || plain(a) && plain(b) && vowel && (long || reply)
    };
    let (a, b) = (words(a), words(b));
    a.len() == b.len() && (a.len() > 1 || a.iter().zip(&b).all(|(a, b)| equal(a, b)))
}

/// The spelling by which texts are compared: lower case, words and numbers with one blank between them.
pub(super) fn canonical(text: &str) -> String {
    let lower = |word: &str| word.chars().flat_map(char::to_lowercase).collect::<String>();
    parts(text, char::is_alphanumeric).map(lower).collect::<Vec<_>>().join(" ")
}
