//! The answers to a run's held-out problems, kept at its start and at its latest evaluation, so that the two are compared in pairs.
//!
//! Each file is replaced as a whole, so a killed run leaves the one or the other.

use std::path::Path;

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::benchmark::HELD_OUT;
use super::completion::CompletionRecord;
use super::store::{
    BenchmarkHeader, ProblemRecord, StoreError, StoredBenchmark, intact_lines, with_checksum,
};
use crate::input::task::Problem;

/// A place in a run at which its held-out answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before RL.
    Start,
    /// At the latest evaluation.
    Latest,
}

impl Moment {
    /// The file of a run directory that holds the answers.
    pub fn file(self) -> &'static str {
        match self {
            Moment::Start => "held_out_start.jsonl",
            Moment::Latest => "held_out_latest.jsonl",
        }
    }
}

/// A line of the file.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// RL steps done when the problem was asked.
    step: u64,
    /// Lines of the whole file.
    of: usize,
    problem: ProblemRecord,
    completion: CompletionRecord,
    /// CRC-32C of the line without this field.
    #[serde(default, skip_serializing)]
    crc32c: Option<String>,
}

/// The answers to the held-out problems at one moment of a run.
#[derive(Clone, Debug)]
pub struct HeldOutAnswers {
    /// RL steps done.
    pub step: u64,
    pub problems: Vec<ProblemRecord>,
    pub completions: Vec<Vec<CompletionRecord>>,
}

/// The contents of [`Moment::file`] for these problems and their answers after `step` RL steps.
///
/// # Panics
/// If a line has no JSON form.
pub(crate) fn to_lines(step: u64, problems: &[Problem], answers: &[CompletionRecord]) -> String {
    let line = |(problem, completion): (&Problem, &CompletionRecord)| {
        let record = ProblemRecord {
            id: completion.problem.clone(),
            problem: problem.text().to_owned(),
            golds: vec![problem.gold.to_string()],
            prompt: problem.prompt.clone(),
        };
        let (of, completion) = (answers.len(), completion.clone());
        let line = Line { step, of, problem: record, completion, crc32c: None };
        with_checksum(&serde_json::to_string(&line).expect("an answer has a JSON form"))
    };
    problems.iter().zip(answers).map(line).collect()
}

impl HeldOutAnswers {
    /// Reads the answers of a run directory; `None` where the run has not come to this moment, or began before runs kept them.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read, or was changed since it was written.
    pub fn read(run: &Path, moment: Moment) -> Result<Option<HeldOutAnswers>, StoreError> {
        let path = run.join(moment.file());
        let Some(bytes) = Disk::default().read(&path)? else { return Ok(None) };
        let lines: Vec<(Line, u64)> = intact_lines(
            &bytes,
            &path,
            |line: &mut Line| line.crc32c.take(),
            "restore the file, or remove it",
        )?;
        let cut = || {
            let problem = format!("cut short after {} answers; restore the file, or remove it", lines.len());
            StoreError::Damaged { place: path.display().to_string(), problem }
        };
        let (first, _) = lines.first().ok_or_else(cut)?;
        let step = first.step;
        if !bytes.ends_with(b"\n") || first.of != lines.len() {
            return Err(cut());
        }
        let (problems, completions) =
            lines.into_iter().map(|(line, _)| (line.problem, vec![line.completion])).unzip();
        Ok(Some(HeldOutAnswers { step, problems, completions }))
    }

    /// Answers at the start of a run and at its latest evaluation.
    ///
    /// # Errors
    /// [`StoreError::Absent`] when one of them is not there.
    pub fn ends(run: &Path) -> Result<[HeldOutAnswers; 2], StoreError> {
        let read = |moment: Moment| {
            let absent = || StoreError::NoAnswers { path: run.join(moment.file()), run: run.to_owned() };
            HeldOutAnswers::read(run, moment)?.ok_or_else(absent)
        };
        Ok([read(Moment::Start)?, read(Moment::Latest)?])
    }

    /// The answers as a benchmark of an evaluation.
    pub fn benchmark(self) -> StoredBenchmark {
        let head = BenchmarkHeader::new(HELD_OUT, &self.problems);
        StoredBenchmark { head, problems: self.problems, completions: self.completions }
    }
}
