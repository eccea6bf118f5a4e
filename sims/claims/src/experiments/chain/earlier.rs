//! Versions 4 and 5 of the protocol, which measured tokens to an accuracy of 0.8: their gate under the rule of either, and the
//! comparisons of version 5. They decide nothing any more.
//!
//! `oracle` is verifier credit, `Q - b*` with one `p` per batch, and `anti_oracle` the same credit at random steps.

use super::LEVEL;
use super::rows::{EarlierRow, GateRow};
use crate::experiments::common::distinct;
use crate::experiments::common::record::recorded;
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::Difference;
use serde::Deserialize;

const VERSION_4: &str = include_str!("../../../../../llm/results/chain_version_4.csv");
const VERSION_5: &str = include_str!("../../../../../paper/data/chain_runs.csv");

pub(super) const REFERENCE: &str = "rloo";
pub(super) const EARLIER_VERIFIER: &str = "oracle";
pub(super) const EARLIER_PERMUTED: &str = "anti_oracle";
pub(super) const TRACE: &str = "lambda_mean1";
pub(super) const CLAMP: &str = "grpo_clamp";
/// The cell that decided, and its comparisons with other arms than RLOO.
const SINGLE: &str = "single";
const OTHERS: [(&str, &str); 6] = [
    (EARLIER_VERIFIER, CLAMP),
    (EARLIER_VERIFIER, "systematic_rloo"),
    (EARLIER_VERIFIER, EARLIER_PERMUTED),
    (EARLIER_VERIFIER, "grpo"),
    (CLAMP, "grpo"),
    (TRACE, "grpo"),
];

/// An evaluation run.
#[derive(Clone, Debug, Deserialize)]
struct Run {
    cell: String,
    stage: String,
    arm: String,
    rate: f64,
    seed: u64,
    tokens: f64,
    /// Tokens until the target; none if it was not reached.
    reached: Option<f64>,
}

/// The rule for a pair of which neither run reached the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// A ratio of 1, up to version 4.
    One,
    /// Nothing, in version 5.
    LeftOut,
}

impl Rule {
    /// The version of the protocol that brought the rule in, or had it last.
    fn version(self) -> u32 {
        match self {
            Rule::One => 4,
            Rule::LeftOut => 5,
        }
    }

    /// The logarithm of the ratio of the tokens of two runs; a run that did not reach the target counts with all its tokens.
    fn log_ratio(self, [run, other]: [&Run; 2]) -> Option<f64> {
        let tokens = |run: &Run| run.reached.unwrap_or(run.tokens);
        match (run.reached.is_some() || other.reached.is_some(), self) {
            (true, _) => Some((tokens(run) / tokens(other)).ln()),
            (false, Rule::One) => Some(0.0),
            (false, Rule::LeftOut) => None,
        }
    }
}

fn evaluated(text: &str) -> anyhow::Result<Vec<Run>> {
    let mut runs: Vec<Run> = recorded(text)?;
    runs.retain(|run| run.stage == "evaluation");
    runs.sort_by_key(|run| run.seed);
    Ok(runs)
}

/// The runs of two arms of a cell, paired by seed.
fn pairs<'a>(runs: &'a [Run], cell: &str, [arm, over]: [&str; 2]) -> Vec<[&'a Run; 2]> {
    let find =
        |arm: &str, seed: u64| runs.iter().find(|run| run.cell == cell && run.arm == arm && run.seed == seed);
    let seeds = distinct(runs.iter().map(|run| run.seed));
    seeds.into_iter().filter_map(|seed| Some([find(arm, seed)?, find(over, seed)?])).collect()
}

fn exponential(i: Interval) -> Interval {
    Interval { low: i.low.exp(), mid: i.mid.exp(), high: i.high.exp(), ..i }
}

fn compared(runs: &[Run], cell: &str, [arm, over]: [&str; 2]) -> Option<EarlierRow> {
    let pairs = pairs(runs, cell, [arm, over]);
    let ratios: Vec<f64> = pairs.iter().filter_map(|pair| Rule::LeftOut.log_ratio(*pair)).collect();
    let ratio = Difference::new(&ratios, &vec![0.0; ratios.len()], LEVEL)?;
    let tokens = exponential(ratio.interval);
    let only = |k: usize| {
        pairs.iter().filter(|pair| pair[k].reached.is_some() && pair[1 - k].reached.is_none()).count()
    };
    Some(EarlierRow {
        cell: cell.to_owned(),
        arm: arm.to_owned(),
        over: over.to_owned(),
        rate: pairs.first()?[0].rate,
        pairs: ratios.len(),
        missed: only(1),
        over_missed: only(0),
        tokens: tokens.mid,
        tokens_low: tokens.low,
        tokens_high: tokens.high,
        p: ratio.p,
    })
}

/// The comparisons of version 5: every arm with RLOO, then [`OTHERS`].
pub(super) fn comparisons() -> anyhow::Result<Vec<EarlierRow>> {
    let runs = evaluated(VERSION_5)?;
    let arms = distinct(runs.iter().map(|run| (run.cell.clone(), run.arm.clone())));
    let with_reference = arms
        .iter()
        .filter(|(_, arm)| arm != REFERENCE)
        .filter_map(|(cell, arm)| compared(&runs, cell, [arm, REFERENCE]));
    let others = OTHERS.iter().filter_map(|(arm, over)| compared(&runs, SINGLE, [arm, over]));
    let mut rows: Vec<EarlierRow> = with_reference.chain(others).collect();
    rows.sort_by(|a, b| (b.cell == SINGLE, &a.cell).cmp(&(a.cell == SINGLE, &b.cell)));
    Ok(rows)
}

/// The gate of some runs under a rule: verifier credit needs at most half of RLOO's tokens and permuted credit at least as many.
fn gate(name: &str, versions: &[&[Run]], rule: Rule) -> Option<GateRow> {
    let of_arm = |arm: &str| -> Option<(usize, Interval)> {
        let pairs = versions.iter().flat_map(|runs| pairs(runs, SINGLE, [arm, REFERENCE]));
        let ratios: Vec<f64> = pairs.filter_map(|pair| rule.log_ratio(pair)).collect();
        Some((ratios.len(), exponential(t_interval(&ratios, LEVEL)?)))
    };
    let ((pairs, verifier), (permuted_pairs, permuted)) =
        (of_arm(EARLIER_VERIFIER)?, of_arm(EARLIER_PERMUTED)?);
    Some(GateRow {
        runs: name.to_owned(),
        rule_of_version: rule.version(),
        pairs,
        tokens: verifier.mid,
        tokens_low: verifier.low,
        tokens_high: verifier.high,
        permuted_pairs,
        permuted: permuted.mid,
        permuted_low: permuted.low,
        permuted_high: permuted.high,
        gate: if verifier.mid <= 0.5 && permuted.mid >= 1.0 { "passed" } else { "void" }.to_owned(),
    })
}

/// The gate of the runs of versions 4 and 5, alone and together, under the rule of either.
pub(super) fn gates() -> anyhow::Result<Vec<GateRow>> {
    let (four, five) = (evaluated(VERSION_4)?, evaluated(VERSION_5)?);
    let sets: [(&str, &[&[Run]]); 3] =
        [("version 4", &[&four]), ("version 5", &[&five]), ("both", &[&four, &five])];
    let rules = [Rule::One, Rule::LeftOut];
    let rows = sets.into_iter().flat_map(|(name, runs)| rules.map(|rule| gate(name, runs, rule)));
    Ok(rows.flatten().collect())
}
