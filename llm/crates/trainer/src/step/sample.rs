//! [`StepContext::sample`]: from prompts to a [`Rollout`].

use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::generate::{
    RolloutError, SampledResponse, Sampler, SamplingParams, SamplingRequest, StoppingCriteria,
};
use grpo_lambda_decoder::rng::Purpose;

use super::engine::{Engine, SampledBy};
use super::extra_inputs::InputCost;
use super::{
    Phase, PolicyError, RewardParts, StepContext, StepSettings, TrainingPrompt, ids, micro_batch, observed,
};
use crate::input::stops::Stops;
use crate::reward::RewardBreakdown;

/// Prompts with the responses sampled to them and their rewards: group `i` belongs to prompt `i`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// The step of training that it was sampled for, which addresses its random numbers.
    pub step: u64,
    pub prompts: Vec<TrainingPrompt>,
    /// The responses, with everything a method reads.
    pub groups: Vec<Group>,
    /// The reward of each response, by component.
    pub rewards: Vec<Vec<RewardBreakdown>>,
    pub input_cost: InputCost,
    /// True if the weights that sampled it are those to be trained on it: the trainer's log-probabilities must then be the sampler's, to the
    /// bit if the engine is exact.
    pub on_policy: bool,
    /// Coefficient of the entropy bonus in the update; 0 for none.
    pub entropy_coef: f64,
}

impl Rollout {
    /// The mean entropy of a token's distribution, where the tokens have one.
    pub fn entropy(&self) -> Option<f64> {
        let responses = self.groups.iter().flat_map(|g| &g.responses);
        let entropies: Vec<f64> =
            responses.filter_map(|r| r.extra_inputs.entropies.as_ref()).flatten().copied().collect();
        (!entropies.is_empty()).then(|| entropies.iter().sum::<f64>() / entropies.len() as f64)
    }

    /// True if the frozen reference scored its responses: only then is there a KL.
    pub fn is_scored_by_reference(&self) -> bool {
        self.groups.iter().flat_map(|g| &g.responses).any(|r| r.ref_logps.is_some())
    }
}

