//! Named MDPs, each of which shows one thing.
//!
//! A [`Family`] is a struct of knobs; its `Default` is the named instance that [`all`] lists. `J*` is the
//! value of the best deterministic policy ([`Optimal`](super::Optimal)), `J` that of the suggested initial
//! policy.
//!
//! | name | family | responses | `J` | `J*` | shows |
//! | --- | --- | --- | --- | --- | --- |
//! | `pivot` | [`Pivot`] | 32 | 0.5 | 1 | all credit belongs to one early token |
//! | `lucky_guess` | [`LuckyGuess`] | 64 | 0.505 | 0.95 | a flawed step is rewarded when the guess is lucky |
//! | `eos_hazard` | [`EosHazard`] | 511 | 0.235 | 1 | the same chance of EOS everywhere |
//! | `eos_hazard_dependent` | [`EosHazardDependent`] | 511 | 0.773 | 1 | the chance of EOS depends on the path |
//! | `fork` | [`Fork`] | 3 | 0.25 | 0.9 | a short good answer against a long worse one |
//! | `needle` | [`Needle`] | 243 | 0.0041 | 1 | one rewarded response |
//! | `deceptive` | [`Deceptive`] | 18 | 0.356 | 1 | good on average, worse at best |
//! | `chain` | [`Chain`] | 7 | 0.0156 | 1 | every step must be right, an error ends it |
//! | `chain_partial` | [`Chain`] | 7 | 0.164 | 1 | the same with partial credit, real rewards |
//! | `noisy` | [`Noisy`] | 32 | 0.5 | 0.9 | a grader that errs |
//! | `lemma_counterexample` | [`LemmaCounterexample`] | 2 | 0.5 | 1 | GRPO-lambda's Lemma 1 is false as printed |
//! | `parity` | [`Parity`] | 64 | 0.5 | 1 | credit appears only at the last token |
//! | `random` | [`Random`] | 43 | 0.753 | 1 | nothing in particular: for theory tests, by seed |
//! | `full` | [`Full`] | 364 | 0.699 | 1 | every token legal everywhere: for size and speed |
//! | `carry_add` | [`CarryAdd`] | 1110 | 0.175 | 1 | a sum digit by digit, the carry matters |
//! | `copy` | [`CopyString`] | 224 | 0.254 | 1 | an error that can be taken back, at the price of length |
//! | `delayed_format` | [`DelayedFormat`] | 48 | 0.18 | 1 | an early format token that only matters at the end |
//! | `distractor_length` | [`DistractorLength`] | 27 | 0.4 | 1 | filler changes the length and not the reward |
//! | `forking_chain` | [`ForkingChain`] | 12 | 0.203 | 0.9 | forks along a chain, of different length and success |
//!
//! To add one: its file, its row here, its line in [`all`].

mod carry_add;
mod chain;
mod copy;
mod deceptive;
mod delayed_format;
mod distractor_length;
mod eos_hazard;
mod fork;
mod forking_chain;
mod full;
mod lemma;
mod lucky_guess;
mod needle;
mod noisy;
mod parity;
mod pivot;
mod random;

use super::build::Rules;
use super::error::TreeError;
use super::policy::Tabular;
use super::tree::Tree;

pub use carry_add::CarryAdd;
pub use chain::Chain;
pub use copy::CopyString;
pub use deceptive::Deceptive;
pub use delayed_format::DelayedFormat;
pub use distractor_length::DistractorLength;
pub use eos_hazard::{EosHazard, EosHazardDependent};
pub use fork::{Branch, Fork};
pub use forking_chain::ForkingChain;
pub use full::{Full, full_tree};
pub use lemma::LemmaCounterexample;
pub use lucky_guess::LuckyGuess;
pub use needle::Needle;
pub use noisy::Noisy;
pub use parity::Parity;
pub use pivot::Pivot;
pub use random::{Random, RandomRewards};

/// Knobs from which an MDP and a policy to start from are built.
pub trait Family: Default {
    /// The name of the default instance, as in [`all`].
    const NAME: &'static str;
    /// The point it shows, in one line.
    const ABOUT: &'static str;

    /// Builds the MDP.
    ///
    /// # Errors
    /// [`TreeError::Knob`] if a knob is out of range; [`TreeError::TooManyLeaves`] if the knobs ask for too
    /// much.
    fn tree(&self) -> Result<Tree, TreeError>;

    /// The suggested initial policy on [`tree`](Family::tree); uniform unless the family says otherwise.
    ///
    /// # Panics
    /// May panic on a tree that this family did not build.
    fn initial(&self, tree: &Tree) -> Tabular {
        Tabular::uniform(tree)
    }
}

/// A named MDP of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The name, unique.
    pub name: &'static str,
    /// The point it shows, in one line.
    pub about: &'static str,
    /// Builds the MDP.
    pub build: fn() -> Tree,
    /// The suggested initial policy on that MDP.
    pub initial: fn(&Tree) -> Tabular,
}

