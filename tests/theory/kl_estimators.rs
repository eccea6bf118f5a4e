//! The KL gradient that each estimator is in expectation.

use crate::laboratory::{gap, method};
use grpo_lambda::kl::Kl;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::{Oracle, Tabular, zoo};
use proptest::prelude::*;

fn softmax(logits: &[f64]) -> Vec<f64> {
    let sum: f64 = logits.iter().map(|x| x.exp()).sum();
    logits.iter().map(|x| x.exp() / sum).collect()
}

fn divergence(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
}

/// `E[∂k/∂θ]`, actions drawn from `old`.
fn expected(kl: Kl, pi: &[f64], old: &[f64], reference: &[f64]) -> Vec<f64> {
    let slope = |a: usize| kl.at(pi[a].ln(), old[a].ln(), reference[a].ln()).slope;
    let derivative =
        |b: usize| (0..pi.len()).map(|a| old[a] * slope(a) * (f64::from(u8::from(a == b)) - pi[b])).sum();
    (0..pi.len()).map(derivative).collect()
}

/// `∂KL(π||ref)/∂θ`.
fn reverse(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    let kl = divergence(pi, reference);
    pi.iter().zip(reference).map(|(p, r)| p * ((p / r).ln() - kl)).collect()
}

/// `∂KL(ref||π)/∂θ`.
fn forward(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    pi.iter().zip(reference).map(|(p, r)| p - r).collect()
}

#[test]
fn the_worked_table_of_three_actions() {
    // Recovered from the published gradients: the only pair that gives both of them.
    let pi = [0.404_936_202_1, 0.475_715_477_3, 0.119_348_320_6];
    let reference = [0.254_036_202_1, 0.183_015_477_3, 0.562_948_320_6];
    let row = |kl| expected(kl, &pi, &pi, &reference);
    let printed = |kl, want: [f64; 3]| assert!(gap(&row(kl), &want) < 5.1e-5, "{kl:?}: {:?}", row(kl));
    printed(Kl::K1, [0.0, 0.0, 0.0]);
    printed(Kl::K2, [0.0033, 0.2365, -0.2398]);
    printed(Kl::K3, [0.1509, 0.2927, -0.4436]);
    printed(Kl::RatioK3, [0.0033, 0.2365, -0.2398]);
}

proptest! {
    #[test]
    fn k1_gives_nothing_k2_and_ratio_k3_the_reverse_and_k3_the_forward_gradient(
        x in prop::collection::vec(-2.0..2.0f64, 4), y in prop::collection::vec(-2.0..2.0f64, 4), z in prop::collection::vec(-1.0..1.0f64, 4)
    ) {
        let (pi, reference, old) = (softmax(&x), softmax(&y), softmax(&z));
        let expectation = |kl| expected(kl, &pi, &pi, &reference);
        prop_assert!(gap(&expectation(Kl::K1), &[0.0; 4]) < 1e-13);
        prop_assert!(gap(&expectation(Kl::K2), &reverse(&pi, &reference)) < 1e-13);
        prop_assert!(gap(&expectation(Kl::RatioK3), &reverse(&pi, &reference)) < 1e-13);
        prop_assert!(gap(&expectation(Kl::K3), &forward(&pi, &reference)) < 1e-13);
        // Off-policy only the ratio-corrected one is left.
        prop_assert!(gap(&expected(Kl::RatioK3, &pi, &old, &reference), &reverse(&pi, &reference)) < 1e-12);
    }
}

#[test]
fn off_policy_only_the_ratio_keeps_the_gradient() {
    let [pi, reference, old] = [[0.5, 0.3, 0.2], [0.25, 0.25, 0.5], [0.2, 0.3, 0.5]];
    let away = |kl, want: &[f64]| gap(&expected(kl, &pi, &old, &reference), want);
    assert!(away(Kl::RatioK3, &reverse(&pi, &reference)) < 1e-15);
    // By hand: the first component of k2 is 0.2 ln 2 - 0.5 E, with E = 0.2 ln 2 + 0.3 ln 1.2 + 0.5 ln 0.4.
    let mean = 0.2 * 2.0f64.ln() + 0.3 * 1.2f64.ln() + 0.5 * 0.4f64.ln();
    let k2 = expected(Kl::K2, &pi, &old, &reference)[0];
    assert!((k2 - (0.2 * 2.0f64.ln() - 0.5 * mean)).abs() < 1e-15, "{k2}");
    for (kl, on_policy) in
        [(Kl::K1, vec![0.0; 3]), (Kl::K2, reverse(&pi, &reference)), (Kl::K3, forward(&pi, &reference))]
    {
        assert!(away(kl, &on_policy) > 0.05, "{kl:?}: {}", away(kl, &on_policy));
    }
}

#[test]
fn registered_kl_terms_sum_the_gradients_per_state_over_the_visits_of_the_policy() {
    for name in ["pivot", "lucky_guess", "chain", "random", "eos_hazard"] {
        let tree = (zoo::find(name).expect("listed").build)();
        let (policy, frozen) = (Tabular::random(&tree, 1, 0.8), Tabular::random(&tree, 2, 0.8));
        let (now, reference) = (Oracle::new(&tree, &policy), Oracle::new(&tree, &frozen));
        for (kl, of) in [
            ("k1", None),
            ("k2", Some(reverse as fn(&[f64], &[f64]) -> Vec<f64>)),
            ("k3", Some(forward)),
            ("ratio_k3", Some(reverse)),
        ] {
            let update = |beta: f64| {
                let method = method("rloo", &format!("beta={beta} kl={kl}"));
                let situation =
                    Situation { reference: Some(&frozen), ..Situation::on_policy(&tree, &policy, 2) };
                implied(method.as_ref(), &situation).expect("feasible").update
            };
            let (without, with) = (update(0.0), update(1.0));
            for node in tree.nodes() {
                let edges = tree.edges_of(node);
                let want = of.map_or(vec![0.0; edges.len()], |of| {
                    of(&now.probs[edges.clone()], &reference.probs[edges.clone()])
                });
                for (e, want) in edges.zip(want) {
                    // The loss is minimised: its gradient is what the update loses.
                    assert!((without[e] - with[e] - now.visit[node] * want).abs() < 1e-12, "{name} {kl}");
                }
            }
        }
    }
}
