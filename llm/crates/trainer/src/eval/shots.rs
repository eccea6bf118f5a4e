//! The solved examples that an evaluation shows before every problem (few-shot).

use std::collections::HashSet;

use super::benchmark::Benchmark;
use crate::input::data::{self, Columns, DataError, OnBadRow, Row, words};
use crate::input::prompt::{SolvedExample, Template};

/// The reason why there are no examples.
#[derive(Debug, thiserror::Error)]
pub enum ShotsError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(
        "--shots {wanted}: {from} has {found} solved rows that are not asked themselves; name a data set with more in --shots-from, or show fewer"
    )]
    TooFew { wanted: usize, from: String, found: usize },
    #[error(
        "--shots: {0} is asked as it was trained, without a template and without examples; leave --shots out"
    )]
    Embedded(String),
}

/// Solved examples with their origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Shots {
    pub examples: Vec<SolvedExample>,
    /// The data set, as it was named.
    pub from: String,
}

impl Shots {
    /// The first `wanted` rows with a worked solution in the data set `from`, written in the form of `template`. Problems of `benchmarks` are passed
    /// over, so that none is shown with its answer.
    pub fn open(
        wanted: usize,
        from: &str,
        on_bad_row: OnBadRow,
        (template, benchmarks): (&Template, &[Benchmark]),
    ) -> Result<Shots, ShotsError> {
        if let Some(embedded) = benchmarks.iter().find(|benchmark| benchmark.embedded) {
            return Err(ShotsError::Embedded(embedded.name.clone()));
        }
        let asked: HashSet<String> = benchmarks
            .iter()
            .flat_map(|benchmark| &benchmark.items)
            .map(|item| words(&item.problem))
            .collect();
        let example = |row: &Row| {
            let solution = row.solution.as_deref().filter(|_| row.before.is_empty())?;
            if asked.contains(&words(&row.problem)) {
                return None;
            }
            let response = template.target(solution, row.answers.first().map_or("", String::as_str));
            Some(SolvedExample { problem: row.problem.clone(), response })
        };
        let data = data::open(from, &Columns::default(), on_bad_row)?;
        let mut examples = Vec::new();
        for row in data.rows() {
            examples.extend(example(&row?));
            if examples.len() == wanted {
                return Ok(Shots { examples, from: from.to_owned() });
            }
        }
        Err(ShotsError::TooFew { wanted, from: from.to_owned(), found: examples.len() })
    }

    /// Their number and checksum, which decide a result.
    pub fn fingerprint(&self) -> String {
        let mut sum = 0;
        for text in self.examples.iter().flat_map(|example| [&example.problem, &example.response]) {
            sum = crc32c::crc32c_append(sum, &(text.len() as u64).to_le_bytes());
            sum = crc32c::crc32c_append(sum, text.as_bytes());
        }
        format!("{} with checksum {sum:08x}", self.examples.len())
    }
}
