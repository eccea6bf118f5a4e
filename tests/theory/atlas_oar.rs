//! Claim `atlas_oar`: what the scores of OAR are held against, the exact divergence of the answer, is exact itself.

use grpo_lambda_mdp::{Answers, Maskable, Oracle, Rules, Tree};

/// Two exact computations of the same sum.
const EXACT: f64 = 1e-12;

/// Three symbols, responses of `len` tokens, rewarded as `reward` says, and a policy on them.
pub(crate) fn answering(len: usize, seed: u64, reward: impl Fn(&[u32]) -> f64) -> (Tree, Maskable) {
    let rules = Rules::new(["a", "b", "c", "EOS"], len);
    let tree = rules.build(|_| vec![0, 1, 2], |y, _| reward(y)).expect("valid");
    let policy = Maskable::random(&tree, 6, 1.2, seed);
    (tree, policy)
}

#[test]
fn the_answer_given_a_prefix_is_that_of_enumerating_its_responses() {
    let (tree, policy) = answering(4, 1, |_| 1.0);
    let oracle = Oracle::new(&tree, &policy.tabular(&tree));
    let answers = Answers::new(&oracle);
    for node in tree.nodes() {
        let prefix = tree.prefix(node);
        let mut want = [0.0; 4];
        let mut mass = 0.0;
        for leaf in tree.leaves().filter(|&leaf| tree.response(leaf).starts_with(&prefix)) {
            want[*tree.response(leaf).last().expect("tokens") as usize] += oracle.leaf_prob(leaf);
            mass += oracle.leaf_prob(leaf);
        }
        for (got, want) in answers.given(node).iter().zip(want) {
            assert!((got - want / mass).abs() < EXACT);
        }
    }
}

#[test]
fn both_counterfactuals_are_those_of_enumerating_all_responses() {
    let (tree, policy) = answering(4, 2, |_| 1.0);
    let oracle = Oracle::new(&tree, &policy.tabular(&tree));
    let answers = Answers::new(&oracle);
    let all: Vec<(Vec<u32>, f64)> =
        tree.leaves().map(|leaf| (tree.response(leaf), oracle.leaf_prob(leaf))).collect();
    // P(last token | the response satisfies `holds`).
    let given = |holds: &dyn Fn(&[u32]) -> bool| {
        let mut p = [0.0; 3];
        all.iter().filter(|(y, _)| holds(y)).for_each(|(y, w)| p[y[3] as usize] += w);
        let mass: f64 = p.iter().sum();
        p.map(|x| x / mass)
    };
    let kl = |p: [f64; 3], q: [f64; 3]| p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum::<f64>();
    for leaf in tree.leaves() {
        let (path, y) = (tree.path(leaf), tree.response(leaf));
        let (gains, hindsights) = (answers.gains(&path), answers.hindsights(&path));
        for t in 0..3 {
            let gain = kl(given(&|x| x[..=t] == y[..=t]), given(&|x| x[..t] == y[..t]));
            let others = |x: &[u32]| (0..3).all(|k| k == t || x[k] == y[k]);
            let hindsight = kl(given(&|x| x[..3] == y[..3]), given(&others));
            assert!((gains[t] - gain).abs() < EXACT && (hindsights[t] - hindsight).abs() < EXACT);
        }
    }
}

#[test]
fn the_gain_of_the_last_reasoning_token_is_its_hindsight_and_all_gains_add_up_to_the_information_of_the_prefix()
 {
    let (tree, policy) = answering(5, 3, |_| 1.0);
    let oracle = Oracle::new(&tree, &policy.tabular(&tree));
    let answers = Answers::new(&oracle);
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let (gains, hindsights) = (answers.gains(&path), answers.hindsights(&path));
        assert!((gains[3] - hindsights[3]).abs() < EXACT, "nothing follows it");
    }
    // E sum_t D_t = I(z; a_0 .. a_{T-2}) by the chain rule.
    let total = oracle.expect(|leaf| answers.gains(&tree.path(leaf)).iter().sum());
    let root = answers.given(0).to_vec();
    let information = oracle.expect(|leaf| {
        let path = tree.path(leaf);
        let own = answers.given(tree.edge_node(path[4]));
        own.iter().zip(&root).filter(|(p, _)| **p > 0.0).map(|(p, q)| p * (p / q).ln()).sum()
    });
    assert!((total - information).abs() < EXACT && total > 1e-3, "{total} {information}");
}

#[test]
fn an_advantage_is_at_most_the_root_of_half_the_gain_where_the_answer_decides_and_not_elsewhere() {
    // Pinsker: |E[r|s'] - E[r|s]| <= TV <= sqrt(KL / 2) for r(z) in [0, 1].
    type Reward = fn(&[u32]) -> f64;
    let of_answer: [Reward; 2] = [|y| f64::from(y[4] == 0), |y| f64::from(y[4] != 1)];
    let excess = |reward: Reward, seed: u64| {
        let (tree, policy) = answering(5, seed, reward);
        let oracle = Oracle::new(&tree, &policy.tabular(&tree));
        let answers = Answers::new(&oracle);
        let weighted = |leaf| {
            let path = tree.path(leaf);
            let gains = answers.gains(&path);
            path.iter()
                .zip(gains)
                .map(|(&e, d)| oracle.advantage(e).abs() - (d / 2.0).sqrt())
                .fold(f64::MIN, f64::max)
        };
        tree.leaves().map(weighted).fold(f64::MIN, f64::max)
    };
    for seed in 0..5 {
        assert!(of_answer.iter().all(|&reward| excess(reward, seed) < EXACT), "{seed}");
        assert!(excess(|y| f64::from(y[0] == 0), seed) > 0.1, "{seed}: the first token decides");
    }
}
