//! The answer that was found, its place and the rule that found it.

use std::ops::Range;

use crate::named::named;

named! {
    /// The way in which an answer stands in a response.
    FoundBy {
        /// The last box, or the boxes that belong together
        Boxed "box",
        /// The text between the tags for an answer
        Tag "tag",
        /// The line after `####`
        Hashes "hashes",
        /// The statement after words that announce an answer
        Marker "marker",
        /// The field for an answer in an object of JSON
        Json "json",
        /// The content of the code block at the end
        Code "code",
        /// The letter of a choice that is said to be right
        Choice "choice",
        /// The response itself, which is mathematics and nothing else
        Whole "whole",
        /// The value that the last statement in prose gives
        Statement "statement",
        /// The word that the last statement in prose gives, or a yes or no
        Word "word",
        /// The last run of digits
        LastNumber "last-number",
        /// The response itself, a few words
        Text "text",
    }
}

/// An answer that was found in a response.
///
/// ```
/// use grpo_lambda_grade::{Extraction, FoundBy, Prediction};
/// let text = "He works 5 x 8 = 40 hours in 5 days.";
/// let prediction = Prediction::extract(text, Extraction::Free);
/// let found = prediction.found().ok_or("nothing found")?;
/// assert_eq!((found.answer.as_str(), &text[found.span.clone()]), ("40 hours", "40 hours"));
/// assert_eq!(found.rule, FoundBy::Statement);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The text of the answer.
    pub answer: String,
    /// The value that an equation in prose states of its left side: 13 in `k + 4 = 13`, which is then not solved.
    pub value: Option<String>,
    /// The place of the answer in the response, in bytes.
    pub span: Range<usize>,
    /// The rule that found it.
    pub rule: FoundBy,
}

impl Found {
    /// A slice of a text, without the blanks around it. `None` if nothing is left.
    pub(super) fn part(text: &str, slice: &str, rule: FoundBy) -> Option<Found> {
        let answer = slice.trim();
        (!answer.is_empty()).then(|| Found {
            answer: answer.to_owned(),
            value: None,
            span: place_of(answer, text),
            rule,
        })
    }
}

/// The place of a slice in the text from which it was taken.
pub(super) fn place_of(slice: &str, text: &str) -> Range<usize> {
    let start = slice.as_ptr() as usize - text.as_ptr() as usize;
    start..start + slice.len()
}
