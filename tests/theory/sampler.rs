//! Systematic groups: unbiased at every size with baselines from other sets, their exact variance, and the bias of the group's own mean.

use crate::laboratory::{self, laid_out, method};
use crate::strategies::{check, graded};
use grpo_lambda::group::{ExtraInputs, Group, InputKind, Response};
use grpo_lambda::systematic::{Code, Guard, Sets};
use grpo_lambda_mdp::expected::{
    PrefixMoments, SetMoments, Situation, enumerated, sampled_in_sets, systematic,
};
use grpo_lambda_mdp::extra_inputs::{Exact, Provider};
use grpo_lambda_mdp::zoo::{self, Family, Random, RandomRewards};
use grpo_lambda_mdp::{EdgeId, LeafId, Oracle, Sampler, Tabular, Tree};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const EXACT: f64 = 1e-12;

/// Trees of 3 to 8 responses.
fn small_trees(rewards: RandomRewards, n: usize) -> Vec<(Tree, Tabular)> {
    let instance = |seed| laid_out(&Random { seed, symbols: 2, horizon: 3, rewards, ..Random::default() });
    let found: Vec<_> =
        (0..60).map(instance).filter(|(tree, _)| (3..=8).contains(&tree.leaf_count())).take(n).collect();
    assert_eq!(found.len(), n);
    found
}

/// The mean reward of an earlier visit, the same for every response.
#[derive(Debug)]
struct Earlier(f64);

impl Provider for Earlier {
    fn extra_inputs(&self, _: LeafId, _: &[EdgeId]) -> ExtraInputs {
        ExtraInputs { reward_parts: Some(vec![self.0]), ..ExtraInputs::default() }
    }

    fn kinds(&self) -> Vec<InputKind> {
        vec![InputKind::RewardParts]
    }
}

fn assert_near(got: &[f64], want: &[f64], of: &str) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < EXACT, "{of}: {g} {w}");
    }
}

#[test]
fn with_baselines_from_other_sets_the_expected_update_is_the_policy_gradient_at_every_group_size() {
    let cases = [
        ("systematic_rloo", ""),
        ("systematic_prefix_rloo", "shrinkage=1"),
        ("systematic_prefix_rloo", "control=state shrinkage=0"),
    ];
    for (kind, n) in [(RandomRewards::Bits, 8), (RandomRewards::Real, 4), (RandomRewards::Probabilities, 3)] {
        for (tree, policy) in &small_trees(kind, n) {
            let gradient = Oracle::new(tree, policy).grad_j();
            let drawn = kind == RandomRewards::Probabilities;
            for (sets, g) in [(2, 2), (2, 4), (3, 3), (2, 8)].into_iter().filter(|(_, g)| !drawn || *g < 4) {
                for (name, settings) in cases {
                    let method = method(name, &format!("sets={sets} {settings}"));
                    let e = systematic(method.as_ref(), &Situation::on_policy(tree, policy, g), sets);
                    let of = format!("{name} {settings}: {g} responses in {sets} sets");
                    assert_near(&e.expect("feasible").update, &gradient, &of);
                }
            }
        }
    }
}

#[test]
fn an_earlier_visit_serves_as_the_baseline_of_one_set_inside_the_guard_and_not_outside() {
    for (tree, policy) in &small_trees(RandomRewards::Bits, 4) {
        let gradient = Oracle::new(tree, policy).grad_j();
        for earlier in [0.05, 0.4] {
            let extra_inputs = Earlier(earlier);
            let situation =
                Situation { extra_inputs: Some(&extra_inputs), ..Situation::on_policy(tree, policy, 4) };
            let sets = Guard::USUAL.sets(Some(earlier)).count(4);
            let visit = method("systematic_visit", "");
            let e = systematic(visit.as_ref(), &situation, sets).expect("feasible");
            assert_near(&e.update, &gradient, &format!("earlier rate {earlier}"));
            let moments = SetMoments::new(&Oracle::new(tree, policy), 4 / sets);
            let want = if sets == 1 { moments.variance_around(earlier) } else { moments.cross_variance(2) };
            assert!((e.total_variance() - want).abs() < EXACT, "{} {want}", e.total_variance());
        }
    }
}

