//! Ratios of tokens over pairs of runs from one start, and the gate that decides whether a version of the protocol says anything.

use super::{ANTI, LEVEL, MARGIN, ORACLE, REFERENCE, Run, SINGLE};
use grpo_lambda_stats::{Interval, paired_permutation, t_interval};

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
    /// The number of pairs.
    pub(super) pairs: usize,
    /// The pairs on which each arm missed the target: there it counts with all its tokens, the least that it needs.
    pub(super) missed: [usize; 2],
    /// The intervals of their mean at 95 % and at 90 %.
    pub(super) interval: Interval,
    pub(super) narrow: Interval,
    /// The p-value of sign flips.
    pub(super) p: f64,
}

/// The verdict of the protocol on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Fewer,
    More,
    Equivalent,
    NotTold,
}

impl Compared {
    /// The reading at a p-value that is corrected for all comparisons of a family.
    pub(super) fn reading(&self, corrected: f64) -> Reading {
        let inside = self.narrow.low >= -MARGIN.ln() && self.narrow.high <= MARGIN.ln();
        match (inside, corrected <= 1.0 - LEVEL) {
            (true, _) => Reading::Equivalent,
            (false, true) if self.interval.mid < 0.0 => Reading::Fewer,
            (false, true) => Reading::More,
            (false, false) => Reading::NotTold,
        }
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
    Some(Compared {
        pairs: ratios.len(),
        missed: [missed(runs, reference), missed(reference, runs)],
        interval: t_interval(&ratios, LEVEL)?,
        narrow: t_interval(&ratios, 2.0 * LEVEL - 1.0)?,
        p: paired_permutation(&ratios, &vec![0.0; ratios.len()], 0, 0)?.p,
    })
}

pub(super) fn exponential(i: Interval) -> Interval {
    Interval { low: i.low.exp(), mid: i.mid.exp(), high: i.high.exp(), ..i }
}

/// The controls' ratios of tokens to RLOO's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    pub(super) verifier: Interval,
    pub(super) permuted: Interval,
    /// The pairs that count.
    pub(super) pairs: [usize; 2],
}

impl Gate {
    /// The gate of the runs of some versions under a rule.
    fn new(versions: &[&[Run]], rule: Rule) -> Option<Gate> {
        let ratios = |arm: &str| -> Vec<f64> {
            let of_version = |runs: &&[Run]| {
                let (own, reference) = (by_seed(runs, arm), by_seed(runs, REFERENCE));
                own.into_iter().zip(reference).filter_map(|pair| log_ratio(pair, rule)).collect::<Vec<_>>()
            };
            versions.iter().flat_map(of_version).collect()
        };
        let interval = |ratios: &[f64]| t_interval(ratios, LEVEL).map(exponential);
        let [verifier, permuted] = [ORACLE, ANTI].map(ratios);
        Some(Gate {
            verifier: interval(&verifier)?,
            permuted: interval(&permuted)?,
            pairs: [verifier.len(), permuted.len()],
        })
    }

    /// True if verifier credit needs at most half of RLOO's tokens and permuted credit at least as many as RLOO.
    pub(super) fn is_passed(self) -> bool {
        self.verifier.mid <= 0.5 && self.permuted.mid >= 1.0
    }
}

/// The versions of the protocol of which evaluation runs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Versions {
    Four,
    Five,
    Both,
}

impl Versions {
    pub(super) fn words(self) -> &'static str {
        match self {
            Versions::Four => "version 4",
            Versions::Five => "version 5",
            Versions::Both => "both",
        }
    }
}

/// The gate of some runs under a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateCell {
    pub(super) runs: Versions,
    pub(super) rule: Rule,
    pub(super) gate: Gate,
}

/// The gate of the runs of version 4, of version 5 and of both, under either rule.
pub(super) fn gate_cells(earlier: &[Run], runs: &[Run]) -> Vec<GateCell> {
    let sets: [(Versions, &[&[Run]]); 3] =
        [(Versions::Four, &[earlier]), (Versions::Five, &[runs]), (Versions::Both, &[earlier, runs])];
    let cells = sets.into_iter().flat_map(|(name, versions)| Rule::ALL.map(|rule| (name, versions, rule)));
    cells
        .filter_map(|(runs, versions, rule)| Some(GateCell { runs, rule, gate: Gate::new(versions, rule)? }))
        .collect()
}

/// The evaluation runs of an arm in the first cell, by seed.
pub(super) fn by_seed<'a>(runs: &'a [Run], arm: &str) -> Vec<&'a Run> {
    let is_own = |run: &&Run| run.cell == SINGLE && run.stage == "evaluation" && run.arm == arm;
    let mut own: Vec<&Run> = runs.iter().filter(is_own).collect();
    own.sort_by_key(|run| run.seed);
    own
}
