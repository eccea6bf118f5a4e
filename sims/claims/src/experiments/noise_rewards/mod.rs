//! `noise_rewards`: what a trace with clamped advantages does to a transformer whose rewards are fair coins.
//!
//! The runs are recorded: `cargo run --release -p grpo-lambda-llm --example control -- noise FILE 10` trains them, and this claim reads its file.
//! With `u` the update of a step of plain gradient descent at rate `lr` the expected length changes by
//!
//! ```text
//! lr <E[u], ∇E[T]>,    E[u] = ā g_λ / E[T],    g_λ = E[ Σ_k c_k(T) ∇log π_k ],    g_1 = ∇E[T]          (token mean; N of `length_bonus`)
//! ```
//! to first order. `g_λ` and `∇E[T]` are estimated at the start weights of each seed, from batches that are independent of each other.

mod figures;
mod findings;
mod measure;
pub(crate) mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "noise_rewards",
    title: "On a small transformer: do rewards that are coins lengthen responses?",
    claim: "With rewards that are independent of the response only a trace with clamped advantages lengthens responses",
    source: "ours; `length_bonus` on a transformer",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
