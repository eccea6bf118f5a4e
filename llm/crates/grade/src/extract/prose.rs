//! Plain expressions among words.

use std::ops::Range;

use crate::lex::function;
use crate::units;
use crate::words::{self, is_among};

/// The kind of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Text with a digit, a command or a sign of a constant: `12`, `x=5`, `\frac{1}{2}`.
    Value,
    /// Signs only: `=`, `+`, `(`.
    Sign,
    Letter,
    Function,
    Connective,
    Unit,
    Word,
}

/// A piece with its place, without the punctuation after it.
#[derive(Clone, Debug)]
struct Piece {
    place: Range<usize>,
    kind: Kind,
    /// A comma or semicolon stands after it.
    comma: bool,
    /// A colon, question mark or the like stands after it.
    stop: bool,
}

/// Words of two letters that are no product of two symbols.
const SHORT_WORDS: &str = "er|is|of|to|we|so|by|at|in|on|as|an|be|or|if|it|no|up|us|he|me|my|do|go|la|le|es|el|il|un|\
    et|de|du|en|se|si|ja|am|zu|um|da|wo|os|lo|al|ou|je|ce|ne|te|tu|su|ok|au|ai|ma|sa|ta|va|ni";

/// Letters of scripts whose words are no symbols of mathematics; a letter with an accent does not end a word.
fn is_foreign(c: char) -> bool {
    c.is_alphabetic() && !matches!(c, '\0'..='\u{24f}' | 'Α'..='ω' | 'Ḁ'..='ỿ' | 'ⁿ' | 'ₙ')
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut foreign = false;
    let cut = |found: &mut Vec<Piece>, place: Range<usize>| {
        if !text[place.clone()].trim().is_empty() {
            found.push(piece(text, place));
        }
    };
    for (at, c) in text.char_indices() {
        if c.is_whitespace() || matches!(c, '，' | '、' | '。' | '；') {
            cut(&mut found, start..at);
            if let (Some(last), false) = (found.last_mut(), c.is_whitespace()) {
                last.comma = true;
            }
            start = at + c.len_utf8();
        } else if c == ':' && text[start..at].chars().filter(|c| c.is_lowercase()).count() > 1 {
            // `Female:9`
            cut(&mut found, start..at + 1);
            start = at + 1;
        } else if is_foreign(c) != foreign {
            cut(&mut found, start..at);
            start = at;
            foreign = !foreign;
        }
    }
    cut(&mut found, start..text.len());
    found
}

fn piece(text: &str, place: Range<usize>) -> Piece {
    let word = &text[place.clone()];
    // `5 : 2`, and the end of a cell.
    if matches!(word, ":" | "|") {
        let kind = if word == ":" { Kind::Sign } else { Kind::Word };
        return Piece { place, kind, comma: false, stop: false };
    }
    let bare = word.trim_end_matches(['.', ',', ';', ':', '?', '"', '”', '\'', '*', '`', '_', '।', '،']);
    // Dots after a digit go on.
    let bare = if word[bare.len()..].starts_with("...") { &word[..bare.len() + 3] } else { bare };
    let after = &word[bare.len()..];
    let lead = bare.len() - bare.trim_start_matches(['"', '“', '\'', '*', '`', '_', '#', '>']).len();
    let place = place.start + lead..place.start + bare.len().max(lead);
    let kind = kind(&text[place.clone()]);
    Piece {
        place, kind, comma: after.contains([',', ';', '،']), stop: after.contains(['.', ':', '?', '।'])
    }
}

