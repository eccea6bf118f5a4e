//! Keys by which rows that ask the same problem are found.

use std::collections::HashMap;

use tokenizers::normalizers::NFC;
use tokenizers::{NormalizedString, Normalizer};

use super::Row;
use super::conflicts::hash;

/// The spelling by which rows are compared: repeated ones, held-out ones, and the split of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowKey {
    /// The words of the conversation: see [`words`].
    #[default]
    Words,
    /// The problem as published, byte by byte: that of runs which began before [`RowKey::Words`].
    AsPublished,
}

/// A text in Unicode's normal form C, with one blank between its words and none around them.
pub fn words(text: &str) -> String {
    let mut normal = NormalizedString::from(text);
    // Normalisation of a string cannot fail; the trait has an error for others.
    let text = NFC.normalize(&mut normal).map_or(text, |()| normal.get());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first text of each key and the first key of each text, by hash.
#[derive(Debug, Default)]
pub struct Spellings {
    texts: HashMap<u64, u64>,
    keys: HashMap<u64, u64>,
}

impl Spellings {
    /// True if an earlier row asks the same problem in another spelling, or has the same last turn in another conversation: [`RowKey`]s
    /// disagree on whether the two are the same.
    pub fn differ(&mut self, row: &Row) -> bool {
        let (text, key) = (hash(&row.problem), hash(&RowKey::Words.key(row)));
        let first_text = *self.texts.entry(key).or_insert(text);
        let first_key = *self.keys.entry(text).or_insert(key);
        (first_text, first_key) != (text, key)
    }
}

impl RowKey {
    /// The key of a row.
    pub fn key(self, row: &Row) -> String {
        match self {
            RowKey::AsPublished => row.problem.clone(),
            RowKey::Words if row.before.is_empty() => words(&row.problem),
            RowKey::Words => {
                let turns =
                    row.before.iter().map(|turn| format!("{}: {}\n", turn.role, words(&turn.content)));
                turns.chain([words(&row.problem)]).collect()
            }
        }
    }
}
