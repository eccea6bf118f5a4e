use grpo_lambda_mdp::{Oracle, Tree, sample_reward, zoo, zoo::Family};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A tree of binary rewards whose responses hold `p`, and a fresh stream.
fn holding(p: f64) -> (Tree, ChaCha8Rng) {
    let tree = zoo::Chain::default().tree().expect("defaults").with_rewards(|_| p);
    (tree, ChaCha8Rng::seed_from_u64(1))
}

#[test]
fn a_binary_reward_is_drawn_with_its_probability_and_a_certain_one_draws_nothing() {
    let (tree, mut rng) = holding(0.25);
    let n = 10_000;
    let drawn: Vec<f64> = (0..n).map(|_| sample_reward(&tree, 0, &mut rng)).collect();
    assert!(drawn.iter().all(|r| [0.0, 1.0].contains(r)));
    let mean = drawn.iter().sum::<f64>() / f64::from(n);
    // Five standard errors.
    assert!((mean - 0.25).abs() < 5.0 * (0.25f64 * 0.75 / f64::from(n)).sqrt(), "{mean}");
    for certain in [0.0, 1.0] {
        let (tree, mut rng) = holding(certain);
        assert_eq!(sample_reward(&tree, 0, &mut rng), certain);
        assert_eq!(rng.next_u64(), ChaCha8Rng::seed_from_u64(1).next_u64(), "nothing was drawn");
    }
}

#[test]
fn other_rewards_must_be_of_the_same_kind() {
    for wrong in [-0.1, 1.1, f64::NAN] {
        assert!(std::panic::catch_unwind(|| holding(wrong)).is_err(), "{wrong}");
    }
    let (tree, _) = holding(1.0);
    let policy = zoo::Chain::default().initial(&tree);
    assert!((Oracle::new(&tree, &policy).j - 1.0).abs() < 1e-12);
}
