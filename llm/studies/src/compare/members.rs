//! The runs of a comparison, one after another, and their scores.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grpo_lambda_stats::table::significant;

use super::entrant::Entrant;
use super::plan::{Plan, PlanError};
use crate::curves::{Curves, CurvesError, Points};
use crate::record::{RecordError, summary};
use grpo_lambda_engines::team::Team;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::plan::token_weights::mean_token_weight;
use grpo_lambda_trainer::run::progress::{format_duration, say};
use grpo_lambda_trainer::run::{self, RunError};
use grpo_lambda_trainer::train::{RunSummary, TrainError, train};

/// Why a comparison stopped.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{name}, seed {seed}: {source}")]
    Run { name: String, seed: u64, source: Box<TrainError> },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Curves(#[from] CurvesError),
    #[error(transparent)]
    Directory(#[from] RunError),
    #[error("{path}: {problem}")]
    Unusable { path: PathBuf, problem: String },
}

impl CompareError {
    /// The signal that asked for the end, if one did.
    pub fn signal(&self) -> Option<u8> {
        match self {
            CompareError::Run { source, .. } => source.signal(),
            _ => None,
        }
    }

    /// Whether the input was refused, rather than the work broken off.
    pub fn refused(&self) -> bool {
        match self {
            CompareError::Plan(PlanError::Disk(_))
            | CompareError::Curves(_)
            | CompareError::Unusable { .. } => false,
            CompareError::Run { source, .. } => source.refused(),
            CompareError::Plan(_)
            | CompareError::Config(_)
            | CompareError::Record(_)
            | CompareError::Directory(_) => true,
        }
    }
}

/// Scores of a method's runs: a value or curve for each seed.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodScores {
    pub entrant: Entrant,
    /// For an equal-rate twin of the first method: the methods whose learning rate times mean token weight it has.
    pub twin_of: Vec<String>,
    /// Its peak learning rate.
    pub rate: f64,
    /// Its mean on-policy token weight ([`mean_token_weight`]) at the length of [`ComparisonResult::length`].
    pub weight: f64,
    /// Number of held-out problems with a gradable response after RL; the others are left out.
    pub n: Vec<u64>,
    /// Held-out accuracy before RL.
    pub before: Vec<f64>,
    /// Held-out accuracy after RL.
    pub after: Vec<f64>,
    /// Held-out accuracy by RL steps done, both ends included.
    pub accuracy: Vec<Points>,
    /// Mean reward of a step's batch by RL steps done.
    pub reward: Vec<Points>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonResult {
    pub plan: Plan,
    /// Every method in order, twins last.
    pub scores: Vec<MethodScores>,
    /// Mean length of a held-out response before RL, in tokens, over seeds; at which mean token weights are taken.
    pub length: u64,
    /// Parameters of the model.
    pub parameters: usize,
}

/// Runs what is left of a comparison in `directory` and reads all of it.
///
/// # Errors
/// [`CompareError`]; what was done is kept, and the same call continues.
pub fn run(plan: &Plan, directory: &Path, command: &str) -> Result<ComparisonResult, CompareError> {
    plan.claim(directory)?;
    // Absolute, so that the same directory spelt otherwise is the same comparison.
    let directory = &std::path::absolute(directory)
        .map_err(|e| CompareError::Unusable { path: directory.to_owned(), problem: e.to_string() })?;
    let seeds: Vec<u64> = plan.all_seeds().collect();
    let mut work = Runner { command, clock: EtaClock::new(seeds.len(), plan.entrants.len() * seeds.len()) };

    let mut starts = Vec::new();
    let mut lengths = Vec::new();
    let mut parameters = 0;
    for &seed in &seeds {
        let path = directory.join("supervised").join(format!("seed-{seed}"));
        let done = work.member(RunKind::Sft, "supervised", seed, &path, &plan.supervised(seed)?)?;
        let start = run::latest(&path)?;
        let problem = || "its final checkpoint is gone".to_owned();
        let start = start.ok_or_else(|| CompareError::Unusable { path: path.clone(), problem: problem() })?;
        starts.push(start.path().to_owned());
        lengths.push(done.length_before);
        parameters = done.parameters;
    }
    let length = (lengths.iter().sum::<f64>() / lengths.len() as f64).round().max(1.0) as u64;

    let twins = if plan.ablate_rate { twins(plan, length)? } else { Vec::new() };
    work.clock.left[RunKind::Rl as usize] += twins.len() * seeds.len();
    work.clock.total += twins.len() * seeds.len();
    let all = plan.entrants.iter().map(|e| (e.clone(), Vec::new())).chain(twins);
    let scores = all.map(|(entrant, twin_of)| {
        Ok::<_, ConfigError>(MethodScores {
            rate: rate(plan, &entrant),
            weight: weight(plan, &entrant, length)?,
            entrant,
            twin_of,
            n: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            accuracy: Vec::new(),
            reward: Vec::new(),
        })
    });
    let mut scores: Vec<MethodScores> = scores.collect::<Result<_, _>>()?;
    // Seed by seed, so that an interrupted comparison has complete seeds to compare.
    for (&seed, start) in seeds.iter().zip(&starts) {
        for score in &mut scores {
            let path = directory.join(score.entrant.slug()).join(format!("seed-{seed}"));
            let config = plan.member(&score.entrant, seed, start)?;
            let done = work.member(RunKind::Rl, &score.entrant.label, seed, &path, &config)?;
            score.take(&done, &path)?;
        }
    }
    Ok(ComparisonResult { plan: plan.clone(), scores, length, parameters })
}

impl ComparisonResult {
    /// The fewest and the most held-out problems with a gradable response in a run.
    pub fn problems(&self) -> [u64; 2] {
        let all = || self.scores.iter().flat_map(|s| &s.n).copied();
        [all().min().unwrap_or(0), all().max().unwrap_or(0)]
    }

    /// [`ComparisonResult::problems`] in words.
    pub fn problems_in_words(&self) -> String {
        match self.problems() {
            [least, most] if least == most => format!("{most} held-out problems a seed"),
            [least, most] => {
                format!(
                    "{most} held-out problems a seed (ungradable answers are left out; at least {least} are gradable)"
                )
            }
        }
    }
}

impl MethodScores {
    fn take(&mut self, done: &RunSummary, path: &Path) -> Result<(), CompareError> {
        let (before, after) = (done.accuracy_before, done.accuracy_after);
        if !(before.is_finite() && after.is_finite()) {
            let problem = "no held-out response could be graded, so it has no accuracy".to_owned();
            return Err(CompareError::Unusable { path: path.to_owned(), problem });
        }
        let curves = Curves::read(path)?;
        let ends = [(0.0, before), (done.steps[1] as f64, after)];
        let mut accuracy = curves.points("rl", "eval_accuracy");
        accuracy.insert(0, ends[0]);
        accuracy.push(ends[1]);
        self.n.push(done.n);
        self.before.push(before);
        self.after.push(after);
        self.accuracy.push(accuracy);
        self.reward.push(curves.points("rl", "reward"));
        Ok(())
    }
}

/// The peak learning rate of a method's runs.
fn rate(plan: &Plan, entrant: &Entrant) -> f64 {
    let own = entrant.run.iter().find(|(key, _)| key == "rl.lr").and_then(|(_, value)| value.parse().ok());
    own.unwrap_or(plan.base.rl.schedule.peak)
}

/// The mean on-policy token weight in a response of `length` tokens, or of the longest that the method takes.
fn weight(plan: &Plan, entrant: &Entrant, length: u64) -> Result<f64, ConfigError> {
    let configured = entrant.configured(&plan.base)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(mean_token_weight(&configured, configured.method.max_len().map_or(length, |max| max.min(length))))
}

/// The first method at the rates that equalise rate times mean token weight with each other method, where they differ; with
/// the labels of those other methods. Rates are rounded to three digits.
fn twins(plan: &Plan, length: u64) -> Result<Vec<(Entrant, Vec<String>)>, ConfigError> {
    let mut twins: Vec<(Entrant, Vec<String>)> = Vec::new();
    let Some(first) = plan.entrants.first() else { return Ok(twins) };
    for other in &plan.entrants[1..] {
        let equal = rate(plan, other) * weight(plan, other, length)? / weight(plan, first, length)?;
        let Ok(equal) = significant(equal, 3).parse::<f64>() else { continue };
        if !(equal.is_finite() && equal > 0.0) || equal == rate(plan, first) {
            continue;
        }
        let twin = first.at_rate(equal);
        if plan.entrants.iter().any(|e| e.slug() == twin.slug()) {
            continue; // it takes part already
        }
        match twins.iter_mut().find(|(t, _)| *t == twin) {
            Some((_, of)) => of.push(other.label.clone()),
            None => twins.push((twin, vec![other.label.clone()])),
        }
    }
    Ok(twins)
}

/// The stage of a run.
#[derive(Clone, Copy)]
pub(crate) enum RunKind {
    /// Supervised fine-tuning, shared by several runs.
    Sft,
    Rl,
}

/// Estimates the remaining time of several runs.
pub(crate) struct EtaClock {
    started: Instant,
    total: usize,
    /// Runs left, and seconds of those done, by kind.
    left: [usize; 2],
    seconds: [Vec<f64>; 2],
}

impl EtaClock {
    pub(crate) fn new(supervised: usize, reinforced: usize) -> EtaClock {
        EtaClock {
            started: Instant::now(),
            total: supervised + reinforced,
            left: [supervised, reinforced],
            seconds: [Vec::new(), Vec::new()],
        }
    }

    pub(crate) fn done(&mut self, kind: RunKind, seconds: f64) {
        self.left[kind as usize] -= 1;
        self.seconds[kind as usize].push(seconds);
    }

    /// The time to go, from the mean of the runs of each kind; `None` while a kind that is left has not been timed.
    fn to_go(&self) -> Option<Duration> {
        let of = |kind: usize| match (self.left[kind], self.seconds[kind].len()) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            (left, timed) => Some(left as f64 * self.seconds[kind].iter().sum::<f64>() / timed as f64),
        };
        Some(Duration::from_secs_f64(of(0)? + of(1)?))
    }

    pub(crate) fn line(&self) -> String {
        let number = self.total - self.left.iter().sum::<usize>() + 1;
        let so_far = format_duration(self.started.elapsed());
        let to_go = match self.to_go() {
            Some(time) => format!("ETA of all {}", format_duration(time)),
            None => "ETA of all after the first RL run".to_owned(),
        };
        format!("[{number}/{}] {so_far} so far, {to_go}", self.total)
    }
}

