//! A row: an expected update against the policy gradient.

use super::pairs::Fit;
use crate::atlas::multisets::Groups;
use crate::experiments::common::distinct;
use grpo_lambda::methods::{Credit, Method};
use grpo_lambda_stats::mean;
use serde::{Deserialize, Serialize};

/// The difference of sampler and updated policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mode {
    /// The policy has been updated on the batch: by this method, `x` times.
    Inner,
    /// The sampler is the policy `x` exact gradient steps ago, the same pair for all methods.
    Stale,
    /// The sampler has temperature `x`.
    Temperature,
    /// The sampler's logits carry noise of standard deviation `x`.
    Noise,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Inner => "inner",
            Mode::Stale => "stale",
            Mode::Temperature => "temperature",
            Mode::Noise => "noise",
        }
    }
}

/// One expected update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) mode: Mode,
    pub(super) mdp: String,
    /// The method, by its name for a reader.
    pub(super) method: String,
    /// Updates, temperature or noise.
    pub(super) x: f64,
    /// True if ratios are taken to be 1.
    pub(super) ignored: bool,
    /// `KL(sampler || updated)`, nats per response.
    pub(super) kl: f64,
    /// Against `∇J`; none where the update is silent.
    pub(super) fit: Option<Fit>,
    /// Shares of tokens; only for updates and stale samplers.
    pub(super) regions: Option<Regions>,
}

impl Row {
    /// Cosine with `∇J`; 0 of a silent update.
    pub(super) fn cosine(&self) -> f64 {
        self.fit.map_or(0.0, |f| f.cosine)
    }
}

/// Rows by mode, method and x, ratios taken from the sampler.
pub(super) fn select<'a>(
    rows: &'a [Row],
    mode: Mode,
    method: &'a str,
    x: f64,
) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |r| r.mode == mode && r.method == method && r.x == x && !r.ignored)
}

/// Names of the methods in the order of the rows.
pub(super) fn methods(rows: &[Row]) -> Vec<&str> {
    distinct(rows.iter().map(|row| row.method.as_str()))
}

/// Mean cosine over the tasks; a silent update counts 0.
pub(super) fn mean_cosine(rows: &[Row], mode: Mode, method: &str, x: f64) -> f64 {
    let cosines: Vec<f64> = select(rows, mode, method, x).map(Row::cosine).collect();
    mean(&cosines).unwrap_or(f64::NAN)
}

/// Mean of a share over the tasks.
pub(super) fn mean_share(
    rows: &[Row],
    mode: Mode,
    method: &str,
    x: f64,
    of: impl Fn(&Regions) -> f64,
) -> f64 {
    let shares: Vec<f64> =
        select(rows, mode, method, x).filter_map(|r| r.regions.as_ref().map(&of)).collect();
    mean(&shares).unwrap_or(f64::NAN)
}

/// A mismatched sampler: the cosine with ratios that correct for it, and with ratios of 1; a row of `atlas_off_policy_mismatch.csv`.
#[derive(Serialize)]
pub(super) struct Correction<'a> {
    pub(super) mode: &'static str,
    pub(super) mdp: &'a str,
    pub(super) method: &'a str,
    pub(super) x: f64,
    pub(super) corrected: f64,
    pub(super) ignored: f64,
}

impl Correction<'_> {
    /// Gain of the cosine by correcting.
    pub(super) fn gain(&self) -> f64 {
        self.corrected - self.ignored
    }

    /// By more than rounding: 1 better, -1 worse, 0 the same.
    pub(super) fn sign(&self) -> i8 {
        i8::from(self.gain() > 1e-9) - i8::from(self.gain() < -1e-9)
    }
}

/// Every mismatched sampler of which there are rows of both kinds.
pub(super) fn corrections(rows: &[Row]) -> Vec<Correction<'_>> {
    let corrected = rows.iter().filter(|r| !r.ignored && matches!(r.mode, Mode::Temperature | Mode::Noise));
    let with_ratios_of_1 = |row: &Row| {
        let same = |r: &&Row| {
            r.ignored && (r.mode, &r.mdp, &r.method, r.x) == (row.mode, &row.mdp, &row.method, row.x)
        };
        rows.iter().find(same).map(Row::cosine)
    };
    let pairs = corrected.filter_map(|row| Some((row, with_ratios_of_1(row)?)));
    pairs
        .map(|(row, ignored)| Correction {
            mode: row.mode.name(),
            mdp: &row.mdp,
            method: &row.method,
            x: row.x,
            corrected: row.cosine(),
            ignored,
        })
        .collect()
}

/// Expected shares of the tokens of a batch; `raised`: advantage above 0, `lowered`: below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Regions {
    /// Raised, ratio inside what the clip allows.
    pub(super) raised_free: f64,
    /// Raised, on the upper bound: PPO's clip stops pushing.
    pub(super) raised_high: f64,
    /// Raised, on the lower bound: only where the bound is a weight.
    pub(super) raised_low: f64,
    /// Lowered, inside.
    pub(super) lowered_free: f64,
    /// Lowered, on the lower bound: PPO's clip stops pushing.
    pub(super) lowered_low: f64,
    /// Lowered, on the upper bound: the printed clip does not pull back.
    pub(super) lowered_high: f64,
    pub(super) idle: f64,
    /// Tokens with an advantage whose own gradient is 0: no surrogate that reads them is inside.
    pub(super) silent: f64,
}

/// A share of the tokens.
pub(super) type Share = fn(&Regions) -> f64;

