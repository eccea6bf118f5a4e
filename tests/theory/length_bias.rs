//! Weights that depend on the length of a response, and what they do to preferences.

use crate::laboratory::{gap, laid_out, update};
use grpo_lambda::trace::{Both, Recent, Trace};
use grpo_lambda_mdp::expected::cosine;
use grpo_lambda_mdp::zoo::{self, Branch, Fork};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

const EXACT: f64 = 1e-12;

/// Two answers chosen equally often, `V(s_0) = 0.25` for successes 0.9 and 0.8.
fn fork(lengths: [usize; 2], success: [f64; 2]) -> (Tree, Tabular) {
    let p = 0.25 / 1.7;
    let branches = vec![
        Branch::new("short", lengths[0], success[0], p),
        Branch::new("long", lengths[1], success[1], p),
        Branch::new("astray", 10, 0.0, 1.0 - 2.0 * p),
    ];
    laid_out(&Fork { branches })
}

#[test]
fn at_fixed_length_the_trace_rescales_each_depth_of_the_gradient_by_its_column_sum() {
    for name in ["pivot", "lucky_guess", "deceptive", "noisy", "parity", "needle"] {
        let tree = (zoo::find(name).expect("listed").build)();
        let policy = Tabular::random(&tree, 2, 0.7);
        let gradient = Oracle::new(&tree, &policy).grad_j();
        let len = tree.max_len();
        for (style, q, c) in [
            ("recent", 0.9, Recent { q: 0.9 }.column_sums(len)),
            ("recent", 0.99, Recent { q: 0.99 }.column_sums(len)),
            ("both", 0.9, Both { q: 0.9 }.column_sums(len)),
            ("both", 0.0, Both { q: 0.0 }.column_sums(len)),
        ] {
            let settings =
                format!("style={style} lambda={q} scale=none clamp=none reduction=constant max_length=1");
            for (e, u) in update(&format!("grpo_lambda {settings}"), &tree, &policy, 4).iter().enumerate() {
                let want = 0.75 * c[tree.depth(tree.edge_node(e))] * gradient[e];
                assert!((u - want).abs() < EXACT, "{name} {style} {q}: {u} {want}");
            }
        }
    }
}

#[test]
fn a_trace_of_a_fixed_horizon_rescales_the_gradient_depth_by_depth_whatever_the_lengths() {
    let mut ragged = 0;
    for seed in 0..12 {
        let (tree, policy) =
            laid_out(&zoo::Random { seed, symbols: 2, horizon: 4, ..zoo::Random::default() });
        let oracle = Oracle::new(&tree, &policy);
        let sums = Recent { q: 0.9 }.column_sums(tree.max_len());
        let update = |of: &dyn Fn(usize) -> Vec<f64>| {
            let credit = oracle.implied_credit(|leaf, reward, w| {
                let weights = of(tree.leaf_len(leaf));
                w.iter_mut().zip(weights).for_each(|(w, c)| *w = (reward - oracle.j) * c);
            });
            oracle.update_of_credit(&credit)
        };
        let rescaled: Vec<f64> = oracle
            .grad_j()
            .iter()
            .enumerate()
            .map(|(e, g)| sums[tree.depth(tree.edge_node(e))] * g)
            .collect();
        assert!(gap(&update(&|len| sums[..len].to_vec()), &rescaled) < 1e-12, "{seed}");
        ragged += usize::from(gap(&update(&|len| Recent { q: 0.9 }.column_sums(len)), &rescaled) > 1e-3);
    }
    assert!(ragged > 5, "GRPO-lambda's own weights do not: {ragged}");
}

#[test]
fn the_papers_setting_pushes_the_worse_long_answer_up_and_the_better_short_one_down() {
    let (tree, policy) = fork([2, 50], [0.9, 0.8]);
    let gradient = Oracle::new(&tree, &policy).grad_j();
    assert!(gradient[0] > gradient[1] && gradient[1] > 0.0);
    let step = update("grpo_lambda lambda=0.99", &tree, &policy, 8);
    assert!(step[0] < 0.0 && step[1] > 0.0, "{:?}", &step[..2]);
}

