//! The runs of a comparison, and their scores.

use std::path::Path;

use grpo_lambda::token_weights::mean_token_weight;
use grpo_lambda_stats::mean;
use grpo_lambda_stats::table::significant;
use grpo_lambda_trainer::config::ConfigError;

use super::entry::Entry;
use super::plan::Plan;
use crate::curves::{Curves, Points};
use crate::sweep::{Finished, Run, Sweep, SweepError};

/// Scores of a method's runs: a value or curve for each seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MethodScores {
    pub entry: Entry,
    /// For a step-size control of the first method: the methods whose learning rate times mean token weight it has.
    pub control_of: Vec<String>,
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
    /// Every method in order, step-size controls last.
    pub scores: Vec<MethodScores>,
    /// Mean length of a held-out response before RL, in tokens, over seeds; at which mean token weights are taken.
    pub length: u64,
    /// Parameters of the model.
    pub parameters: usize,
}

/// Runs what is left of a comparison in `directory` and reads all of it. After an error or a signal the same call
/// continues.
pub fn run(plan: &Plan, directory: &Path, command: &str) -> Result<ComparisonResult, SweepError> {
    let mut sweep = Sweep::open(directory, &plan.identity(), command)?;
    let seeds = plan.seeds as usize;
    sweep.expect(seeds, plan.entries.len() * seeds);
    let starts = sweep.start(plan.starts()?)?;
    let lengths: Vec<f64> = starts.iter().map(|s| s.summary.length_before).collect();
    let length = mean(&lengths).unwrap_or(1.0).round().max(1.0) as u64;
    let parameters = starts.last().map_or(0, |start| start.summary.parameters);

    let all = with_controls(plan, length)?;
    sweep.expect(0, (all.len() - plan.entries.len()) * seeds);
    let mut scores = all
        .into_iter()
        .map(|(entry, control_of)| MethodScores::none(plan, entry, control_of, length))
        .collect::<Result<Vec<_>, _>>()?;
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
    fn none(
        plan: &Plan,
        entry: Entry,
        control_of: Vec<String>,
        length: u64,
    ) -> Result<MethodScores, ConfigError> {
        let (rate, weight) = (rate(plan, &entry), weight(plan, &entry, length)?);
        Ok(MethodScores { rate, weight, entry, control_of, ..MethodScores::default() })
    }

    fn take(&mut self, Finished { directory, summary: done, .. }: &Finished) -> Result<(), SweepError> {
        let (before, after) = (done.accuracy_before, done.accuracy_after);
        if !(before.is_finite() && after.is_finite()) {
            let path = directory.display();
            return Err(SweepError::Broke(format!(
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

/// Every method, then, if the plan asks for them, the first method at the rates that equalise rate times mean token
/// weight with each other method, where they differ; each with the labels of those other methods. Rates are rounded to
/// three digits. A method that has such a rate already is the step-size control.
fn with_controls(plan: &Plan, length: u64) -> Result<Vec<(Entry, Vec<String>)>, ConfigError> {
    let mut all: Vec<(Entry, Vec<String>)> = plan.entries.iter().map(|e| (e.clone(), Vec::new())).collect();
    let Some(first) = plan.entries.first().filter(|_| plan.ablate_rate) else { return Ok(all) };
    for other in &plan.entries[1..] {
        let equal = rate(plan, other) * weight(plan, other, length)? / weight(plan, first, length)?;
        let Ok(equal) = significant(equal, 3).parse::<f64>() else { continue };
        if !(equal.is_finite() && equal > 0.0) || equal == rate(plan, first) {
            continue;
        }
        let control = first.at_rate(equal);
        if control.slug() == other.slug() {
            continue; // it is the first method at another rate itself
        }
        match all.iter_mut().find(|(e, _)| e.slug() == control.slug()) {
            Some((_, of)) => of.push(other.label.clone()),
            None => all.push((control, vec![other.label.clone()])),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::parse_methods;
    use super::*;
    use grpo_lambda_trainer::config::Config;

    #[test]
    fn a_control_has_the_first_methods_settings_and_the_others_rate_times_weight() {
        let base = Config::resolve("tiny", &["rl.lr=1e-4"]).expect("valid");
        let methods = "grpo,rloo,grpo_lambda:lambda=0.9,grpo_lambda:lambda=0.9,rl.lr=2e-4,grpo_lambda:lambda=0.9,beta=0.1";
        let plan = Plan::new(parse_methods(methods).expect("valid"), 2, true, base).expect("valid");
        let all = with_controls(&plan, 20).expect("valid");
        let (entries, controls) = all.split_at(plan.entries.len());
        assert!(entries.iter().all(|(_, of)| of.is_empty()));
        // Mean weight of the recent trace: (1 - λ (1 - λ^T) / ((1 - λ) T)) / (1 - λ) = 6.0470 for λ = 0.9, T = 20.
        let found: Vec<(&str, String)> =
            controls.iter().map(|(t, of)| (t.label.as_str(), of.join(" "))).collect();
        assert_eq!(
            found,
            [
                ("grpo:rl.lr=0.002", "rloo".to_owned()), // it sums over the 20 tokens
                ("grpo:rl.lr=0.000605", "grpo_lambda:lambda=0.9 grpo_lambda:lambda=0.9,beta=0.1".to_owned()),
                ("grpo:rl.lr=0.00121", "grpo_lambda:lambda=0.9,rl.lr=0.0002".to_owned()),
            ]
        );
    }

    #[test]
    fn a_method_that_has_the_equal_rate_already_is_the_control() {
        let base = Config::resolve("tiny", &["rl.lr=1e-4"]).expect("valid");
        let found = |methods: &str| -> Vec<String> {
            let plan =
                Plan::new(parse_methods(methods).expect("valid"), 2, true, base.clone()).expect("valid");
            let all = with_controls(&plan, 20).expect("valid");
            all.iter().map(|(e, of)| format!("{} {}", e.label, of.join(" "))).collect()
        };
        assert_eq!(found("grpo,rloo,grpo:rl.lr=0.002"), ["grpo ", "rloo ", "grpo:rl.lr=0.002 rloo"]);
        // Not of itself, although its rate differs from the first's.
        assert_eq!(found("grpo,grpo:rl.lr=2e-4"), ["grpo ", "grpo:rl.lr=0.0002 "]);
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
}
