//! The runs of a comparison, and their scores.

use std::path::Path;

use grpo_lambda::token_weights::mean_token_weight;
use grpo_lambda_stats::mean;
use grpo_lambda_trainer::config::ConfigError;

use super::entry::Entry;
use super::plan::Plan;
use crate::curves::{Curves, Points};
use crate::failure::Failure;
use crate::sweep::{Finished, Run, Sweep};

/// Scores of a method's runs: a value or curve for each seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MethodScores {
    pub entry: Entry,
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
    /// Every method in order.
    pub scores: Vec<MethodScores>,
    /// Mean length of a held-out response before RL, in tokens, over seeds; at which mean token weights are taken.
    pub length: u64,
    /// Parameters of the model.
    pub parameters: usize,
}

/// Runs what is left of a comparison in `directory` and reads all of it. After an error or a signal the same call
/// continues.
pub fn run(plan: &Plan, directory: &Path, command: &str) -> Result<ComparisonResult, Failure> {
    let mut sweep = Sweep::open(directory, &plan.identity(), command)?;
    let seeds = plan.seeds as usize;
    sweep.expect(seeds, plan.entries.len() * seeds);
    let starts = sweep.start(plan.starts()?)?;
    let lengths: Vec<f64> = starts.iter().map(|s| s.summary.length_before).collect();
    let length = mean(&lengths).unwrap_or(1.0).round().max(1.0) as u64;
    let parameters = starts.last().map_or(0, |start| start.summary.parameters);

    let none = |entry: &Entry| MethodScores::none(plan, entry.clone(), length);
    let mut scores = plan.entries.iter().map(none).collect::<Result<Vec<_>, _>>()?;
    // Seed by seed, so that an interrupted comparison has complete seeds to compare.
    let runs: Vec<Run> =
        (0..seeds).flat_map(|seed| scores.iter().map(move |s| plan.run(&s.entry, seed))).collect();
    let methods = scores.len();
    sweep.run(&runs, &starts, |i, done| scores[i % methods].take(&done))?;
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
    /// Without a run.
    fn none(plan: &Plan, entry: Entry, length: u64) -> Result<MethodScores, ConfigError> {
        let (rate, weight) = (rate(plan, &entry), weight(plan, &entry, length)?);
        Ok(MethodScores { rate, weight, entry, ..MethodScores::default() })
    }

    fn take(&mut self, Finished { directory, summary: done, .. }: &Finished) -> Result<(), Failure> {
        let (before, after) = (done.accuracy_before, done.accuracy_after);
        if !(before.is_finite() && after.is_finite()) {
            let path = directory.display();
            return Err(Failure::broke(format!(
                "{path}: no held-out response could be graded, so it has no accuracy"
            )));
        }
        let curves = Curves::read(directory)?;
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
fn rate(plan: &Plan, entry: &Entry) -> f64 {
    let own = entry.run.iter().find(|(key, _)| key == "rl.lr").and_then(|(_, value)| value.parse().ok());
    own.unwrap_or(plan.base.rl.lr)
}

/// The mean on-policy token weight in a response of `length` tokens, or of the longest that the method takes.
fn weight(plan: &Plan, entry: &Entry, length: u64) -> Result<f64, ConfigError> {
    let config = plan.base.with(&entry.overrides())?;
    let configured = config.configured();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(mean_token_weight(configured, configured.method.max_len().map_or(length, |max| max.min(length))))
}
