//! `lambda_direction`: which way λ trades bias for variance.
//!
//! The policy-gradient estimator of one response with generalised advantages,
//!
//! ```text
//! g(λ) = Σ_t A_t ∇log π(a_t|s_t),      A_t = Σ_l λ^l δ_{t+l},      δ_t = r_t + V̂(s_{t+1}) - V̂(s_t),   γ = 1
//! ```
//! has its mean and covariance computed by enumerating every response, for critics V̂ from exact to useless.

mod figures;
mod findings;
mod measure;
mod moments;
mod tables;

use crate::experiment::{Experiment, Parts};
use crate::sentences::SentenceId;
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lambda_direction",
    title: "In which direction does λ trade bias for variance?",
    claim: SentenceId::BiasAndVariance.sentence().statement,
    source: "GRPO-lambda, appendix A.2, after Eq. 16",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