struct Runner<'a> {
    command: &'a str,
    clock: EtaClock,
}

impl Runner<'_> {
    /// Executes a run, unless its directory says that it is finished.
    fn member(
        &mut self,
        kind: RunKind,
        name: &str,
        seed: u64,
        path: &Path,
        config: &Config,
    ) -> Result<RunSummary, CompareError> {
        let done =
            match finished(path, config)? {
                Some(done) => done,
                None => {
                    say(&format!("{}: {name}, seed {seed}", self.clock.line()));
                    train(&Team::default(), config, path, self.command).map_err(|source| {
                        CompareError::Run { name: name.to_owned(), seed, source: Box::new(source) }
                    })?
                }
            };
        self.clock.done(kind, done.seconds);
        Ok(done)
    }
}

/// The summary of a run that is done, if it is one of this configuration.
pub(crate) fn finished(path: &Path, config: &Config) -> Result<Option<RunSummary>, CompareError> {
    let Some(done) = summary(path)? else { return Ok(None) };
    let mut differences = Config::read(&path.join("config.toml"))?.differences(config);
    differences.retain(|d| d.affects_result);
    match differences.is_empty() {
        true => Ok(Some(done)),
        false => Err(RunError::ConfigChanged { path: path.to_owned(), differences }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_methods;
    use super::*;

    #[test]
    fn a_twin_has_the_first_methods_settings_and_the_others_rate_times_weight() {
        let base = Config::resolve("tiny", &["rl.lr=1e-4"]).expect("valid");
        let methods = "grpo,rloo,grpo_lambda:lambda=0.9,grpo_lambda:lambda=0.9,rl.lr=2e-4,grpo_lambda:lambda=0.9,beta=0.1";
        let plan = Plan::new(parse_methods(methods).expect("valid"), 2, true, base).expect("valid");
        let twins = twins(&plan, 20).expect("valid");
        // Mean weight of the recent trace: (1 - λ (1 - λ^T) / ((1 - λ) T)) / (1 - λ) = 6.0470 for λ = 0.9, T = 20.
        let found: Vec<(&str, String)> =
            twins.iter().map(|(t, of)| (t.label.as_str(), of.join(" "))).collect();
        assert_eq!(
            found,
            [
                ("grpo:rl.lr=0.002", "rloo".to_owned()), // it sums over the 20 tokens
                ("grpo:rl.lr=0.000605", "grpo_lambda:lambda=0.9 grpo_lambda:lambda=0.9,beta=0.1".to_owned()),
                ("grpo:rl.lr=0.00121", "grpo_lambda:lambda=0.9,rl.lr=0.0002".to_owned()),
            ]
        );
    }

    /// Why a rate multiplied by the mean weight overcorrects here: the optimiser takes a common factor out by itself.
    #[test]
    fn a_constant_factor_of_the_gradient_changes_no_step_of_adamw() {
        use grpo_lambda_decoder::optim::{AdamW, AdamWSettings};
        let settings = AdamWSettings { max_grad_norm: None, ..AdamWSettings::default() };
        let weights = |factor: f32| {
            let mut optimiser = AdamW::new(settings.clone(), [("w".to_owned(), vec![0.5f32, -0.25])]);
            for gradient in [[0.3f32, -0.7], [0.1, 0.4], [-0.2, 0.9]] {
                optimiser.step(0.01, &[("w", &gradient.map(|g| factor * g))]).expect("finite");
            }
            optimiser.weights("w").expect("there").to_vec()
        };
        for (a, b) in weights(1.0).iter().zip(weights(27.0)) {
            assert!((a - b).abs() < 1e-6, "{a} and {b}");
        }
    }

    #[test]
    fn the_time_to_go_is_told_once_every_kind_has_been_timed() {
        let mut clock = EtaClock::new(2, 4);
        clock.done(RunKind::Sft, 10.0);
        assert_eq!(clock.to_go(), None);
        clock.done(RunKind::Sft, 12.0);
        clock.done(RunKind::Rl, 30.0);
        clock.done(RunKind::Rl, 50.0);
        assert_eq!(clock.to_go(), Some(Duration::from_secs(80)));
        assert!(clock.line().starts_with("[5/6] "), "{}", clock.line());
    }
}
