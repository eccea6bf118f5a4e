//! Extra inputs, policies and sums of the laboratory against their definitions.

use crate::laboratory::{laid_out, method};
use grpo_lambda::trace::Trace;
use grpo_lambda_mdp::expected::{Product, Situation, implied, sampled};
use grpo_lambda_mdp::extra_inputs::rollouts::Completions;
use grpo_lambda_mdp::extra_inputs::{Provider, critic, features};
use grpo_lambda_mdp::zoo::{Chain, CopyString, Deceptive, Family, LuckyGuess, Parity};
use grpo_lambda_mdp::{EdgeId, Maskable, Oracle, RewardKind, Rules, Tabular, Tree, has_success_rate};

fn chain() -> Tree {
    Chain::default().tree().expect("defaults")
}

#[test]
fn a_noisy_critic_is_off_by_errors_in_proportion_to_their_scale() {
    let (tree, policy) = laid_out(&Chain::default());
    let oracle = Oracle::new(&tree, &policy);
    let errors = |scale: f64| -> Vec<f64> {
        critic::noisy(&oracle, scale, 5).iter().zip(&oracle.v).map(|(noisy, v)| noisy - v).collect()
    };
    let (one, two) = (errors(1.0), errors(2.0));
    assert!(one.iter().zip(&two).all(|(a, b)| (2.0 * a - b).abs() < 1e-12 && *a != 0.0), "{one:?} {two:?}");
    let mean = one.iter().map(|e| e * e).sum::<f64>() / one.len() as f64;
    assert!((0.1..10.0).contains(&mean), "{mean}");
}

#[test]
fn completions_value_every_prefix_and_leave_the_rest_exact() {
    let (tree, policy) = laid_out(&Chain::default());
    let oracle = Oracle::new(&tree, &policy);
    let exact = grpo_lambda_mdp::extra_inputs::Exact::new(&oracle);
    let k = 4000;
    let completions = Completions::new(&oracle, &policy, k, 3);
    assert_eq!(completions.kinds(), exact.kinds());
    let leaf = tree.leaves().max_by_key(|&leaf| tree.leaf_len(leaf)).expect("a response");
    let path = tree.path(leaf);
    let found = completions.extra_inputs(leaf, &path);
    let steps = found.steps.as_ref().expect("steps");
    assert_eq!(steps.iter().map(|s| s.start).collect::<Vec<_>>(), (0..path.len()).collect::<Vec<_>>());
    let mut sampled = false;
    for (step, &edge) in steps.iter().zip(&path) {
        let v = oracle.v[tree.edge_node(edge)];
        sampled |= step.value != v;
        assert!(
            (step.value - v).abs() <= 5.0 * (v * (1.0 - v) / k as f64).sqrt() + 1e-12,
            "{} {v}",
            step.value
        );
    }
    assert!(sampled, "completions are not the exact values");
    let rest = grpo_lambda::group::ExtraInputs { steps: None, ..found };
    assert_eq!(rest, grpo_lambda::group::ExtraInputs { steps: None, ..exact.extra_inputs(leaf, &path) });
}

#[test]
fn tokens_by_position_mark_each_token_once() {
    let tree = chain();
    let width = tree.tokens().len();
    let all = features::tokens_by_position(&tree);
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let last = &all[*path.last().expect("a token")];
        let mut expected = vec![0.0; width * tree.horizon()];
        path.iter().enumerate().for_each(|(t, &e)| expected[t * width + tree.token(e) as usize] = 1.0);
        assert_eq!(*last, expected);
    }
}

#[test]
fn sampled_credit_is_near_the_exact_one() {
    let (tree, policy) = laid_out(&Chain::default());
    let situation = Situation::on_policy(&tree, &policy, 4);
    let method = method("rloo", "");
    let exact = implied(method.as_ref(), &situation).expect("small").credit;
    let found = sampled(method.as_ref(), &situation, 60_000, 1).estimate.credit;
    let oracle = Oracle::new(&tree, &policy);
    for edge in tree.edges().filter(|&e| oracle.edge_visit(e) > 0.05) {
        assert!(
            (found[edge] - exact[edge]).abs() < 0.05 * exact[edge].abs() + 0.01,
            "{edge}: {} {}",
            found[edge],
            exact[edge]
        );
    }
}

#[test]
fn the_product_of_ratios_is_a_matrix_of_ones() {
    let x = [1.0, 2.0, 4.0];
    for t in 0..3 {
        let row: f64 = (0..3).map(|k| Product.weight(t, k, 3) * x[k]).sum();
        assert_eq!((row, Product.apply(&x)[t], Product.adjoint(&x)[t]), (7.0, 7.0, 7.0));
    }
}

