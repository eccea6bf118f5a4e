//! `kl_estimators`: which KL gradient each estimator is in expectation, when it is differentiated as a loss.
//!
//! ```text
//! per state, actions drawn from π:      E[∇k1] = 0,  E[∇k2] = E[∇(ρ k3)] = ∇KL(π||ref),  E[∇k3] = ∇KL(ref||π)
//! ∇KL(π||ref)_a = π_a (log π_a/ref_a - KL),      ∇KL(ref||π)_a = π_a - ref_a               (softmax logits)
//! ```
//! Over whole responses the loss sums these with the visits of π held fixed, which is not the gradient of the KL between the
//! distributions of responses.

mod divergence;
mod figures;
mod findings;
mod hand;
mod measure;
mod responses;
mod states;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "kl_estimators",
    title: "Which KL does each estimator descend when it is used as a loss?",
    claim: "Which divergence do k1, k2, k3 and ratio·k3 descend as losses? The paper names no estimator: PPO is \"combined with a KL-divergence regularizer [..] ℓ_KL = D_KL(π_θ||π_ref)\"",
    source: "ours; section 2 of the paper; k3 is the estimator of DeepSeekMath and TRL. Compare arXiv 2506.09477",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
