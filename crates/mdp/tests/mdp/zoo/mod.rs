mod carry_add;
mod copy;
mod deceptive;
mod delayed_format;
mod distractor_length;
mod eos_hazard;
mod fork;
mod forking_chain;
mod full;
mod lemma;
mod noisy;
mod parity;
mod pivot;
mod random;

use grpo_lambda_mdp::zoo::{all, find};
use grpo_lambda_mdp::{Optimal, Oracle};

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
