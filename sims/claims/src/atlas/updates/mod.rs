//! `atlas_updates`: the expected update of every entry on every task against the policy gradient, exactly where a sum is feasible.
//!
//! One update is one group of `G` responses to one prompt, on-policy, from the task's start policy. A row is an entry on a task at a group size.

mod anatomy;
mod expectation;
mod findings;
mod measure;
mod overall;
mod row;
mod shown;

use crate::experiment::{Experiment, Parts};
use findings::findings;
use measure::{Atlas, Size, measure};
pub use shown::excerpt;
pub(crate) use shown::on_page;
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_updates",
    title: "How does every method's update compare with the policy gradient, in expectation and in spread?",
    claim: "Finer credit than one number per response moves the policy along the gradient of expected reward",
    source: "Our question, on the premise of GRPO-λ, P-trace and S-trace, OAR, TEMPO and their rivals",
    run: |context| PARTS.report(context),
};

const PARTS: Parts<Atlas> =
    Parts { measure: |context| measure(context, &Size::new(context.full)), findings, tables, figures };

#[cfg(test)]
mod tests;
