//! The rollout of a step: prompts, the responses sampled to them, and what these earned.

use grpo_lambda::group::{Evidence, Group, Response};
use grpo_lambda_decoder::rng::Purpose;
use grpo_lambda_decoder::rollout::{Ask, RolloutError, Sampled};
use grpo_lambda_grade::Gold;

use super::engine::Engine;
use super::evidence::Cost;
use super::micro_batch;
use super::observer::{Phase, observed};
use super::policy::PolicyError;
use super::trainer::Trainer;
use crate::reward::Earned;

/// A prompt with the answer that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Exercise {
    /// Token ids of the prompt.
    pub prompt: Vec<u32>,
    /// The answer.
    pub gold: Gold,
    /// Where its random numbers are: a number no other prompt of the step has.
    pub number: u64,
}

/// Token ids of the prompts.
pub(super) fn ids(prompts: &[Exercise]) -> Vec<&[u32]> {
    prompts.iter().map(|p| p.prompt.as_slice()).collect()
}

/// What a step learns from: group `i` and its rewards belong to prompt `i`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// The step of training that it was sampled for, which addresses its random numbers.
    pub step: u64,
    /// The prompts.
    pub prompts: Vec<Exercise>,
    /// The responses, with everything a method reads.
    pub groups: Vec<Group>,
    /// What each response earned, and for what.
    pub rewards: Vec<Vec<Earned>>,
    /// What the method's evidence cost.
    pub cost: Cost,
    /// Whether the weights that sampled it are those to be trained on it: the trainer's log-probabilities must then be the sampler's, to the
    /// bit where the engine is exact.
    pub on_policy: bool,
}

impl Trainer<'_> {
    /// Samples `group_size` responses to every prompt, grades them, and adds what the method reads of the reference and of evidence. `step`
    /// addresses the random numbers.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn sample<E: Engine>(
        &self,
        engine: &mut E,
        prompts: Vec<Exercise>,
        group_size: usize,
        step: u64,
    ) -> Result<Rollout, PolicyError> {
        let settings = self.settings;
        let sampled = observed(self.observer, Phase::Sample, || {
            Ok::<_, PolicyError>(self.respond(engine, &prompts, group_size, step)?)
        })?;
        let (mut groups, rewards) = self.graded(&prompts, sampled)?;
        if settings.reference {
            let (budget, options) = (settings.memory.micro_batch_tokens, settings.options());
            observed(self.observer, Phase::Reference, || {
                micro_batch::refer(engine, &ids(&prompts), &mut groups, budget, options)
            })?;
        }
        let mut cost = Cost::default();
        if let (Some(source), Some(model)) = (&settings.evidence, engine.decoder()) {
            cost = observed(self.observer, Phase::Evidence, || {
                Ok::<_, PolicyError>(settings.ask(source, model, step, &prompts, &mut groups)?)
            })?;
        }
        Ok(Rollout { step, prompts, groups, rewards, cost, on_policy: true })
    }

    /// The responses alone.
    pub(crate) fn respond<E: Engine>(
        &self,
        engine: &E,
        prompts: &[Exercise],
        group_size: usize,
        step: u64,
    ) -> Result<Vec<Vec<Sampled>>, RolloutError> {
        let ids = ids(prompts);
        let address = self.settings.address(Purpose::Rollout, step, prompts);
        engine.respond(&Ask::new(&ids, group_size, &self.settings.eos, self.settings.sampling, &address))
    }

    /// Groups with their rewards.
    fn graded(
        &self,
        prompts: &[Exercise],
        sampled: Vec<Vec<Sampled>>,
    ) -> Result<(Vec<Group>, Vec<Vec<Earned>>), PolicyError> {
        let group = |(exercise, responses): (&Exercise, Vec<Sampled>)| {
            let earned = self.rewards.rewards(exercise, &responses)?;
            let graded = responses.into_iter().zip(&earned).map(|(s, earned)| response(s, earned));
            Ok((Group { responses: graded.collect() }, earned))
        };
        prompts.iter().zip(sampled).map(group).collect()
    }
}

/// A response as a method reads it.
fn response(sampled: Sampled, earned: &Earned) -> Response {
    Response {
        tokens: sampled.tokens,
        old_logps: sampled.logps,
        ref_logps: None,
        reward: earned.total,
        truncated: sampled.truncated,
        evidence: Evidence { entropies: Some(sampled.entropies), ..Evidence::default() },
    }
}
