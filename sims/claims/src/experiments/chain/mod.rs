//! `chain`: long chains of operations with a verifier that knows the first error, so that exact credit is known: which methods assign any of it?
//!
//! The runs are recorded: `cargo run --release -p grpo-lambda-llm --example control -- chain FILE MINUTES` trains them, `quality` measures the arms'
//! updates, and this claim reads their files. `paper/protocols/chain.toml` was written before the runs and says when nothing is concluded.

pub(crate) mod findings;
pub(crate) mod shown;
mod updates;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::record::recorded;
use findings::findings;
use grpo_lambda_stats::{Bootstrap, Interval, holm, paired_permutation, t_interval};
use serde::Deserialize;
use shown::{figures, tables};
use updates::{Update, updates};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "chain",
    title: "On chains whose first error is known: how much credit is there to assign, and which methods assign any of it?",
    claim: "Exact credit at least halves the tokens that RLOO needs on chains of operations, and the trace of GRPO-λ captures part of that",
    source: "ours; protocol in `paper/protocols/chain.toml`",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const PROTOCOL: &str = include_str!("../../../../../paper/protocols/chain.toml");
const RUNS: &str = include_str!("../../../../../paper/data/chain_runs.csv");
const UPDATES: &str = include_str!("../../../../../paper/data/chain_updates_runs.csv");

/// The arm that the others are compared with, and the two that tell whether the experiment can tell anything.
const REFERENCE: &str = "rloo";
pub(crate) const ORACLE: &str = "oracle";
const ANTI: &str = "anti_oracle";
pub(crate) const GRPO: &str = "grpo";
/// The margin of equivalence, as a factor.
const MARGIN: f64 = 1.1;
const LEVEL: f64 = 0.95;

/// The parts of the protocol that this claim reads.
#[derive(Clone, Debug, Deserialize)]
struct Protocol {
    version: u32,
    cells: Vec<CellName>,
    seeds: Seeds,
    exam: Exam,
    arms: Vec<ArmName>,
}

#[derive(Clone, Debug, Deserialize)]
struct CellName {
    name: String,
    #[serde(default)]
    arms: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Seeds {
    evaluation: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Exam {
    target: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct ArmName {
    name: String,
    #[serde(default)]
    foil: bool,
}

/// A recorded run.
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
    /// Mean length of a response in the last rollout.
    length: f64,
}

impl Run {
    /// Tokens to the target; all tokens of a run that did not reach it.
    fn tokens_to_target(&self) -> f64 {
        self.reached.unwrap_or(self.tokens)
    }
}

/// The log ratios of the tokens of two arms, over the pairs of which one at least reached the target.
#[derive(Clone, Debug)]
struct Compared {
    /// The number of pairs.
    pairs: usize,
    /// The pairs on which each arm missed the target: there it counts with all its tokens, the least that it needs.
    missed: [usize; 2],
    /// The intervals of their mean at 95 % and at 90 %.
    interval: Interval,
    narrow: Interval,
    /// The p-value of sign flips.
    p: f64,
}

/// The verdict of the protocol on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Fewer,
    More,
    Equivalent,
    NotTold,
}

impl Compared {
    /// The reading at a p-value that is corrected for all comparisons of a family.
    fn reading(&self, corrected: f64) -> Reading {
        let inside = self.narrow.low >= -MARGIN.ln() && self.narrow.high <= MARGIN.ln();
        match (inside, corrected <= 1.0 - LEVEL) {
            (true, _) => Reading::Equivalent,
            (false, true) if self.interval.mid < 0.0 => Reading::Fewer,
            (false, true) => Reading::More,
            (false, false) => Reading::NotTold,
        }
    }
}

/// An arm of a cell whose evaluation runs are all there.
#[derive(Clone, Debug)]
struct Arm {
    name: String,
    foil: bool,
    rate: f64,
    runs: Vec<Run>,
    over_reference: Option<Compared>,
    /// The p-value corrected by Holm; for a foil, which is outside the family, as it is.
    corrected: Option<f64>,
}

impl Arm {
    fn missed(&self) -> usize {
        self.runs.iter().filter(|run| run.reached.is_none()).count()
    }

