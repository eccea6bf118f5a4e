//! The tasks of the zoo with a knob for their length, where they have one.

use grpo_lambda_mdp::zoo::{
    Branch, Chain, Deceptive, DelayedFormat, DistractorLength, EosHazard, EosHazardDependent, Family, Fork,
    Full, LuckyGuess, Needle, Noisy, Parity, Pivot, Random,
};
use grpo_lambda_mdp::{Tabular, Tree};

/// The setting that makes the responses of a task longer.
pub(crate) struct Knob {
    pub(crate) label: &'static str,
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) default: usize,
    /// From one value to the next.
    pub(crate) step: usize,
    build: fn(usize) -> Result<(Tree, Tabular), String>,
}

fn built(family: impl Family) -> Result<(Tree, Tabular), String> {
    let tree = family.tree().map_err(|e| e.to_string())?;
    let policy = family.initial(&tree);
    Ok((tree, policy))
}

impl Knob {
    /// The task at a value of the knob.
    pub(crate) fn build(&self, value: usize) -> Result<(Tree, Tabular), String> {
        if value < self.least || value > self.most || !(value - self.least).is_multiple_of(self.step) {
            let every = if self.step > 1 { format!(" in steps of {}", self.step) } else { String::new() };
            return Err(format!(
                "{} = {value}; must be from {} to {}{every}",
                self.label, self.least, self.most
            ));
        }
        (self.build)(value)
    }
}

/// The knob of a task; the most is what a browser sums in about a second.
pub(crate) fn knob(task: &str) -> Option<Knob> {
    let knob =
        |label, (least, default, most), build| Some(Knob { label, least, most, default, step: 1, build });
    match task {
        "pivot" => knob("length", (3, 6, 10), |length| built(Pivot { length, ..Pivot::default() })),
        "lucky_guess" => knob("work", (0, 3, 7), |work| built(LuckyGuess { work, ..LuckyGuess::default() })),
        "eos_hazard" => {
            knob("horizon", (2, 8, 10), |horizon| built(EosHazard { horizon, ..EosHazard::default() }))
        }
        "eos_hazard_dependent" => knob("horizon", (2, 8, 10), |horizon| {
            built(EosHazardDependent { horizon, ..EosHazardDependent::default() })
        }),
        "fork" => knob("length of the long answer", (2, 50, 200), |length| {
            let mut fork = Fork::default();
            fork.branches[1] = Branch { length, ..fork.branches[1].clone() };
            built(fork)
        }),
        "needle" => knob("length", (1, 5, 7), |length| built(Needle { length, ..Needle::default() })),
        "deceptive" => knob("depth", (1, 2, 6), |depth| built(Deceptive { depth, ..Deceptive::default() })),
        "chain" => knob("steps", (1, 6, 24), |steps| built(Chain { steps, ..Chain::default() })),
        "chain_partial" => {
            knob("steps", (1, 6, 10), |steps| built(Chain { steps, partial: true, ..Chain::default() }))
        }
        "noisy" => Some(Knob {
            step: 2,
            ..knob("length", (1, 5, 9), |length| built(Noisy { length, ..Noisy::default() }))?
        }),
        "parity" => knob("bits", (1, 6, 10), |bits| built(Parity { bits })),
        "random" => knob("horizon", (2, 5, 8), |horizon| built(Random { horizon, ..Random::default() })),
        "full" => knob("horizon", (2, 5, 6), |horizon| built(Full { horizon, ..Full::default() })),
        "delayed_format" => {
            knob("work", (0, 3, 7), |work| built(DelayedFormat { work, ..DelayedFormat::default() }))
        }
        "distractor_length" => knob("filler", (1, 8, 40), |filler| {
            built(DistractorLength { filler, ..DistractorLength::default() })
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_mdp::Oracle;
    use grpo_lambda_mdp::zoo;

    #[test]
    fn every_knob_is_built_from_end_to_end_and_its_default_is_the_task() {
        for named in zoo::all() {
            let Some(knob) = knob(named.name) else { continue };
            for value in [knob.least, knob.most] {
                assert!(knob.build(value).is_ok(), "{} at {value}", named.name);
            }
            let (tree, policy) = knob.build(knob.default).unwrap();
            let plain = (named.build)();
            let expected = Oracle::new(&plain, &(named.initial)(&plain)).j;
            assert_eq!(Oracle::new(&tree, &policy).j, expected, "{}", named.name);
            assert!(knob.build(knob.most + 1).is_err());
        }
        assert!(knob("noisy").unwrap().build(4).unwrap_err().contains("in steps of 2"));
    }
}
