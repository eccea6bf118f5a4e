//! Sampled and compared updates against formulas in plain arithmetic.

use crate::laboratory::{laid_out, method};
use crate::tolerance::dot;
use grpo_lambda::systematic::Sets;
use grpo_lambda_mdp::expected::{
    Expected, ExpectedError, Situation, compare, implied, implied_mean, multisets, sampled,
};
use grpo_lambda_mdp::{Oracle, RewardKind, Rules, Tabular, Tree, zoo};

/// The first `n` draws of a stream, out of the means of 2, 3, .. draws and the variance of the first two.
#[test]
fn the_mean_variance_and_errors_of_sampled_groups_are_those_of_the_draws() {
    let (tree, policy) = laid_out(&zoo::Chain::default());
    let situation = Situation::on_policy(&tree, &policy, 4);
    let method = method("grpo", "");
    for seed in 0..8 {
        let simulated = |groups| sampled(method.as_ref(), &situation, groups, seed);
        let two = simulated(2);
        let edges = 0..tree.edge_count();
        // Of two draws the variance is half the squared difference, so that each is the mean and or less its root of half.
        let total = two.estimate.total_variance();
        assert!(
            (two.total_variance_se - total / 2.0).abs() <= 1e-12 * total,
            "{} {total}",
            two.total_variance_se
        );
        for e in edges.clone() {
            assert!((two.standard_error[e].powi(2) - two.estimate.variance[e] / 2.0).abs() < 1e-15);
        }
        // The third draw is what moved the mean; the variance of three follows from that of two.
        let three = simulated(3);
        let mut distances = [0.0; 2];
        for e in edges {
            let (m2, m3) = (two.estimate.update[e], three.estimate.update[e]);
            let third = 3.0 * m3 - 2.0 * m2;
            let variance = (two.estimate.variance[e] + 2.0 * (m2 - m3).powi(2) + (third - m3).powi(2)) / 2.0;
            assert!((three.estimate.variance[e] - variance).abs() < 1e-12, "{e}");
            assert!((three.standard_error[e] - (variance / 3.0).sqrt()).abs() < 1e-12, "{e}");
            distances[0] += (third - m3).powi(2);
            distances[1] += three.estimate.variance[e];
        }
        assert_eq!(three.groups, 3);
        // The squared distances of three draws to their mean add up to twice the variance; one of them is known.
        let [third, total] = distances;
        let others = 2.0 * total - third;
        let least = (others / 2.0 - total).powi(2) * 2.0 + (third - total).powi(2);
        assert!(three.total_variance_se >= (least / 6.0).sqrt() - 1e-9);
        let most = (others - total).powi(2) + total.powi(2) + (third - total).powi(2);
        assert!(three.total_variance_se <= (most / 6.0).sqrt() + 1e-9);
    }
}

#[test]
fn a_comparison_by_hand() {
    let (tree, policy) = laid_out(&zoo::Chain::default());
    let oracle = Oracle::new(&tree, &policy);
    let grad = oracle.grad_j();
    let situation = Situation::on_policy(&tree, &policy, 3);
    let exact = implied(method("rloo", "").as_ref(), &situation).expect("small");
    let found = compare(&exact, &oracle);
    assert!(
        (found.cosine - 1.0).abs() < 1e-12 && found.bias < 1e-9 && found.sign_agreement == 1.0,
        "{found:?}"
    );
    // Half of it the other way and something besides it.
    let mut update: Vec<f64> = grad.iter().map(|g| -0.5 * g).collect();
    update[0] += 0.25;
    let turned: Vec<f64> = exact.credit.iter().map(|c| -c).collect();
    let variance = vec![0.125; update.len()];
    let other = Expected { update: update.clone(), credit: turned, variance };
    let (uu, ug, gg) = (dot(&update, &update), dot(&update, &grad), dot(&grad, &grad));
    let found = compare(&other, &oracle);
    assert!((found.scale - ug / gg).abs() < 1e-12, "{found:?}");
    // The angle to the gradient has the cosine, and what is left over what is along it is its tangent.
    let cosine = ug / (uu * gg).sqrt();
    assert!((found.cosine - cosine).abs() < 1e-12, "{found:?}");
    assert!((found.bias - (1.0 - cosine * cosine).sqrt() / cosine.abs()).abs() < 1e-9, "{found:?}");
    assert_eq!(found.sign_agreement, 0.0);
    assert!((found.signal_to_noise - uu / (0.125 * update.len() as f64)).abs() < 1e-12, "{found:?}");
    // The same credit everywhere says nothing: centred it is 0, and has no sign.
    let flat = Expected { credit: vec![1.0; update.len()], ..other };
    assert_eq!(compare(&flat, &oracle).sign_agreement, 0.0);
}

