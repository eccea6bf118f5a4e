//! `length_bias`: what weights that depend on the length of a response do to preferences.
//!
//! ```text
//! T3   all responses of length T:   E[(r - V0) Σ_k c_k ∇_k] = Σ_k c_k ∇_(k)J          ∇_(k): logits at depth k
//! T4   lengths vary:                ω(s,a) = E[(r - V0) c_k(T) | s,a]  is not  κ Q(s,a) + const(s)
//! G4   weight 1/T_i:                E[g] = (G-1)/G ( ∇E[r/T] - V0 ∇E[1/T] )
//! ```

mod figures;
mod findings;
mod fixed_length;
mod fork;
mod measure;
mod per_response;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "length_bias",
    title: "Does the trace keep the order of answers of different lengths?",
    claim: "Does a weight that depends on the length of a response keep the better of two answers in front?",
    source: "ours; the paper: \"drastically improving the credit assignment through rapid value propagation towards earlier tokens\" (section 1)",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
