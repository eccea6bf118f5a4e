//! A short training run over workers: imitation, then reinforcement.

use grpo_lambda::group::{Evidence, Group, Response};
use grpo_lambda::learner::Policy;
use grpo_lambda::methods::Method;
use grpo_lambda_decoder::model::{Decoder, Options, Rows};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::{Ask, Sampled, Sampler, Sampling};

use super::policy::{Pace, ShardPolicy, Updated};
use super::worker::{Worker, WorkerError};
use super::{Collective, share};
use crate::step::sft::{Example, SftReport};

/// Reward of a response to a prompt; none when it cannot be graded.
pub type Grade<'a> = dyn Fn(&[u32], &[u32]) -> Option<f64> + Sync + 'a;

/// What is taught: the same for every worker.
pub struct Lesson<'a> {
    /// A batch of examples per step of imitation.
    pub examples: &'a [Vec<Example>],
    /// Its learning rate.
    pub imitation_rate: f64,
    /// Prompts of every step of reinforcement.
    pub prompts: &'a [Vec<Vec<u32>>],
    /// Responses to each.
    pub group_size: usize,
    /// How they are drawn.
    pub sampling: Sampling,
    /// Tokens that end a response.
    pub eos: &'a [u32],
    /// What they earn.
    pub grade: &'a Grade<'a>,
    /// What is made of the rewards.
    pub method: &'a dyn Method,
    /// The frozen policy of a KL term.
    pub reference: Option<&'a Decoder<f32>>,
    /// Learning rate, and gradient steps per batch.
    pub pace: Pace,
    /// Random numbers are addressed by it, the step, the prompt and the response: by nothing of the worker.
    pub seed: u64,
}

/// What a lesson did; the same for every worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Taught {
    /// Steps of imitation.
    pub imitation: Vec<SftReport>,
    /// Batches sampled, by all workers together.
    pub batches: Vec<Vec<Group>>,
    /// Updates on them.
    pub updates: Vec<Updated>,
    /// [`Worker::digest`] at the end.
    pub digest: u32,
}

/// Teaches it. A worker samples and grades the responses to its share of the prompts; the batch is then shared.
///
/// # Errors
/// [`WorkerError`].
pub fn teach<C: Collective>(worker: &mut Worker<C>, lesson: &Lesson) -> Result<Taught, WorkerError> {
    let imitate = |examples: &Vec<Example>| worker.imitate(examples, lesson.imitation_rate);
    let imitation = lesson.examples.iter().map(imitate).collect::<Result<_, _>>()?;
    let (mut batches, mut updates) = (Vec::new(), Vec::new());
    for (step, prompts) in (0..).zip(lesson.prompts) {
        let mut policy = ShardPolicy::new(worker, lesson, step);
        let batch = policy.sample(prompts, lesson.group_size)?;
        updates.push(policy.update(prompts, &batch)?);
        batches.push(batch);
    }
    Ok(Taught { imitation, batches, updates, digest: worker.digest() })
}

impl Lesson<'_> {
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
            false => {
                worker.model().respond(&Ask::new(&ids, group_size, self.eos, self.sampling, &address))?
            }
        };
        let groups = ids.iter().zip(drawn).map(|(prompt, responses)| self.graded(prompt, responses));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        Ok(share(worker.collective(), &groups)?)
    }

    fn graded(&self, prompt: &[u32], responses: Vec<Sampled>) -> Result<Group, WorkerError> {
        let mut rows = Rows::new();
        responses.iter().for_each(|s| rows.push(&[prompt, &s.tokens].concat(), prompt.len()));
        let options = Options { temperature: self.sampling.temperature, ..Options::default() };
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
