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
    title: "k3 as a loss descends the other KL; k2 and ratio·k3 descend KL(π||ref)",
    claim: "PPO is combined with a KL-divergence regularizer on the initial, pretrained policy (also called the referent policy) π_ref ≔ π_θ0, i.e., ℓ_KL = D_KL(π_θ||π_ref)",
    source: "GRPO-lambda, section 2; Algorithms 1, 2: ℓ_GRPO-λ ← ℓ_GRPO-λ + β·ℓ_KL (estimator not given; k3 in DeepSeekMath and TRL)",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