#[test]
fn the_variance_with_means_of_other_sets_is_that_of_the_formula() {
    let sizes = |kind| match kind {
        RandomRewards::Probabilities => vec![(2, 2), (3, 3), (2, 4), (1, 4)],
        _ => vec![(2, 2), (3, 3), (2, 4), (2, 8), (3, 6), (1, 4), (1, 7)],
    };
    for (kind, n) in [(RandomRewards::Bits, 6), (RandomRewards::Real, 2), (RandomRewards::Probabilities, 2)] {
        for (tree, policy) in &small_trees(kind, n) {
            let oracle = Oracle::new(tree, policy);
            for (sets, g) in sizes(kind) {
                let m = SetMoments::new(&oracle, g / sets);
                assert_near(&m.gradient, &oracle.grad_j(), "the mean credit");
                let situation = Situation::on_policy(tree, policy, g);
                // Dr. GRPO's baseline is the group's own mean, which of one set costs the covariance.
                if sets == 1 {
                    let own = method("dr_grpo", "reduction=response_sum");
                    let e = systematic(own.as_ref(), &situation, 1).expect("feasible");
                    let want: Vec<f64> = m.gradient.iter().zip(&m.covariance).map(|(d, c)| d - c).collect();
                    assert_near(&e.update, &want, &format!("{g} responses in one set"));
                    continue;
                }
                let rloo = method("systematic_rloo", &format!("sets={sets}"));
                let e = systematic(rloo.as_ref(), &situation, sets).expect("feasible");
                let (got, want) = (e.total_variance(), m.cross_variance(sets));
                assert!((got - want).abs() < EXACT * want.max(1.0), "{g} in {sets}: {got} {want}");
            }
        }
    }
}

#[test]
fn sets_of_one_response_are_independent_sampling_and_the_method_is_rloo_to_the_bit() {
    check(100, graded(), |batch| {
        for (ours, theirs) in [("systematic_rloo", "rloo"), ("systematic_prefix_rloo", "prefix_rloo")] {
            let advantages = |name, settings| laboratory::advantages(name, settings, &batch.groups);
            assert_eq!(advantages(ours, "sets=5"), advantages(theirs, ""));
        }
    });
    for (tree, policy) in &small_trees(RandomRewards::Probabilities, 3) {
        let oracle = Oracle::new(tree, policy);
        let m = SetMoments::new(&oracle, 1);
        // Independent: Cov(r, s) = ∇J, and the bias of the group's mean is the usual 1/G of it.
        assert_near(&m.covariance, &m.gradient, "the covariance of one response");
        for g in [2, 3] {
            let situation = Situation::on_policy(tree, policy, g);
            let rloo = method("rloo", "");
            let e = enumerated(rloo.as_ref(), &situation).expect("feasible");
            assert_eq!(systematic(rloo.as_ref(), &situation, g).expect("feasible"), e);
            assert!((e.total_variance() - m.cross_variance(g)).abs() < EXACT);
        }
    }
}

#[test]
fn the_variance_with_values_of_prefixes_is_that_of_the_enumeration_of_all_groups() {
    for (kind, n) in [(RandomRewards::Bits, 4), (RandomRewards::Real, 2), (RandomRewards::Probabilities, 2)] {
        for (tree, policy) in &small_trees(kind, n) {
            let oracle = Oracle::new(tree, policy);
            let m = PrefixMoments::new(&oracle);
            let total = |g, shrinkage| -> f64 {
                m.group_values(g, shrinkage).iter().map(|d| d.diagonal + d.pairs).sum()
            };
            for g in [2, 3, 4].into_iter().filter(|g| kind == RandomRewards::Bits || *g < 4) {
                let situation = Situation::on_policy(tree, policy, g);
                for shrinkage in [0.0, 1.0, 4.0] {
                    let settings = format!("control=state shrinkage={shrinkage}");
                    let e = enumerated(method("prefix_rloo", &settings).as_ref(), &situation);
                    let want = e.expect("feasible").total_variance();
                    let got = total(g, shrinkage);
                    assert!((got - want).abs() < EXACT * want.max(1.0), "{g} {shrinkage}: {got} {want}");
                }
                let rloo = SetMoments::new(&oracle, 1).cross_variance(g);
                assert!((total(g, f64::INFINITY) - rloo).abs() < EXACT * rloo.max(1.0), "{g}: RLOO");
            }
            for (settings, got) in [("", m.exact_values()), ("constant", SetMoments::new(&oracle, 1).credit)]
            {
                let critic = Exact::new(&oracle);
                let constant = critic.clone().with_critic(vec![oracle.j; tree.node_count()]);
                let extra_inputs = if settings.is_empty() { critic } else { constant };
                let situation =
                    Situation { extra_inputs: Some(&extra_inputs), ..Situation::on_policy(tree, policy, 2) };
                let ppo = method("ppo", "whiten=false lambda=1 clip=none reduction=response_sum");
                let want = 2.0 * enumerated(ppo.as_ref(), &situation).expect("feasible").total_variance();
                assert!((got - want).abs() < EXACT * want.max(1.0), "{settings}: {got} {want}");
            }
            assert!(m.best_values() <= m.exact_values() && m.exact_actions() <= m.exact_values() + EXACT);
        }
    }
}

