//! On-policy weights of tokens.

use super::{CASES, method, times};
use crate::strategies::{Batch, batch, check, on_policy};
use crate::tolerance::{IDENTITY, assert_close};
use grpo_lambda::group::Response;
use grpo_lambda::trace::{Both, Recent, RowNormalised, Style, Trace, dense};
use std::cell::Cell;

/// The traces of `grpo_lambda`, with the settings that choose them.
fn traces() -> Vec<(&'static str, Box<dyn Trace>)> {
    let printed = |style| grpo_lambda::trace::AsPrinted { q: 0.9, floor: 0.05, style, max_length: None };
    let row = |style| grpo_lambda::trace::RowIndex { q: 0.9, floor: 0.05, style };
    vec![
        ("lambda=0.9", Box::new(Recent { q: 0.9 })),
        ("lambda=0.9 style=both", Box::new(Both { q: 0.9 })),
        ("lambda=0.9 floor=0.05 matrix=row_index", Box::new(row(Style::Recent))),
        ("lambda=0.9 floor=0.05 matrix=row_index style=both", Box::new(row(Style::Both))),
        ("lambda=0.9 floor=0.05 matrix=as_printed", Box::new(printed(Style::Recent))),
        ("lambda=0.9 floor=0.05 matrix=as_printed style=both", Box::new(printed(Style::Both))),
        ("lambda=0.9 normalise=rows", Box::new(RowNormalised(Recent { q: 0.9 }))),
        ("lambda=0.9 normalise=rows style=both", Box::new(RowNormalised(Both { q: 0.9 }))),
    ]
}

/// On-policy, the gradient of `words` divided by `-A/sum T` is `weights(trace matrix, log-probs)` for every trace.
fn on_policy_weights(words: &str, weights: impl Fn(&[Vec<f64>], &[f64]) -> Vec<f64>) {
    for (which, trace) in traces() {
        let method = method(&format!("grpo_lambda clamp=none {which} {words}"));
        let taught = Cell::new(0);
        check(CASES / 2, on_policy(), |batch| {
            let loss = batch.evaluate(&method);
            for (i, r) in batch.responses().enumerate() {
                let a = loss.advantages[i][0];
                let want = weights(&dense(trace.as_ref(), r.len()), &batch.logps[i]);
                let want = times(-a / batch.tokens() as f64, &want);
                assert_close(&loss.dlogps[i], &want, IDENTITY, &format!("{which} {words}"));
                taught.set(taught.get() + usize::from(a != 0.0));
            }
        });
        assert!(taught.get() > 50, "{which}: {}", taught.get());
    }
}

fn column(m: &[Vec<f64>], k: usize) -> f64 {
    m.iter().map(|row| row[k]).sum()
}

fn row(m: &[Vec<f64>], t: usize) -> f64 {
    m[t].iter().sum()
}

/// `v = 1 + sigma(log pi - 1)`.
fn soft(logp: f64) -> f64 {
    1.0 + 1.0 / (1.0 + (-(logp - 1.0)).exp())
}

/// `v'`.
fn soft_slope(logp: f64) -> f64 {
    let s = soft(logp) - 1.0;
    s * (1.0 - s)
}

#[test]
fn on_policy_grpo_lambda_is_grpo_with_each_token_weighted_by_its_column_sum() {
    on_policy_weights("", |m, _| (0..m.len()).map(|k| column(m, k)).collect());
}

#[test]
fn on_policy_epsilon_weight_gives_token_k_the_weight_mv_k_plus_c_k_v_prime_k() {
    // [C16], the matrix variant.
    on_policy_weights("update=weight", |m, logps| {
        let mv = |k: usize| (0..m.len()).map(|j| m[k][j] * soft(logps[j])).sum::<f64>();
        (0..m.len()).map(|k| mv(k) + column(m, k) * soft_slope(logps[k])).collect()
    });
}

#[test]
fn on_policy_epsilon_weight_read_elementwise_gives_w_k_v_k_plus_w_k_v_prime_k() {
    on_policy_weights("update=weight soft_clamp=elementwise", |m, logps| {
        (0..m.len()).map(|k| row(m, k) * (soft(logps[k]) + soft_slope(logps[k]))).collect()
    });
}

