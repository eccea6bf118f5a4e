//! `credit_profile`: what each reading of GRPO-lambda weighs each token with, on-policy.

mod figures;
mod findings;
mod measure;
mod reading;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "credit_profile",
    title: "How much does each token weigh under every reading of GRPO-λ?",
    claim: "\"A less rigorous explanation of ϵ-weight variant is that the loss at each step (token) essentially gets reweighted implicitly with ϵ-trace. ϵ-weight does this reweighting of the loss explicitly.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Appendix A.3; Section 3.2, Section 4.2, Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
