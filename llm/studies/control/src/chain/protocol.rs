//! `paper/protocols/chain.toml`, which was written before the runs: everything that decides what is run and what it says.

use std::sync::LazyLock;

use grpo_lambda::systematic::Sets;
use serde::Deserialize;

use super::credit::Source;
use super::task::{CheckLine, Form};

/// The protocol.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Protocol {
    pub(super) version: u32,
    #[serde(rename = "status")]
    _status: String,
    task: Task,
    pub(super) cells: Vec<Cell>,
    pub(super) model: Model,
    pub(super) start: Start,
    pub(super) rl: Rl,
    pub(super) exam: Exam,
    pub(super) rates: Rates,
    pub(super) seeds: Seeds,
    #[serde(rename = "endpoint")]
    _endpoint: toml::Table,
    pub(super) arms: Vec<Arm>,
    #[serde(rename = "predictions")]
    _predictions: Vec<toml::Table>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    fillers: usize,
}

/// A variant of the task, with its arms; all arms if none is named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cell {
    pub(super) name: String,
    pub(super) steps: Vec<usize>,
    #[serde(default)]
    pub(super) check: CheckLine,
    #[serde(default)]
    arms: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) hidden: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) intermediate: usize,
    /// Base of the rotary frequencies: small, since rows are short.
    pub(super) rope_theta: f64,
    /// Standard deviation of new weights.
    pub(super) deviation: f64,
}

/// Supervised learning up to an accuracy of a step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    /// The share of a demonstration's values that do not follow from the one before.
    pub(super) wrong: f64,
    pub(super) accuracy: f64,
    /// From this accuracy on the rate is `slow_pace` of its own, so that it is not overshot.
    pub(super) slow_from: f64,
    pub(super) slow_pace: f64,
    pub(super) batch: u64,
    pub(super) lr: f64,
    pub(super) warmup: u64,
    pub(super) check_every: u64,
    pub(super) most_steps: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rl {
    pub(super) prompts: u64,
    pub(super) group: usize,
    pub(super) warmup: u64,
    pub(super) most_steps: u64,
}

/// Held-out accuracy, and the one that is aimed at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exam {
    pub(super) prompts: u64,
    pub(super) every: u64,
    pub(super) target: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rates {
    middle: f64,
    pub(super) factors: Vec<f64>,
}

impl Rates {
    /// The rates in the order in which they run.
    pub(super) fn all(&self) -> impl Iterator<Item = f64> {
        self.factors.iter().map(|factor| factor * self.middle)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seeds {
    pub(super) selection: Vec<u64>,
    pub(super) evaluation: Vec<u64>,
}

/// Sets of a systematic group, as the method has by default.
const SETS: usize = 2;

/// The way in which a group is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sampling {
    #[default]
    Independent,
    /// Two sets of systematic codes.
    Systematic,
}

/// A method with its evidence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) method: String,
    #[serde(default)]
    pub(super) settings: String,
    #[serde(default)]
    pub(super) evidence: Source,
    #[serde(default)]
    pub(super) sampling: Sampling,
    /// True of the two arms that tell whether the experiment can tell anything.
    #[serde(default)]
    pub(super) control: bool,
    /// True of an arm outside the family of comparisons that is corrected for.
    #[serde(default)]
    #[allow(dead_code, reason = "`sim chain` compares the arms")]
    pub(super) foil: bool,
}

impl Arm {
    /// True of RLOO and the two controls.
    pub(super) fn is_of_gate(&self) -> bool {
        self.control || self.name == "rloo"
    }

    /// The sets in which its groups are sampled.
    pub(super) fn sets(&self) -> Option<Sets> {
        (self.sampling == Sampling::Systematic).then(|| Sets::new(SETS))
    }
}

static COMMITTED: LazyLock<Protocol> = LazyLock::new(Protocol::read);

impl Protocol {
    /// A copy of the committed one.
    pub(super) fn read() -> Protocol {
        let text = include_str!("../../../../../paper/protocols/chain.toml");
        toml::from_str(text).expect("the compiled-in file is read by a test")
    }

    /// The committed one.
    pub(super) fn committed() -> &'static Protocol {
        &COMMITTED
    }

    /// The form of a cell's problems.
    pub(super) fn form(&self, cell: &Cell) -> Form {
        Form { steps: cell.steps.clone(), fillers: self.task.fillers, check: cell.check }
    }

    /// The arms of a cell, in their order.
    pub(super) fn arms_of<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Arm> {
        self.arms.iter().filter(|arm| cell.arms.is_empty() || cell.arms.contains(&arm.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;

    #[test]
    fn the_committed_protocol_can_be_run() {
        let protocol = Protocol::committed();
        assert_eq!(protocol.arms.len(), 14);
        for arm in &protocol.arms {
            methods::parse(&arm.method, &arm.settings).unwrap_or_else(|e| panic!("{}: {e}", arm.name));
        }
        let named = |arms: usize| protocol.cells.iter().filter(|c| c.arms.len() == arms).count();
        assert!(
            protocol.cells.iter().all(|c| c.arms.is_empty() || protocol.arms_of(c).count() == c.arms.len())
        );
        assert_eq!(named(0), 1, "the first cell has every arm");
        let rates: Vec<f64> = protocol.rates.all().collect();
        let (least, most) = rates.iter().fold((f64::MAX, 0.0f64), |(a, b), r| (a.min(*r), b.max(*r)));
        assert!((most / least - 16.0).abs() < 1e-9 && rates.len() == 5);
        let Seeds { selection, evaluation } = &protocol.seeds;
        assert_eq!((selection.len(), evaluation.len()), (3, 12));
        assert!(selection.iter().all(|seed| !evaluation.contains(seed)));
        assert_eq!(protocol.arms.iter().filter(|a| !a.foil && a.name != "rloo").count(), 12);
    }
}