#[test]
fn without_a_trace_a_constant_reduction_never_inverts_and_one_over_length_does() {
    for i in 0..=10 {
        for j in (0..=10).filter(|j| *j != i) {
            let (tree, policy) = fork([2, 50], [f64::from(i) / 10.0, f64::from(j) / 10.0]);
            let step = update("dr_grpo", &tree, &policy, 4);
            assert!((step[0] - step[1]) * f64::from(i - j) > 0.0, "{i} {j}");
        }
    }
    let (tree, policy) = fork([2, 50], [0.8, 0.9]);
    let step = update("grpo scale=none", &tree, &policy, 4);
    assert!(step[0] > step[1], "the better long answer loses to the worse short one");
}

#[test]
fn one_over_length_aggregation_is_the_gradient_of_the_reward_rate_minus_v0_times_that_of_inverse_length() {
    for seed in [0, 1, 2] {
        let (tree, policy) = laid_out(&zoo::Random { seed, eos: 1.0, ..zoo::Random::default() });
        let oracle = Oracle::new(&tree, &policy);
        let gradient_of = |f: &dyn Fn(usize) -> f64| {
            oracle.update_of_credit(&oracle.implied_credit(|leaf, _, w| w.fill(f(leaf))))
        };
        let rate = gradient_of(&|l| tree.reward(l) / tree.leaf_len(l) as f64);
        let inverse = gradient_of(&|l| 1.0 / tree.leaf_len(l) as f64);
        let step = update("grpo scale=none", &tree, &policy, 3);
        for (e, u) in step.iter().enumerate() {
            assert!((u - 2.0 / 3.0 * (rate[e] - oracle.j * inverse[e])).abs() < EXACT);
        }
        let c = cosine(&step, &oracle.grad_j());
        assert!(c < 0.999, "not a multiple of the gradient of J: cosine {c}");
    }
}

/// T4: the mean weight and its covariance with the reward may both vary with the action and cancel. Three equally likely actions with outcomes
/// (probability, reward, T), λ = 1: ω = E[(R - V0) T | a] is 4 (Q - V0) for all of them.
#[test]
fn an_update_may_be_unbiased_although_mean_weight_and_covariance_vary_with_the_action() {
    let ratio = |a: i128, b: i128| num_rational::Ratio::new(a, b);
    let (none, one) = (ratio(0, 1), ratio(1, 1));
    let actions = [
        [(ratio(1, 4), one, ratio(4, 1)), (ratio(3, 4), none, ratio(4, 1))],
        [(ratio(3, 4), one, ratio(3, 1)), (ratio(1, 4), none, ratio(1, 1))],
        [(ratio(1, 2), one, ratio(2, 1)), (ratio(1, 2), none, ratio(2, 1))],
    ];
    let mean = |action: &[(_, _, _); 2], of: &dyn Fn(_, _) -> num_rational::Ratio<i128>| {
        action.iter().map(|&(p, r, t)| p * of(r, t)).sum::<num_rational::Ratio<i128>>()
    };
    let q: Vec<_> = actions.iter().map(|a| mean(a, &|r, _| r)).collect();
    let v0 = (q[0] + q[1] + q[2]) / ratio(3, 1);
    let weight: Vec<_> = actions.iter().map(|a| mean(a, &|_, t| t)).collect();
    let covariance: Vec<_> = (0..3).map(|a| mean(&actions[a], &|r, t| r * t) - q[a] * weight[a]).collect();
    for a in 0..3 {
        let omega = mean(&actions[a], &|r, t| (r - v0) * t);
        assert_eq!(omega, (q[a] - v0) * weight[a] + covariance[a], "the formula");
        assert_eq!(omega, ratio(4, 1) * (q[a] - v0), "unbiased");
    }
    assert!(weight[0] != weight[1] && weight[1] != weight[2] && covariance[0] != covariance[1]);
}
