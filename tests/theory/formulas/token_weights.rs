use grpo_lambda::methods;
use grpo_lambda::token_weights::{mean_token_weight, token_weights};

#[test]
fn weights_are_those_computed_by_hand() {
    let sigma = |x: f64| 1.0 / (1.0 + (-x).exp());
    let v = 1.0 + sigma(-2.0); // 1 + sigma(log pi - 1) at log pi = -1
    for (method, settings, len, expected) in [
        ("grpo", "", 4, vec![1.0; 4]),
        ("grpo", "reduction=token_mean clamp=-0.1", 3, vec![1.0; 3]),
        ("dr_grpo", "max_length=8", 2, vec![0.25; 2]), // 2 of 8 tokens
        ("rloo", "", 5, vec![5.0; 5]),                 // a sum where the others have a mean
        ("grpo_lambda", "lambda=0.9", 3, vec![2.71, 1.9, 1.0]),
        ("grpo_lambda", "lambda=0.5 style=both", 4, vec![4.0, 2.0, 1.5, 1.0]),
        ("grpo_lambda", "lambda=0.9 delta=terminal", 3, vec![0.81, 0.9, 1.0]),
        ("grpo_lambda", "lambda=0.5 update=weight soft_gradient=false", 2, vec![v, 1.5 * v]),
        ("grpo_lambda", "lambda=0.9 normalise=mean", 3, vec![2.71 / 1.87, 1.9 / 1.87, 1.0 / 1.87]),
        ("bnpo_beta", "", 2, vec![1.0; 2]),
        ("gspo", "reduction=response_sum", 3, vec![3.0; 3]),
        ("cispo", "", 3, vec![1.0; 3]),
        ("reinforce_pp", "gamma=0.5 whiten=false reward_beta=0.1", 3, vec![0.25, 0.5, 1.0]),
        ("high_entropy", "top_fraction=0", 3, vec![1.0; 3]),
        ("high_entropy", "entropy_threshold=100", 3, vec![1.0; 3]),
        ("optimal_token_baseline", "", 3, vec![1.0; 3]),
        // The root's step from 1/2 to 1 comes on top of the outcome of 1/2, at the first token alone.
        ("tempo", "", 3, vec![1.0, 0.5, 0.5]),
        ("spo_tree", "", 3, vec![1.0, 0.0, 0.0]),
        ("tree_rl", "", 2, vec![1.0, 0.5]),
        // Rows 1 and (1/3, 2/3) by column.
        ("p_trace_reconstructed", "lambda=0.5", 2, vec![4.0 / 3.0, 2.0 / 3.0]),
        ("s_trace_reconstructed", "lambda=0.5 normalise_rows=false", 3, vec![1.75, 1.5, 1.0]),
        ("oar_p", "", 3, vec![1.0; 3]),
        ("ppo", "whiten=false lambda=0.5", 3, vec![0.25, 0.5, 1.0]),
        ("vine_ppo", "", 3, vec![1.0; 3]),
        ("spo_chain", "", 3, vec![1.0; 3]),
        ("spo_chain", "sure=0.3", 3, vec![0.0; 3]), // e^-1 is more
        ("rlsd", "", 3, vec![1.0; 3]),
        ("shear", "", 3, vec![0.0; 3]),
        ("ridge_rloo", "", 3, vec![3.0; 3]), // groups of two: RLOO
        // The KL term pulls on tokens of its own accord; k1 does so at every distance.
        ("grpo", "beta=0.7 kl=k1", 2, vec![1.0; 2]),
    ] {
        let configured = methods::parse(method, settings).expect("valid");
        let found = token_weights(&configured, len);
        let close = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close && found.len() == len, "{method} {settings}: {found:?}, not {expected:?}");
        let mean = expected.iter().sum::<f64>() / len as f64;
        assert!((mean_token_weight(&configured, len) - mean).abs() < 1e-12);
    }
}

#[test]
fn every_method_has_weights() {
    for spec in methods::REGISTRY {
        let configured = methods::parse(spec.name, "").expect("defaults");
        assert!(token_weights(&configured, 6).iter().all(|w| w.is_finite()), "{}", spec.name);
    }
}