    fn reading(&self) -> Option<Reading> {
        Some(self.over_reference.as_ref()?.reading(self.corrected?))
    }
}

/// A cell with its arms, in the protocol's order.
#[derive(Clone, Debug)]
struct Cell {
    name: String,
    arms: Vec<Arm>,
}

impl Cell {
    fn arm(&self, name: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// The comparison of two arms, paired by seed.
    fn compare(&self, arm: &str, with: &str) -> Option<Compared> {
        compared(&self.arm(arm)?.runs, &self.arm(with)?.runs)
    }

    /// The share of the oracle's gain over GRPO that an arm has, on the scale of logarithms of tokens; a percentile bootstrap over seeds.
    fn share_of_headroom(&self, name: &str) -> Option<Interval> {
        let [arm, grpo, oracle] = [name, GRPO, ORACLE].map(|name| self.arm(name));
        let (arm, grpo, oracle) = (&arm?.runs, &grpo?.runs, &oracle?.runs);
        let gain = |runs: &[Run], k: usize| (grpo[k].tokens_to_target() / runs[k].tokens_to_target()).ln();
        let seeds: Vec<f64> = (0..grpo.len()).map(|k| k as f64).collect();
        let share = |drawn: &[Vec<f64>]| {
            let sum = |runs| drawn[0].iter().map(|k| gain(runs, *k as usize)).sum::<f64>();
            sum(arm) / sum(oracle)
        };
        Bootstrap::default().interval(&[seeds], share)
    }
}

/// The controls' ratios of tokens to RLOO's.
#[derive(Clone, Copy, Debug)]
struct Gate {
    oracle: Interval,
    anti_oracle: Interval,
    /// Pairs of which one at least reached the target.
    pairs: [usize; 2],
}

impl Gate {
    /// True if the oracle needs at most half of RLOO's tokens and the anti-oracle at least as many.
    fn is_passed(self) -> bool {
        self.oracle.mid <= 0.5 && self.anti_oracle.mid >= 1.0
    }
}

/// The runs, and the updates of the arms.
struct Numbers {
    protocol: Protocol,
    cells: Vec<Cell>,
    updates: Vec<Update>,
}

impl Numbers {
    /// The gate of the first cell; none before all its runs are there.
    fn gate(&self) -> Option<Gate> {
        let cell = self.cells.first()?;
        let [oracle, anti] = [cell.compare(ORACLE, REFERENCE)?, cell.compare(ANTI, REFERENCE)?];
        let pairs = [oracle.pairs, anti.pairs];
        Some(Gate { oracle: exponential(oracle.interval), anti_oracle: exponential(anti.interval), pairs })
    }

    /// The cells that may be compared: none where the gate is not passed.
    fn valid(&self) -> &[Cell] {
        if self.gate().is_some_and(Gate::is_passed) { &self.cells } else { &[] }
    }

