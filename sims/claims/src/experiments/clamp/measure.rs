//! What is computed: the sum of a group's advantages, the weight of a prompt and the direction of an expected update.

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage as Outcome, Scale, Std};

use super::direction::{ClampEffect, directions};
use super::prompt::{CLAMPS, GROUP, PromptWeight, prompt_weights};
use crate::experiment::Context;

pub(super) struct Numbers {
    pub(super) sums: Vec<Sum>,
    pub(super) prompts: Vec<PromptWeight>,
    pub(super) effects: Vec<ClampEffect>,
}

/// The sum of the advantages of a group of eight.
pub(super) struct Sum {
    pub(super) right: usize,
    pub(super) clamp: Option<f64>,
    pub(super) sum: f64,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let sums = (0..=GROUP).flat_map(|right| CLAMPS.map(|clamp| sum_of_advantages(right, clamp))).collect();
    (context.progress)(0.1, "prompt weights");
    let prompts = prompt_weights()?;
    (context.progress)(0.4, "directions");
    Ok(Numbers { sums, prompts, effects: directions()? })
}

fn sum_of_advantages(right: usize, clamp: Option<f64>) -> Sum {
    let z_scores = Outcome { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let rewards: Vec<Option<f64>> = (0..GROUP).map(|i| Some(f64::from(i < right))).collect();
    Sum { right, clamp, sum: z_scores.of_batch(&[rewards])[0].iter().sum() }
}
