//! Values of the steps of responses: the mean reward of completions of the prefix before each (VinePPO, SPO-chain).
//!
//! A completion is a response to a longer prompt: the prompt with the prefix. On the CPU, prefixes share the full pages of keys and values that they
//! begin with; a card reads a prefix once for its completions. Responses of a group that share a prefix before a step share its completions, the
//! prompt's own among them: given the prefix they are independent of what each response goes on with.

use std::collections::BTreeMap;

use grpo_lambda::group::StepValue;
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse};

use super::engine::Engine;
use super::extra_inputs::InputCost;
use super::tree::{Stem, cut};
use super::{StepContext, TrainingPrompt};
use crate::config::{Config, StepStart};
use crate::input::tokens::{ModelTokenizer, TokenError};
use crate::reward::RewardBreakdown;

/// The probability above which a policy is sure of a token, where the method does not say.
const SURE: f64 = 0.9;

/// Completions to sample for every step of a response.
#[derive(Clone, Debug)]
pub struct RequestedCompletions {
    /// Completions of a prefix, at least 1.
    pub count: usize,
    pub starts: StepStarts,
}

/// The places where steps start, besides the first token.
#[derive(Clone, Debug)]
pub enum StepStarts {
    /// After a token that holds a line break.
    Lines(ModelTokenizer),
    /// Every so many tokens.
    Interval(usize),
    /// After every `every`-th token whose probability is at most `sure`.
    Unsure { every: usize, sure: f64 },
}

impl RequestedCompletions {
    /// The completions that the method of a configuration reads; none where it reads no steps.
    pub fn new(config: &Config, tokens: &ModelTokenizer) -> Option<RequestedCompletions> {
        let (rl, settings) = (&config.rl, &config.configured().settings);
        let starts = match config.step_start()? {
            StepStart::Line => StepStarts::Lines(tokens.clone()),
            StepStart::Interval => StepStarts::Interval(rl.segment),
            StepStart::Unsure => {
                let sure = if settings.has("sure") { settings.number("sure") } else { SURE };
                StepStarts::Unsure { every: rl.segment, sure }
            }
        };
        Some(RequestedCompletions { count: rl.completions, starts })
    }
}

impl StepStarts {
    /// The first token of each step of a response, in order.
    pub fn places(&self, response: &SampledResponse) -> Result<Vec<usize>, TokenError> {
        let (mut places, mut unsure) = (vec![0], 0);
        for t in 0..response.tokens.len().saturating_sub(1) {
            let ends = match self {
                StepStarts::Lines(tokens) => tokens.text(&response.tokens[t..=t])?.contains('\n'),
                StepStarts::Interval(every) => (t + 1).is_multiple_of(*every),
                StepStarts::Unsure { every, sure } => {
                    let is_unsure = response.logps[t].exp() <= *sure;
                    unsure += usize::from(is_unsure);
                    is_unsure && unsure.is_multiple_of(*every)
                }
            };
            if ends {
                places.push(t + 1);
            }
        }
        Ok(places)
    }
}

/// Responses that a method reads next to those of a batch: greedy ones, or completions.
#[derive(Default)]
pub(super) struct Further {
    /// Responses by group, if there are any: its greedy response, or its completions prefix by prefix.
    pub(super) responses: Vec<Vec<SampledResponse>>,
    /// With completions the steps of every response of each group: the first token, and the number of the prefix before it in its group.
    pub(super) steps: Vec<Vec<Vec<(usize, usize)>>>,
    pub(super) count: usize,
    /// The tokens that were written.
    pub(super) sampled: usize,
    /// The tokens that passed forward: those, and what stands before them.
    pub(super) cost: InputCost,
}

impl Further {
    /// The steps of every response of a group, whose completions have the rewards `after`, and its responses the rewards `own`; none
    /// without completions.
    ///
    /// A completion without a reward is left out, and a step without any other belongs to the step before it. Tokens before the first step with a
    /// value have that value, or the response's reward where no step has one: either way they get no credit.
    pub(super) fn values(
        &self,
        group: usize,
        after: &[Option<f64>],
        own: &[RewardBreakdown],
    ) -> Vec<Vec<StepValue>> {
        let mean = |completed: &[Option<f64>]| {
            let known = completed.iter().flatten();
            let n = known.clone().count();
            (n > 0).then(|| known.sum::<f64>() / n as f64)
        };
        let Some(steps) = self.steps.get(group) else { return Vec::new() };
        let values: Vec<Option<f64>> = after.chunks(self.count).map(mean).collect();
        let step = |&(start, prefix): &(usize, usize)| Some(StepValue { start, value: values[prefix]? });
        let valued = |(steps, own): (&Vec<(usize, usize)>, &RewardBreakdown)| {
            let mut known: Vec<StepValue> = steps.iter().filter_map(step).collect();
            let first = known.first().copied().map_or((usize::MAX, own.total), |s| (s.start, Some(s.value)));
            if first.0 > 0 {
                known.insert(0, StepValue { start: 0, value: first.1.unwrap_or(0.0) });
            }
            known
        };
        steps.iter().zip(own).map(valued).collect()
    }
}

impl StepContext<'_> {
    /// Completes the prefix before every step of the responses `sampled`; `places[g][i]` are the steps of response `i` of group `g`.
    pub(super) fn completed(
        &self,
        engine: &dyn Engine,
        prompts: &[TrainingPrompt],
        (sampled, places): (&[Vec<SampledResponse>], Vec<Vec<Vec<usize>>>),
        (count, step): (usize, u64),
    ) -> Result<Further, RolloutError> {
        let limit = self.settings.sampling.max_new_tokens;
        let (mut stems, mut numbers, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        for (prompt, (responses, places)) in sampled.iter().zip(places).enumerate() {
            let first = stems.len();
            let mut known: BTreeMap<&[u32], usize> = BTreeMap::new();
            let mut of_group = Vec::new();
            for (i, (response, places)) in responses.iter().zip(places).enumerate() {
                let mut step = |start: usize| {
                    let prefix = *known.entry(&response.tokens[..start]).or_insert_with(|| {
                        stems.push(Stem { prompt, prefix: cut(response, start), most: limit - start });
                        // After the numbers of the responses themselves.
                        numbers.push(responses.len() + (i * limit + start) * count);
                        stems.len() - 1 - first
                    });
                    (start, prefix)
                };
                of_group.push(places.into_iter().map(&mut step).collect());
            }
            steps.push(of_group);
        }
        let number = |stem: usize, k: usize| (numbers[stem] + k) as u64;
        // No more at a time than responses, for which there is memory.
        let at_a_time = sampled.iter().map(Vec::len).sum();
        let continued = self.continued(engine, prompts, &stems, (count, &number), (at_a_time, step))?;
        let (mut responses, mut written, mut cost) =
            (vec![Vec::new(); prompts.len()], 0, InputCost::default());
        for (stem, continued) in stems.iter().zip(continued) {
            let before = stem.prefix.tokens.len();
            let own: usize = continued.iter().map(|r| r.tokens.len() - before).sum();
            written += own;
            cost.forward += own + prompts[stem.prompt].tokens.len() + before;
            responses[stem.prompt].extend(continued);
        }
        Ok(Further { responses, steps, count, sampled: written, cost })
    }
}
