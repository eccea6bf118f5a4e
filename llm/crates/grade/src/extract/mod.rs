//! The final answer of a response, in one pass over the text for each thing looked for.

mod boxes;
mod chain;
mod clause;
mod clean;
mod environments;
mod found;
mod free;
mod language;
mod phrases;
mod prose;
mod reference;
mod statement;
#[cfg(test)]
mod tests;

pub use boxes::{BOXED, answer_place};
pub use found::{Found, FoundBy};

use boxes::last_box;

use super::named::named;
use super::response::Response;

/// The answer of a response, if it has one. Its type keeps it from being swapped with a [`Gold`](super::Gold).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction(Option<Found>);

named! {
    /// A place in a response where its answer stands.
    ///
    /// All but [`Extraction::Free`] look in one kind of place and see nothing else: no prose, no mathematics outside
    /// the place, no second box, no other language.
    #[derive(Default)]
    Extraction {
        /// The last balanced `\boxed{}`; a text without one is the answer itself
        Auto "auto" (default),
        /// The last balanced `\boxed{}` and nothing else
        Boxed "boxed",
        /// `</think> <answer>...</answer>` in exactly this form, and in it the last `\boxed{}` if there is one
        Tag "tag",
        /// The last `<answer>...</answer>`, wherever it stands, closed or not
        LenientTag "lenient-tag",
        /// The first that is found: `\boxed{}`, `<answer>`, `####`, "final answer is", "answer is", the last number;
        /// a response that was cut off counts only an answer that is marked and finished
        Any "any",
        /// Every way in which people write answers, in the reference too: boxes that belong together, tags, `####`,
        /// "the answer is" in many languages, LaTeX environments, expressions and numbers in prose
        Free "free",
    }
}

impl Extraction {
    /// The answer that a reference holds: itself, or the answer that it marks if that is looked for.
    pub(super) fn reference(self, text: &str) -> String {
        let plain = reference::plain(text);
        if self == Extraction::Free {
            free::reference(&plain)
        } else {
            reference::marked(&plain).into_owned()
        }
    }
}

impl Prediction {
    /// Reads the last box of a response. A later box that is never closed does not hide it.
    ///
    /// ```
    /// use grpo_lambda_grade::Prediction;
    /// assert_eq!(Prediction::boxed(r"\boxed{1} so \boxed{\frac{1}{2}}").answer(), Some(r"\frac{1}{2}"));
    /// assert_eq!(Prediction::boxed(r"\boxed{1} then \boxed{2").answer(), Some("1"));
    /// ```
    pub fn boxed(response: &str) -> Prediction {
        Prediction::extract(response, Extraction::Boxed)
    }

    /// Reads the answer at its place in a response.
    ///
    /// ```
    /// use grpo_lambda_grade::{Extraction, Prediction};
    /// let read = |text| Prediction::extract(text, Extraction::Any);
    /// assert_eq!(read("3 + 4 = 7\n#### 7").answer(), Some("7"));
    /// assert_eq!(read("Therefore, the final answer is: $x=2$. I hope it is correct.").answer(), Some("$x=2$"));
    /// ```
    pub fn extract(response: &str, how: Extraction) -> Prediction {
        let by = |inside: &str, rule| Found::part(response, inside, rule);
        let boxed = |text: &str| {
            let place = answer_place(text)?;
            let found = by(&text[place], FoundBy::Boxed)?;
            let answer = last_box(text)?.trim().to_owned();
            Some(Found { answer, ..found })
        };
        let box_or_all = |text, rule| if answer_place(text).is_some() { boxed(text) } else { by(text, rule) };
        Prediction(match how {
            Extraction::Free => free::answer(response),
            Extraction::Auto => box_or_all(response, FoundBy::Whole),
            Extraction::Boxed => boxed(response),
            Extraction::Tag => response
                .rsplit_once("</think> <answer>")
                .and_then(|(_, after)| after.split_once("</answer>"))
                .and_then(|(inside, _)| box_or_all(inside, FoundBy::Tag)),
            Extraction::LenientTag => {
                lenient_tag(response).and_then(|inside| box_or_all(inside, FoundBy::Tag))
            }
            Extraction::Any => boxed(response)
                .or_else(|| by(lenient_tag(response)?, FoundBy::Tag))
                .or_else(|| by(after_hashes(response)?, FoundBy::Hashes))
                .or_else(|| by(after_phrase(response)?, FoundBy::Marker))
                .or_else(|| by(last_number(response)?, FoundBy::LastNumber)),
        })
    }

    /// Reads the answer of a response; of one that was cut off in prose, a marked and finished one only.
    pub(super) fn read(response: Response<'_>, how: Extraction) -> Prediction {
        let goes_on = |text: &str| text.contains(|c: char| c == '\n' || c == '<' || c.is_alphabetic());
        let ended = |found: &Found| match found.rule {
            FoundBy::Boxed | FoundBy::Json | FoundBy::Code => true,
            FoundBy::Tag | FoundBy::Hashes | FoundBy::Marker => goes_on(&response.text[found.span.end..]),
            _ => false,
        };
        let cut_off = response.cut_off && matches!(how, Extraction::Free | Extraction::Any);
        let Prediction(found) = Prediction::extract(response.text, how);
        Prediction(found.filter(|found| !cut_off || ended(found)))
    }

    /// The text of the answer.
    pub fn answer(&self) -> Option<&str> {
        self.0.as_ref().map(|found| found.answer.as_str())
    }

    /// The answer with its place and the rule that found it.
    pub fn found(&self) -> Option<&Found> {
        self.0.as_ref()
    }

    /// Gives the answer with its place and the rule that found it.
    pub fn into_found(self) -> Option<Found> {
        self.0
    }
}

fn lenient_tag(text: &str) -> Option<&str> {
    let (_, after) = text.rsplit_once("<answer>")?;
    Some(after.split_once("</answer>").map_or(after, |(inside, _)| inside))
}

fn after_hashes(text: &str) -> Option<&str> {
    let (_, after) = text.rsplit_once("####")?;
    after.lines().next().filter(|line| !line.trim().is_empty())
}

/// The text after the last "final answer is", or else after the last "answer is", up to the end of the sentence.
fn after_phrase(text: &str) -> Option<&str> {
    let lower = text.to_ascii_lowercase();
    for phrase in ["final answer is", "answer is", "final answer:", "answer:"] {
        let Some(at) = lower.rfind(phrase) else { continue };
        let after = text[at + phrase.len()..].trim_start_matches([':', ' ', '\n']);
        let line = after.lines().next().unwrap_or("");
        let end = line.find(". ").unwrap_or(line.len());
        let found = line[..end].trim().trim_end_matches('.').trim_matches('*').trim();
        if !found.is_empty() {
            return Some(found);
        }
    }
    None
}

/// The last run of digits, with its sign, decimals and thousands commas.
fn last_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let inner = |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b',');
    let mut start = bytes[..end].iter().rposition(|b| !inner(b)).unwrap_or(0);
    while !bytes[start].is_ascii_digit() && bytes[start] != b'.' {
        start += 1;
    }
    // A minus that follows a digit or a letter is a hyphen or a subtraction.
    let signed = start > 0 && bytes[start - 1] == b'-';
    let alone = start < 2 || !bytes[start - 2].is_ascii_alphanumeric();
    Some(&text[if signed && alone { start - 1 } else { start }..end])
}