fn kind(word: &str) -> Kind {
    let inner = word.trim_matches(['(', ')', '[', ']', '{', '}']);
    let lower = inner.to_lowercase();
    let letters = inner.chars().filter(|c| c.is_alphabetic()).count();
    if words::connective(inner).is_some() {
        return Kind::Connective;
    }
    if word.contains('\\')
        || inner.chars().any(|c| matches!(c, 'π' | '√' | '∞' | '¼'..='¾' | '⅐'..='⅞' | '∅' | 'ℝ'))
    {
        return Kind::Value;
    }
    if inner.chars().any(|c| c.is_ascii_digit()) {
        return if longest_word(inner) { Kind::Word } else { Kind::Value };
    }
    if letters == 0 {
        return Kind::Sign;
    }
    const NAMED: &str = "sqrt|pi|infinity|inf|mod|minus|negative";
    if function(inner).is_some() || is_among(inner.trim_matches(['-', '+']), NAMED) {
        return Kind::Function;
    }
    if inner.is_ascii() && inner.contains(['_', '^']) && !longest_word(inner) {
        return Kind::Value;
    }
    let time = matches!(lower.trim_end_matches('.'), "am" | "pm" | "a.m" | "p.m" | "per");
    if time || words::power_of_thousand(&lower).is_some() {
        return Kind::Unit;
    }
    // `p-q`, `x²`
    let parted = letters > 1 && inner.is_ascii() && inner.split('-').all(|part| part.len() == 1);
    if parted || letters <= 2 && inner.contains(['²', '³', '⁴', 'ⁿ']) {
        return Kind::Value;
    }
    if inner.is_ascii() && letters == inner.len() && letters <= 2 && !is_among(&lower, SHORT_WORDS) {
        return Kind::Letter;
    }
    // `x=y`, `(x+y)/z`, `f(x)`
    let joined = inner.contains(['=', '+', '/', '^', '<', '>', '*', '(']) && !longest_word(inner);
    if joined || letters == 1 && inner.is_ascii() {
        return Kind::Value;
    }
    if units::is_percent(&lower) || lower != "in" && units::canonical(inner).is_some() {
        return Kind::Unit;
    }
    Kind::Word
}

/// True if three or more letters follow each other that are neither a function nor a unit.
fn longest_word(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|word| {
        let known = function(word).is_some()
            || units::canonical(word).is_some()
            || matches!(word, "sqrt" | "pi" | "and" | "or" | "inf");
        word.chars().count() >= 3 && !known
    })
}

/// True if words stand in it that are no mathematics.
pub(super) fn is_prose(text: &str) -> bool {
    let mut depth = 0i32;
    pieces(text).iter().any(|piece| {
        let word = &text[piece.place.clone()];
        let outside = depth == 0 && !word.contains('\\');
        depth += braces(word);
        outside && piece.kind == Kind::Word
    })
}

fn braces(word: &str) -> i32 {
    let count = |c: char| i32::try_from(word.matches(c).count()).unwrap_or(0);
    count('{') - count('}')
}

/// The runs of mathematics in a text, in order.
pub(super) fn runs(text: &str) -> Vec<Range<usize>> {
    let pieces = pieces(text);
    let mut found = Vec::new();
    let mut i = 0;
    while i < pieces.len() {
        let (end, run) = run(text, &pieces, i);
        found.extend(run.filter(|place| says_something(&text[place.clone()])));
        i = end;
    }
    found
}

/// The run that begins at piece `first`, and the piece after it.
fn run(text: &str, pieces: &[Piece], first: usize) -> (usize, Option<Range<usize>>) {
    let word = |i: usize| &text[pieces[i].place.clone()];
    let next_is = |i: usize, kind: Kind| pieces.get(i + 1).is_some_and(|p| p.kind == kind);
    let sign = |p: &Piece| matches!(p.kind, Kind::Sign | Kind::Value) && !p.stop;
    let near_sign = |i: usize| {
        pieces.get(i + 1).is_some_and(sign) || i > 0 && sign(&pieces[i - 1]) && !pieces[i - 1].comma
    };
    // A unit of one letter ends the run: `64 m long`, but `64 m + 1`.
    let unit_after = |i: usize| {
        let unit = || unit_of_a_letter(&text[pieces[i].place.start..]);
        word(i - 1).ends_with(|c: char| c.is_ascii_digit())
            && !next_is(i, Kind::Sign)
            && unit().is_some_and(|(_, n)| n == pieces[i].place.len())
    };
    let belongs = |i: usize| match pieces[i].kind {
        // An article or a connective of one letter is none unless a sign stands next to it.
        Kind::Letter if is_among(word(i), "a|A|I|y|e|o|à") => {
            next_is(i, Kind::Sign) || i > 0 && pieces[i - 1].kind == Kind::Sign
        }
        Kind::Letter | Kind::Value if i > first && unit_after(i) => false,
        Kind::Value | Kind::Sign | Kind::Function => true,
        Kind::Letter => near_sign(i),
        _ => false,
    };
    // A sign alone at the beginning is a bullet.
    let bullet = pieces[first].kind == Kind::Sign
        && matches!(word(first), "-" | "–" | "—" | "*" | "•" | "=" | "/" | ":");
    if bullet || !belongs(first) {
        return (first + 1, None);
    }
    let (mut i, mut end, mut depth) = (first, first, 0);
    while i < pieces.len() {
        let piece = &pieces[i];
        let member = depth > 0 || belongs(i) || piece.kind == Kind::Unit;
        let per = word(i) == "per" && next_is(i, Kind::Value);
        // `10 30-minute episodes`, `5 8 point bucks`: the number of a noun after what is counted.
        let noun = depth == 0 && names_a_noun(text, pieces, i);
        if !member || noun || per {
            i += usize::from(noun);
            break;
        }
        depth = (depth + braces(word(i))).max(0);
        end = i;
        i += 1;
        let unclosed = |(open, close)| open > close;
        let goes_on = !piece.comma
            || depth > 0
            || unclosed(count_brackets(&text[pieces[first].place.start..piece.place.end]));
        if piece.stop && depth == 0 || !goes_on {
            break;
        }
    }
    // A sign alone at the end belongs to the words after it.
    while end > first && pieces[end].kind == Kind::Sign && !word(end).contains([')', ']', '}', '%', '°', '!'])
    {
        end -= 1;
    }
    (i, Some(pieces[first].place.start..pieces[end].place.end))
}

