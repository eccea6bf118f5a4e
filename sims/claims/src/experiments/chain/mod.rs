//! `chain`: long chains of operations with a verifier that knows the first error: what is its credit worth, and which methods assign any of it?
//!
//! The protocol's arm `oracle` is called *verifier credit* here, since it is not exact: `Q - b*`, where `Q` is a model, p^(decisions left), with one `p` per batch,
//! and `b*` the baseline of least variance. `anti_oracle` is *permuted credit*: the same numbers at random steps of the response.
//!
//! The runs are recorded: `cargo run --release -p grpo-lambda-llm --example control -- chain FILE MINUTES` trains them, `quality` measures the arms'
//! updates, and this claim reads their files. `paper/protocols/chain.toml` was written before the runs and says when nothing is concluded.

mod compare;
mod controls;
pub(crate) mod findings;
mod predictions;
pub(crate) mod rows;
mod shown;
#[cfg(test)]
mod tests;
mod updates;

use crate::experiment::{Context, Experiment, Parts, Verdict};
use crate::experiments::addition;
use crate::experiments::common::record::recorded;
use compare::{Compared, OWN, Rule, compared, gates};
use grpo_lambda_stats::{Bootstrap, Interval, t_interval};
use grpo_lambda_trials::{Verdict as Reading, correct};
use predictions::findings;
use rows::{GateRow, UpdateRow};
use serde::Deserialize;
use shown::{figures, tables};
use updates::updates;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "chain",
    title: "On chains whose first error is known: what is credit from a verifier worth, and which methods assign any of it?",
    claim: "Credit from a verifier of the steps at least halves the tokens that RLOO needs on chains of operations, and the trace of GRPO-λ captures part of that",
    source: "ours; protocol in `paper/protocols/chain.toml`",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const PROTOCOL: &str = include_str!("../../../../../paper/protocols/chain.toml");
const RUNS: &str = include_str!("../../../../../paper/data/chain_runs.csv");
/// The controls' runs of version 4, which differs from version 5 in its evaluation seeds and its [`Rule`].
const VERSION_4: &str = include_str!("../../../../../llm/results/chain_version_4.csv");
const UPDATES: &str = include_str!("../../../../../paper/data/chain_updates_runs.csv");

/// The arm that the others are compared with; verifier credit and permuted credit, which tell whether the experiment can tell anything.
const REFERENCE: &str = "rloo";
pub(crate) const ORACLE: &str = "oracle";
pub(crate) const ANTI: &str = "anti_oracle";
pub(crate) const GRPO: &str = "grpo";
pub(crate) const TRACE: &str = "lambda_mean1";
pub(crate) const CLAMP: &str = "grpo_clamp";
pub(crate) const SETS: &str = "systematic_rloo";
/// The first cell, which decides.
const SINGLE: &str = "single";
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

    /// Tokens to the target over those of another run.
    fn over(&self, other: &Run) -> f64 {
        self.tokens_to_target() / other.tokens_to_target()
    }
}

/// An arm of a cell whose evaluation runs are all there.
#[derive(Clone, Debug)]
struct Arm {
    name: String,
    foil: bool,
    rate: f64,
    runs: Vec<Run>,
    /// The comparison with the reference, corrected by Holm; for a foil, which is outside the family, as it is.
    over_reference: Option<Compared>,
}

impl Arm {
    fn missed(&self) -> usize {
        self.runs.iter().filter(|run| run.reached.is_none()).count()
    }

    fn reading(&self) -> Option<Reading> {
        Some(self.over_reference.as_ref()?.reading())
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

    /// The share of verifier credit's gain over GRPO that an arm has, on the scale of logarithms of tokens; a percentile bootstrap over seeds. It stands in
    /// `chain.csv` for those who planned with it and is quoted nowhere: its sign hangs on one seed.
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

/// The runs, and the updates of the arms.
struct Numbers {
    protocol: Protocol,
    cells: Vec<Cell>,
    updates: Vec<UpdateRow>,
    /// The gate of the runs of versions 4 and 5 under the rule of either.
    gates: Vec<GateRow>,
    /// The runs of version 4.
    earlier: Vec<Run>,
    /// The verdict on the part of a prediction that is about addition.
    on_addition: Verdict,
}

impl Numbers {
    /// The gate of the first cell; none before all its runs are there.
    fn gate(&self) -> Option<&GateRow> {
        let cell = self.cells.first()?;
        let is_whole = [REFERENCE, ORACLE, ANTI].iter().all(|arm| cell.arm(arm).is_some());
        self.gate_under(Rule::LeftOut).filter(|_| is_whole)
    }

    /// The gate of the protocol's runs under a rule.
    fn gate_under(&self, rule: Rule) -> Option<&GateRow> {
        self.gates.iter().find(|gate| gate.runs == OWN && gate.rule_of_version == rule.version())
    }

    /// The cells that may be compared: none where the gate is not passed.
    fn valid(&self) -> &[Cell] {
        if self.gate().is_some_and(GateRow::is_passed) { &self.cells } else { &[] }
    }

    fn cell(&self, name: &str) -> Option<&Cell> {
        self.valid().iter().find(|cell| cell.name == name)
    }
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    numbers(PROTOCOL, [VERSION_4, RUNS], UPDATES, addition::on_systematic_groups()?.verdict)
}

/// The numbers from a protocol, the runs of the version before it and of its own, and the updates.
fn numbers(
    protocol: &str,
    [earlier, runs]: [&str; 2],
    updates_of: &str,
    on_addition: Verdict,
) -> anyhow::Result<Numbers> {
    let protocol: Protocol = toml::from_str(protocol)?;
    let (earlier, runs): (Vec<Run>, Vec<Run>) = (recorded(earlier)?, recorded(runs)?);
    let cells = protocol.cells.iter().map(|cell| of_cell(&protocol, cell, &runs)).collect();
    Ok(Numbers {
        cells,
        updates: updates(updates_of)?,
        gates: gates(&earlier, &runs),
        earlier,
        on_addition,
        protocol,
    })
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
        Some(Arm { name, foil: named.foil, rate, runs, over_reference: None })
    };
    let mut arms: Vec<Arm> = protocol.arms.iter().filter(is_of_cell).filter_map(arm).collect();
    let reference = arms.iter().find(|arm| arm.name == REFERENCE).map(|arm| arm.runs.clone());
    for arm in arms.iter_mut().filter(|arm| arm.name != REFERENCE) {
        arm.over_reference = reference.as_ref().and_then(|reference| compared(&arm.runs, reference));
    }
    // An arm whose runs are not there yet counts in the family.
    let planned = protocol.arms.iter().filter(is_of_cell).filter(|a| !a.foil && a.name != REFERENCE).count();
    let family = arms.iter_mut().filter(|arm| !arm.foil).filter_map(|arm| arm.over_reference.as_mut());
    correct(family.map(|compared| &mut compared.ratio), planned);
    Cell { name: cell.name.clone(), arms }
}

/// The length of an arm's responses in the last rollout of a run less that of another arm, over all seeds.
fn longer(arm: &Arm, other: &Arm) -> Option<Interval> {
    let pairs = arm.runs.iter().zip(&other.runs).map(|(a, b)| a.length - b.length);
    t_interval(&pairs.collect::<Vec<_>>(), LEVEL)
}
