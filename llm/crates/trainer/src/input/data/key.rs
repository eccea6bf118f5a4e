//! Keys by which rows that ask the same problem are found.

use tokenizers::normalizers::NFC;
use tokenizers::{NormalizedString, Normalizer};

use super::Row;

/// A text in Unicode's normal form C, with one blank between its words and none around them.
pub fn words(text: &str) -> String {
    let mut normal = NormalizedString::from(text);
    // Normalisation of a string cannot fail; the trait has an error for others.
    let text = NFC.normalize(&mut normal).map_or(text, |()| normal.get());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Row {
    /// The [`words`] of the conversation, by which rows are compared: repeated ones, held-out ones, and the split of each.
    pub fn key(&self) -> String {
        let before = self.before.iter().map(|turn| format!("{}: {}\n", turn.role, words(&turn.content)));
        before.chain([words(&self.problem)]).collect()
    }
}