impl Named {
    /// The default instance of a family.
    pub fn family<F: Family>() -> Named {
        Named {
            name: F::NAME,
            about: F::ABOUT,
            build: || F::default().tree().expect("the default knobs of a family are in range"),
            initial: |tree| F::default().initial(tree),
        }
    }
}

/// Every named MDP, in the order of tables.
pub fn all() -> Vec<Named> {
    vec![
        Named::family::<Pivot>(),
        Named::family::<LuckyGuess>(),
        Named::family::<EosHazard>(),
        Named::family::<EosHazardDependent>(),
        Named::family::<Fork>(),
        Named::family::<Needle>(),
        Named::family::<Deceptive>(),
        Named::family::<Chain>(),
        Chain::partial_credit(),
        Named::family::<Noisy>(),
        Named::family::<LemmaCounterexample>(),
        Named::family::<Parity>(),
        Named::family::<Random>(),
        Named::family::<Full>(),
        Named::family::<CarryAdd>(),
        Named::family::<CopyString>(),
        Named::family::<DelayedFormat>(),
        Named::family::<DistractorLength>(),
        Named::family::<ForkingChain>(),
    ]
}

/// The entry called `name`.
pub fn find(name: &str) -> Option<Named> {
    all().into_iter().find(|entry| entry.name == name)
}

/// Refuses a knob that does not satisfy its bound.
fn knob(
    ok: bool,
    family: &'static str,
    knob: &'static str,
    value: impl std::fmt::Display,
    bound: &'static str,
) -> Result<(), TreeError> {
    if ok { Ok(()) } else { Err(TreeError::Knob { family, knob, value: value.to_string(), bound }) }
}

/// Refuses what is not a probability in `[0,1]`.
fn probability(family: &'static str, name: &'static str, value: f64) -> Result<(), TreeError> {
    knob((0.0..=1.0).contains(&value), family, name, value, "in [0, 1]")
}

/// Refuses what a softmax policy cannot have: a probability outside `(0,1)`.
fn open_probability(family: &'static str, name: &'static str, value: f64) -> Result<(), TreeError> {
    knob(value > 0.0 && value < 1.0, family, name, value, "in (0, 1), both ends excluded")
}

/// Refuses a count outside `min..`; `bound` says so in words.
fn at_least(
    family: &'static str,
    name: &'static str,
    value: usize,
    min: usize,
    bound: &'static str,
) -> Result<(), TreeError> {
    knob(value >= min, family, name, value, bound)
}

/// A first token of two kinds, `work` filler tokens, one answer, EOS: `reward(kind, answer)`, answers counted from 0.
fn step_work_answer(
    kinds: [&str; 2],
    work: usize,
    (fillers, answers): (usize, usize),
    reward: impl Fn(u32, u32) -> f64,
) -> Result<Tree, TreeError> {
    let first_answer = 2 + fillers as u32;
    let eos = first_answer + answers as u32;
    let names = kinds.map(String::from).into_iter().chain(numbered("work", fillers));
    let names = names.chain(numbered("answer", answers)).chain(["EOS".into()]);
    Rules::new(names, work + 3).build(
        |prefix| match prefix.len() {
            0 => vec![0, 1],
            t if t <= work => (2..first_answer).collect(),
            t if t == work + 1 => (first_answer..eos).collect(),
            _ => vec![eos],
        },
        |response, _| reward(response[0], response[work + 1] - first_answer),
    )
}

/// `prefix0, prefix1, ..`
fn numbered(prefix: &str, n: usize) -> impl Iterator<Item = String> {
    (0..n).map(move |i| format!("{prefix}{i}"))
}

#[cfg(test)]
mod tests {
    use super::super::{Optimal, Oracle};
    use super::*;

