//! `lemma_1`: the bound on `V(s_0) - V(s_t)`, as printed and corrected.
//!
//! ```text
//! printed     V(s_0) - V(s_t) <= 1 - Π_{k<t} (1 - π(EOS|s_k))              every prefix s_t
//! L1a         V(s_0) - γ^t E[V(S_t); τ>t] = E[γ^(τ-1) R; τ<=t] <= P(τ<=t)
//!             |V(s_0) - E[V(S_t)|τ>t]| <= P(τ<=t)                            γ = 1
//! L1b         P(τ>t) = E~[Π_{k<t} (1 - π(EOS|S_k))],  E~ under π renormalised without EOS
//! L1c         the stopped value process is a martingale whose spread grows from 0 to V0(1-V0)
//! ```

mod corrected;
mod figures;
mod findings;
mod hazard;
mod measure;
mod minimal;
mod prefixes;
mod shrink;
mod subtree;
mod tables;
mod values;

use crate::experiment::{Experiment, Parts};
use crate::sentences::SentenceId;
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lemma_1",
    title: "Is Lemma 1 true prefix by prefix, and is it true on average?",
    claim: SentenceId::ValueBound.sentence().statement,
    source: "GRPO-lambda, Lemma 1 (section 3.1, proof in appendix A.1, Eq. 3-5)",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
