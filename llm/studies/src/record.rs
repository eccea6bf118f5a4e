//! Reads a run directory: configuration, curves and accuracy of a run that is finished or under way.

use std::path::{Path, PathBuf};

use grpo_lambda_stats::{Interval, two_proportions};

use crate::curves::{Curves, CurvesError};
use crate::paired::{self, StoredEvaluation};
use crate::significance::Significance;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::eval::{CONFIDENCE_LEVEL, Evaluation};
use grpo_lambda_trainer::run::{self, RunError};
use grpo_lambda_trainer::train::RunSummary;

/// Why a run directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{path}: {}; a run directory is needed, as llm-train train writes it", if path.exists() { "not a directory" } else { "no such directory" })]
    Missing { path: PathBuf },
    #[error("{path} is not a run directory: {problem}")]
    NotARun { path: PathBuf, problem: ConfigError },
    #[error(transparent)]
    Curves(#[from] CurvesError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{path}: {problem}; run the same llm-train train command again to rewrite it")]
    Summary { path: PathBuf, problem: String },
    #[error("{0}: no step is recorded yet, so there is nothing to draw")]
    Empty(PathBuf),
}

/// Held-out accuracy after a number of RL steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// RL steps done.
    pub step: u64,
    /// With its 95 % interval (Wilson).
    pub value: Interval,
}

/// A run, read from its directory.
#[derive(Clone, Debug)]
pub struct RunRecord {
    pub config: Config,
    /// The method's name for a reader.
    pub title: &'static str,
    /// Curves of both stages.
    pub curves: Curves,
    /// Held-out accuracy, by step.
    pub accuracy: Vec<Accuracy>,
    pub n: u64,
    /// The change from the first accuracy to the last.
    pub change: Significance,
    pub finished: bool,
}

/// The summary of a finished run; `None` when it is not finished.
pub fn summary(run: &Path) -> Result<Option<RunSummary>, RecordError> {
    let path = run.join("summary.json");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(RecordError::Summary { path, problem: format!("cannot be read: {e}") }),
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed
        .map(Some)
        .map_err(|e| RecordError::Summary { path, problem: format!("not the summary of a run: {e}") })
}

/// The evaluation before RL, from a run that is not finished.
fn before(run: &Path) -> Result<Option<Evaluation>, RunError> {
    let Some(checkpoint) = run::latest(run)? else { return Ok(None) };
    let state = serde_json::from_slice::<serde_json::Value>(&checkpoint.read("state.json")?);
    Ok(state.ok().and_then(|mut s| serde_json::from_value(s["before"].take()).ok()))
}

impl RunRecord {
    /// Reads a run directory.
    pub fn read(run: &Path) -> Result<RunRecord, RecordError> {
        if !run.is_dir() {
            return Err(RecordError::Missing { path: run.to_owned() });
        }
        let config = Config::read(&run.join("config.toml"))
            .map_err(|problem| RecordError::NotARun { path: run.to_owned(), problem })?;
        let curves = Curves::read(run)?;
        let summary = summary(run)?;
        if summary.is_none() && curves.steps("sft") + curves.steps("rl") == 0 {
            return Err(RecordError::Empty(run.to_owned()));
        }
        let start = if summary.is_none() { before(run)? } else { None };
        let asked = start.map_or(config.eval.n as u64, |e| e.n);
        let n = summary.as_ref().map_or(asked, |s| s.n);
        let mut accuracy = Vec::new();
        let mut add = |step: u64, mid: f64, [low, high]: [f64; 2]| {
            if [low, mid, high].iter().all(|x| x.is_finite()) {
                accuracy.push(Accuracy { step, value: Interval { low, mid, high, level: CONFIDENCE_LEVEL } });
            }
        };
        match &summary {
            Some(s) => add(0, s.accuracy_before, s.accuracy_before_interval),
            None => {
                let interval = start.and_then(|e| e.interval());
                interval.iter().for_each(|i| add(0, i.mid, [i.low, i.high]));
            }
        }
        let [mid, low, high] =
            ["eval_accuracy", "eval_low", "eval_high"].map(|name| curves.points("rl", name));
        for ((mid, low), high) in mid.iter().zip(&low).zip(&high) {
            add(mid.0 as u64, mid.1, [low.1, high.1]);
        }
        // A run that stopped early has done fewer steps than it was asked for.
        if let Some(s) = summary.as_ref().filter(|s| s.steps[1] > 0) {
            add(s.steps[1], s.accuracy_after, s.accuracy_after_interval);
        }
        // The row of the last step is that evaluation too.
        accuracy.dedup_by_key(|a| a.step);
        let n_before = summary.as_ref().map_or(n, |s| s.n_before);
        let title = config.configured().spec.title;
        let change = match accuracy.as_slice() {
            [first, .., last] => paired_change(run, [first.step, last.step])
                .unwrap_or_else(|| change((first.value.mid, n_before), (last.value.mid, n))),
            _ => Significance::NotShown,
        };
        Ok(RunRecord { title, curves, accuracy, n, change, finished: summary.is_some(), config })
    }

