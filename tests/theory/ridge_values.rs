//! Ridge RLOO: unbiased at every group size whatever the states are, and its limits.

use crate::laboratory::{self, gap, laid_out, method};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::Method;
use grpo_lambda::systematic::Sets;
use grpo_lambda_mdp::expected::{Situation, enumerated, implied, multisets};
use grpo_lambda_mdp::extra_inputs::{Exact, features};
use grpo_lambda_mdp::zoo::{self, Random};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

const EXACT: f64 = 1e-12;

type Task = (String, Tree, Tabular);

/// The tasks of the zoo with at most so many responses.
fn of_zoo(responses: usize) -> impl Iterator<Item = Task> {
    let task = |entry: zoo::Named| {
        let tree = (entry.build)();
        let policy = Tabular::random(&tree, 5, 0.7);
        (entry.name.to_owned(), tree.with_gamma(1.0), policy)
    };
    zoo::all().into_iter().map(task).filter(move |(_, tree, _)| tree.leaf_count() <= responses)
}

/// Small trees, of which groups of four can be enumerated.
fn small_tasks() -> Vec<Task> {
    let random = |seed| {
        let (tree, policy) = laid_out(&Random { seed, symbols: 2, horizon: 3, ..Random::default() });
        (format!("random {seed}"), tree, policy)
    };
    let random = (0..30).map(random).filter(|(_, tree, _)| (3..=8).contains(&tree.leaf_count()));
    of_zoo(8).chain(random).collect()
}

fn ridge(settings: &str) -> Box<dyn Method> {
    method("ridge_rloo", settings)
}

/// States that say nothing of the prefix in order: they differ from edge to edge in a way no reward knows of.
fn arbitrary(tree: &Tree) -> Vec<Vec<f64>> {
    let state = |e: usize| (0..3).map(|k| ((7 * e + 5 * k) % 11) as f64 - 4.0).collect();
    tree.edges().map(state).collect()
}

/// A unit vector of its own for every prefix.
fn prefixes(tree: &Tree) -> Vec<Vec<f64>> {
    let n = tree.edge_count();
    tree.edges().map(|e| (0..n).map(|k| f64::from(u8::from(k == e))).collect()).collect()
}

#[test]
fn its_expected_update_is_the_policy_gradient_at_every_group_size_and_with_any_states() {
    let tasks = small_tasks();
    assert!(tasks.len() >= 10);
    for (name, tree, policy) in &tasks {
        let oracle = Oracle::new(tree, policy);
        for states in [features::tokens_by_position(tree), arbitrary(tree)] {
            let extra_inputs = Exact::new(&oracle).with_states(states);
            for (shrinkage, g) in [("0.01", 2), ("0.01", 3), ("1", 3), ("1", 4), ("1e9", 3)] {
                let on_policy = Situation::on_policy(tree, policy, g);
                let situation = Situation { extra_inputs: Some(&extra_inputs), ..on_policy };
                let method = ridge(&format!("shrinkage={shrinkage}"));
                let e = enumerated(method.as_ref(), &situation).expect("feasible");
                assert!(gap(&e.update, &oracle.grad_j()) < EXACT, "{name} kappa {shrinkage} G = {g}");
            }
        }
    }
}

#[test]
fn its_bias_is_zero_on_every_task_of_the_zoo_that_can_be_enumerated() {
    let tasks: Vec<Task> = of_zoo(64).collect();
    assert!(tasks.len() >= 13, "{}", tasks.len());
    for (name, tree, policy) in &tasks {
        let oracle = Oracle::new(tree, policy);
        let extra_inputs = Exact::new(&oracle).with_states(features::tokens_by_position(tree));
        let situation =
            Situation { extra_inputs: Some(&extra_inputs), ..Situation::on_policy(tree, policy, 3) };
        let e = multisets(ridge("").as_ref(), &situation, Sets::SINGLE, 3e5).expect("feasible");
        assert!(gap(&e.update, &oracle.grad_j()) < EXACT, "{name}");
    }
}

#[test]
fn a_baseline_that_counted_the_response_itself_would_be_caught() {
    // TEMPO's prefix values hold the response itself: the same check must find its bias.
    let (_, tree, policy) = small_tasks().swap_remove(0);
    let tempo = method("tempo", "scale=none clip=none reduction=response_sum");
    let e = enumerated(tempo.as_ref(), &Situation::on_policy(&tree, &policy, 3)).expect("feasible");
    assert!(gap(&e.update, &Oracle::new(&tree, &policy).grad_j()) > 1e-6);
}

#[test]
fn with_a_large_ridge_or_in_groups_of_two_it_is_rloo() {
    for (name, tree, policy) in small_tasks().iter().take(5) {
        let extra_inputs = Exact::new(&Oracle::new(tree, policy)).with_states(arbitrary(tree));
        for (settings, g) in [("shrinkage=1e12", 3), ("shrinkage=0.1", 2)] {
            let on_policy = Situation::on_policy(tree, policy, g);
            let rloo = method("rloo", "");
            let want = implied(rloo.as_ref(), &on_policy).expect("feasible").total_variance();
            let situation = Situation { extra_inputs: Some(&extra_inputs), ..on_policy };
            let got = enumerated(ridge(settings).as_ref(), &situation).expect("feasible").total_variance();
            assert!((got - want).abs() < 1e-9 * want.max(1.0), "{name} {settings}: {got} {want}");
        }
    }
}

