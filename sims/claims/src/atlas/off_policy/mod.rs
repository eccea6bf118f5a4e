//! `atlas_off_policy`: what is left of every method when the policy that sampled is not the one that is updated.

mod findings;
mod measure;
mod pairs;
mod row;
mod shown;

use crate::experiment::{Experiment, Parts};
use findings::findings;
use measure::measure;
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_off_policy",
    title: "Off-policy: what do stale samplers, clips and traces do to the update?",
    claim: "clipping π_ratio between 1-ϵ and 1+ϵ discourages π_θ from changing too much from π_θold; P-trace: \"partial trust region preservation\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), section 2; P-trace (arXiv 2605.05965), abstract",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
