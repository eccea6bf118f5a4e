//! Phrases that announce the answer, in many languages: declared in `phrases.txt`.

use std::sync::LazyLock;

/// Nouns for an answer, and the copulas between them and the answer; each parted by `|`.
pub(super) type Phrase = (String, String);

/// The phrases of `phrases.txt`, from the surest.
#[derive(Default)]
pub(super) struct Phrases {
    /// Phrases for the final answer.
    pub(super) last: Vec<Phrase>,
    /// Phrases for an answer.
    pub(super) answer: Vec<Phrase>,
    /// Phrases for a result; without the colon, which would be a heading.
    pub(super) result: Vec<Phrase>,
    /// Phrases of a response that gives none.
    pub(super) unknown: String,
    fillers: String,
}

pub(super) static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let mut found = Phrases::default();
    for line in include_str!("phrases.txt").lines() {
        let mut fields = line.splitn(3, '\t').map(|field| field.replace('⏎', "\n"));
        let (Some(group), Some(nouns), Some(copulas)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        match group.as_str() {
            "final" => found.last.push((nouns, copulas)),
            "answer" => found.answer.push((nouns, copulas)),
            "result" => found.result.push((nouns, copulas)),
            "unknown" => found.unknown = nouns,
            _ => found.fillers = nouns,
        }
    }
    found
});

/// Most bytes between the noun and its copula: "the answer to this question is".
const GAP: usize = 70;
/// Occurrences of a noun that are looked at, from the last one backwards.
const OCCURRENCES: usize = 16;

/// The place, in bytes, of the last words that announce an answer, and its start. `lower` is the text in lower case.
pub(super) fn announced(lower: &str, phrases: &[Phrase]) -> Option<(usize, usize)> {
    let start = |(nouns, copulas): &Phrase| {
        nouns.split('|').filter_map(|noun| after(lower, noun, copulas)).max_by_key(|(_, start)| *start)
    };
    phrases.iter().filter_map(start).max_by_key(|(_, start)| *start)
}

fn after(lower: &str, noun: &str, copulas: &str) -> Option<(usize, usize)> {
    let mut end = lower.len();
    for _ in 0..OCCURRENCES {
        let at = lower[..end].rfind(noun)?;
        let after = at + noun.len();
        // `answers`, but not `resulting` or `long-answer questions`.
        let inside = noun.is_ascii() && lower[..at].ends_with(|c: char| c.is_ascii_alphabetic() || c == '-');
        let whole =
            !inside && !lower[after..].trim_start_matches('s').starts_with(|c: char| c.is_ascii_alphabetic());
        if let Some(start) = copula(&lower[after..], copulas).filter(|_| whole) {
            let place = after + start;
            return Some((at, place + fillers(&lower[place..])));
        }
        end = at;
    }
    None
}

/// The length of what stands up to the end of the copula.
fn copula(rest: &str, copulas: &str) -> Option<usize> {
    let line = rest
        .find(['\n', '。', '।'])
        .map_or(rest, |end| &rest[..end + usize::from(rest[end..].starts_with('\n'))]);
    copulas
        .split('|')
        .flat_map(|copula| line.match_indices(copula).map(|(at, _)| (at, at + copula.len())))
        .take_while(|(at, _)| *at <= 2 * GAP)
        .filter(|(at, _)| {
            let gap = &line[..*at];
            // `The answer to part (b), which is the question, is 17.`
            let aside = gap.matches(", ").count() == 1 && gap.ends_with(',') && gap.contains(", which ");
            let ends = gap.contains([';', '$', '\\']) || gap.contains(". ");
            *at <= GAP && !ends && (aside || !gap.contains(','))
        })
        .min()
        .map(|(_, end)| end)
}

fn fillers(rest: &str) -> usize {
    let mut left = rest;
    loop {
        let trimmed = left.trim_start();
        let found = PHRASES.fillers.split('|').find_map(|filler| {
            let after = trimmed.strip_prefix(filler)?;
            let word = filler.ends_with(|c: char| c.is_ascii_alphabetic());
            let negative = matches!(filler, "-" | "–" | "—") && !after.starts_with(' ');
            (!negative && (!word || !after.starts_with(|c: char| c.is_ascii_alphanumeric()))).then_some(after)
        });
        match found {
            Some(after) => left = after,
            None => return rest.len() - trimmed.len(),
        }
    }
}
