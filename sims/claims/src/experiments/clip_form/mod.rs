//! `clip_form`: PPO's clip, the one Algorithms 1 and 2 print, and the two-sided one.

mod figures;
mod findings;
mod forms;
mod measure;
mod reuse;
mod tables;

use crate::experiment::{Experiment, Parts};
use figures::figures;
use findings::findings;
use measure::measure;
use tables::tables;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clip_form",
    title: "Is the clip printed in the algorithms PPO's?",
    claim: "Main text: \"ℓ_π = min(π^GAE_ratio(s_t) δ_t, clip(π^GAE_ratio(s_t), 1-ϵ, 1+ϵ) δ_t)\"; Algorithm 1: \"coef_2 ← clamp(coef_1, 1±ϵ_clip)\", \"ℓ ← -min(coef_1, coef_2) δ\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3 against Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};
