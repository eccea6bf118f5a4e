//! The recorded runs of addition: complete, and paired.

use crate::{Row, rows};
use grpo_lambda::advantage::ClampPart;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_cell_has_every_arm_with_the_same_seeds_from_the_same_start() {
    let (mut seeds, mut starts) = (BTreeMap::new(), BTreeMap::new());
    for row in rows::<Row>("clamp_parts_runs.csv") {
        let of_row = |columns: [&str; 3]| columns.map(|column| row[column].clone());
        let cell = of_row(["optimiser", "rate", "part"]);
        seeds.entry(cell).or_insert_with(BTreeSet::new).insert(row["seed"].clone());
        let start = of_row(["accuracy_before", "sampled_before", "seldom_solved_before"]);
        starts.entry(row["seed"].clone()).or_insert_with(BTreeSet::new).insert(start);
    }
    let parts: BTreeSet<&str> = seeds.keys().map(|key| key[2].as_str()).collect();
    assert_eq!(parts, ClampPart::ALL.iter().map(|part| part.name()).collect());
    let cells: BTreeSet<_> = seeds.keys().map(|key| &key[..2]).collect();
    assert_eq!(seeds.len(), cells.len() * parts.len(), "an arm is missing");
    let first = seeds.values().next().unwrap();
    assert!(first.len() > 1 && seeds.values().all(|s| s == first), "{seeds:?}");
    assert!(starts.values().all(|s| s.len() == 1), "a seed has one start: {starts:?}");
}
