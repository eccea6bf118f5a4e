//! The experiments, one claim each: a file, or a folder where a file would grow large. What several of them share is in
//! `common`.

use crate::experiment::Experiment;

pub(crate) mod addition;
mod branch;
pub(crate) mod chain;
mod clamp;
pub(crate) mod clamp_gain;
pub(crate) mod clamp_parts;
mod clip_form;
pub(crate) mod common;
mod credit_profile;
mod equation_15;
mod figure_2;
mod kl_estimators;
mod lambda_direction;
mod lambda_zero;
pub(crate) mod learning;
mod lemma_1;
mod length_bias;
pub mod length_bonus;
pub(crate) mod noise_rewards;
pub mod paper_audit;
pub(crate) mod prefix_values;
mod pretrained;
mod sampler;
mod theorem_1;
mod traces;

/// Every experiment, in the order of the paper and of `sim --list`.
pub static REGISTRY: &[&Experiment] = &[
    &theorem_1::EXPERIMENT,
    &equation_15::EXPERIMENT,
    &traces::EXPERIMENT,
    &figure_2::EXPERIMENT,
    &credit_profile::EXPERIMENT,
    &lambda_zero::EXPERIMENT,
    &lambda_direction::EXPERIMENT,
    &lemma_1::EXPERIMENT,
    &clip_form::EXPERIMENT,
    &clamp::EXPERIMENT,
    &clamp_gain::EXPERIMENT,
    &clamp_parts::EXPERIMENT,
    &length_bias::EXPERIMENT,
    &length_bonus::EXPERIMENT,
    &noise_rewards::EXPERIMENT,
    &kl_estimators::EXPERIMENT,
    &learning::EXPERIMENT,
    &prefix_values::EXPERIMENT,
    &sampler::EXPERIMENT,
    &addition::EXPERIMENT,
    &chain::EXPERIMENT,
    &branch::EXPERIMENT,
    &pretrained::EXPERIMENT,
    &paper_audit::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Context;
    use crate::store::Store;

    /// The seed of a run whose random MDPs have the largest number among their seeds.
    const PAST_THE_LARGEST: u64 = 194_059_747_655_424_483;

    #[test]
    fn every_number_is_a_seed() {
        for (experiment, seed) in [
            (&kl_estimators::EXPERIMENT, u64::MAX),
            (&lambda_direction::EXPERIMENT, u64::MAX),
            (&sampler::EXPERIMENT, u64::MAX),
            (&lemma_1::EXPERIMENT, PAST_THE_LARGEST),
        ] {
            let context = Context { seed, full: false, progress: &|_, _| {}, store: &Store::none() };
            assert!((experiment.run)(&context).is_ok(), "{}", experiment.id);
        }
    }
}
