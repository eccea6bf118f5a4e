//! Long chains with sparse errors, on which credit is known to matter: which methods assign it?
//!
//! `paper/protocols/chain_6.toml` says what is run and was written first.

mod credit;
mod quality;
mod run;
mod setup;
mod task;

use std::path::Path;

use grpo_lambda_stats::table::Cell;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trials::{Method, Rows, Stage, Study, Trial};

use super::fill::{Job, fill};
use super::lab::LabError;
use super::store::{Results, cells_of};
pub use quality::quality;
use run::Start;
use setup::{COMMITTED, Setup};

/// Runs what is missing: first the selection runs, then the evaluation runs at the rates that those choose, all
/// methods of a seed before the next seed.
///
/// # Errors
/// [`LabError`] for a file of other results, or a run that fails.
pub fn run(path: &Path) -> Result<(), LabError> {
    go_on(&COMMITTED, path).map(drop)
}

/// The file of a study's results.
fn open(study: &Study<Setup>, path: &Path) -> Result<Results, LabError> {
    let words = format!("chain FILE (protocol {})", study.version);
    Ok(Results::open_typed::<Trial>(path, &words, Trial::KEYS)?)
}

fn go_on(study: &Study<Setup>, path: &Path) -> Result<Vec<Trial>, LabError> {
    let results = open(study, path)?;
    let every_rate = |_: &Method| study.rates.clone();
    fill_stage(study, Stage::Selection, every_rate, &results)?;
    let chosen: Vec<f64> =
        study.methods.iter().map(|m| rate(study, path, &results, m)).collect::<Result<_, _>>()?;
    let own_rate = |own: &Method| {
        study.methods.iter().zip(&chosen).filter(|(m, _)| *m == own).map(|(_, r)| *r).collect()
    };
    fill_stage(study, Stage::Evaluation, own_rate, &results)?;
    Ok(results.rows()?)
}

/// The rate that the selection runs choose for a method.
fn rate(study: &Study<Setup>, path: &Path, results: &Results, method: &Method) -> Result<f64, LabError> {
    let chosen = Rows { study, trials: &results.rows::<Trial>()? }.chosen(&method.name);
    chosen.ok_or_else(|| LabError::NoRate { file: path.display().to_string(), arm: method.name.clone() })
}

fn fill_stage(
    study: &Study<Setup>,
    stage: Stage,
    rates: impl Fn(&Method) -> Vec<f64> + Sync,
    results: &Results,
) -> Result<(), LabError> {
    let seeds = match stage {
        Stage::Selection => &study.seeds.selection,
        Stage::Evaluation => &study.seeds.evaluation,
    };
    let jobs = |seed| {
        let of_method = |method| rates(method).into_iter().map(move |rate| (method, rate));
        let job = |(method, rate): (&'_ Method, f64)| {
            let trial = Trial { stage, method: method.name.clone(), rate, seed, ..Trial::default() };
            Job { keys: vec![key(&trial)], what: (method.clone(), rate) }
        };
        study.methods.iter().flat_map(of_method).map(job).collect()
    };
    let one = |start: &Start<'_>, (method, rate): &(Method, f64)| {
        let trial = Trial { stage, ..start.run(method, *rate, |_, _| ())? };
        tell(study, &trial);
        Ok(vec![cells_of(&trial)])
    };
    fill(results, seeds, jobs, |seed| Start::new(study, seed), one)
}

/// The cells that say whose a row is.
fn key(trial: &Trial) -> Vec<Cell> {
    cells_of(trial).into_iter().take(Trial::KEYS).collect()
}

fn tell(study: &Study<Setup>, trial: &Trial) {
    let [first, last] = [trial.curve.0.first(), trial.curve.0.last()].map(|p| p.map_or(0.0, |p| p.accuracy));
    let score = trial.score(study.budget).map_or("no score".to_owned(), |score| format!("mean {score:.3}"));
    say(&format!(
        "{:?} seed {} {} rate {}: {score}, {first:.3} -> {last:.3} in {} steps and {:.0} s",
        trial.stage, trial.seed, trial.method, trial.rate, trial.steps, trial.seconds
    ));
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
                .run(method, 0.01, |_, engine| weights.push(engine.model.parameters().clone()))
                .unwrap_or_else(|e| panic!("{}: {e}", method.name));
            assert!(trial.steps >= 2 && trial.curve.0.len() >= 2, "{}: {trial:?}", method.name);
            assert_eq!(trial.ended, grpo_lambda_trials::End::Budget);
        };
        study.methods.iter().for_each(learnt);
    }
}