    /// Name, number of responses, J of the initial policy, J*: the numbers of the table above, by hand where
    /// possible.
    const TABLE: &[(&str, usize, f64, f64)] = &[
        ("pivot", 32, 0.5, 1.0),
        // 0.5 (0.8 * 0.95) + 0.5 * 0.25
        ("lucky_guess", 64, 0.505, 0.95),
        // ((1-h) - (1-h)^H) / 2 with h = 0.1, H = 8
        ("eos_hazard", 511, (0.9 - 0.43046721) / 2.0, 1.0),
        ("fork", 3, 0.25, 0.9),
        ("needle", 243, 1.0 / 243.0, 1.0),
        // 0.5 * 0.6 + 0.5 / 9
        ("deceptive", 18, 0.3 + 0.5 / 9.0, 1.0),
        ("chain", 7, 1.0 / 64.0, 1.0),
        // (1/6) (1/2 + 1/4 + .. + 1/64)
        ("chain_partial", 7, (1.0 - 1.0 / 64.0) / 6.0, 1.0),
        ("noisy", 32, 0.5, 0.9),
        ("lemma_counterexample", 2, 0.5, 1.0),
        ("parity", 64, 0.5, 1.0),
        // 0.6^3 0.9^2: three digits, no early stop; 10 + 100 + 1000 responses
        ("carry_add", 1110, 0.216 * 0.81, 1.0),
        // 0.6^4 without a detour, one at each of four steps has 0.4 * 0.6
        ("copy", 224, 0.1296 * 1.96, 1.0),
        ("delayed_format", 48, 0.3 * 0.6, 1.0),
        ("distractor_length", 27, 0.4, 1.0),
        // 0.3 (1 + 2 * 0.4 + 3 * 0.16) / 4 + 0.064 * 0.5
        ("forking_chain", 12, 0.171 + 0.032, 0.9),
        // Not by hand, but frozen.
        ("eos_hazard_dependent", 511, 0.7727085044525148, 1.0),
        ("random", 43, 0.7527189170691243, 1.0),
        ("full", 364, 0.69921875, 1.0),
    ];

    #[test]
    fn the_table_is_true() {
        assert_eq!(TABLE.len(), all().len());
        let page = include_str!("mod.rs");
        for &(name, leaves, j, best) in TABLE {
            let row = page.lines().find(|line| line.starts_with(&format!("//! | `{name}` |"))).expect(name);
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            assert_eq!(cells[3].parse(), Ok(leaves), "{row}");
            let (shown, highest): (f64, f64) = (cells[4].parse().expect(name), cells[5].parse().expect(name));
            assert!((shown - j).abs() <= 0.0006 && (highest - best).abs() <= 0.0006, "{row}");
            let entry = find(name).unwrap();
            let tree = (entry.build)();
            let oracle = Oracle::new(&tree, &(entry.initial)(&tree));
            assert_eq!(tree.leaf_count(), leaves, "{name}");
            assert!((oracle.j - j).abs() < 1e-12, "{name}: J = {}", oracle.j);
            assert!((Optimal::new(&tree).j - best).abs() < 1e-12, "{name}");
        }
    }

    #[test]
    fn every_entry_has_a_name_of_its_own_and_a_usable_size() {
        let mut names: Vec<_> = all().iter().map(|entry| entry.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all().len());
        for entry in all() {
            let tree = (entry.build)();
            let oracle = Oracle::new(&tree, &(entry.initial)(&tree));
            assert!((2..=3000).contains(&tree.leaf_count()), "{}: {}", entry.name, tree.leaf_count());
            assert!(oracle.j < Optimal::new(&tree).j, "{} leaves something to learn", entry.name);
            assert!(!entry.about.is_empty());
        }
        assert!(find("nothing").is_none());
    }

    #[test]
    fn knobs_out_of_range_are_refused_by_name() {
        let (copy, add) = (CopyString::default, CarryAdd::default);
        let (format, forks) = (DelayedFormat::default, ForkingChain::default);
        let branches = vec![Branch::new("x", 1, 0.5, 1.0)];
        let refused = [
            (
                Pivot { position: 5, ..Pivot::default() }.tree(),
                "pivot: position = 5 must be below length - 1",
            ),
            (Pivot { fillers: 0, ..Pivot::default() }.tree(), "pivot: fillers = 0 must be at least 1"),
            (Pivot { length: 1, ..Pivot::default() }.tree(), "pivot: length = 1 must be at least 2"),
            (CopyString { target: vec![0, 2], ..copy() }.tree(), "copy: target = 2 must be below symbols"),
            (
                CopyString { target: vec![], ..copy() }.tree(),
                "copy: target = 0 must be at least one symbol long",
            ),
            (CarryAdd { a: 900, b: 100, ..add() }.tree(), "carry_add: b = 100 must be below 1000 - a"),
            (CarryAdd { slip: 0.5, ..add() }.tree(), "carry_add: slip = 0.5 must be below 1 - skill"),
            (
                DistractorLength { filler: 0, ..DistractorLength::default() }.tree(),
                "distractor_length: filler = 0 must be at least 1",
            ),
            (
                DelayedFormat { tagged: 1.0, ..format() }.tree(),
                "delayed_format: tagged = 1 must be in (0, 1), both ends excluded",
            ),
            (
                DelayedFormat { answers: 1, ..format() }.tree(),
                "delayed_format: answers = 1 must be at least 2",
            ),
            (ForkingChain { forks: 0, ..forks() }.tree(), "forking_chain: forks = 0 must be at least 1"),
            (ForkingChain { branches, ..forks() }.tree(), "forking_chain: length = 1 must be at least 2"),
        ];
        for (tree, message) in refused {
            assert_eq!(tree.unwrap_err().to_string(), message);
        }
    }
}
