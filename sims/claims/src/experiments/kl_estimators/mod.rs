//! `kl_estimators`: the KL gradient that each estimator is in expectation, when it is differentiated as a loss.
//!
//! ```text
//! per state, actions drawn from π:      E[∇k1] = 0,  E[∇k2] = E[∇(ρ k3)] = ∇KL(π||ref),  E[∇k3] = ∇KL(ref||π)
//! ∇KL(π||ref)_a = π_a (log π_a/ref_a - KL),      ∇KL(ref||π)_a = π_a - ref_a               (softmax logits)
//! ```
//! Over whole responses the loss sums these with the visits of π held fixed, which is not the gradient of the KL
//! between the distributions of responses.

mod measure;
mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::{EXACT, cosine, difference, gap, norm};
use grpo_lambda::kl::Kl;
use measure::{Responses, States, responses, states};
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "kl_estimators",
    title: "Which KL does each estimator descend when it is used as a loss?",
    claim: "Which divergence do k1, k2, k3 and ratio·k3 descend as losses? The paper names no estimator: PPO is \
        \"combined with a KL-divergence regularizer [..] ℓ_KL = D_KL(π_θ||π_ref)\"",
    source: "Our question, on section 2 of the paper; k3 is the estimator of DeepSeekMath and TRL. Compare arXiv \
        2506.09477",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    states: States,
    hand: Hand,
    responses: Responses,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let pairs = if context.full { 2000 } else { 300 };
    (context.progress)(0.0, "one state");
    let states = states(pairs, context.seed)?;
    (context.progress)(0.5, "responses");
    let responses = responses(context.seed)?;
    Ok(Numbers { states, hand: hand(), responses })
}

const ESTIMATORS: [(&str, Kl); 4] =
    [("k1", Kl::K1), ("k2", Kl::K2), ("k3", Kl::K3), ("ratio_k3", Kl::RatioK3)];
/// The first estimator: the mean of its gradient is 0 and has no direction.
const K1: &str = ESTIMATORS[0].0;

/// The gradient of one estimator with respect to the logits of one state: mean and trace of the covariance, actions
/// drawn from `old`.
fn moments(kl: Kl, pi: &[f64], old: &[f64], reference: &[f64]) -> (Vec<f64>, f64) {
    let mut mean = vec![0.0; pi.len()];
    let mut second = 0.0;
    for a in 0..pi.len() {
        let slope = kl.at(pi[a].ln(), old[a].ln(), reference[a].ln()).slope;
        for (b, m) in mean.iter_mut().enumerate() {
            let step = slope * (f64::from(u8::from(a == b)) - pi[b]);
            *m += old[a] * step;
            second += old[a] * step * step;
        }
    }
    let variance = second - mean.iter().map(|m| m * m).sum::<f64>();
    (mean, variance)
}

/// The mean of an estimator, actions drawn from `pi`.
fn value(kl: Kl, pi: &[f64], reference: &[f64]) -> f64 {
    (0..pi.len()).map(|a| pi[a] * kl.at(pi[a].ln(), pi[a].ln(), reference[a].ln()).value).sum()
}

/// `KL(p||q)`.
fn divergence(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
}

/// `∇KL(π||ref)` with respect to the logits of π.
fn reverse(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    let kl = divergence(pi, reference);
    pi.iter().zip(reference).map(|(p, r)| p * ((p / r).ln() - kl)).collect()
}

/// `∇KL(ref||π)` with respect to the logits of π.
fn forward(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    difference(pi, reference)
}

/// The distributions. A published table gives only the gradients, to four digits; these two are the one solution of
/// `π - ref = (0.1509, 0.2927, -0.4436)` and `∇KL(π||ref) = (0.0033, 0.2365, -0.2398)`, by Newton's method from every
/// point of a grid.
const PI: [f64; 3] = [0.404_936_202_1, 0.475_715_477_3, 0.119_348_320_6];
const REF: [f64; 3] = [0.254_036_202_1, 0.183_015_477_3, 0.562_948_320_6];
/// Expected gradients as published: true and `k2`, `ratio_k3`; `k3`.
const PUBLISHED_REVERSE: [f64; 3] = [0.0033, 0.2365, -0.2398];
const PUBLISHED_K3: [f64; 3] = [0.1509, 0.2927, -0.4436];

/// A worked case: one state with three actions.
#[derive(Default)]
struct Hand {
    rows: Vec<Gradient>,
    /// The largest difference from the published table.
    off: f64,
    /// The cosine of the published rows of k3 and of the true gradient.
    published_cosine: f64,
}

struct Gradient {
    name: &'static str,
    gradient: Vec<f64>,
    /// `None` if it is no expectation.
    variance: Option<f64>,
    /// Cosine with `∇KL(π||ref)`; `None` if the gradient is 0.
    cosine: Option<f64>,
}

impl Gradient {
    fn new(name: &'static str, gradient: Vec<f64>, variance: Option<f64>) -> Gradient {
        let cosine = (norm(&gradient) > EXACT).then(|| cosine(&gradient, &reverse(&PI, &REF)));
        Gradient { name, gradient, variance, cosine }
    }
}

fn hand() -> Hand {
    let want = reverse(&PI, &REF);
    let mut off = gap(&want, &PUBLISHED_REVERSE);
    let mut rows = vec![
        Gradient::new("true ∇KL(π||ref)", want, None),
        Gradient::new("true ∇KL(ref||π)", forward(&PI, &REF), None),
    ];
    let published = [[0.0; 3], PUBLISHED_REVERSE, PUBLISHED_K3, PUBLISHED_REVERSE];
    for ((name, kl), published) in ESTIMATORS.into_iter().zip(published) {
        let (mean, variance) = moments(kl, &PI, &PI, &REF);
        off = off.max(gap(&mean, &published));
        rows.push(Gradient::new(name, mean, Some(variance)));
    }
    Hand { rows, off, published_cosine: cosine(&PUBLISHED_K3, &PUBLISHED_REVERSE) }
}