impl Regions {
    /// The shares by the names of their columns.
    pub(super) const SHARES: [(&str, Share); 8] = [
        ("raised_free", |r| r.raised_free),
        ("raised_high", |r| r.raised_high),
        ("raised_low", |r| r.raised_low),
        ("lowered_free", |r| r.lowered_free),
        ("lowered_low", |r| r.lowered_low),
        ("lowered_high", |r| r.lowered_high),
        ("idle", |r| r.idle),
        ("silent", |r| r.silent),
    ];

    /// The shares over all groups.
    pub(super) fn new(groups: &Groups, method: &dyn Method) -> Regions {
        let (mut all, mut sum) = (0.0, Regions::default());
        groups.each(method, |o| {
            for (i, (&atom, credit)) in o.members.iter().zip(o.credits).enumerate() {
                let count = |keep: &dyn Fn(f64) -> bool| {
                    let part = part(credit, keep);
                    let m = method.loss(&o.group.responses[i], &part, &groups.atoms()[atom].logps).metrics;
                    let weighted = |n: usize| o.probability * n as f64;
                    (weighted(m.tokens), weighted(m.clipped_low), weighted(m.clipped_high))
                };
                let (raised, low, high) = count(&|a| a > 0.0);
                sum.raised_low += low;
                sum.raised_high += high;
                sum.raised_free += raised - low - high;
                let (lowered, low, high) = count(&|a| a < 0.0);
                sum.lowered_low += low;
                sum.lowered_high += high;
                sum.lowered_free += lowered - low - high;
                let tokens = o.probability * credit.advantages.len() as f64;
                sum.idle += tokens - raised - lowered;
                all += tokens;
                let silent = |(w, a): &(&f64, &f64)| **w == 0.0 && **a != 0.0;
                let silent = o.tokens[i].iter().zip(&credit.advantages).filter(silent).count();
                sum.silent += o.probability * silent as f64;
            }
        });
        let share = |x: f64| (x / all).max(0.0);
        Regions {
            raised_free: share(sum.raised_free),
            raised_high: share(sum.raised_high),
            raised_low: share(sum.raised_low),
            lowered_free: share(sum.lowered_free),
            lowered_low: share(sum.lowered_low),
            lowered_high: share(sum.lowered_high),
            idle: share(sum.idle),
            silent: share(sum.silent),
        }
    }

    /// Tokens on a bound.
    pub(super) fn bound(&self) -> f64 {
        self.raised_high + self.raised_low + self.lowered_low + self.lowered_high
    }
}

/// The credit with weight on the tokens whose advantage is kept only. The trace still reads all.
fn part(credit: &Credit, keep: &dyn Fn(f64) -> bool) -> Credit {
    let weights = credit.weights.iter().zip(&credit.advantages).map(|(&w, &a)| if keep(a) { w } else { 0.0 });
    Credit { weights: weights.collect(), ..credit.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::entries::Source;
    use crate::atlas::multisets::Ratios;
    use crate::atlas::off_policy::pairs::{ascent, tasks};
    use grpo_lambda::methods;

    #[test]
    fn on_policy_nothing_is_bound_and_shares_sum_to_one() {
        let task = &tasks().unwrap()[2];
        let path = ascent(task, 4, 0.05).unwrap();
        for (current, on_policy) in [(&path[0], true), (&path[4], false)] {
            let groups =
                Groups::new(&task.tree, &path[0], current, Ratios::Sampler, 3, Source::Table).unwrap();
            for name in ["grpo", "grpo_lambda", "gspo", "cispo"] {
                let method = methods::parse(name, "").unwrap().method;
                let r = Regions::new(&groups, method.as_ref());
                let sum: f64 = Regions::SHARES[..7].iter().map(|(_, share)| share(&r)).sum();
                assert!((sum - 1.0).abs() < 1e-12, "{name}: {sum}");
                assert!(!on_policy || (r.bound() == 0.0 && r.silent == 0.0), "{name}: {r:?}");
            }
        }
    }

    #[test]
    fn the_regions_of_grpo_are_those_of_its_ratios() {
        // By hand: a token is bound when its response's advantage is positive and its ratio above 1.2, or negative and below 0.8.
        let task = &tasks().unwrap()[2];
        let path = ascent(task, 6, 0.05).unwrap();
        let groups = Groups::new(&task.tree, &path[0], &path[6], Ratios::Sampler, 3, Source::Table).unwrap();
        let method = methods::parse("grpo", "reduction=response_sum").unwrap().method;
        let (mut high, mut low, mut all) = (0.0, 0.0, 0.0);
        groups.each(method.as_ref(), |o| {
            for (i, &atom) in o.members.iter().enumerate() {
                let response = &o.group.responses[i];
                let others: f64 = o.group.responses.iter().map(|r| r.reward.unwrap()).sum();
                let a = response.reward.unwrap() - others / 3.0;
                for (new, old) in groups.atoms()[atom].logps.iter().zip(&response.old_logps) {
                    let ratio = (new - old).exp();
                    all += o.probability;
                    high += if a > 1e-9 && ratio > 1.2 { o.probability } else { 0.0 };
                    low += if a < -1e-9 && ratio < 0.8 { o.probability } else { 0.0 };
                }
            }
        });
        let r = Regions::new(&groups, method.as_ref());
        assert!(high > 0.0 && low > 0.0);
        assert!((r.raised_high - high / all).abs() < 1e-12 && (r.lowered_low - low / all).abs() < 1e-12);
        assert!((r.silent - (high + low) / all).abs() < 1e-12, "each token has its own surrogate only");
    }
}
