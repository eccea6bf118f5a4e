//! Problems that occur more than once with different answers: one of the rows must be wrong.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Row, RowKey, RowLocation};

/// The answers seen to each problem, by hash: 16 bytes per problem.
#[derive(Clone, Debug, Default)]
pub struct Conflicts {
    seen: HashMap<u64, u64>,
    rows: usize,
    first: Option<RowLocation>,
}

pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Conflicts {
    /// Compares a row with those before it.
    pub fn note(&mut self, row: &Row) {
        let answers = hash(&row.answers);
        let before = *self.seen.entry(hash(&RowKey::Words.key(row))).or_insert(answers);
        if before != answers {
            self.rows += 1;
            self.first.get_or_insert_with(|| RowLocation {
                file: row.file.clone(),
                line: row.line,
                is_row: row.file.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet")),
            });
        }
    }

    /// A line about the conflicts; `None` without one.
    pub fn line(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        let rows = match self.rows {
            1 => "1 row has".to_owned(),
            n => format!("{n} rows have"),
        };
        Some(format!(
            "{rows} the problem of an earlier row and another answer, so one of them is wrong; the first: {first}"
        ))
    }
}