    fn cell(&self, name: &str) -> Option<&Cell> {
        self.valid().iter().find(|cell| cell.name == name)
    }
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    numbers(PROTOCOL, RUNS, UPDATES)
}

fn numbers(protocol: &str, runs: &str, updates_of: &str) -> anyhow::Result<Numbers> {
    let protocol: Protocol = toml::from_str(protocol)?;
    let runs: Vec<Run> = recorded(runs)?;
    let cells = protocol.cells.iter().map(|cell| of_cell(&protocol, cell, &runs)).collect();
    Ok(Numbers { protocol, cells, updates: updates(updates_of)? })
}

fn of_cell(protocol: &Protocol, cell: &CellName, runs: &[Run]) -> Cell {
    let is_of_cell = |arm: &&ArmName| cell.arms.is_empty() || cell.arms.contains(&arm.name);
    let arm = |named: &ArmName| -> Option<Arm> {
        let of_seed = |seed: &u64| {
            let mut own = runs.iter().filter(|run| run.cell == cell.name && run.stage == "evaluation");
            own.find(|run| run.arm == named.name && run.seed == *seed).cloned()
        };
        let runs: Vec<Run> = protocol.seeds.evaluation.iter().map(of_seed).collect::<Option<_>>()?;
        let rate = runs.first()?.rate;
        let name = named.name.clone();
        Some(Arm { name, foil: named.foil, rate, runs, over_reference: None, corrected: None })
    };
    let mut arms: Vec<Arm> = protocol.arms.iter().filter(is_of_cell).filter_map(arm).collect();
    let reference = arms.iter().find(|arm| arm.name == REFERENCE).map(|arm| arm.runs.clone());
    for arm in arms.iter_mut().filter(|arm| arm.name != REFERENCE) {
        arm.over_reference = reference.as_ref().and_then(|reference| compared(&arm.runs, reference));
        arm.corrected = arm.over_reference.as_ref().map(|c| c.p);
    }
    // An arm whose runs are not there yet counts in the family.
    let planned = protocol.arms.iter().filter(is_of_cell).filter(|a| !a.foil && a.name != REFERENCE).count();
    let mut family: Vec<&mut Arm> = arms.iter_mut().filter(|a| !a.foil && a.corrected.is_some()).collect();
    let mut all: Vec<f64> = family.iter().filter_map(|arm| arm.corrected).collect();
    all.resize(planned.max(all.len()), 1.0);
    family.iter_mut().zip(holm(&all)).for_each(|(arm, p)| arm.corrected = Some(p));
    Cell { name: cell.name.clone(), arms }
}

/// Compares runs that are in the order of the same seeds.
fn compared(runs: &[Run], reference: &[Run]) -> Option<Compared> {
    let arrived = |(a, b): &(&Run, &Run)| a.reached.is_some() || b.reached.is_some();
    let pairs: Vec<(&Run, &Run)> = runs.iter().zip(reference).filter(arrived).collect();
    let missed = |run: fn(&(&'_ Run, &'_ Run)) -> bool| pairs.iter().filter(|pair| run(pair)).count();
    let missed = [missed(|pair| pair.0.reached.is_none()), missed(|pair| pair.1.reached.is_none())];
    let ratio = |(a, b): &(&Run, &Run)| (a.tokens_to_target() / b.tokens_to_target()).ln();
    let ratios: Vec<f64> = pairs.iter().map(ratio).collect();
    let interval = t_interval(&ratios, LEVEL)?;
    let narrow = t_interval(&ratios, 2.0 * LEVEL - 1.0)?;
    let p = paired_permutation(&ratios, &vec![0.0; ratios.len()], 0, 0)?.p;
    Some(Compared { pairs: ratios.len(), missed, interval, narrow, p })
}

fn exponential(i: Interval) -> Interval {
    Interval { low: i.low.exp(), mid: i.mid.exp(), high: i.high.exp(), ..i }
}

/// The length of an arm's responses in the last rollout of a run less that of another arm, over all seeds.
fn longer(arm: &Arm, other: &Arm) -> Option<Interval> {
    let pairs = arm.runs.iter().zip(&other.runs).map(|(a, b)| a.length - b.length);
    t_interval(&pairs.collect::<Vec<_>>(), LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;
    use findings::{CheckLine, on_check_lines, ratio_of};

    const PROTOCOL: &str = "version = 5\n[[cells]]\nname = \"single\"\n[[cells]]\nname = \"mixed\"\narms = [\"rloo\", \"grpo\"]\n\
        [exam]\ntarget = 0.8\n[seeds]\nevaluation = [1, 2, 3, 4, 5, 6, 7, 8]\n\
        [[arms]]\nname = \"rloo\"\n[[arms]]\nname = \"oracle\"\n[[arms]]\nname = \"anti_oracle\"\n[[arms]]\nname = \"grpo\"\n\
        [[arms]]\nname = \"lambda_mean1\"\n[[arms]]\nname = \"vine_ppo\"\n[[arms]]\nname = \"critic\"\nfoil = true\n";

    /// Runs of arms that need a factor of RLOO's tokens, with noise; on the last seed neither RLOO nor the oracle reaches the target.
    fn runs(arms: &[(&str, f64)]) -> String {
        let mut text = "# c\ncell,stage,arm,rate,seed,tokens,reached,length\n".to_owned();
        for (arm, factor) in [("rloo", 1.0)].iter().chain(arms) {
            for seed in 1..=8u32 {
                let own = 1.0 + 0.01 * f64::from((seed * 7 + arm.len() as u32) % 5);
                let tokens = 1000.0 * f64::from(seed) * factor * own;
                let missed = seed == 8 && ["rloo", "oracle"].contains(arm);
                let reached = if missed { String::new() } else { tokens.to_string() };
                text += &format!("single,evaluation,{arm},0.1,{seed},{tokens},{reached},35\n");
            }
        }
        text
    }

    fn read(arms: &[(&str, f64)], updates: &str) -> Numbers {
        let header = "# c\nseed,place,arm,square,own_square,mean_square,along,gradient_square,credit_before,credit_after,rank_correlation\n";
        numbers(PROTOCOL, &runs(arms), &format!("{header}{updates}")).expect("it is read")
    }

    #[test]
    fn a_gate_that_fails_leaves_one_finding_and_the_controls() {
        let n = read(&[("oracle", 0.6), ("anti_oracle", 1.3), ("grpo", 1.0), ("vine_ppo", 0.5)], "");
        assert_eq!(words(&findings(&n)), ["Not told"]);
        assert!(n.cell("single").is_none());
        assert_eq!(tables(&n)[0].1.rows.len(), 3);
        // A pair of which neither reached the target is left out.
        let compare = |arm, with| n.cells[0].compare(arm, with).expect("compared");
        assert_eq!((compare("oracle", "rloo").pairs, compare("oracle", "rloo").missed), (7, [0, 0]));
        // A run that missed the target counts with the tokens that it had, and the ratio is called a bound.
        let said = [("rloo", "grpo"), ("grpo", "rloo")].map(|(arm, with)| ratio_of(&compare(arm, with)));
        let bounds = [
            "8 pairs (a lower bound, it missed the target on 1)",
            "8 pairs (an upper bound, the other missed the target on 1)",
        ];
        assert!(said.iter().zip(bounds).all(|(said, bound)| said.contains(bound)), "{said:?}");
        // Before all runs of the controls are there nothing is said.
        assert!(findings(&read(&[("oracle", 0.3)], "")).is_empty());
    }

    #[test]
    fn the_predictions_are_read_behind_a_gate_that_is_passed() {
        let arms = |trace| {
            [
                ("oracle", 0.4),
                ("anti_oracle", 1.3),
                ("grpo", 1.0),
                ("lambda_mean1", trace),
                ("vine_ppo", 0.8),
                ("critic", 0.5),
            ]
        };
        let n = read(&arms(1.0), "");
        // The gate, the same tokens as GRPO, no quarter of the gain, paid values pay.
        assert_eq!(words(&findings(&n)), ["Holds", "Holds", "Fails", "Holds"]);
        assert_eq!(n.cells[0].arm("vine_ppo").and_then(Arm::reading), Some(Reading::Fewer));
        assert!(n.cells[1].arms.is_empty(), "no run of the second cell");
        // A trace with half of the gain: not the same, a quarter or more.
        let half = read(&arms(0.4f64.sqrt()), "");
        assert_eq!(words(&findings(&half)), ["Holds", "Fails", "Holds", "Holds"]);
        let share = half.cells[0].share_of_headroom("lambda_mean1").expect("a share");
        assert!(
            (share.mid - 0.5).abs() < 0.02 && share.low < share.mid && share.mid < share.high,
            "{share:?}"
        );
        // Holm counts the four arms of the family with runs, not the foil: the least p of 2/2^8 is multiplied by four.
        let p = |arm: &str| half.cells[0].arm(arm).and_then(|a| a.corrected).expect("a p");
        assert!(
            (p("vine_ppo") - 5.0 * 2.0 / 256.0).abs() < 1e-12 && (p("critic") - 2.0 / 256.0).abs() < 1e-12
        );
    }

    #[test]
    fn check_lines_help_and_mislead_only_where_lengths_and_tokens_say_so() {
        let around = |mid: f64| Interval { low: mid - 0.1, mid, high: mid + 0.1, level: LEVEL };
        let at = |tokens: f64, longer: f64| {
            let (interval, longer) = (around(tokens), around(longer));
            CheckLine {
                longer,
                tokens: Compared { pairs: 8, missed: [0, 0], interval, narrow: interval, p: 0.01 },
            }
        };
        for (useful, harmful, expected) in [
            (at(-0.5, 1.0), at(0.5, 1.0), "Holds"),
            (at(-0.5, 1.0), at(0.5, 0.0), "Not told"),
            (at(-0.5, 1.0), at(0.5, -1.0), "Fails"),
            (at(0.0, 1.0), at(0.5, 1.0), "Not told"),
            (at(0.5, 1.0), at(0.5, 1.0), "Fails"),
            (at(-0.5, 1.0), at(-0.5, 1.0), "Fails"),
        ] {
            assert_eq!(on_check_lines(&useful, &harmful, "").word(), expected);
        }
    }

    #[test]
    fn noise_and_cosine_are_over_those_of_rloo() {
        // RLOO: variance 4 at |m|² = <m, T> = |T|² = 1. The arm: variance 2 at half of the length, cosine 0.5 / (0.5 · 1) = 1.
        let row = |seed: u32, arm: &str, square: f64, mean: f64, along: f64| {
            format!("{seed},start,{arm},{square},1,{mean},{along},1,0.5,1,0.25\n")
        };
        let both = |seed| row(seed, "rloo", 5.0, 1.0, 1.0) + &row(seed, "systematic_rloo", 3.0, 0.25, 0.5);
        let n = read(&[], &(both(1) + &both(2)));
        let update = &n.updates[1];
        assert!(
            (update.noise.mid - 2.0).abs() < 1e-12 && (update.cosine.mid - 1.0).abs() < 1e-12,
            "{update:?}"
        );
        assert_eq!((update.after_over_before, update.rank_correlation, update.seeds), (2.0, Some(0.25), 2));
        assert_eq!(words(&findings(&n)), ["Fails"], "twice RLOO's noise is not 0.9 to 0.98 of it");
    }
}
