//! [`Trial`]: a run as a row; the rate that the runs of some seeds choose; the runs of a method by seed.

use grpo_lambda_stats::mean;
use serde::{Deserialize, Serialize};

use crate::compare::{Compared, Difference};
use crate::curve::{Curve, Shares};
use crate::study::{Comparison, Study};

/// The purpose of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Chooses a rate.
    #[default]
    Selection,
    Evaluation,
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its tokens were spent.
    #[default]
    Budget,
    /// An update was not finite.
    NotFinite,
}

/// A run in the file of results; the first four fields say whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    pub stage: Stage,
    pub method: String,
    pub rate: f64,
    pub seed: u64,
    pub ended: End,
    pub steps: u64,
    /// Tokens sampled for training.
    pub tokens: u64,
    /// Mean length of a response in the last rollout.
    pub length: f64,
    /// Supervised steps of the start.
    pub start_steps: u64,
    pub seconds: f64,
    /// Every exam.
    pub curve: Curve,
    /// The share of the variance of returns that the critic explained, the mean of the steps since the exam before.
    pub explained: Shares,
}

impl Trial {
    /// The number of fields that say whose a row is.
    pub const KEYS: usize = 4;

    /// Mean accuracy over the first `budget` tokens; none if the run is not that long.
    pub fn score(&self, budget: f64) -> Option<f64> {
        match self.ended {
            End::Budget => self.curve.mean_to(budget),
            End::NotFinite => Some(self.curve.mean_with_nothing_after(budget)),
        }
    }
}

/// The rate with the highest mean score over `seeds`, the later of equals; the only rate there is. None before all
/// scores are known.
pub fn chosen(rates: &[f64], seeds: &[u64], score: impl Fn(f64, u64) -> Option<f64>) -> Option<f64> {
    if let [only] = rates {
        return Some(*only);
    }
    let of_rate = |rate: &f64| {
        let scores: Vec<f64> = seeds.iter().map(|seed| score(*rate, *seed)).collect::<Option<_>>()?;
        Some((mean(&scores)?, *rate))
    };
    let scores: Vec<(f64, f64)> = rates.iter().map(of_rate).collect::<Option<_>>()?;
    scores.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rate)| rate)
}

/// A study with the rows that are there.
#[derive(Debug)]
pub struct Rows<'a, S> {
    pub study: &'a Study<S>,
    pub trials: &'a [Trial],
}

impl<'a, S> Rows<'a, S> {
    fn trial(&self, stage: Stage, method: &str, seed: u64, rate: Option<f64>) -> Option<&'a Trial> {
        let is_own = |t: &&Trial| t.stage == stage && t.method == method && t.seed == seed;
        let mut own = self.trials.iter().filter(is_own);
        own.find(|t| rate.is_none_or(|rate| (t.rate / rate - 1.0).abs() < 1e-9))
    }

    /// The rate of a method, once all its selection runs are there.
    pub fn chosen(&self, method: &str) -> Option<f64> {
        let score =
            |rate, seed| self.trial(Stage::Selection, method, seed, Some(rate))?.score(self.study.budget);
        chosen(&self.study.rates, &self.study.seeds.selection, score)
    }

    /// The evaluation runs of a method in the order of the seeds, once all are there.
    pub fn runs(&self, method: &str) -> Option<Vec<&'a Trial>> {
        let seeds = &self.study.seeds.evaluation;
        seeds.iter().map(|seed| self.trial(Stage::Evaluation, method, *seed, None)).collect()
    }

    /// The score of every evaluation seed, once all runs are there.
    pub fn scores(&self, method: &str) -> Option<Vec<f64>> {
        self.runs(method)?.into_iter().map(|run| run.score(self.study.budget)).collect()
    }

    /// A comparison paired by seed, once all runs of both methods are there.
    pub fn difference(&self, pair: &Comparison) -> Option<Difference> {
        Difference::new(&self.scores(&pair.method)?, &self.scores(&pair.with)?, self.study.level)
    }

    /// These comparisons, once all runs of all of them are there.
    pub fn compared(&self, pairs: &[Comparison]) -> Option<Vec<Compared>> {
        let compared =
            |pair: &Comparison| Some(Compared { pair: pair.clone(), difference: self.difference(pair)? });
        pairs.iter().map(compared).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::SMALL;

    #[test]
    fn the_rate_with_the_highest_mean_is_chosen_once_all_runs_are_there() {
        let (rates, seeds) = ([0.1, 0.2, 0.4], [1, 2]);
        // Means .5, .6, .55: one seed alone would choose .4.
        let score = |rate: f64, seed: u64| match (rate, seed) {
            (0.1, _) => Some(0.5),
            (0.2, _) => Some(0.6),
            (_, 1) => Some(0.9),
            (_, _) => Some(0.2),
        };
        assert_eq!(chosen(&rates, &seeds, score), Some(0.2));
        assert_eq!(chosen(&rates, &seeds, |rate, seed| score(rate, seed).filter(|_| seed == 1)), None);
        assert_eq!(chosen(&[0.3], &seeds, |_, _| None), Some(0.3));
    }

    fn study() -> Study<toml::Table> {
        Study::read(SMALL).expect("a study")
    }

    fn trial(stage: Stage, method: &str, rate: f64, seed: u64, level: f64) -> Trial {
        let curve = format!("0:{level} 120:{level}").parse().expect("a curve");
        Trial { stage, method: method.to_owned(), rate, seed, curve, ..Trial::default() }
    }

    #[test]
    fn runs_are_paired_by_seed_and_a_missing_one_leaves_nothing() {
        let study = study();
        let mut trials = vec![
            trial(Stage::Selection, "a", 0.1, 1, 0.5),
            trial(Stage::Selection, "a", 0.2, 1, 0.4),
            // In another order than those of the other method.
            trial(Stage::Evaluation, "a", 0.1, 4, 0.9),
            trial(Stage::Evaluation, "a", 0.1, 2, 0.5),
            trial(Stage::Evaluation, "a", 0.1, 3, 0.7),
        ];
        trials.extend(
            [(2, 0.4), (3, 0.61), (4, 0.79)]
                .map(|(seed, level)| trial(Stage::Evaluation, "b", 0.2, seed, level)),
        );
        let rows = Rows { study: &study, trials: &trials };
        assert_eq!((rows.chosen("a"), rows.chosen("b")), (Some(0.1), None));
        let difference = rows.difference(&study.comparisons[0]).expect("all runs");
        let want = [0.1, 0.09, 0.11];
        assert!(difference.values.iter().zip(want).all(|(d, w)| (d - w).abs() < 1e-12), "{difference:?}");
        assert_eq!(rows.compared(&study.gate.better).map(|all| all.len()), Some(1));
        let fewer = Rows { study: &study, trials: &trials[..7] };
        assert!(fewer.compared(&study.comparisons).is_none());
    }

    #[test]
    fn a_run_that_breaks_down_counts_and_one_that_is_too_short_is_not_known() {
        let whole = trial(Stage::Evaluation, "a", 0.1, 2, 0.5);
        assert_eq!((whole.score(100.0), whole.score(240.0)), (Some(0.5), None));
        let broken = Trial { ended: End::NotFinite, ..whole };
        assert_eq!(broken.score(240.0), Some(0.25));
    }
}
