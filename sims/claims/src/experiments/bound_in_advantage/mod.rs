//! `bound_in_advantage`: what adding the bound of Lemma 1 to the advantage does.
//!
//! ```text
//! A'_t = A + b(s_t),      b(s_t) = 1 - Π_{k<t} (1 - π(EOS|s_k))          (depends on the prefix only)
//! no trace:   E[b(s_t) ∇log π(a_t|s_t)] = 0: a baseline
//! trace M:    token k has the weight Σ_t M[t,k] (A + b(s_t)), and b(s_t) for t > k depends on a_k
//! ```

mod effect;
mod figures;
mod findings;
mod measure;
mod tables;
mod with_bound;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "bound_in_advantage",
    title: "What does adding Lemma 1's bound to the advantage change?",
    claim: "Does adding the bound of Lemma 1 to the advantage reinforce unrewarded actions? The paper: \"we surmise this might be over-correcting the bias term\"",
    source: "ours; GRPO-lambda, appendix A.2, relation with GRPO's normalized advantage estimation",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