#[test]
fn on_policy_epsilon_weight_read_as_an_inner_product_gives_w_dot_v_plus_t_w_k_v_prime_k() {
    on_policy_weights("update=weight soft_clamp=inner", |m, logps| {
        let n = m.len();
        let inner: f64 = (0..n).map(|k| row(m, k) * soft(logps[k])).sum();
        (0..n).map(|k| inner + n as f64 * row(m, k) * soft_slope(logps[k])).collect()
    });
}

#[test]
fn without_the_soft_gradient_the_second_term_is_gone() {
    on_policy_weights("update=weight soft_gradient=false", |m, logps| {
        (0..m.len()).map(|k| (0..m.len()).map(|j| m[k][j] * soft(logps[j])).sum()).collect()
    });
    on_policy_weights("update=weight soft_gradient=false soft_clamp=elementwise", |m, logps| {
        (0..m.len()).map(|k| row(m, k) * soft(logps[k])).collect()
    });
    on_policy_weights("update=weight soft_gradient=false soft_clamp=inner", |m, logps| {
        vec![(0..m.len()).map(|k| row(m, k) * soft(logps[k])).sum(); m.len()]
    });
}

#[test]
fn the_soft_gradient_changes_the_gradient_but_not_the_loss() {
    let (on, off) =
        (method("grpo_lambda update=weight"), method("grpo_lambda update=weight soft_gradient=false"));
    check(CASES, batch(), |batch| assert_eq!(batch.evaluate(&on).value, batch.evaluate(&off).value));
}

#[test]
fn on_policy_epsilon_weight_with_tanh_has_the_same_form() {
    on_policy_weights("update=weight soft_function=tanh", |m, logps| {
        let t = |k: usize| (logps[k] - 1.0f64).tanh();
        let mv = |k: usize| (0..m.len()).map(|j| m[k][j] * (1.0 + t(j))).sum::<f64>();
        (0..m.len()).map(|k| mv(k) + column(m, k) * (1.0 - t(k) * t(k))).collect()
    });
}

#[test]
fn the_sigmoid_soft_clamp_lies_in_1_to_1_2689_with_a_slope_of_at_most_0_1966() {
    // Erratum E17: the substitute for log pi <= 0 is positive and nearly constant. Read off a single token.
    for logp in [-30.0, -5.0, -1.0, -0.1, 0.0] {
        let (v, slope) = (soft(logp), soft_slope(logp));
        assert!((1.0..=1.26895).contains(&v) && (0.0..=0.19662).contains(&slope));
        let batch = Batch::alone([1.0, 0.0].map(|r| Response::graded(vec![logp], r)).to_vec());
        let loss = batch.evaluate(&method("grpo_lambda update=weight clamp=none"));
        let weight = -loss.dlogps[0][0] * 2.0 / loss.advantages[0][0];
        assert!((weight - v - slope).abs() < IDENTITY);
    }
}

#[test]
fn normalise_mean_makes_on_policy_weights_average_one() {
    for (which, _) in traces().iter().filter(|(which, _)| !which.contains("normalise")) {
        let m = method(&format!("grpo_lambda clamp=none normalise=mean {which}"));
        check(CASES / 2, on_policy(), |batch| {
            let loss = batch.evaluate(&m);
            for (g, a) in loss.dlogps.iter().zip(&loss.advantages).filter(|(_, a)| a[0] != 0.0) {
                let total: f64 = g.iter().map(|g| -g * batch.tokens() as f64 / a[0]).sum();
                assert!((total / g.len() as f64 - 1.0).abs() < IDENTITY, "{which}: {total}");
            }
        });
    }
}

#[test]
fn normalise_mean_divides_each_response_by_its_mean_column_sum_on_and_off_policy() {
    let (plain, mean) = (method("grpo_lambda lambda=0.9"), method("grpo_lambda lambda=0.9 normalise=mean"));
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&plain), batch.evaluate(&mean));
        for (a, b) in a.dlogps.iter().zip(&b.dlogps) {
            let mass = Recent { q: 0.9 }.column_sums(a.len()).iter().sum::<f64>() / a.len() as f64;
            assert_close(a, &times(mass, b), IDENTITY, "gradient");
        }
    });
}
