//! [`complete`]: the trials of a study that its file lacks.

use std::path::Path;

use grpo_lambda_stats::table::Cell;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trials::{Method, Rows, Stage, Study, Trial};

use super::fill::{Job, fill};
use super::lab::{LabError, Result};
use super::store::{Results, cells_of};

/// Runs what is missing in `path`, whose rows belong to the command `words`: first the selection runs, then the
/// evaluation runs at the rates that those choose, all methods of a seed before the next seed.
pub(crate) fn complete<S: Sync, T>(
    study: &Study<S>,
    (words, path): (&str, &Path),
    start: impl Fn(u64) -> Result<T> + Sync,
    run: impl Fn(&T, &Method, f64) -> Result<Trial> + Sync,
) -> Result<Vec<Trial>> {
    let results = Results::open::<Trial>(path, words, Trial::KEYS)?;
    let fill_stage = |stage, seeds: &[u64], rates: &(dyn Fn(&Method) -> Vec<f64> + Sync)| {
        let jobs = |seed| {
            let of_method = |method| rates(method).into_iter().map(move |rate| (method, rate));
            let job = |(method, rate): (&'_ Method, f64)| {
                let trial = Trial { stage, method: method.name.clone(), rate, seed, ..Trial::default() };
                Job::one(key(&trial), (method.clone(), rate))
            };
            study.methods.iter().flat_map(of_method).map(job).collect()
        };
        let one = |start: &T, (method, rate): &(Method, f64)| {
            let trial = Trial { stage, ..run(start, method, *rate)? };
            tell(study, &trial);
            Ok(vec![cells_of(&trial)])
        };
        fill(&results, seeds, jobs, &start, one)
    };
    fill_stage(Stage::Selection, &study.seeds.selection, &|_| study.rates.clone())?;
    let chosen: Vec<f64> =
        study.methods.iter().map(|m| rate(study, path, &results, m)).collect::<Result<_, _>>()?;
    let own_rate = |own: &Method| {
        study.methods.iter().zip(&chosen).filter(|(m, _)| *m == own).map(|(_, r)| *r).collect()
    };
    fill_stage(Stage::Evaluation, &study.seeds.evaluation, &own_rate)?;
    Ok(results.rows()?)
}

/// The rate that the selection runs choose for a method.
pub(crate) fn rate<S>(study: &Study<S>, path: &Path, results: &Results, method: &Method) -> Result<f64> {
    let chosen = Rows { study, trials: &results.rows::<Trial>()? }.chosen(&method.name);
    chosen.ok_or_else(|| LabError::NoRate { file: path.display().to_string(), method: method.name.clone() })
}

/// The cells that say whose a row is.
fn key(trial: &Trial) -> Vec<Cell> {
    cells_of(trial).into_iter().take(Trial::KEYS).collect()
}

fn tell<S>(study: &Study<S>, trial: &Trial) {
    let [first, last] = [trial.curve.0.first(), trial.curve.0.last()].map(|p| p.map_or(0.0, |p| p.accuracy));
    let score = trial.score(study.budget).map_or("no score".to_owned(), |score| format!("mean {score:.3}"));
    say(&format!(
        "{:?} seed {} {} rate {}: {score}, {first:.3} -> {last:.3} in {} steps, {} tokens and {:.0} s",
        trial.stage, trial.seed, trial.method, trial.rate, trial.steps, trial.tokens, trial.seconds
    ));
}
