//! `lambda_zero`: which readings of GRPO-lambda are GRPO at λ = 0, and where GAE becomes GRPO.

mod figures;
mod findings;
mod measure;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lambda_zero",
    title: "Which readings of GRPO-λ are GRPO at λ = 0?",
    claim: "\"GRPO-λ is also a generalization of GRPO, as it falls back to GRPO with λ=0.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
