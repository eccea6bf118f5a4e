//! One step of training: responses are sampled and scored, get their credit, and the optimiser moves.
//!
//! ```text
//! prompts -> StepContext::sample -> Rollout -> StepContext::step -> StepReport
//! ```
//! | module | holds |
//! | --- | --- |
//! | `sample` | sampling, grading and scoring a batch of prompts: a [`Rollout`] |
//! | `update` | credit, loss and gradient steps on a rollout, through [`grpo_lambda::learner::Policy`] |
//! | [`micro_batch`] | a batch as rows of the model |
//! | `rewards` | the rewards of responses |
//! | `tree` | groups that are the leaves of a tree |
//! | `completions` | completions of prefixes, which give steps their values |
//! | [`extra_inputs`] | further passes whose results a method reads |
//! | [`critic`] | a value model that learns next to the policy |
//! | [`sft`] | a supervised step |
//! | [`engine`] | models in training on a device |
//!
//! A run, the synthetic step of [`crate::plan::synthetic`] and benchmarks call the same two functions; they differ in their [`RewardFunction`]
//! and in the [`Observer`] that watches.

mod completions;
pub mod critic;
pub mod engine;
pub mod extra_inputs;
pub mod micro_batch;
mod rewards;
mod sample;
pub mod sft;
mod tree;
mod update;

use grpo_lambda::group::{Group, InputKind};
use grpo_lambda::methods::{Method, remax};
use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::generate::{RolloutError, SamplingParams, SamplingProgress};
use grpo_lambda_decoder::model::{Decoder, Error as ModelError, ForwardOptions};
use grpo_lambda_decoder::optim::OptimError;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::DeviceError;
use grpo_lambda_grade::Gold;

use crate::config::{Branching, Config, MemoryConfig};
use crate::input::stops::Stops;
use crate::input::tokens::ModelTokenizer;
use critic::CriticSettings;
use engine::WeightFollower;
use extra_inputs::{ForwardSettings, InputCost, InputError, InputRequest};
use serde_json::Value;
use std::collections::BTreeMap;

pub use completions::{RequestedCompletions, StepStarts};
pub use rewards::{RewardError, RewardFunction, Rewards, TextReward};
pub use sample::Rollout;
pub use tree::{OnTree, Segments, SharedPrefixes};
pub use update::{LlmPolicy, StepReport};

/// The parts that all steps of a run share. The state of training is in the engine.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    pub settings: &'a StepSettings,
    /// Turns rewards into gradients.
    pub method: &'a dyn Method,
    pub rewards: &'a dyn RewardFunction,
    pub observer: &'a dyn Observer,
    /// Samples in the engine's place.
    pub follower: Option<&'a dyn WeightFollower>,
    /// Gets the progress of sampling.
    pub watch: Option<&'a (dyn Fn(SamplingProgress) + Sync)>,
}

impl<'a> StepContext<'a> {
    /// A context in which the engine samples and nobody watches.
    pub fn new(settings: &'a StepSettings, method: &'a dyn Method, rewards: &'a dyn RewardFunction) -> Self {
        StepContext { settings, method, rewards, observer: &(), follower: None, watch: None }
    }
}

/// A training prompt with its reference answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingPrompt {
    /// Token ids of the prompt.
    pub tokens: Vec<u32>,
    /// The problem as it is asked, without the turns and examples around it; `None` if it is not known.
    pub problem: Option<String>,
    pub gold: Gold,
    /// The address of its random numbers; no other prompt of the step has this number.
    pub number: u64,
    /// The columns of its row that are not asked.
    pub others: BTreeMap<String, Value>,
    /// The prompt with the reference answer in it, which a teacher reads; empty where no method has one.
    pub answered: Vec<u32>,
}

impl TrainingPrompt {
    /// A prompt whose problem is not known, and which has no further columns.
    pub fn new(tokens: Vec<u32>, gold: Gold, number: u64) -> Self {
        TrainingPrompt { tokens, problem: None, gold, number, others: BTreeMap::new(), answered: Vec::new() }
    }
}

