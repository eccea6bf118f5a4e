//! The clamp of advantages at -0.1.

use crate::laboratory::{coin, method};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, compare, implied};

/// The multiple of `∇p` by which a prompt moves the policy, found by the oracle.
fn weight(p: f64, clamp: &str, group: usize) -> f64 {
    let (tree, policy) = coin(p);
    let settings = format!("reduction=response_sum clamp={clamp}");
    let method = method("grpo", &settings);
    let update = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, group)).expect("feasible");
    let found = compare(&update, &Oracle::new(&tree, &policy));
    assert!((found.cosine - 1.0).abs() < 1e-12);
    found.scale
}

/// `Σ_k Bin(k; G-1, p) [A(k+1 right, r=1) - A(k right, r=0)]`, z-scores written out.
fn formula(p: f64, clamp: f64, g: u32) -> f64 {
    let n = f64::from(g);
    let advantage = |right: u32, own: f64| {
        if right == 0 || right == g {
            return 0.0;
        }
        let k = f64::from(right);
        ((own - k / n) / ((k * (n - k) / (n * (n - 1.0))).sqrt() + 1e-4)).max(clamp)
    };
    let mut choose = 1.0;
    (0..g)
        .map(|k| {
            let term = choose * p.powi(k as i32) * (1.0 - p).powi((g - 1 - k) as i32);
            choose *= f64::from(g - 1 - k) / f64::from(k + 1);
            term * (advantage(k + 1, 1.0) - advantage(k, 0.0))
        })
        .sum()
}

#[test]
fn the_expected_update_is_the_binomial_formula_times_grad_p() {
    for p in [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99] {
        for g in [2, 3, 8, 16] {
            assert!(
                (weight(p, "none", g as usize) - formula(p, f64::NEG_INFINITY, g)).abs() < 1e-11,
                "{p} {g}"
            );
            assert!((weight(p, "-0.1", g as usize) - formula(p, -0.1, g)).abs() < 1e-11, "{p} {g}");
        }
    }
}

#[test]
fn large_groups_approach_the_closed_form() {
    for p in [0.1, 0.5, 0.9] {
        let odds: f64 = p / (1.0 - p);
        let clamped = (1.0 / odds).sqrt() + odds.sqrt().min(0.1);
        assert!((weight(p, "-0.1", 256) / clamped - 1.0).abs() < 0.02, "{p}");
        assert!((weight(p, "none", 256) / (p * (1.0 - p)).sqrt().recip() - 1.0).abs() < 0.02, "{p}");
    }
    let (odds, limit) = (19.0f64, 0.329);
    assert!(
        ((1.0 / odds).sqrt() + 0.1 - limit).abs() < 1e-3
            && (1.0 / (0.95f64 * 0.05).sqrt() - 4.59).abs() < 0.01
    );
}
