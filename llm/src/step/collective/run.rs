//! [`DistributedRun`]: what a distributed run consists of, and how a step's responses are drawn.

use grpo_lambda::group::{Evidence, Group, Response};
use grpo_lambda::methods::Method;
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, Rows};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::{SampledResponse, Sampler, SamplingParams, SamplingRequest};

use super::worker::{Worker, WorkerError};
use super::{Collective, gather_groups};
use crate::step::sft::Example;

/// Reward of a response to a prompt; none when it cannot be graded.
pub type TokenRewardFn<'a> = dyn Fn(&[u32], &[u32]) -> Option<f64> + Sync + 'a;

/// A distributed run; the same for every worker.
pub struct DistributedRun<'a> {
    /// A batch of examples for each supervised step.
    pub examples: &'a [Vec<Example>],
    /// Its learning rate.
    pub sft_rate: f64,
    /// Prompts of each RL step.
    pub prompts: &'a [Vec<Vec<u32>>],
    /// Responses to each.
    pub group_size: usize,
    /// How they are drawn.
    pub sampling: SamplingParams,
    /// Tokens that end a response.
    pub eos: &'a [u32],
    /// Their rewards.
    pub grade: &'a TokenRewardFn<'a>,
    /// The method that turns rewards into gradients.
    pub method: &'a dyn Method,
    /// The frozen policy of a KL term.
    pub reference: Option<&'a Decoder<f32>>,
    /// Learning rate, and gradient steps per batch.
    pub settings: UpdateSettings,
    /// The seed. Random numbers are addressed by it, the step, the prompt and the response, and never by the worker.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateSettings {
    /// Learning rate.
    pub rate: f64,
    /// Divides the logits; that of the sampler.
    pub temperature: f64,
    /// Gradient steps on the batch.
    pub inner_updates: usize,
}

impl DistributedRun<'_> {
    /// The responses of a step: `worker` draws and grades those to its share of the prompts, and all workers share theirs.
    pub(super) fn sample<C: Collective>(
        &self,
        worker: &mut Worker<C>,
        prompts: &[Vec<u32>],
        group_size: usize,
        step: u64,
    ) -> Result<Vec<Group>, WorkerError> {
        let (rank, size) = (worker.collective().rank(), worker.collective().size());
        let own = rank * prompts.len() / size..(rank + 1) * prompts.len() / size;
        let base = Address::new(self.seed, Purpose::Rollout).step(step);
        let ids: Vec<&[u32]> = prompts[own.clone()].iter().map(Vec::as_slice).collect();
        let address = |prompt: usize, response: usize| {
            base.prompt((own.start + prompt) as u64).response(response as u64)
        };
        let drawn = match ids.is_empty() {
            true => Vec::new(),
            false => worker.model().generate(&SamplingRequest::new(
                &ids,
                group_size,
                self.eos,
                self.sampling,
                &address,
            ))?,
        };
        let groups = ids.iter().zip(drawn).map(|(prompt, responses)| self.group(prompt, responses));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        Ok(gather_groups(worker.collective(), &groups)?)
    }

    fn group(&self, prompt: &[u32], responses: Vec<SampledResponse>) -> Result<Group, WorkerError> {
        let mut rows = Rows::new();
        responses.iter().for_each(|s| rows.push(&[prompt, &s.tokens].concat(), prompt.len()));
        let options = ForwardOptions { temperature: self.sampling.temperature, ..ForwardOptions::default() };
        let scores = self.reference.map(|r| r.score(&rows, options)).transpose()?;
        let mut ref_logps = scores.into_iter().flat_map(|s| s.logps);
        let responses = responses.into_iter().map(|s| Response {
            reward: (self.grade)(prompt, &s.tokens),
            tokens: s.tokens,
            old_logps: s.logps,
            ref_logps: ref_logps.next(),
            truncated: s.truncated,
            evidence: Evidence { entropies: Some(s.entropies), ..Evidence::default() },
        });
        Ok(Group { responses: responses.collect() })
    }
}