/// True for a number right after another that goes on as a word: `30-minute`, `8 point`.
fn names_a_noun(text: &str, pieces: &[Piece], i: usize) -> bool {
    let counted = text[..pieces[i].place.start].trim_end().ends_with(|c: char| c.is_ascii_digit());
    let word = &text[pieces[i].place.clone()];
    let (number, noun) = word.split_once('-').unwrap_or((word, ""));
    let after = || pieces.get(i + 1).is_some_and(|p| matches!(p.kind, Kind::Word | Kind::Unit));
    counted && number.parse::<u8>().is_ok() && (!noun.is_empty() || after() && !pieces[i].comma)
}

/// The brackets that a text opens and closes.
pub(super) fn count_brackets(text: &str) -> (usize, usize) {
    (text.matches(['(', '[']).count(), text.matches([')', ']']).count())
}

/// True if a run is an answer: it has a digit or a constant, or it gives something a value.
fn says_something(run: &str) -> bool {
    run.contains(|c: char| c.is_ascii_digit() || matches!(c, '∞' | 'π' | '¼'..='¾' | '⅐'..='⅞' | '∅' | 'ℝ'))
        || ["\\pi", "\\infty", "\\emptyset", "infinity", "\\mathbb"].iter().any(|c| run.contains(c))
        || run.contains('=')
}

/// The run without brackets that it does not close or open.
pub(super) fn balanced(run: &str) -> &str {
    let mut run = run.trim();
    loop {
        let (open, close) = count_brackets(run);
        let next = if close > open && run.ends_with([')', ']']) {
            &run[..run.len() - 1]
        } else if open > close && run.starts_with(['(', '[']) {
            &run[1..]
        } else {
            return run;
        };
        run = next.trim();
    }
}

/// The unit at the beginning of a text that is a letter or has a bar or a power, and its length: `m`, `m/s`, `m²`.
pub(super) fn unit_of_a_letter(after: &str) -> Option<(String, usize)> {
    let lead = after.len() - after.trim_start().len();
    let rest = &after[lead..];
    let end = rest.find(|c: char| c.is_whitespace() || ",;:!?)".contains(c)).unwrap_or(rest.len());
    let word = rest[..end].trim_end_matches('.');
    let (name, power) = word.split_at(word.find(['²', '³', '^']).unwrap_or(word.len()));
    let power = match power {
        "²" | "^2" => "^2",
        "³" | "^3" => "^3",
        "" => "",
        _ => return None,
    };
    let part = |part: &str| match part.len() {
        1 => "mgshlLNJKVWA".contains(part),
        _ => units::canonical(part).is_some(),
    };
    let short = name.len() == 1 || name.contains('/') || !power.is_empty();
    (short && !name.is_empty() && name.split('/').all(part))
        .then(|| (format!("{name}{power}"), lead + word.len()))
}
