use grpo_lambda_mdp::zoo::Noisy;
use grpo_lambda_mdp::{Oracle, Tabular};

#[test]
fn a_flip_scales_the_gradient_by_one_minus_twice_its_probability() {
    let clean = Noisy { flip: 0.0, length: 3 }.tree().unwrap();
    let noisy = Noisy { flip: 0.2, length: 3 }.tree().unwrap();
    let policy = Tabular::random(&clean, 1, 1.0);
    let gradients =
        Oracle::new(&clean, &policy).grad_j().into_iter().zip(Oracle::new(&noisy, &policy).grad_j());
    assert!(gradients.into_iter().all(|(a, b)| (0.6 * a - b).abs() < 1e-15));
}