#[test]
fn too_many_terms_are_refused_before_they_are_summed_and_named() {
    let (tree, policy) = laid_out(&zoo::Chain::default());
    let method = method("grpo", "");
    let terms = |group_size: usize| {
        let situation = Situation::on_policy(&tree, &policy, group_size);
        // Ordered tuples of pairs of response and reward that may descend nowhere: C(n + g - 1, g).
        let n = tree.leaves().flat_map(|leaf| tree.outcomes(leaf)).filter(|(_, p)| *p > 0.0).count() as u64;
        let g = group_size as u64;
        let exact = (1..=g).fold(1, |c, i| c * (n + i - 1) / i) as f64;
        (situation, exact)
    };
    for group_size in [2, 3] {
        let (situation, exact) = terms(group_size);
        assert!(multisets(method.as_ref(), &situation, Sets::SINGLE, exact).is_ok());
        let refused =
            multisets(method.as_ref(), &situation, Sets::SINGLE, exact - 1.0).expect_err("one too many");
        let expected = ExpectedError::TooMany { terms: exact, limit: exact - 1.0 };
        assert_eq!(refused, expected);
    }
}

/// Too many views of the others are refused at once, at the bound and not before it.
#[test]
fn too_many_ways_in_which_the_others_can_look_are_refused_by_their_number() {
    // As many responses as tokens in the longest, each with one of three rewards: n others can look like (n + 1)(n + 2)/2 things.
    let ways = |n: usize| ((n + 1) * (n + 2) / 2) as f64;
    let chain = |horizon: usize| {
        Rules::new(["a", "EOS"], horizon)
            .rewards(RewardKind::Real)
            .build(|_| vec![0, 1], |response, _| (response.len() % 3) as f64)
            .expect("a tree")
    };
    let method = method("grpo", "reduction=response_mean");
    let limit = 2e8f64;
    let refused = |tree: &Tree, group_size: usize, mean: bool| {
        let policy = Tabular::uniform(tree);
        let situation = Situation::on_policy(tree, &policy, group_size);
        match mean {
            true => implied_mean(method.as_ref(), &situation).map(drop),
            false => implied(method.as_ref(), &situation).map(drop),
        }
    };
    // With 199 tokens and one response more 5000 ways are allowed: 98 others have 4950, 99 have 5050.
    let tree = chain(199);
    assert_eq!((tree.leaf_count(), tree.max_len()), (200, 199));
    let most = (limit / (200.0 * 199.0)).floor();
    assert!(ways(98) <= most && ways(99) > most, "{most}");
    let terms = ways(99) * (limit / most);
    assert_eq!(refused(&tree, 100, true), Err(ExpectedError::TooMany { terms, limit }));
    // As many ways as are allowed pass this check; the next one counts every term: each response among the ways of the 83 others,
    // each pair of rewards among those of 82.
    let tree = chain(239);
    let each = (tree.leaf_count() * tree.max_len()) as f64;
    assert_eq!((limit / each).floor(), ways(82));
    let terms = each * ways(83) + 9.0 * ways(82) * tree.edge_count() as f64;
    assert_eq!(refused(&tree, 84, false), Err(ExpectedError::TooMany { terms, limit }));
}
