//! The on-policy weight of each token, from the registered method's gradient.

use crate::laboratory::method;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods;
use proptest::prelude::*;

/// `dlogps` of GRPO-lambda over GRPO's, token by token, on a right and a wrong response of the same log-probabilities.
fn weights(settings: &str, logps: &[f64]) -> Vec<f64> {
    let group = Group { responses: [1.0, 0.0].map(|r| Response::graded(logps.to_vec(), r)).to_vec() };
    let gradient = |name, settings: &str| {
        let method = method(name, settings);
        methods::evaluate(method.as_ref(), std::slice::from_ref(&group), &[logps.to_vec(), logps.to_vec()])
            .dlogps
            .swap_remove(0)
    };
    let ours = gradient("grpo_lambda", &format!("clamp=none {settings}"));
    let grpo = gradient("grpo", "reduction=token_mean");
    ours.iter().zip(&grpo).map(|(a, b)| a / b).collect()
}

fn flat(len: usize) -> Vec<f64> {
    vec![-0.5; len]
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-11 * (1.0 + b.abs())
}

proptest! {
    #[test]
    fn recent_weighs_token_k_with_a_geometric_sum_of_what_follows(len in 1usize..=300, q in 0.0..0.9999f64) {
        for (k, c) in weights(&format!("lambda={q}"), &flat(len)).iter().enumerate() {
            prop_assert!(close(*c, (1.0 - q.powi((len - k) as i32)) / (1.0 - q)));
        }
    }

    #[test]
    fn both_adds_a_head_to_a_symmetric_sum(len in 1usize..=300, q in 0.0..0.9999f64) {
        for (k, c) in weights(&format!("lambda={q} style=both"), &flat(len)).iter().enumerate() {
            let symmetric = (1.0 - q.powi(k.min(len - 1 - k) as i32 + 1)) / (1.0 - q);
            let head = (len - 1).saturating_sub(2 * k) as f64 * q.powi(k as i32);
            prop_assert!(close(*c, symmetric + head));
        }
    }

    #[test]
    fn epsilon_weight_is_epsilon_trace_reversed_in_time(len in 1usize..=300, q in 0.0..=1.0f64) {
        let trace = weights(&format!("lambda={q}"), &flat(len));
        let weight = weights(&format!("lambda={q} update=weight soft_gradient=false"), &flat(len));
        // The soft clamp multiplies by a constant where log π is constant.
        let v = 1.0 + 1.0 / (1.0 + 1.5f64.exp());
        for t in 0..len {
            prop_assert!(close(weight[t], v * trace[len - 1 - t]));
        }
    }

    #[test]
    fn normalised_rows_or_weights_leave_the_mass_of_grpo(len in 1usize..=200, q in 0.0..=1.0f64) {
        for settings in ["normalise=rows", "normalise=mean", "normalise=rows style=both", "normalise=mean style=both"] {
            let found = mean(&weights(&format!("lambda={q} {settings}"), &flat(len)));
            prop_assert!(close(found, 1.0));
        }
    }
}

#[test]
fn the_paper_s_lengths_at_lambda_0_99() {
    // (T, style, c_0, c_T/4, c_T/2, c_3T/4, c_T-1, mean)
    for (len, style, want) in [
        (256, "recent", [92.4, 85.5, 72.4, 47.4, 1.0, 64.3]),
        (256, "both", [256.0, 114.7, 72.4, 47.4, 1.0, 87.8]),
        (768, "recent", [100.0, 99.7, 97.9, 85.5, 1.0, 87.1]),
        (768, "both", [768.0, 141.2, 97.9, 85.5, 1.0, 149.4]),
    ] {
        let w = weights(&format!("lambda=0.99 style={style}"), &flat(len));
        let found = [w[0], w[len / 4], w[len / 2], w[3 * len / 4], w[len - 1], mean(&w)];
        for (found, want) in found.into_iter().zip(want) {
            assert!((found - want).abs() < 0.051, "{len} {style}: {found} {want}");
        }
    }
}

/// The gradient of the KL term is untouched by the trace (`identities::kl`), so that beta acts by the mean weight weaker.
#[test]
fn beta_acts_64_times_weaker_at_256_tokens() {
    let effective = 0.04 / mean(&weights("lambda=0.99", &flat(256)));
    assert!((effective - 6.2e-4).abs() < 0.05e-4, "{effective}");
}
