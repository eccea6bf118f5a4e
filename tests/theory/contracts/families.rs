//! Trees of the zoo's families: tokens, lengths, rewards of single responses, and refused settings.

use grpo_lambda_mdp::zoo::{
    self, Branch, CarryAdd, Chain, Deceptive, DistractorLength, Family, Fork, ForkingChain, Needle, Noisy,
    Parity, Random,
};
use grpo_lambda_mdp::{Target, Tree};

/// The reward of the response with these token names.
fn reward(tree: &Tree, names: &[&str]) -> f64 {
    let id = |name: &&str| tree.tokens().iter().position(|t| t == name).expect("a token") as u32;
    let tokens: Vec<u32> = names.iter().map(id).collect();
    match tree.find(&tokens) {
        Some(Target::Leaf(leaf)) => tree.reward(leaf),
        other => panic!("{names:?}: {other:?}"),
    }
}

/// Families in which a response may reach the horizon without its end token.
const CUT: [&str; 6] = ["full", "eos_hazard", "eos_hazard_dependent", "copy", "random", "random_dense"];

#[test]
fn the_horizon_is_the_longest_response_and_only_some_families_cut_responses() {
    for named in zoo::all() {
        let tree = (named.build)();
        assert_eq!(tree.horizon(), tree.max_len(), "{}", named.name);
        assert_eq!(tree.tokens().last().map(String::as_str), Some("EOS"), "{}", named.name);
        assert_eq!(tree.tokens().len(), tree.eos() as usize + 1, "{}", named.name);
        let cut = tree.leaves().filter(|&leaf| tree.truncated(leaf)).count();
        assert!(cut == 0 || CUT.contains(&named.name), "{}: {cut}", named.name);
    }
}

#[test]
fn tokens_and_rewards_by_name() {
    let chain = Chain { steps: 2, options: 3, partial: true }.tree().expect("valid");
    assert_eq!(chain.tokens(), ["right", "wrong0", "wrong1", "EOS"]);
    assert_eq!(reward(&chain, &["right", "wrong1", "EOS"]), 0.5);
    let noisy = Noisy { flip: 0.25, length: 3 }.tree().expect("valid");
    assert_eq!(reward(&noisy, &["yes", "no", "yes", "EOS"]), 0.75);
    assert_eq!(reward(&noisy, &["no", "no", "yes", "EOS"]), 0.25);
    let parity = Parity { bits: 3 }.tree().expect("valid");
    assert_eq!(reward(&parity, &["1", "0", "1", "EOS"]), 1.0);
    assert_eq!(reward(&parity, &["1", "0", "0", "EOS"]), 0.0);
    assert_eq!(reward(&parity, &["0", "0", "0", "EOS"]), 1.0);
    let needle = Needle { symbols: 2, length: 3 }.tree().expect("valid");
    assert_eq!(reward(&needle, &["s0", "s1", "s0", "EOS"]), 1.0);
    assert_eq!(reward(&needle, &["s0", "s0", "s0", "EOS"]), 0.0);
}

fn branch(length: usize, initial: f64) -> Branch {
    Branch { name: format!("b{length}"), length, success: 0.5, initial }
}

#[test]
fn a_forking_chain_starts_with_the_weights_of_its_branches() {
    let family = ForkingChain { forks: 3, branches: vec![branch(2, 1.0), branch(4, 3.0)], on: 0.4 };
    let tree = family.tree().expect("valid");
    // Two forks passed, then the longest branch: two `on`, the branch, two steps, EOS.
    assert_eq!((tree.horizon(), tree.max_len()), (6, 6));
    assert_eq!(reward(&tree, &["on", "b4", "step", "step", "EOS"]), 0.5 * 2.0 / 3.0);
    let policy = family.initial(&tree);
    let probabilities = grpo_lambda_mdp::Oracle::new(&tree, &policy).probs;
    let at = |node| tree.edges_of(node).map(|e| probabilities[e]).collect::<Vec<_>>();
    for (found, expected) in at(0).iter().zip([0.15, 0.45, 0.4]) {
        assert!((found - expected).abs() < 1e-12, "{found}");
    }
}

#[test]
fn settings_at_the_edge_of_what_a_family_takes() {
    let refused = |family: Result<Tree, _>| family.is_err();
    let carry = CarryAdd::default();
    assert!(refused(CarryAdd { a: 1000, b: 0, ..carry }.tree()));
    assert!(refused(CarryAdd { a: 400, b: 600, ..carry }.tree()));
    assert!(!refused(CarryAdd { a: 400, b: 599, ..carry }.tree()));
    assert!(refused(CarryAdd { skill: 0.5, slip: 0.5, ..carry }.tree()));
    for end in [0.0, 1.0] {
        assert!(refused(CarryAdd { stop: end, ..carry }.tree()), "{end}");
        assert!(refused(DistractorLength { chatter: end, ..DistractorLength::default() }.tree()), "{end}");
        assert!(refused(ForkingChain { on: end, ..ForkingChain::default() }.tree()), "{end}");
    }
    let deceptive = Deceptive::default();
    assert!(refused(Deceptive { treasure: deceptive.bait, ..deceptive }.tree()));
    assert!(refused(Deceptive { treasure: 1.5, ..deceptive }.tree()));
    assert!(refused(Noisy { flip: 0.5, length: 3 }.tree()));
    for scale in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(Random { scale, ..Random::default() }.tree()), "{scale}");
    }
    assert!(!refused(Random { scale: 0.0, ..Random::default() }.tree()));
    for initial in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        let branches = vec![branch(2, 1.0), branch(3, initial)];
        assert!(refused(Fork { branches: branches.clone() }.tree()), "{initial}");
        assert!(refused(ForkingChain { branches, ..ForkingChain::default() }.tree()), "{initial}");
    }
}
