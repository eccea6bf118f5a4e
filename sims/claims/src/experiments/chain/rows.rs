//! The rows of the data files that a report quotes.

use super::{ANTI, CLAMP, GRPO, LEVEL, ORACLE, SETS, TRACE};
use grpo_lambda_stats::Interval;
use serde::{Deserialize, Serialize};

/// The comparisons of `chain_compared.csv`: an arm, over another.
pub(crate) const COMPARED: [(&str, &str); 6] =
    [(ORACLE, CLAMP), (ORACLE, SETS), (ORACLE, ANTI), (ORACLE, GRPO), (CLAMP, GRPO), (TRACE, GRPO)];

/// A row of `chain.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct ArmRow {
    pub(crate) cell: String,
    pub(crate) arm: String,
    pub(super) rate: f64,
    pub(crate) seeds: usize,
    /// Runs that did not reach the target.
    pub(super) missed: usize,
    /// Seeds on which the arm or RLOO reached it.
    pub(crate) pairs: Option<usize>,
    /// Tokens over RLOO's.
    pub(crate) tokens: Option<f64>,
    pub(crate) tokens_low: Option<f64>,
    pub(crate) tokens_high: Option<f64>,
    pub(super) p: Option<f64>,
    pub(super) corrected: Option<f64>,
    pub(super) reading: String,
    /// The share of verifier credit's gain over GRPO, on the scale of logarithms of tokens; no page quotes it.
    pub(super) share: Option<f64>,
    pub(super) share_low: Option<f64>,
    pub(super) share_high: Option<f64>,
}

/// A row of `chain_updates.csv`: an arm's update at a place of a run, over the seeds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UpdateRow {
    pub(crate) place: String,
    pub(crate) arm: String,
    pub(crate) seeds: usize,
    /// The noise over RLOO's of the same seed, then the cosine with the gradient over RLOO's.
    pub(crate) noise: f64,
    pub(crate) noise_low: f64,
    pub(crate) noise_high: f64,
    pub(super) cosine: f64,
    pub(super) cosine_low: f64,
    pub(super) cosine_high: f64,
    /// The size of a wrong response's credit behind the first error over that before it.
    pub(super) credit_after_over_before: f64,
    /// Rank correlation of a value's credit with the exact one.
    pub(crate) rank_correlation: Option<f64>,
}

impl UpdateRow {
    pub(super) fn noise(&self) -> Interval {
        Interval { low: self.noise_low, mid: self.noise, high: self.noise_high, level: LEVEL }
    }

    pub(super) fn cosine(&self) -> Interval {
        Interval { low: self.cosine_low, mid: self.cosine, high: self.cosine_high, level: LEVEL }
    }
}

/// A row of `chain_gate.csv`: the gate of some runs under a rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GateRow {
    /// The versions of the protocol whose evaluation runs these are.
    pub(crate) runs: String,
    /// The version whose rule says what a pair counts as of which neither run reached the target: 4, a ratio of 1; 5, nothing.
    pub(crate) rule_of_version: u32,
    pub(crate) pairs: usize,
    /// Tokens of verifier credit over RLOO's, then those of permuted credit.
    pub(crate) tokens: f64,
    pub(crate) tokens_low: f64,
    pub(crate) tokens_high: f64,
    pub(crate) permuted_pairs: usize,
    pub(crate) permuted: f64,
    pub(crate) permuted_low: f64,
    pub(crate) permuted_high: f64,
    /// [`PASSED`] or `void`.
    pub(crate) gate: String,
}

/// The word of a gate that is passed.
pub(super) const PASSED: &str = "passed";

impl GateRow {
    pub(super) fn is_passed(&self) -> bool {
        self.gate == PASSED
    }
}

/// A row of `chain_pairs.csv`: an arm and RLOO on a seed of the first cell.
#[derive(Serialize, Deserialize)]
pub(crate) struct PairRow {
    /// The version of the protocol; of version 4 the controls alone.
    pub(crate) version: u32,
    pub(crate) arm: String,
    pub(crate) seed: u64,
    /// Tokens over RLOO's; a run that missed the target has all its tokens.
    pub(crate) tokens: f64,
    /// `yes` or `no`: the arm reached the target, and RLOO did.
    pub(crate) reached: String,
    pub(crate) rloo_reached: String,
}

impl PairRow {
    /// True if the ratio is neither of two numbers nor a bound: no run reached the target.
    pub(crate) fn is_of_neither(&self) -> bool {
        self.reached == "no" && self.rloo_reached == "no"
    }

    /// True if both runs reached the target.
    pub(crate) fn is_of_both(&self) -> bool {
        self.reached == "yes" && self.rloo_reached == "yes"
    }
}

/// The seeds of a version on which permuted credit reaches the target with fewer tokens than verifier credit spends.
pub(crate) fn permuted_wins(pairs: &[PairRow], version: u32) -> Vec<u64> {
    let runs_of =
        |arm: &'static str| pairs.iter().filter(move |row| row.version == version && row.arm == arm);
    let verifier = |seed: u64| runs_of(ORACLE).find(|row| row.seed == seed).map(|row| row.tokens);
    let wins = runs_of(ANTI)
        .filter(|row| row.reached == "yes" && verifier(row.seed).is_some_and(|t| row.tokens < t));
    wins.map(|row| row.seed).collect()
}

/// A row of `chain_compared.csv`: the tokens of an arm over those of another that is not RLOO.
#[derive(Serialize, Deserialize)]
pub(crate) struct ComparedRow {
    pub(crate) arm: String,
    pub(crate) over: String,
    pub(crate) pairs: usize,
    /// Pairs on which only the other reached the target, and on which only the arm did.
    pub(crate) missed: usize,
    pub(crate) over_missed: usize,
    pub(crate) tokens: f64,
    pub(crate) tokens_low: f64,
    pub(crate) tokens_high: f64,
    pub(crate) p: f64,
}

/// The seeds by what an arm needs there over RLOO.
pub(crate) struct BySeed {
    /// The ratios below 1, ascending.
    pub(crate) fewer: Vec<f64>,
    /// The other ratios, ascending.
    pub(crate) more: Vec<f64>,
    /// Seeds on which neither reached the target.
    pub(crate) neither: usize,
}

impl BySeed {
    pub(crate) fn new<'a>(rows: impl IntoIterator<Item = &'a PairRow>) -> BySeed {
        let (neither, told): (Vec<&PairRow>, Vec<&PairRow>) =
            rows.into_iter().partition(|row| row.is_of_neither());
        let mut ratios: Vec<f64> = told.iter().map(|row| row.tokens).collect();
        ratios.sort_by(f64::total_cmp);
        let more = ratios.split_off(ratios.partition_point(|ratio| *ratio < 1.0));
        BySeed { fewer: ratios, more, neither: neither.len() }
    }

    pub(crate) fn seeds(&self) -> usize {
        self.fewer.len() + self.more.len() + self.neither
    }

    /// `0.32 to 0.64 of RLOO's tokens on 9 of 12 seeds`; none where an arm needs fewer on no seed.
    pub(crate) fn said(&self) -> Option<String> {
        let (least, most) = (self.fewer.first()?, self.fewer.last()?);
        Some(format!(
            "{least:.2} to {most:.2} of RLOO's tokens on {} of {} seeds",
            self.fewer.len(),
            self.seeds()
        ))
    }
}
