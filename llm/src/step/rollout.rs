//! The rollout of a step: prompts, the responses sampled to them, and what these earned.

use grpo_lambda::group::{Evidence, Group, Response};
use grpo_lambda_decoder::rng::Purpose;
use grpo_lambda_decoder::rollout::{RolloutError, SampledResponse, SamplingRequest};
use grpo_lambda_grade::Gold;

use super::engine::Engine;
use super::evidence::EvidenceCost;
use super::micro_batch;
use super::observer::{Phase, observed};
use super::policy::PolicyError;
use super::trainer::Trainer;
use crate::reward::RewardBreakdown;

/// A training prompt with its reference answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingPrompt {
    /// Token ids of the prompt.
    pub tokens: Vec<u32>,
    pub gold: Gold,
    /// The address of its random numbers; no other prompt of the step has this number.
    pub number: u64,
}

/// Token ids of the prompts.
pub(super) fn ids(prompts: &[TrainingPrompt]) -> Vec<&[u32]> {
    prompts.iter().map(|p| p.tokens.as_slice()).collect()
}

/// What a step learns from: group `i` and its rewards belong to prompt `i`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// The step of training that it was sampled for, which addresses its random numbers.
    pub step: u64,
    pub prompts: Vec<TrainingPrompt>,
    /// The responses, with everything a method reads.
    pub groups: Vec<Group>,
    /// What each response earned, and for what.
    pub rewards: Vec<Vec<RewardBreakdown>>,
    /// What the method's evidence cost.
    pub evidence_cost: EvidenceCost,
    /// Whether the weights that sampled it are those to be trained on it: the trainer's log-probabilities must then be the sampler's, to the
    /// bit where the engine is exact.
    pub on_policy: bool,
}

impl Rollout {
    /// Whether the frozen reference scored its responses: only then is there a KL.
    pub fn is_scored_by_reference(&self) -> bool {
        self.groups.iter().flat_map(|g| &g.responses).any(|r| r.ref_logps.is_some())
    }
}

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
        if settings.reference {
            let (budget, options) = (settings.memory.micro_batch_tokens, settings.options());
            observed(self.observer, Phase::Reference, || {
                micro_batch::score_with_reference(engine, &ids(&prompts), &mut groups, budget, options)
            })?;
        }
        if groups.iter().flat_map(|g| &g.responses).any(|r| r.evidence.entropies.is_none()) {
            let (budget, options) = (settings.memory.micro_batch_tokens, settings.options());
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
        engine.generate(&SamplingRequest::new(
            &ids,
            group_size,
            &self.settings.eos,
            self.settings.sampling,
            &address,
        ))
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
