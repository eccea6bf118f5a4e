//! Scores of a cell, stored in its directory.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError};
use grpo_lambda_stats::{Interval, wilson};
use serde::{Deserialize, Serialize};

use super::axes::benchmarks;
use grpo_lambda_trainer::eval::CONFIDENCE_LEVEL;

/// Right answers on a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CellScore {
    /// The benchmark, as in Tables 3 to 6.
    pub benchmark: String,
    /// Right answers.
    pub correct: u64,
    /// Problems with a gradable response.
    pub n: u64,
    /// Problems whose response could not be graded; not in `n`.
    pub ungradable: u64,
}

impl CellScore {
    /// Accuracy with Wilson's 95 % interval; `None` without a graded problem.
    pub fn interval(&self) -> Option<Interval> {
        wilson(self.correct, self.n, CONFIDENCE_LEVEL)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CellScores {
    /// The checkpoint that was evaluated, relative to the cell's directory.
    pub checkpoint: PathBuf,
    /// The evaluation in words: other words are another evaluation.
    pub how: String,
    /// A score for each benchmark, in the order of [`benchmarks`].
    pub scores: Vec<CellScore>,
}

const FILE: &str = "scores.json";

impl CellScores {
    /// Reads a cell's directory; `None` if the cell was not evaluated.
    pub fn read(directory: &Path) -> Result<Option<CellScores>, String> {
        let path = directory.join(FILE);
        let bytes = Disk::default().read(&path).map_err(|e| e.to_string())?;
        let Some(bytes) = bytes else { return Ok(None) };
        let wrong =
            |problem: String| format!("{}: {problem}; remove it to have it written again", path.display());
        let scores: CellScores =
            serde_json::from_slice(&bytes).map_err(|e| wrong(format!("not the scores of a cell: {e}")))?;
        let names: Vec<&str> = scores.scores.iter().map(|s| s.benchmark.as_str()).collect();
        if !names.iter().eq(benchmarks().iter().map(|b| &b.name)) {
            return Err(wrong(format!(
                "has scores of {}, not of the five benchmarks in order",
                names.join(", ")
            )));
        }
        match scores.scores.iter().find(|s| s.correct > s.n) {
            Some(s) => Err(wrong(format!("{}: {} right answers of {}", s.benchmark, s.correct, s.n))),
            None => Ok(Some(scores)),
        }
    }

    /// Writes them into a cell's directory.
    pub(super) fn write(&self, directory: &Path) -> Result<(), DiskError> {
        let text = serde_json::to_string_pretty(self).expect("scores have a JSON form");
        Disk::default().replace(&directory.join(FILE), format!("{text}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_survive_their_file_and_a_damaged_one_is_told_of() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(CellScores::read(dir.path()), Ok(None));
        let score = |b: &super::super::axes::PaperBenchmark| CellScore {
            benchmark: b.name.to_owned(),
            correct: 3,
            n: b.items(),
            ungradable: 1,
        };
        let scores = CellScores {
            checkpoint: "run/x".into(),
            how: "greedy".into(),
            scores: benchmarks().iter().map(score).collect(),
        };
        scores.write(dir.path()).expect("writable");
        assert_eq!(CellScores::read(dir.path()), Ok(Some(scores.clone())));
        for (broken, expected) in [
            ("{", "not the scores of a cell"),
            ("{\"checkpoint\":\"x\",\"how\":\"\",\"scores\":[]}", "not of the five benchmarks"),
        ] {
            std::fs::write(dir.path().join(FILE), broken).expect("writable");
            let error = CellScores::read(dir.path()).expect_err("refused");
            assert!(error.contains(expected) && error.contains("remove it"), "{error}");
        }
        let mut wrong = scores;
        wrong.scores[0].correct = 31;
        wrong.write(dir.path()).expect("writable");
        assert!(CellScores::read(dir.path()).expect_err("refused").contains("AIME: 31 right answers of 30"));
    }
}