#[test]
fn with_a_state_of_its_own_for_every_prefix_it_is_prefix_rloo_for_states() {
    for (name, tree, policy) in &small_tasks() {
        let extra_inputs = Exact::new(&Oracle::new(tree, policy)).with_states(prefixes(tree));
        let situation =
            Situation { extra_inputs: Some(&extra_inputs), ..Situation::on_policy(tree, policy, 4) };
        for kappa in ["0.5", "4"] {
            let variance =
                |m: Box<dyn Method>| enumerated(m.as_ref(), &situation).expect("feasible").variance;
            let want = variance(method("prefix_rloo", &format!("control=state shrinkage={kappa}")));
            let got = variance(ridge(&format!("shrinkage={kappa}")));
            assert!(gap(&got, &want) < EXACT, "{name} {kappa}");
        }
    }
}

fn response(states: &[[f64; 2]], reward: f64) -> Response {
    let mut r = Response::graded(vec![-1.0; states.len()], reward);
    r.extra_inputs.hidden = Some(states.iter().map(|s| s.to_vec()).collect());
    r
}

fn advantages(batch: &[Group], settings: &str) -> Vec<Vec<f64>> {
    laboratory::advantages("ridge_rloo", settings, batch)
}

#[test]
fn a_hand_made_group_of_three_has_the_advantages_of_the_formula() {
    let (x, y) = ([3.0, 0.0], [0.0, 0.5]);
    let batch =
        [Group { responses: vec![response(&[x, y], 1.0), response(&[x, x], 0.0), response(&[y, y], 2.0)] }];
    let close = |a: &[f64], b: &[f64]| assert!(gap(a, b) < EXACT, "{a:?} {b:?}");
    let a = advantages(&batch, "shrinkage=1");
    // m = 1, 3/2, 1/2; the first token's value is m. Second token, of response 0 in state x: response 1 in x (reward 0, 1 below m) and response 2 in y:
    // w.x = -1/(1 + 1), V = 1/2. Of response 1 in x: response 0 in x, 1 - 3/2, so V = 3/2 - 1/4. Of response 2 in y: nobody is in y, V = m.
    close(&a[0], &[0.0, 0.5]);
    close(&a[1], &[-1.5, -1.25]);
    close(&a[2], &[1.5, 1.5]);
}

#[test]
fn it_is_the_fit_without_the_response_itself_solved_in_the_other_way() {
    // States in the plane: w has two entries, (sum phi phi' + kappa I) w = sum phi (r - m), by Cramer's rule, once per response and token.
    let at = |i: usize, t: usize| [((i * 5 + t * 3) % 7) as f64 - 2.5, ((i * 3 + t * 4) % 5) as f64 - 1.2];
    let make = |i: usize| response(&(0..2 + i % 3).map(|t| at(i, t)).collect::<Vec<_>>(), (i * i % 4) as f64);
    let responses: Vec<Response> = (0..7).map(make).collect();
    let rewards: Vec<f64> = responses.iter().filter_map(|r| r.reward).collect();
    let unit = |i: usize, t: usize| match t {
        0 => [0.0, 0.0],
        _ => {
            let [a, b] = at(i, t - 1);
            [a / a.hypot(b), b / a.hypot(b)]
        }
    };
    let got = advantages(&[Group { responses: responses.clone() }], "shrinkage=0.3");
    for i in 0..responses.len() {
        let m = (rewards.iter().sum::<f64>() - rewards[i]) / (rewards.len() - 1) as f64;
        for t in 0..responses[i].len() {
            let (mut xx, mut xy, mut yy, mut bx, mut by) = (0.3, 0.0, 0.3, 0.0, 0.0);
            for j in (0..responses.len()).filter(|&j| j != i && responses[j].len() > t) {
                let [x, y] = unit(j, t);
                (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
                (bx, by) = (bx + x * (rewards[j] - m), by + y * (rewards[j] - m));
            }
            let determinant = xx * yy - xy * xy;
            let w = [(bx * yy - by * xy) / determinant, (xx * by - xy * bx) / determinant];
            let [x, y] = unit(i, t);
            let want = rewards[i] - m - w[0] * x - w[1] * y;
            assert!((got[i][t] - want).abs() < EXACT, "{i} {t}: {} {want}", got[i][t]);
        }
    }
}

#[test]
fn a_group_that_agrees_teaches_nothing_and_needs_no_states() {
    let mut batch =
        [Group { responses: vec![response(&[[1.0, 2.0]; 2], 0.3), response(&[[2.0, 0.0]; 3], 0.3)] }];
    assert!(advantages(&batch, "").concat().iter().all(|a| *a == 0.0));
    for r in &mut batch[0].responses {
        r.extra_inputs.hidden = Some(vec![Vec::new(); r.len()]);
    }
    assert!(advantages(&batch, "").concat().iter().all(|a| *a == 0.0));
}
