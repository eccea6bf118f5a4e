//! `theorem_1`: the forward and the backward view of GAE are the same sum.

mod figures;
mod findings;
mod measure;
mod policy_gradients;
mod rationals;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "theorem_1",
    title: "Is GAE's sum of advantages a sum of TD errors times traces?",
    claim: "\"The policy gradient estimate ĝ using traces from generalized advantage estimation A_GAE can be re-parameterized with a critic-free TD-error δ_t such that ĝ = Σ_{t=0..∞} A_GAE(s_t) ∇_θ log π_θ(a_t|s_t) = Σ_{t=0..∞} δ_t Σ_{l=0..t} (γλ)^l ∇_θ log π_θ(a_{t-l}|s_{t-l}).\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Theorem 1; Appendix A.2, Eq. 6-16",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