/// Token ids of the prompts.
fn ids(prompts: &[TrainingPrompt]) -> Vec<&[u32]> {
    prompts.iter().map(|p| p.tokens.as_slice()).collect()
}

/// The settings of sampling, scoring and updates.
#[derive(Clone, Debug)]
pub struct StepSettings {
    /// Parameters of the sampler; the temperature divides the logits wherever a response is scored.
    pub sampling: SamplingParams,
    /// Tokens that end a response; without any, every response has full length.
    pub eos: Vec<u32>,
    /// Texts that end a response as well.
    pub stops: Option<Stops>,
    /// The seed in the addresses of all random numbers.
    pub seed: u64,
    /// The sets in which a group is sampled systematically; none for independent responses.
    pub sets: Option<Sets>,
    /// The shape of the tree whose leaves are a group; none for groups that are no trees.
    pub branching: Option<Branching>,
    /// The completions that give the steps of responses their values, if the method reads these.
    pub completions: Option<RequestedCompletions>,
    /// Gradient steps on a rollout.
    pub inner_updates: usize,
    /// Coefficient of the entropy bonus, of which an adaptive one departs.
    pub entropy_coef: f64,
    pub memory: MemoryConfig,
    /// True if an exact engine leaves out responses without a gradient, which changes no bit; false where a step is to take what it can take.
    pub leaves_still: bool,
    /// True if the method needs log-probabilities of the frozen reference.
    pub reference: bool,
    /// True if the method needs the log-probabilities of a teacher: the policy that has read the reference answer.
    pub teacher: bool,
    /// The further rewards that the method needs.
    pub parts: Option<RewardParts>,
    /// The extra inputs that the method needs besides log-probabilities.
    pub extra_inputs: Option<RequestedInputs>,
    /// Settings of the critic whose values the method reads; `None` for a method that reads none.
    pub critic: Option<CriticSettings>,
    /// The largest mean factor between the probabilities that sampler and trainer give a token.
    pub max_logp_error: f64,
}

/// Further rewards that a method reads for each response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewardParts {
    /// The components of these indices, each without its weight; 0 for one without a value, as in the sum.
    Components(Vec<usize>),
    /// The reward of the greedy response to the same prompt; 0 where the grader gives it none.
    Greedy,
}

impl RewardParts {
    /// The further rewards that the method of a configuration reads.
    fn new(config: &Config) -> Option<RewardParts> {
        let configured = config.configured();
        let reads = configured.extra_inputs().contains(&InputKind::RewardParts);
        let components = || RewardParts::Components(config.reward.active().map(|(i, _)| i).collect());
        let greedy = configured.spec.name == remax::SPEC.name;
        reads.then(|| if greedy { RewardParts::Greedy } else { components() })
    }
}

/// Extra inputs to compute for every response.
#[derive(Clone, Debug)]
pub struct RequestedInputs {
    pub request: InputRequest,
    /// Decodes a response, to find its answer.
    pub tokens: ModelTokenizer,
}

impl StepSettings {
    /// The settings of a configuration with these end tokens, without stop strings, completions and extra inputs, which depend on the model
    /// or its tokenizer, too (see [`InputRequest::from_method`]).
    pub fn new(config: &Config, eos: &[u32]) -> Self {
        let rl = &config.rl;
        StepSettings {
            sampling: SamplingParams::new(rl.max_new_tokens, rl.temperature),
            eos: eos.to_vec(),
            stops: None,
            seed: config.seed,
            sets: rl.systematic_sets(),
            branching: rl.branching(),
            completions: None,
            inner_updates: rl.inner_updates,
            entropy_coef: rl.entropy_coef,
            memory: config.memory,
            leaves_still: true,
            reference: config.configured().extra_inputs().contains(&InputKind::RefLogps),
            teacher: config.configured().extra_inputs().contains(&InputKind::TeacherLogps),
            parts: RewardParts::new(config),
            extra_inputs: None,
            critic: CriticSettings::new(config.configured(), config),
            max_logp_error: rl.max_logp_error,
        }
    }