#[test]
fn bits_of_a_code_explain_no_less_than_fewer_bits_and_all_of_them_everything() {
    let pivot = zoo::Pivot::default();
    let tree = pivot.tree().expect("valid");
    let policy = Tabular::uniform(&tree);
    let oracle = Oracle::new(&tree, &policy);
    let explained: Vec<f64> =
        [1, 2, 4, 8, 16, 32].map(|h| SetMoments::new(&oracle, h).explained).into_iter().collect();
    let single = SetMoments::new(&oracle, 1).credit;
    assert!(explained[0].abs() < EXACT && (explained[5] - single).abs() < EXACT, "{explained:?} {single}");
    assert!(explained.windows(2).all(|pair| pair[1] >= pair[0] - EXACT), "{explained:?}");
    // Two of 32 equally likely responses are in each of 16 parts, of which neither is distinguished from the other.
    assert!(explained[4] < single - 0.01);
}

#[test]
fn simulated_groups_have_the_exact_variance_on_larger_trees() {
    for (seed, horizon, g) in [(3, 5, 8), (5, 6, 16)] {
        let (tree, policy) = laid_out(&Random { seed, horizon, ..Random::default() });
        let method = method("systematic_rloo", "");
        let situation = Situation::on_policy(&tree, &policy, g);
        let run = sampled_in_sets(method.as_ref(), &situation, Sets::new(2), 3000, 7);
        let m = SetMoments::new(&Oracle::new(&tree, &policy), g / 2);
        let z = (run.estimate.total_variance() - m.cross_variance(2)) / run.total_variance_se;
        assert!(z.abs() < 4.0, "z = {z}");
        // Independent sampling has another variance, by more than the simulation's error.
        let single = SetMoments::new(&Oracle::new(&tree, &policy), 1).cross_variance(g);
        assert!((single - m.cross_variance(2)).abs() > 10.0 * run.total_variance_se);
    }
}

#[test]
fn a_code_decodes_to_the_response_in_whose_interval_it_lies_and_goes_on_when_its_bits_are_used_up() {
    let tree = zoo::full_tree(3, 4).expect("valid");
    let policy = Tabular::random(&tree, 4, 1.0);
    let (oracle, sampler) = (Oracle::new(&tree, &policy), Sampler::new(&tree, &policy));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut path = Vec::new();
    // In the order of codes: the paths compared as words.
    let mut leaves: Vec<(Vec<EdgeId>, f64)> =
        tree.leaves().map(|leaf| (tree.path(leaf), oracle.leaf_prob(leaf))).collect();
    leaves.sort_by(|a, b| a.0.cmp(&b.0));
    let mut start = 0.0;
    for (want, probability) in leaves {
        for within in [0.001, 0.5, 0.999] {
            sampler.decode_into(Code::new(start + within * probability), &mut rng, &mut path);
            assert_eq!(path, want, "{within}");
        }
        start += probability;
    }
    // Sixty coin flips: bits 0 to 23 are the code's, the others fresh and fair.
    let mut heads = 0;
    for _ in 0..400 {
        let mut code = Code::new(0.7);
        heads += (0..60)
            .map(|_| code.token(&[1.0, 1.0], || rand::Rng::next_u64(&mut rng) as f64 / 2f64.powi(64)))
            .skip(25)
            .sum::<usize>();
    }
    let z = (heads as f64 - 0.5 * 400.0 * 35.0) / (0.25f64 * 400.0 * 35.0).sqrt();
    assert!(z.abs() < 4.0, "z = {z}");
}

#[test]
fn advantages_of_a_hand_made_group_in_two_sets() {
    let response = |reward| Response { reward, ..Response::graded(vec![-0.7], 0.0) };
    let advantages = |name: &str, settings: &str, rewards: &[Option<f64>], earlier: f64| {
        let mut responses: Vec<Response> = rewards.iter().map(|r| response(*r)).collect();
        for (i, r) in responses.iter_mut().enumerate() {
            r.extra_inputs.reward_parts = Some(vec![earlier]);
            r.tokens = vec![i as u32];
        }
        laboratory::advantages(name, settings, &[Group { responses }]).concat()
    };
    let rewards = [Some(1.0), Some(0.0), Some(1.0), Some(1.0)];
    // The first set's mean is 1/2, the second's 1.
    assert_eq!(advantages("systematic_rloo", "", &rewards, 0.0), [0.0, -1.0, 0.5, 0.5]);
    assert_eq!(advantages("systematic_prefix_rloo", "control=state", &rewards, 0.0), [0.0, -1.0, 0.5, 0.5]);
    // Swapping responses within a set swaps their advantages; a response without a reward keeps its place.
    let other = [Some(0.0), Some(1.0), None, Some(1.0)];
    assert_near(&advantages("systematic_rloo", "", &other, 0.0), &[-1.0, 0.0, 0.0, 0.5], "other");
    assert_eq!(advantages("systematic_rloo", "", &[Some(1.0), Some(0.0), None, None], 0.0), [0.0; 4]);
    assert_eq!(advantages("systematic_visit", "", &rewards, 0.25), [0.75, -0.25, 0.75, 0.75]);
    assert_eq!(advantages("systematic_visit", "", &rewards, 0.95), [0.0, -1.0, 0.5, 0.5]);
}