#[test]
fn the_oracle_lists_the_advantages_of_all_edges() {
    let (tree, policy) = laid_out(&Chain::default());
    let oracle = Oracle::new(&tree, &policy);
    let expected: Vec<f64> = tree.edges().map(|e| oracle.q[e] - oracle.v[tree.edge_node(e)]).collect();
    assert_eq!(oracle.advantages().len(), tree.edge_count());
    assert!(oracle.advantages().iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-15));
}

#[test]
fn a_task_has_success_rates_where_each_response_is_right_or_wrong_and_nothing_is_discounted() {
    assert!(has_success_rate(&chain()));
    assert_eq!(chain().reward_kind(), RewardKind::Binary);
    let partial = Chain { partial: true, ..Chain::default() }.tree().expect("valid");
    assert_eq!(partial.reward_kind(), RewardKind::Real);
    assert!(!has_success_rate(&partial));
    assert!(!has_success_rate(&partial.with_rewards(|leaf| f64::from(leaf == 0))));
    assert!(!has_success_rate(&chain().with_gamma(0.9)));
    assert!(!has_success_rate(&chain().with_rewards(|_| 0.5)));
}

#[test]
fn the_answer_of_a_response_without_a_choice_is_its_last_token() {
    let tree = Rules::new(["a", "EOS"], 3)
        .build(|prefix| if prefix.len() < 2 { vec![0] } else { vec![1] }, |_, _| 1.0)
        .expect("a tree");
    assert_eq!(Maskable::answer(&tree, &tree.path(0)), 2);
}

#[test]
fn families_away_from_their_defaults() {
    let shallow = Deceptive { depth: 1, ..Deceptive::default() }.tree().expect("valid");
    assert_eq!((shallow.horizon(), shallow.max_len()), (3, 3));
    let even = Parity { bits: 2 }.tree().expect("valid");
    let all: Vec<(String, f64)> =
        even.leaves().map(|leaf| (even.text(&even.response(leaf)), even.reward(leaf))).collect();
    assert!(all.iter().all(|(text, r)| *r == f64::from(text.matches('1').count() % 2 == 0)), "{all:?}");
    let guess =
        LuckyGuess { fillers: 3, answers: 2, work: 1, ..LuckyGuess::default() }.tree().expect("valid");
    assert_eq!(guess.tokens()[2..], ["work0", "work1", "work2", "answer0", "answer1", "EOS"]);
    assert_eq!((guess.horizon(), guess.max_len()), (4, 4));
    for (guess, knob) in [
        (LuckyGuess { luck: 1.5, ..LuckyGuess::default() }, "luck = 1.5"),
        (LuckyGuess { sound: -0.5, ..LuckyGuess::default() }, "sound = -0.5"),
    ] {
        let refused = guess.tree().expect_err("no probability").to_string();
        assert!(refused.contains(knob) && refused.contains("[0, 1]"), "{refused}");
    }
    // Without a way back the right step after an error is still the next symbol.
    let copy = CopyString { target: vec![0, 1], symbols: 3, detours: 0, skill: 0.75 };
    let tree = copy.tree().expect("valid");
    let probabilities = Oracle::new(&tree, &copy.initial(&tree)).probs;
    for node in tree.nodes_at(1) {
        let next = tree.edge(node, 1).expect("legal");
        assert!((probabilities[next] - 0.75).abs() < 1e-12, "{node}");
    }
}

/// A place that a policy never visits has no credit, no mass and no reward, and no number that is none.
#[test]
fn what_is_never_sampled_has_credit_0() {
    // The exponential of -2000 is 0.
    let tree = Rules::new(["a", "b", "EOS"], 2)
        .rewards(RewardKind::Real)
        .build(|_| vec![0, 1, 2], |response, _| response.iter().map(|t| f64::from(*t)).sum())
        .expect("a tree");
    let away = |token: u32| {
        let logit = |e: EdgeId| if tree.token(e) == token { 0.0 } else { -2000.0 };
        Tabular::from_logits(&tree, tree.edges().map(logit).collect())
    };
    let policy = away(0);
    let oracle = Oracle::new(&tree, &policy);
    assert_eq!(oracle.reward_distribution(), [(0.0, 1.0)]);
    let credit = oracle.implied_credit(|_, _, weights| weights.fill(1.0));
    let visited: Vec<f64> = tree.edges().map(|e| f64::from(oracle.edge_visit(e) > 0.0)).collect();
    assert_eq!(credit, visited);
    let situation = Situation::on_policy(&tree, &policy, 3);
    let rloo = method("rloo", "");
    let found = implied(rloo.as_ref(), &situation).expect("small");
    assert!(found.credit.iter().chain(&found.update).all(|x| *x == 0.0), "{found:?}");
    // A policy that always ends at once has no mass without its end.
    let ended = away(2);
    let oracle = Oracle::new(&tree, &ended);
    assert_eq!(oracle.visits_without_eos(), [1.0, 0.0, 0.0]);
}
