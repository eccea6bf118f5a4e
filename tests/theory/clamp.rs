//! The clamp of advantages at -0.1.

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Expected, Situation, compare, cosine, implied};
use grpo_lambda_mdp::{Oracle, Rules, Tabular, Tree, zoo};

fn update(name: &str, settings: &str, tree: &Tree, policy: &Tabular, group: usize) -> Expected {
    let method = methods::parse(name, &format!("reduction=response_sum {settings}")).expect("valid").method;
    implied(method.as_ref(), &Situation::on_policy(tree, policy, group)).expect("feasible")
}

/// The multiple of `∇p` by which a prompt moves the policy, found by the oracle.
fn weight(p: f64, clamp: &str, group: usize) -> f64 {
    let tree = Rules::new(["right", "wrong", "EOS"], 1)
        .build(|_| vec![0, 1], |response, _| f64::from(response == [0]))
        .expect("valid");
    let policy = Tabular::from_weights(&tree, |_, edge| if edge == 0 { p } else { 1.0 - p });
    let found = compare(
        &update("grpo", &format!("clamp={clamp}"), &tree, &policy, group),
        &Oracle::new(&tree, &policy),
    );
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
fn a_group_half_right_is_left_with_a_push_of_3_34() {
    let sum = |right: usize, clamp| {
        let z = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
        let rewards: Vec<_> = (0..8).map(|i| Some(f64::from(i < right))).collect();
        z.of_batch(&[rewards])[0].iter().sum::<f64>()
    };
    assert!((sum(4, Some(-0.1)) - 3.34).abs() < 0.005);
    for right in 0..=8 {
        assert!(sum(right, None).abs() < 1e-14);
        assert_eq!(sum(right, Some(-0.1)) > 1.0, (1..8).contains(&right), "every mixed group pushes up");
    }
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
fn a_prompt_solved_95_percent_of_the_time_falls_from_2_313_to_0_216() {
    for (p, clamp, want) in [
        (0.05, "none", 2.3127),
        (0.25, "none", 1.8948),
        (0.5, "none", 1.7355),
        (0.95, "none", 2.3127),
        (0.95, "-0.1", 0.2156),
        (0.05, "-0.1", 2.2272),
    ] {
        assert!((weight(p, clamp, 8) - want).abs() < 5e-5, "{p} {clamp}");
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

/// Cosine of the clamped and the unclamped update on a named MDP, and of the clamped one with `∇J`.
fn turned(mdp: &str, name: &str, settings: &str) -> (f64, f64) {
    let entry = zoo::find(mdp).expect("named");
    let tree = (entry.build)();
    let policy = (entry.initial)(&tree);
    let [free, clamped] =
        ["none", "-0.1"].map(|c| update(name, &format!("clamp={c} {settings}"), &tree, &policy, 8).update);
    (cosine(&free, &clamped), cosine(&clamped, &Oracle::new(&tree, &policy).grad_j()))
}

#[test]
fn with_binary_rewards_and_uniform_weights_no_direction_changes() {
    for mdp in
        ["pivot", "lucky_guess", "eos_hazard", "fork", "needle", "deceptive", "chain", "noisy", "parity"]
    {
        assert!((turned(mdp, "grpo", "").0 - 1.0).abs() < 1e-12, "{mdp}");
    }
}

#[test]
fn with_real_rewards_the_direction_changes() {
    assert!(turned("chain_partial", "grpo", "").0 < 0.99);
}

#[test]
fn with_traces_and_varying_lengths_the_direction_changes_and_can_leave_the_gradient() {
    assert!(turned("eos_hazard", "grpo_lambda", "lambda=0.8").0 < 0.9);
    let (cosine, with_gradient) = turned("full", "grpo_lambda", "lambda=0.8 style=both");
    assert!(cosine < -0.4 && with_gradient < -0.4, "{cosine} {with_gradient}");
    // With responses of one length the weights of a position are the same in all of them.
    assert!((turned("noisy", "grpo_lambda", "lambda=0.8 style=both").0 - 1.0).abs() < 1e-12);
}