impl StepContext<'_> {
    /// Samples `group_size` responses to every prompt, grades them, and adds what the method reads of the reference and of extra inputs. `step`
    /// addresses the random numbers.
    pub fn sample(
        &self,
        engine: &mut dyn Engine,
        prompts: Vec<TrainingPrompt>,
        group_size: usize,
        step: u64,
    ) -> Result<Rollout, PolicyError> {
        let settings = self.settings;
        let sampled = observed(self.observer, Phase::Sample, || {
            Ok::<_, PolicyError>(self.generate(engine, &prompts, group_size, step)?)
        })?;
        let mut input_cost = InputCost::default();
        let greedy = match settings.parts {
            Some(RewardParts::Greedy) => observed(self.observer, Phase::ExtraInputs, || {
                let sampling = SamplingParams { temperature: 0.0, ..settings.sampling };
                Ok::<_, PolicyError>(self.generated(engine, &prompts, (1, sampling), step)?.concat())
            })?,
            _ => Vec::new(),
        };
        input_cost.forward += greedy.iter().map(|r| r.tokens.len()).sum::<usize>();
        let (mut groups, rewards) = self.graded(step, &prompts, sampled, &greedy)?;
        let budget = settings.memory.micro_batch_tokens;
        let options = settings.options();
        if settings.reference {
            observed(self.observer, Phase::Reference, || {
                micro_batch::score_with_reference(engine, &ids(&prompts), &mut groups, budget, options)
            })?;
        }
        if groups.iter().flat_map(|g| &g.responses).any(|r| r.extra_inputs.entropies.is_none()) {
            observed(self.observer, Phase::ExtraInputs, || {
                micro_batch::score_entropies(engine, &ids(&prompts), &mut groups, budget, options)
            })?;
        }
        if settings.teacher {
            input_cost.forward += observed(self.observer, Phase::ExtraInputs, || {
                let answered: Vec<&[u32]> = prompts.iter().map(|p| p.answered.as_slice()).collect();
                micro_batch::score_teacher(engine, &answered, &mut groups, budget, options)
            })?;
        }
        if let Some(critic) = engine.critic() {
            observed(self.observer, Phase::ExtraInputs, || {
                Ok::<_, PolicyError>(micro_batch::score_values(critic, &ids(&prompts), &mut groups, budget)?)
            })?;
        }
        if let (Some(extra_inputs), Some(model)) = (&settings.extra_inputs, engine.input_model()) {
            input_cost += observed(self.observer, Phase::ExtraInputs, || {
                Ok::<_, PolicyError>(settings.collect_inputs(
                    extra_inputs,
                    model,
                    step,
                    &prompts,
                    &mut groups,
                )?)
            })?;
        }
        let entropy_coef = settings.entropy_coef;
        Ok(Rollout { step, prompts, groups, rewards, input_cost, on_policy: true, entropy_coef })
    }

    /// Samples the responses alone.
    pub(crate) fn generate(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        group_size: usize,
        step: u64,
    ) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        self.generated(engine, prompts, (group_size, self.settings.sampling), step)
    }

    fn generated(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        (group_size, sampling): (usize, SamplingParams),
        step: u64,
    ) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        let ids = ids(prompts);
        let own = self.settings.address(Purpose::Rollout, step, prompts);
        let shift = self.settings.address(Purpose::Shift, step, prompts);
        let address = |prompt: usize, response: usize| {
            let decoded = |sets: Sets| {
                let shift = shift(prompt, sets.set_of(response, group_size)).unit(0);
                own(prompt, response).decoded_from(sets.code(response, group_size, shift).number(|| shift))
            };
            self.settings.sets.map_or_else(|| own(prompt, response), decoded)
        };
        let StepSettings { eos, memory, .. } = self.settings;
        let stops = self.settings.stops();
        let complete = stops.as_ref().and_then(Stops::test);
        SampledBy { engine, follower: self.follower }.generate(&SamplingRequest {
            slots: memory.slots,
            stopping: StoppingCriteria { max_lengths: &[], complete },
            watch: self.watch,
            ..SamplingRequest::new(&ids, group_size, eos, sampling, &address)
        })
    }

    /// Grades the responses of a step and, if there are any, the greedy one of each prompt.
    fn graded(
        &self,
        step: u64,
        prompts: &[TrainingPrompt],
        sampled: Vec<Vec<SampledResponse>>,
        greedy: &[SampledResponse],
    ) -> Result<(Vec<Group>, Vec<Vec<RewardBreakdown>>), PolicyError> {
        let group = |(g, mut responses): (usize, Vec<SampledResponse>)| {
            let sampled = responses.len();
            // It comes last, so that it has a draw of its own where a reward is drawn.
            responses.extend(greedy.get(g).cloned());
            let mut breakdowns = self.rewards.rewards(step, &prompts[g], &responses)?;
            let baseline = breakdowns.drain(sampled..).next().map(|b| b.total.unwrap_or(0.0));
            let parts = |breakdown: &RewardBreakdown| match &self.settings.parts {
                Some(RewardParts::Components(of)) => {
                    let value = |i: &usize| breakdown.components.get(*i).copied().flatten().unwrap_or(0.0);
                    Some(of.iter().map(value).collect())
                }
                Some(RewardParts::Greedy) => baseline.map(|reward| vec![reward]),
                None => None,
            };
            let graded = responses.into_iter().zip(&breakdowns);
            let responses = graded.map(|(s, breakdown)| response(s, breakdown, parts(breakdown))).collect();
            Ok((Group { responses }, breakdowns))
        };
        sampled.into_iter().enumerate().map(group).collect()
    }
}

/// A sampled response with its reward, and further ones.
fn response(
    sampled: SampledResponse,
    breakdown: &RewardBreakdown,
    reward_parts: Option<Vec<f64>>,
) -> Response {
    // A server does not tell the entropies: `StepContext::sample` scores them.
    let reported = sampled.entropies.len() == sampled.tokens.len();
    let extra_inputs = ExtraInputs {
        entropies: reported.then_some(sampled.entropies),
        // Where the trainer rounds differently, `old_logps` become its own in the first update.
        sampler_logps: Some(sampled.logps.clone()),
        reward_parts,
        ..ExtraInputs::default()
    };
    Response {
        tokens: sampled.tokens,
        old_logps: sampled.logps,
        ref_logps: None,
        reward: breakdown.total,
        truncated: sampled.truncated,
        extra_inputs,
    }
}