    /// True if extra inputs of the method take sampling or passes of their own.
    pub(crate) fn takes_more(&self) -> bool {
        let greedy = self.parts == Some(RewardParts::Greedy);
        let completes = self.completions.is_some();
        greedy || completes || self.teacher || self.critic.is_some() || self.extra_inputs.is_some()
    }

    /// The options of scoring passes.
    fn options(&self) -> ForwardOptions {
        ForwardOptions {
            temperature: self.sampling.temperature,
            entropy: false,
            recompute: self.memory.recompute_layers,
        }
    }

    /// The addresses of the random numbers of this step's responses.
    fn address<'a>(
        &self,
        purpose: Purpose,
        step: u64,
        prompts: &'a [TrainingPrompt],
    ) -> impl Fn(usize, usize) -> Address + use<'a> {
        let base = Address::new(self.seed, purpose).step(step);
        move |prompt, response| base.prompt(prompts[prompt].number).response(response as u64)
    }

    /// Computes extra inputs for every response of `batch`.
    fn collect_inputs(
        &self,
        extra_inputs: &RequestedInputs,
        model: &Decoder<f32>,
        step: u64,
        prompts: &[TrainingPrompt],
        batch: &mut [Group],
    ) -> Result<InputCost, InputError> {
        let pass = ForwardSettings {
            temperature: self.sampling.temperature,
            tokens: self.memory.micro_batch_tokens,
            recompute: self.memory.recompute_layers,
        };
        let prompt = |g: usize| prompts[g].tokens.as_slice();
        let address = self.address(Purpose::Perturbation, step, prompts);
        extra_inputs::collect(model, extra_inputs.request, &extra_inputs.tokens, pass, batch, prompt, address)
    }
}

/// A phase of a training step. With micro-batches, forward and backward passes alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Responses are sampled.
    Sample,
    /// Responses are scored by the frozen reference.
    Reference,
    /// The method's extra inputs are computed.
    ExtraInputs,
    /// Log-probabilities are computed, with a tape.
    Forward,
    /// They are differentiated.
    Backward,
    /// The gradient reaches what waited for the last row: see [`Engine::complete`](engine::Engine::complete).
    Prompts,
    /// The weights move, and the gradient is cleared.
    Optimiser,
    /// The critic learns.
    Critic,
}

/// Watches a step; `()` does not. An observer changes no result.
pub trait Observer {
    /// A phase begins.
    fn begin(&self, _phase: Phase) {}

    /// A phase ends. The work it handed to a device may still be under way: an observer that needs it done waits for the device here.
    fn end(&self, _phase: Phase) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Observer for () {}

/// Does `work`, the whole of a phase.
fn observed<T, E: From<DeviceError>>(
    observer: &dyn Observer,
    phase: Phase,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    observer.begin(phase);
    let done = work()?;
    observer.end(phase)?;
    Ok(done)
}

/// The reason why a training step failed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Reward(#[from] RewardError),
    #[error(transparent)]
    Optim(#[from] OptimError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    ExtraInputs(#[from] InputError),
    /// Sampler and trainer disagree: training would silently be off-policy.
    #[error(
        "response {response}, token {token}: the sampler gave it log-probability {sampled}, the trainer {trained}; \
         with the same weights they must agree, so the run stops"
    )]
    Mismatch {
        /// The response, in flat order.
        response: usize,
        token: usize,
        sampled: f64,
        trained: f64,
    },
    /// A critic whose values are no numbers.
    #[error(
        "response {response}, token {token}: the critic gives the state before it the value {value}, so it has diverged and the run stops; \
         lower critic.lr"
    )]
    Critic {
        /// The response, in flat order.
        response: usize,
        token: usize,
        value: f64,
    },
    /// The rounding differences of sampler and trainer exceed the limit.
    #[error(
        "sampler and trainer give a token probabilities that differ by a factor of {mean:.4} on average (at most {max:.4}); \
         rl.max_logp_error={limit} allows less, so the run stops: dtype=f32 rounds less"
    )]
    Rounding { mean: f64, max: f64, limit: f64 },
}

/// The result of a part of a step.
pub type Result<T, E = PolicyError> = std::result::Result<T, E>;
