//! Claim `atlas_learning`: which names are one update on policy, and what exact values buy.

use grpo_lambda::learner::iterate;
use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, compare, implied};
use grpo_lambda_mdp::zoo::{self, Family};
use grpo_lambda_mdp::{Oracle, TabularLearner};

/// The logits after some updates on `eos_hazard`, whose responses differ in length.
fn learned(words: &str) -> Vec<f64> {
    let family = zoo::EosHazard { horizon: 5, ..zoo::EosHazard::default() };
    let tree = family.tree().expect("knobs in range");
    let (name, settings) = words.split_once(' ').unwrap_or((words, ""));
    let method = methods::parse(name, settings).expect("valid").method;
    let mut learner = TabularLearner::new(&tree, family.initial(&tree), 0.5, 3);
    for _ in 0..12 {
        let Ok(_) = iterate(&mut learner, method.as_ref(), &[()], 8, 1);
    }
    learner.policy().logits.clone()
}

fn apart(a: &str, b: &str) -> f64 {
    let gap = |(x, y): (&f64, &f64)| (x - y).abs();
    learned(a).iter().zip(&learned(b)).map(gap).fold(0.0, f64::max)
}

#[test]
fn on_policy_with_one_prompt_and_one_step_these_names_are_one_update() {
    let token_mean = "grpo reduction=token_mean";
    for same in ["grpo_batch_std", "dapo", "bnpo", "cispo"] {
        assert!(apart(token_mean, same) < 1e-9, "{same}");
    }
    let response_mean = "grpo reduction=response_mean";
    for same in ["gspo", "gspo_token"] {
        assert!(apart(response_mean, same) < 1e-9, "{same}");
    }
    assert!(apart("reinforce_pp", "reinforce_pp_baseline") < 1e-9);
    for other in [response_mean, "rloo", "reinforce_pp", "grpo_lambda", "grpo_lambda clamp=none"] {
        assert!(apart(token_mean, other) > 1e-3, "{other}");
    }
}

#[test]
fn exact_values_raise_the_signal_to_noise_of_an_unbiased_update() {
    for name in ["pivot", "lucky_guess", "noisy"] {
        let entry = zoo::find(name).expect("of the zoo");
        let tree = (entry.build)();
        let policy = (entry.initial)(&tree);
        let oracle = Oracle::new(&tree, &policy);
        let comparison = |method: &str, settings: &str| {
            let method = methods::parse(method, settings).expect("valid").method;
            let update = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, 8));
            compare(&update.expect("feasible"), &oracle)
        };
        let outcome = comparison("rloo", "reduction=response_sum");
        let values = comparison("vine_ppo", "reduction=response_sum");
        assert!(outcome.cosine > 1.0 - 1e-9 && values.cosine > 1.0 - 1e-9, "{name}: both are unbiased");
        assert!(values.signal_to_noise > outcome.signal_to_noise, "{name}: {values:?} {outcome:?}");
    }
}
