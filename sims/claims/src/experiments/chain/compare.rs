//! Ratios of tokens over pairs of runs from one start, and the gate that decides whether a version of the protocol says anything.

use super::rows::{GateRow, PASSED};
use super::{ANTI, LEVEL, MARGIN, ORACLE, REFERENCE, Run, SINGLE};
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::{Difference, Verdict};

/// The rule for a pair of which neither run reached the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A ratio of 1, up to version 4 of the protocol.
    One,
    /// Nothing, from version 5 on.
    LeftOut,
}

impl Rule {
    pub(super) const ALL: [Rule; 2] = [Rule::One, Rule::LeftOut];

    /// The version of the protocol that brought the rule in, or had it last.
    pub(super) fn version(self) -> u32 {
        match self {
            Rule::One => 4,
            Rule::LeftOut => 5,
        }
    }
}

/// The log ratios of the tokens of two arms, over the pairs of which one at least reached the target.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    /// The pairs on which each arm missed the target: there it counts with all its tokens, the least that it needs.
    pub(super) missed: [usize; 2],
    pub(super) ratio: Difference,
}

impl Compared {
    pub(super) fn pairs(&self) -> usize {
        self.ratio.values.len()
    }

    /// The reading after correction: an arm needs more tokens where the verdict is that they are higher.
    pub(super) fn reading(&self) -> Verdict {
        self.ratio.verdict(MARGIN.ln())
    }
}

/// The logarithm of the ratio of the tokens of two runs; none where the rule leaves the pair out.
fn log_ratio((run, other): (&Run, &Run), rule: Rule) -> Option<f64> {
    match (run.reached.is_some() || other.reached.is_some(), rule) {
        (true, _) => Some(run.over(other).ln()),
        (false, Rule::One) => Some(0.0),
        (false, Rule::LeftOut) => None,
    }
}

/// Compares runs that are in the order of the same seeds, by the rule of version 5.
pub(super) fn compared(runs: &[Run], reference: &[Run]) -> Option<Compared> {
    let ratios: Vec<f64> =
        runs.iter().zip(reference).filter_map(|pair| log_ratio(pair, Rule::LeftOut)).collect();
    let missed = |own: &[Run], other: &[Run]| {
        own.iter().zip(other).filter(|(own, other)| own.reached.is_none() && other.reached.is_some()).count()
    };
    let ratio = Difference::new(&ratios, &vec![0.0; ratios.len()], LEVEL)?;
    Some(Compared { missed: [missed(runs, reference), missed(reference, runs)], ratio })
}

pub(super) fn exponential(i: Interval) -> Interval {
    Interval { low: i.low.exp(), mid: i.mid.exp(), high: i.high.exp(), ..i }
}

/// The gate of the runs of some versions under a rule: verifier credit needs at most half of RLOO's tokens and permuted credit
/// at least as many as RLOO.
fn gate(name: &str, versions: &[&[Run]], rule: Rule) -> Option<GateRow> {
    let ratios = |arm: &str| -> Vec<f64> {
        let of_version = |runs: &&[Run]| {
            let (own, reference) = (by_seed(runs, arm), by_seed(runs, REFERENCE));
            own.into_iter().zip(reference).filter_map(|pair| log_ratio(pair, rule)).collect::<Vec<_>>()
        };
        versions.iter().flat_map(of_version).collect()
    };
    let [verifier, permuted] = [ORACLE, ANTI].map(ratios);
    let interval = |ratios: &[f64]| t_interval(ratios, LEVEL).map(exponential);
    let (tokens, of_permuted) = (interval(&verifier)?, interval(&permuted)?);
    let is_passed = tokens.mid <= 0.5 && of_permuted.mid >= 1.0;
    Some(GateRow {
        runs: name.to_owned(),
        rule_of_version: rule.version(),
        pairs: verifier.len(),
        tokens: tokens.mid,
        tokens_low: tokens.low,
        tokens_high: tokens.high,
        permuted_pairs: permuted.len(),
        permuted: of_permuted.mid,
        permuted_low: of_permuted.low,
        permuted_high: of_permuted.high,
        gate: if is_passed { PASSED } else { "void" }.to_owned(),
    })
}

/// The name of the protocol's own runs among the gates.
pub(super) const OWN: &str = "version 5";

/// The gate of the runs of versions 4 and 5, alone and together, under the rule of either.
pub(super) fn gates(earlier: &[Run], runs: &[Run]) -> Vec<GateRow> {
    let sets: [(&str, &[&[Run]]); 3] =
        [("version 4", &[earlier]), (OWN, &[runs]), ("both", &[earlier, runs])];
    let cells = sets.into_iter().flat_map(|(name, runs)| Rule::ALL.map(|rule| gate(name, runs, rule)));
    cells.flatten().collect()
}

/// The evaluation runs of an arm in the first cell, by seed.
pub(super) fn by_seed<'a>(runs: &'a [Run], arm: &str) -> Vec<&'a Run> {
    let is_own = |run: &&Run| run.cell == SINGLE && run.stage == "evaluation" && run.arm == arm;
    let mut own: Vec<&Run> = runs.iter().filter(is_own).collect();
    own.sort_by_key(|run| run.seed);
    own
}
