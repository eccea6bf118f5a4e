use grpo_lambda_mdp::zoo::Family;
use grpo_lambda_mdp::{Maskable, Oracle, zoo};

/// Adam as its paper writes it: corrected moments, one parameter after the other, at a rate that falls to 0 in a line.
#[test]
fn the_steps_of_the_fit_are_those_of_adam() {
    let family = zoo::LuckyGuess::default();
    let tree = family.tree().unwrap();
    let target = family.initial(&tree);
    let oracle = Oracle::new(&tree, &target);
    let steps = 4;
    let mut policy = Maskable::random(&tree, 3, 0.5, 7);
    let n = policy.parameters().count();
    let mut moments = vec![(0.0, 0.0); n];
    for t in 1..=steps {
        let (_, mut gradient) = policy.divergence_from(&oracle);
        let rate = 0.05 * (steps + 1 - t) as f64 / steps as f64;
        let gradient: Vec<f64> = gradient.parameters().map(|g| *g).collect();
        for (i, x) in policy.parameters().enumerate() {
            let (m, v) = &mut moments[i];
            *m += (gradient[i] - *m) / 10.0;
            *v += (gradient[i].powi(2) - *v) / 1000.0;
            let corrected = (*m / (1.0 - 0.9f64.powi(t)), *v / (1.0 - 0.999f64.powi(t)));
            *x -= rate * corrected.0 / (corrected.1.sqrt() + 1e-8);
        }
    }
    let (mut fitted, left) = Maskable::fitted(&tree, &target, 3, 7, steps as usize);
    assert!(fitted.parameters().zip(policy.parameters()).all(|(a, b)| (*a - *b).abs() < 1e-12));
    assert!((left - policy.divergence_from(&oracle).0).abs() < 1e-12);
}

#[test]
fn the_gradient_of_the_fit_is_that_of_finite_differences_and_the_fit_lowers_it() {
    let family = zoo::LuckyGuess::default();
    let tree = family.tree().unwrap();
    let target = family.initial(&tree);
    let oracle = Oracle::new(&tree, &target);
    let policy = Maskable::random(&tree, 3, 0.5, 1);
    let (start, mut gradient) = policy.divergence_from(&oracle);
    let gradient: Vec<f64> = gradient.parameters().map(|x| *x).collect();
    for (i, g) in gradient.iter().enumerate() {
        let at = |step: f64| {
            let mut moved = policy.clone();
            *moved.parameters().nth(i).unwrap() += step;
            moved.divergence_from(&oracle).0
        };
        let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((g - slope).abs() < 1e-8, "{i}: {g} {slope}");
    }
    let (fitted, left) = Maskable::fitted(&tree, &target, 6, 1, 300);
    assert!(left < 0.02 && start > 10.0 * left, "{start} {left}");
    // The divergence of whole responses, by enumeration.
    let other = Oracle::new(&tree, &fitted.tabular(&tree));
    let kl = oracle.expect(|leaf| (oracle.leaf_prob(leaf) / other.leaf_prob(leaf)).ln());
    assert!((kl - left).abs() < 1e-12);
}
