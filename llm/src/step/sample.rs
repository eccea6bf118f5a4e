//! [`Trainer::sample`]: from prompts to a [`Rollout`].

use grpo_lambda::group::{Evidence, Group, Response};
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse, SamplingRequest, StoppingCriteria};
use grpo_lambda_decoder::rng::Purpose;

use super::engine::Engine;
use super::error::PolicyError;
use super::evidence::EvidenceCost;
use super::micro_batch;
use super::observer::{Phase, observed};
use super::prompt::{TrainingPrompt, ids};
use super::rollout::Rollout;
use super::settings::StepSettings;
use super::trainer::Trainer;
use crate::input::stops::Stops;
use crate::reward::RewardBreakdown;

impl Trainer<'_> {
    /// Samples `group_size` responses to every prompt, grades them, and adds what the method reads of the reference and of evidence. `step`
    /// addresses the random numbers.
    pub fn sample<E: Engine>(
        &self,
        engine: &mut E,
        prompts: Vec<TrainingPrompt>,
        group_size: usize,
        step: u64,
    ) -> Result<Rollout, PolicyError> {
        let settings = self.settings;
        let sampled = observed(self.observer, Phase::Sample, || {
            Ok::<_, PolicyError>(self.generate(engine, &prompts, group_size, step)?)
        })?;
        let (mut groups, rewards) = self.graded(&prompts, sampled)?;
        let budget = settings.memory.micro_batch_tokens * engine.processes();
        let options = settings.options();
        if settings.reference {
            observed(self.observer, Phase::Reference, || {
                micro_batch::score_with_reference(engine, &ids(&prompts), &mut groups, budget, options)
            })?;
        }
        if groups.iter().flat_map(|g| &g.responses).any(|r| r.evidence.entropies.is_none()) {
            observed(self.observer, Phase::Evidence, || {
                Ok::<_, PolicyError>(micro_batch::score_entropies(
                    engine,
                    &ids(&prompts),
                    &mut groups,
                    budget,
                    options,
                )?)
            })?;
        }
        let mut evidence_cost = EvidenceCost::default();
        if let (Some(source), Some(model)) = (&settings.evidence, engine.cpu_decoder()) {
            evidence_cost = observed(self.observer, Phase::Evidence, || {
                Ok::<_, PolicyError>(settings.collect_evidence(source, model, step, &prompts, &mut groups)?)
            })?;
        }
        Ok(Rollout { step, prompts, groups, rewards, evidence_cost, on_policy: true })
    }

    /// The responses alone.
    pub(crate) fn generate<E: Engine>(
        &self,
        engine: &E,
        prompts: &[TrainingPrompt],
        group_size: usize,
        step: u64,
    ) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        let ids = ids(prompts);
        let address = self.settings.address(Purpose::Rollout, step, prompts);
        let StepSettings { eos, sampling, memory, .. } = self.settings;
        let stops = self.settings.stops();
        let complete = stops.as_ref().and_then(Stops::test);
        engine.generate(&SamplingRequest {
            slots: memory.slots,
            stopping: StoppingCriteria { max_lengths: &[], complete },
            ..SamplingRequest::new(&ids, group_size, eos, *sampling, &address)
        })
    }

    /// Groups with their rewards.
    fn graded(
        &self,
        prompts: &[TrainingPrompt],
        sampled: Vec<Vec<SampledResponse>>,
    ) -> Result<(Vec<Group>, Vec<Vec<RewardBreakdown>>), PolicyError> {
        let group = |(prompt, responses): (&TrainingPrompt, Vec<SampledResponse>)| {
            let breakdowns = self.rewards.rewards(prompt, &responses)?;
            let graded = responses.into_iter().zip(&breakdowns).map(|(s, breakdown)| response(s, breakdown));
            Ok((Group { responses: graded.collect() }, breakdowns))
        };
        prompts.iter().zip(sampled).map(group).collect()
    }
}

/// A response as a method reads it.
fn response(sampled: SampledResponse, breakdown: &RewardBreakdown) -> Response {
    // A server does not tell the entropies: see `Trainer::sample`.
    let told = sampled.entropies.len() == sampled.tokens.len();
    let evidence = Evidence {
        entropies: told.then_some(sampled.entropies),
        // Where the trainer rounds differently, `old_logps` become its own in the first update.
        sampler_logps: Some(sampled.logps.clone()),
        ..Evidence::default()
    };
    Response {
        tokens: sampled.tokens,
        old_logps: sampled.logps,
        ref_logps: None,
        reward: breakdown.total,
        truncated: sampled.truncated,
        evidence,
    }
}
