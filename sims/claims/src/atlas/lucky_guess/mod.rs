//! `atlas_lucky_guess`: the motivating example of GRPO-lambda, a lucky guess after a flawed step, in exact numbers.

mod findings;
mod measure;
mod shown;

use crate::experiment::{Experiment, Parts};
use findings::findings;
use measure::measure;
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_lucky_guess",
    title: "A lucky guess after a flawed step: who lowers the flawed step, in expectation and in one group",
    claim: "When a lucky guess after a flawed step is rewarded, which methods lower the flawed step, and does a trace help?",
    source: "ours; the paper does not speak of lucky guesses",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
