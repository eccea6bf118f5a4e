//! `clamp_gain`: what the clamp does to learning, taken apart.
//!
//! In a group of `G` binary rewards, `k` of them right, clamped advantages are
//!
//! ```text
//! A_i = β_k (r_i - k/G) + α_k,      β_k = A(right) - A(wrong),   α_k = the mean of the group's clamped advantages
//! none         β_k as without the clamp, α_k = 0
//! re-weighting β_k of the clamp,         α_k = 0
//! offset       β_k as without the clamp, α_k of the clamp
//! both         the clamp
//! ```
//! With `p` the success rate of the prompt and one token weight per response the expected update of each is a multiple of `∇p`:
//!
//! ```text
//! E[ Σ_i A_i ∇log π_i ] = E[ β_k k (G-k)/G + α_k (k - G p) ] / (p (1-p))  ∇p
//! ```
//! **Proof.** Given its reward a response is independent of the others, with `E[∇log π | r=1] = ∇p/p` and `E[∇log π | r=0] = -∇p/(1-p)`.
//! Sum over the group: the wrong and right parts of `β_k (r_i - k/G)` give `β_k k (G-k)/G (1/p + 1/(1-p))`, those of `α_k` give
//! `α_k (k/p - (G-k)/(1-p))`. ∎ The offset alone would push nothing on average if `α_k` were a constant; it depends on `k`, and does.

mod figures;
mod findings;
mod measure;
mod optimiser;
mod run;
pub(crate) mod tables;
pub(crate) mod weights;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clamp_gain",
    title: "Where does the clamp's gain come from: prompts re-weighted, an offset, shared parameters or Adam?",
    claim: "The clamp at -0.1 helps a policy that answers many prompts from shared parameters",
    source: "ours; a transformer trained on addition gained from the clamp, tables did not",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
