//! Long chains with sparse errors, on which credit is known to matter: which methods assign it?
//!
//! `paper/protocols/chain_6.toml` says what is run and was written first.

mod credit;
mod quality;
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod task;

use std::path::Path;

use grpo_lambda_trials::{Method, Study, Trial};

use super::lab::Result;
use super::trials::complete;
pub use quality::quality;
use run::{Start, configured};
use setup::{COMMITTED, Setup};

/// Runs what is missing of the committed study.
///
/// # Errors
/// [`LabError`](crate::LabError) for a file of other results, or a run that fails.
pub fn run(path: &Path) -> Result<()> {
    go_on(&COMMITTED, path).map(drop)
}

/// The command whose rows are a study's.
fn words(study: &Study<Setup>) -> String {
    format!("chain FILE (protocol {})", study.version)
}

fn go_on(study: &Study<Setup>, path: &Path) -> Result<Vec<Trial>> {
    let run = |start: &Start<'_>, method: &Method, rate| {
        let settings = start.settings_of(&configured(method));
        start.run(method, &settings, rate, |_, _| ())
    };
    complete(study, (&words(study), path), |seed| Start::new(study, seed), run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed study with a model, runs and seeds that take a second.
    fn small(methods: usize) -> Study<Setup> {
        let mut study = setup::tiny();
        study.methods.truncate(methods);
        study.rates.truncate(2);
        study.seeds.selection.truncate(1);
        study.seeds.evaluation.truncate(2);
        study.budget = 300.0;
        let Setup { start, rl, exam, .. } = &mut study.setup;
        start.most_steps = 2;
        (rl.prompts, rl.group, exam.prompts, exam.every) = (2, 4, 2, 100);
        study
    }

    /// The rows of a file without their times.
    fn timeless(trials: Vec<Trial>) -> Vec<Trial> {
        trials.into_iter().map(|trial| Trial { seconds: 0.0, ..trial }).collect()
    }

    #[test]
    fn a_stopped_study_goes_on_to_the_same_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let (whole, cut) = (folder.path().join("whole.csv"), folder.path().join("cut.csv"));
        let study = small(2);
        let all = timeless(go_on(&study, &whole).expect("it runs"));
        // Two methods at two rates on one seed, and at one rate on two.
        assert_eq!(all.len(), 8);
        for trial in &all {
            let points = &trial.curve.0;
            assert!(
                points[0].tokens == 0.0 && trial.tokens >= 300 && trial.score(study.budget).is_some(),
                "{trial:?}"
            );
            assert_eq!(points[points.len() - 1].tokens as u64, trial.tokens);
        }
        let text = std::fs::read_to_string(&whole).expect("written");
        for kept in [3, 5, 8] {
            let lines: Vec<&str> = text.lines().take(kept).collect();
            std::fs::write(&cut, lines.join("\n") + "\n").expect("written");
            assert_eq!(timeless(go_on(&study, &cut).expect("it runs")), all, "{kept} lines were left");
        }
        go_on(&study, &whole).expect("nothing is left");
        assert_eq!(std::fs::read_to_string(&whole).expect("there"), text);
        // Rows of another version are another study's.
        let other = Study { version: study.version + 1, ..study };
        let refused = go_on(&other, &whole).expect_err("another version").to_string();
        assert!(
            refused.contains("was written by chain FILE (protocol 6); this is chain FILE (protocol 7)"),
            "{refused}"
        );
    }

    #[test]
    fn every_method_takes_two_steps() {
        let mut study = small(usize::MAX);
        // Eight responses of at least a token, and at most 35.
        study.budget = 281.0;
        let start = Start::new(&study, 1).expect("it learns");
        let learnt = |method: &Method| {
            let mut weights = Vec::new();
            let trial = start
                .run(method, &start.settings_of(&configured(method)), 0.01, |_, engine| {
                    weights.push(engine.model.parameters().clone())
                })
                .unwrap_or_else(|e| panic!("{}: {e}", method.name));
            assert!(trial.steps >= 2 && trial.curve.0.len() >= 2, "{}: {trial:?}", method.name);
            assert_eq!(trial.ended, grpo_lambda_trials::End::Budget);
        };
        study.methods.iter().for_each(learnt);
    }
}
