use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Sampled, Situation, sampled};
use grpo_lambda_mdp::zoo;

fn simulated(task: &str, method: &str, groups: usize, seed: u64) -> Sampled {
    let named = zoo::find(task).expect("known");
    let tree = (named.build)();
    let policy = (named.initial)(&tree);
    let method = methods::parse(method, "").expect("valid").method;
    sampled(method.as_ref(), &Situation::on_policy(&tree, &policy, 4), groups, seed)
}

/// The spread of the noise over repeated simulations is the standard error that each of them states.
#[test]
fn the_error_of_the_noise_is_its_spread_over_simulations() {
    for task in ["pivot", "chain"] {
        let told: Vec<(f64, f64)> =
            (0..200).map(|seed| simulated(task, "rloo", 200, seed).noise.expect("told")).collect();
        let mean = |value: &dyn Fn(&(f64, f64)) -> f64| told.iter().map(value).sum::<f64>() / 200.0;
        let level = mean(&|t| t.0);
        let spread = mean(&|t| (t.0 - level).powi(2)).sqrt();
        let stated = mean(&|t| t.1);
        assert!((stated / spread - 1.0).abs() < 0.2, "{task}: {stated} stated, {spread} found");
    }
}

#[test]
fn noise_that_hides_the_mean_is_not_told() {
    assert_eq!(simulated("parity", "spo_tree", 100, 0).noise, None);
}