    /// First and last held-out accuracy; `None` with fewer than two.
    pub fn ends(&self) -> Option<(Interval, Interval)> {
        let (first, last) = (self.accuracy.first()?, self.accuracy.last()?);
        (first.step < last.step).then_some((first.value, last.value))
    }

    /// The result of the run in one sentence.
    pub fn finding(&self) -> String {
        let under_way = if self.finished {
            String::new()
        } else {
            format!(" (under way, step {} of {})", self.curves.steps("rl"), self.config.rl.steps)
        };
        let Some((before, after)) = self.ends() else {
            let rl = self.curves.steps("rl");
            if rl > 0 {
                let accuracy = self.accuracy.last().map_or(String::new(), |a| {
                    format!(": held-out accuracy {:.3} after step {} (n = {})", a.value.mid, a.step, self.n)
                });
                return format!("{}, RL{under_way}{accuracy}", self.title);
            }
            return match self.accuracy.last() {
                Some(Accuracy { value, .. }) => format!(
                    "Supervised learning: held-out accuracy {:.3}, 95 % interval {:.3} to {:.3} (n = {}){under_way}",
                    value.mid, value.low, value.high, self.n
                ),
                None => format!(
                    "Supervised learning under way, {} of {} steps",
                    self.curves.steps("sft"),
                    self.config.sft.steps
                ),
            };
        };
        let (title, n) = (self.title, self.n);
        let [a, b] = [before.mid, after.mid].map(|x| format!("{x:.3}"));
        match self.change {
            Significance::Clear { better: true } | Significance::Leans { better: true } => {
                format!("{title}: held-out accuracy {a} → {b} (n = {n}){under_way}")
            }
            Significance::Clear { better: false } | Significance::Leans { better: false } => {
                format!("{title}: held-out accuracy falls, {a} → {b} (n = {n}){under_way}")
            }
            Significance::NotShown => format!(
                "{title}: held-out accuracy {a} → {b}, no difference shown on {n} problems{under_way}"
            ),
        }
    }
}

/// The change from the answers before RL to the latest ones, in pairs by problem; `None` where they are not kept, or
/// not those after these numbers of RL steps.
fn paired_change(run: &Path, steps: [u64; 2]) -> Option<Significance> {
    let (ends, kept) = StoredEvaluation::ends_of_run(run).ok()?;
    let pair = paired::pair(&ends[0], &ends[1]).ok().filter(|_| kept == steps)?;
    Some(pair.benchmarks.first()?.difference?.verdict)
}

/// Compares two accuracies, each over its number of problems, by the normal interval of the difference of two
/// proportions. The two are treated as independent. On the same problems they are not, which makes the interval
/// conservative.
fn change(before: (f64, u64), after: (f64, u64)) -> Significance {
    let count = |(p, n): (f64, u64)| (p * n as f64).round() as u64;
    let difference = two_proportions(count(after), after.1, count(before), before.1);
    match difference.map(|d| d.interval(CONFIDENCE_LEVEL)) {
        Some(i) if i.low > 0.0 => Significance::Clear { better: true },
        Some(i) if i.high < 0.0 => Significance::Clear { better: false },
        _ => Significance::NotShown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_claimed_only_where_the_problems_can_tell() {
        let shown = |better| Significance::Clear { better };
        for (before, after, expected) in [
            // 0.44 and 0.50 of n: z = 0.06 / sqrt((0.44·0.56 + 0.25)/n), which passes 1.96 between n = 500 and n = 600.
            ((0.44, 500), (0.50, 500), Significance::NotShown),
            ((0.44, 600), (0.50, 600), shown(true)),
            ((0.50, 600), (0.44, 600), shown(false)),
            ((0.0, 10), (0.0, 10), Significance::NotShown),
            ((0.0, 10), (1.0, 10), shown(true)),
            ((0.5, 0), (0.5, 0), Significance::NotShown),
        ] {
            assert_eq!(change(before, after), expected, "{before:?} {after:?}");
        }
    }
}
