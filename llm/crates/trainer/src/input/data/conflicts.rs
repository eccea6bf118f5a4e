//! Answers that cannot be right: different ones to the same problem, and those that the grader cannot read.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use grpo_lambda_grade::{Gold, Prediction};

use super::{Row, RowLocation};

/// The answers seen to each problem, by hash: 16 bytes per problem.
#[derive(Clone, Debug, Default)]
pub struct Conflicts {
    seen: HashMap<u64, u64>,
    rows: usize,
    first: Option<RowLocation>,
    unreadable: usize,
    first_unreadable: Option<RowLocation>,
}

fn place(row: &Row) -> RowLocation {
    let is_row = row.file.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"));
    RowLocation { file: row.file.clone(), line: row.line, is_row }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Conflicts {
    /// Compares a row with those before it, and reads its reference as `gold` does.
    pub fn note(&mut self, row: &Row, gold: &Gold) {
        let answers = hash(&row.answers);
        let before = *self.seen.entry(hash(&row.key())).or_insert(answers);
        if before != answers {
            self.rows += 1;
            self.first.get_or_insert_with(|| place(row));
        }
        if gold.grade(&Prediction::boxed("\\boxed{0}")).equal.is_none() {
            self.unreadable += 1;
            self.first_unreadable.get_or_insert_with(|| place(row));
        }
    }

    /// A line about references that the grader cannot read; `None` without one.
    pub fn unreadable_line(&self) -> Option<String> {
        let first = self.first_unreadable.as_ref()?;
        Some(format!(
            "references that the grader cannot read, so that no response to them has a reward for accuracy: {}; the first: {first}",
            self.unreadable
        ))
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
