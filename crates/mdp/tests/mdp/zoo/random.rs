use grpo_lambda_mdp::zoo::{Random, RandomRewards};
use grpo_lambda_mdp::{Oracle, Tree};

#[test]
fn a_seed_means_the_same_mdp_for_ever() {
    let family = Random { seed: 7, rewards: RandomRewards::Real, ..Random::default() };
    let tree = family.tree().unwrap();
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    assert_eq!((tree.node_count(), tree.leaf_count()), (20, 31));
    assert!((oracle.j + 0.4199649322586542).abs() < 1e-12, "{}", oracle.j);
}

#[test]
fn seeds_differ() {
    let tree = |seed| Random { seed, ..Random::default() }.tree().unwrap();
    let rewards = |tree: &Tree| tree.leaves().map(|l| tree.reward(l)).collect::<Vec<_>>();
    assert_ne!(rewards(&tree(1)), rewards(&tree(2)));
}
