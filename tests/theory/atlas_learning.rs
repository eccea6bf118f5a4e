//! Claim `atlas_learning`: what exact values buy.

use crate::laboratory::{method, of_zoo};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, compare, implied};

#[test]
fn exact_values_raise_the_signal_to_noise_of_an_unbiased_update() {
    for name in ["pivot", "lucky_guess", "noisy"] {
        let (tree, policy) = of_zoo(name);
        let oracle = Oracle::new(&tree, &policy);
        let comparison = |name: &str, settings: &str| {
            let method = method(name, settings);
            let update = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, 8));
            compare(&update.expect("feasible"), &oracle)
        };
        let outcome = comparison("rloo", "reduction=response_sum");
        let values = comparison("vine_ppo", "reduction=response_sum");
        assert!(outcome.cosine > 1.0 - 1e-9 && values.cosine > 1.0 - 1e-9, "{name}: both are unbiased");
        assert!(values.signal_to_noise > outcome.signal_to_noise, "{name}: {values:?} {outcome:?}");
    }
}
