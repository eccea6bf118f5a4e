use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Comparison, Situation, compare, implied};
use grpo_lambda_mdp::{Oracle, zoo};

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// `E|c g - ∇J|² = c² (|m|² + tr Cov) - 2 c <m, ∇J> + |∇J|²`, over a grid of multiples.
#[test]
fn the_mean_squared_error_is_the_least_over_all_multiples() {
    for (task, method, settings) in [
        ("pivot", "rloo", ""),
        ("eos_hazard_dependent", "grpo_lambda", "lambda=0.99"),
        ("fork", "grpo_lambda", ""),
    ] {
        let named = zoo::find(task).expect("known");
        let tree = (named.build)();
        let policy = (named.initial)(&tree);
        let method = methods::parse(method, settings).expect("valid").method;
        let expected = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, 4)).expect("small");
        let oracle = Oracle::new(&tree, &policy);
        let (m, grad) = (&expected.update, oracle.grad_j());
        let square = dot(m, m) + expected.total_variance();
        let error = |c: f64| c * c * square - 2.0 * c * dot(m, &grad) + dot(&grad, &grad);
        let unit = (dot(&grad, &grad) / square).sqrt();
        let least = (0..=200_000).map(|i| error(unit * f64::from(i) * 1e-5)).fold(f64::INFINITY, f64::min);
        let found = compare(&expected, &oracle).mean_squared_error();
        assert!((found - least / dot(&grad, &grad)).abs() < 1e-9, "{task}: {found} for {least}");
    }
}

#[test]
fn an_update_that_points_away_is_no_help_at_any_rate() {
    let at = |cosine, signal_to_noise| Comparison {
        cosine,
        scale: 1.0,
        bias: 0.0,
        sign_agreement: 1.0,
        signal_to_noise,
    };
    assert_eq!(at(-0.9, f64::INFINITY).mean_squared_error(), 1.0);
    assert_eq!(at(1.0, f64::INFINITY).mean_squared_error(), 0.0);
    assert_eq!(at(1.0, 1.0).mean_squared_error(), 0.5);
    assert_eq!(at(1.0, 0.0).mean_squared_error(), 1.0);
}
