//! [`StepContext::sample`]: from prompts to a [`Rollout`].

use grpo_lambda::group::{ExtraInputs, Group, Response};
use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::generate::{
    AddressOf, Responses, SampledResponse, Sampler, SamplingParams, SamplingRequest, StoppingCriteria,
};
use grpo_lambda_decoder::rng::Purpose;

use super::completions::Further;
use super::engine::{Engine, SampledBy};
use super::extra_inputs::{InputCost, InputError};
use super::tree::{Leaf, Segments, Stem, Trees, repeated};
use super::{
    Phase, PolicyError, Result, RewardParts, StepContext, StepSettings, TrainingPrompt, ids, micro_batch,
    observed,
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
    /// The segments of each group that is a tree.
    pub segments: Vec<Segments>,
    /// The tokens that the sampler wrote: a segment of a tree once, and those of completions and greedy responses.
    pub sampled_tokens: usize,
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
    ) -> Result<Rollout> {
        let settings = self.settings;
        let (sampled, trees) =
            observed(self.observer, Phase::Sample, || self.responses(engine, &prompts, (group_size, step)))?;
        let Trees { leaves: trees, tokens: mut sampled_tokens } = trees;
        let reads_further = settings.completions.is_some() || settings.parts == Some(RewardParts::Greedy);
        let further = match reads_further {
            true => observed(self.observer, Phase::ExtraInputs, || {
                self.further(engine, &prompts, &sampled, step)
            })?,
            false => Further::default(),
        };
        let mut input_cost = further.cost;
        sampled_tokens += further.sampled;
        let (mut groups, mut rewards) = self.graded(step, &prompts, sampled, &further)?;
        let segments =
            |leaves: &Vec<Leaf>| repeated(leaves.iter().map(|l| l.segments.clone()).collect(), leaves);
        let segments: Vec<Segments> = trees.iter().map(segments).collect();
        for ((leaves, group), rewards) in trees.iter().zip(&mut groups).zip(&mut rewards) {
            group.responses = repeated(std::mem::take(&mut group.responses), leaves);
            *rewards = repeated(std::mem::take(rewards), leaves);
        }
        input_cost += self.scored(engine, &prompts, &mut groups, step)?;
        let entropy_coef = settings.entropy_coef;
        let on_policy = true;
        Ok(Rollout {
            step,
            prompts,
            groups,
            rewards,
            input_cost,
            on_policy,
            entropy_coef,
            segments,
            sampled_tokens,
        })
    }

    /// Adds to the groups what the method reads of the reference, of the teacher, of the critic and of extra inputs; the tokens that this takes.
    fn scored(
        &self,
        engine: &mut dyn Engine,
        prompts: &[TrainingPrompt],
        groups: &mut [Group],
        step: u64,
    ) -> Result<InputCost> {
        let (settings, mut cost) = (self.settings, InputCost::default());
        let budget = settings.memory.micro_batch_tokens;
        let options = settings.options();
        if settings.reference {
            observed(self.observer, Phase::Reference, || {
                micro_batch::score_with_reference(engine, &ids(prompts), groups, budget, options)
            })?;
        }
        if groups.iter().flat_map(|g| &g.responses).any(|r| r.extra_inputs.entropies.is_none()) {
            observed(self.observer, Phase::ExtraInputs, || {
                micro_batch::score_entropies(engine, &ids(prompts), groups, budget, options)
            })?;
        }
        if settings.teacher {
            cost.forward += observed(self.observer, Phase::ExtraInputs, || {
                let answered: Vec<&[u32]> = prompts.iter().map(|p| p.answered.as_slice()).collect();
                micro_batch::score_teacher(engine, &answered, groups, budget, options)
            })?;
        }
        if let Some(critic) = engine.critic() {
            cost.forward += observed(self.observer, Phase::ExtraInputs, || {
                micro_batch::score_values(critic, &ids(prompts), groups, budget)
            })?;
        }
        if let (Some(extra_inputs), Some(model)) = (&settings.extra_inputs, engine.input_model()) {
            cost += observed(self.observer, Phase::ExtraInputs, || {
                Ok::<_, PolicyError>(settings.collect_inputs(extra_inputs, model, step, prompts, groups)?)
            })?;
        }
        Ok(cost)
    }

    /// The responses of each group, and the trees whose leaves they are, if any.
    fn responses(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        (group_size, step): (usize, u64),
    ) -> Result<(Vec<Vec<SampledResponse>>, Trees)> {
        if let Some(branching) = &self.settings.branching {
            let trees = self.trees(engine, prompts, branching, (group_size, step))?;
            let responses = |tree: &Vec<Leaf>| tree.iter().map(|leaf| leaf.response.clone()).collect();
            return Ok((trees.leaves.iter().map(responses).collect(), trees));
        }
        let sampled = self.generate(engine, prompts, group_size, step)?;
        let tokens = sampled.iter().flatten().map(|r| r.tokens.len()).sum();
        Ok((sampled, Trees { leaves: Vec::new(), tokens }))
    }

    /// The further responses that the method reads.
    fn further(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        sampled: &[Vec<SampledResponse>],
        step: u64,
    ) -> Result<Further> {
        let settings = self.settings;
        if settings.parts == Some(RewardParts::Greedy) {
            let sampling = SamplingParams { temperature: 0.0, ..settings.sampling };
            let responses = self.generated(engine, prompts, (1, sampling), step)?;
            let sampled = responses.iter().flatten().map(|r| r.tokens.len()).sum();
            let forward = sampled + prompts.iter().map(|p| p.tokens.len()).sum::<usize>();
            let cost = InputCost { forward, ..InputCost::default() };
            return Ok(Further { responses, sampled, cost, ..Further::default() });
        }
        let Some(asked) = &settings.completions else { return Ok(Further::default()) };
        let places = |group: &Vec<SampledResponse>| group.iter().map(|r| asked.starts.places(r)).collect();
        let places = sampled.iter().map(places).collect::<Result<_, _>>().map_err(InputError::from)?;
        Ok(self.completed(engine, prompts, (sampled, places), (asked.count, step))?)
    }

    /// Samples the responses alone.
    pub(crate) fn generate(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        group_size: usize,
        step: u64,
    ) -> Responses {
        self.generated(engine, prompts, (group_size, self.settings.sampling), step)
    }

    /// `count` responses that begin with each of these stems, at most `at_a_time` of them decoded at a time; `number(stem, k)` addresses the random
    /// numbers among those of the stem's prompt.
    pub(super) fn continued(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        stems: &[Stem],
        (count, number): (usize, &(dyn Fn(usize, usize) -> u64 + Sync)),
        (at_a_time, step): (usize, u64),
    ) -> Responses {
        if stems.is_empty() {
            return Ok(Vec::new());
        }
        let whole = |stem: &Stem| [&prompts[stem.prompt].tokens[..], &stem.prefix.tokens].concat();
        let whole: Vec<Vec<u32>> = stems.iter().map(whole).collect();
        let ids: Vec<&[u32]> = whole.iter().map(Vec::as_slice).collect();
        let most: Vec<usize> = stems.iter().map(|stem| stem.most).collect();
        let own = self.settings.address(Purpose::Rollout, step, prompts);
        let address = |stem: usize, k: usize| own(stems[stem].prompt, 0).response(number(stem, k));
        let (sampling, address): (_, &AddressOf<'_>) = (self.settings.sampling, &address);
        let continued = self.asked(engine, &ids, (count, &most, at_a_time), sampling, address)?;
        let complete = self.settings.stops.as_ref().and_then(Stops::test);
        let joined = |prefix: &SampledResponse, own: SampledResponse| {
            let mut joined = prefix.clone();
            joined.tokens.extend(own.tokens);
            joined.logps.extend(own.logps);
            joined.entropies.extend(own.entropies);
            joined.truncated = own.truncated;
            // A stop string may begin in the prefix.
            complete.iter().for_each(|test| joined.end_where(*test));
            joined
        };
        let group = |(stem, own): (&Stem, Vec<SampledResponse>)| {
            own.into_iter().map(|own| joined(&stem.prefix, own)).collect()
        };
        Ok(stems.iter().zip(continued).map(group).collect())
    }

    fn generated(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        (group_size, sampling): (usize, SamplingParams),
        step: u64,
    ) -> Responses {
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
        self.asked(engine, &ids, (group_size, &[], usize::MAX), sampling, &address)
    }

    /// Responses to `prompts`, of at most `most` tokens by prompt where it has any, at most `at_a_time` of them decoded at a time.
    fn asked(
        &self,
        engine: &dyn Engine,
        prompts: &[&[u32]],
        (group_size, most, at_a_time): (usize, &[usize], usize),
        sampling: SamplingParams,
        address: &AddressOf<'_>,
    ) -> Responses {
        let StepSettings { eos, memory, .. } = self.settings;
        let complete = self.settings.stops.as_ref().and_then(Stops::test);
        let bound = Some(at_a_time).filter(|n| *n < prompts.len() * group_size);
        SampledBy { engine, follower: self.follower }.generate(&SamplingRequest {
            slots: memory.slots.into_iter().chain(bound).min(),
            stopping: StoppingCriteria { max_lengths: most, complete },
            watch: self.watch,
            ..SamplingRequest::new(prompts, group_size, eos, sampling, address)
        })
    }

    /// Grades the responses of a step and what the method reads besides.
    fn graded(
        &self,
        step: u64,
        prompts: &[TrainingPrompt],
        sampled: Vec<Vec<SampledResponse>>,
        further: &Further,
    ) -> Result<(Vec<Group>, Vec<Vec<RewardBreakdown>>)> {
        let group = |(g, mut responses): (usize, Vec<SampledResponse>)| {
            let sampled = responses.len();
            // They come last, so that they have draws of their own where a reward is drawn.
            responses.extend(further.responses.get(g).into_iter().flatten().cloned());
            let mut breakdowns = self.rewards.rewards(step, &prompts[g], &responses)?;
            let after: Vec<Option<f64>> = breakdowns.drain(sampled..).map(|b| b.total).collect();
            let parts = |breakdown: &RewardBreakdown| match &self.settings.parts {
                Some(RewardParts::Components(of)) => {
                    let value = |i: &usize| breakdown.components.get(*i).copied().flatten().unwrap_or(0.0);
                    Some(of.iter().map(value).collect())
                }
                Some(RewardParts::Greedy) => Some(after.iter().map(|reward| reward.unwrap_or(0.0)).collect()),
                None => None,
            };
            let graded = responses.into_iter().zip(&breakdowns);
            let mut responses: Vec<Response> =
                graded.map(|(s, breakdown)| response(s, breakdown, parts(breakdown))).collect();
            for (response, steps) in responses.iter_mut().zip(further.values(g, &after, &breakdowns)) {
                response.extra_inputs.steps = Some(steps);
            }
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
