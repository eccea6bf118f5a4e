//! `clamp_parts`: the clamp taken apart on a transformer that learns single-digit addition.
//!
//! The runs are recorded: `cargo run --release -p grpo-lambda-llm --example control -- clamp FILE SEEDS` trains them, and this claim reads its file. The
//! arms are those of `clamp_gain`, whose tabular twin of the task predicts what is measured here.

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
    id: "clamp_parts",
    title: "On a transformer that learns addition: which part of the clamp gains, and at which rates?",
    claim: "Clamped advantages make a transformer learn addition better, by how they re-weight prompts",
    source: "ours; `clamp_gain` on a transformer",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
