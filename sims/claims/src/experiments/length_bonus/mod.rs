//! `length_bonus`: the force on the length of responses that the trace and the clamp make together, whatever the reward says.
//!
//! On-policy, with γ = 1, style recent and a constant reduction GRPO-λ's update is `Σ_k c_k(T) A ∇_k`, where `∇_k = ∇log π(a_k|s_k)` and
//! `c_k(T) = Σ_(t=k)^(T-1) λ^(t-k)`.
//!
//! ```text
//! S   any A          E[update] = Σ_t E[ A 1{T>t} Σ_(k≤t) λ^(t-k) ∇_k ]                 every token that is written is paid A, discounted by λ
//! R   λ = 1          E[update] = ∇E[A T] - Σ_k k ∇_(k)E[A]                             ∇_(k): logits at depth k; A a function of the response
//! N   A noise        E[update] = ā Σ_t Σ_(k≤t) λ^(t-k) E[∇_k 1{T>t}],   ā = E[A]
//! B   noise, λ = 1   E[update] = ā ∇E[T]
//! ```
//!
//! **Proof.** S: `c_k(T) = Σ_(t≥k) λ^(t-k) 1{T>t}`; exchange the sums. R: at λ = 1, `c_k(T) = T - k`, and `E[A T Σ_k ∇_k] = ∇E[A T]`; what is
//! left, `-Σ_k k E[A ∇_k]`, is `-Σ_k k ∇_(k)E[A]`, since `E[A ∇_k]` is the part of `∇E[A]` that belongs to depth k. N: A is independent of
//! the tokens, so its mean comes out. B: whether token t is written is decided by the tokens before it, so that
//! `Σ_(k≤t) E[∇_k 1{T>t}] = ∇P(T>t)` (the term k = t is 0), and `Σ_t P(T>t) = E[T]`. ∎
//!
//! Without a clamp `ā = 0`: a group's advantages sum to 0. With one, `ā = E[max(A, clamp)] > 0` for every success rate in (0, 1): the clamp
//! pays for every token, and the trace hands the payment to the tokens before it.

mod figures;
mod findings;
mod identities;
mod measure;
mod rationals;
mod slope;
pub(crate) mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "length_bonus",
    title: "Does the update lengthen responses whatever the reward says?",
    claim: "With rewards that are independent of the responses the expected update is ā ∇E[T] at λ = 1, and ā > 0 under the clamp",
    source: "ours; GRPO-lambda's Eq. 1 and its clamp at -0.1",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
