//! [`Engine`]: a model in training on some device, as a training loop sees it; and [`WeightFollower`]: a sampler elsewhere.
//!
//! The loop, the policy and supervised learning are written once over `dyn Engine`. [`CpuEngine`] is the exact engine: own decoder in f32, where
//! sampler and trainer agree to the bit. Others may round; the policy then measures how far the two are apart. An engine is its own sampler, unless
//! a [`WeightFollower`] samples in its place.

mod cpu;
mod gpu;
mod synthetic;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io::Write;

pub use cpu::CpuEngine;
pub use gpu::{GpuEngine, GpuModel};
pub use synthetic::SyntheticWeights;

use grpo_lambda_decoder::generate::{Responses, Sampler, SamplingRequest};
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{
    Cotangents, Decoder, ForwardOptions, ModelConfig, Result, Rows, TokenScores,
};
use grpo_lambda_decoder::optim::{AdamWSettings, OptimError, StepOutcome, WriteStateError};
use grpo_lambda_gpu::StatePlace;

use super::critic::Critic;

/// The start of a training stage.
#[derive(Clone, Debug)]
pub struct TrainingSetup {
    pub adam: AdamWSettings,
    /// The place of its state; on the CPU there is but one.
    pub place: StatePlace,
    /// The adapter to train instead of the weights.
    pub lora: Option<LoraSettings>,
    /// Weights of the frozen policy of a KL term. An adapter needs none: its reference is the model without it.
    pub reference: Option<Parameters<f32>>,
    /// Seed of a new adapter.
    pub seed: u64,
    /// The optimiser of a critic on a copy of the weights, on the CPU alone.
    pub critic: Option<AdamWSettings>,
}

impl TrainingSetup {
    /// All weights are trained, without a reference policy; the optimiser's state is where the weights are.
    pub fn new(adam: AdamWSettings) -> Self {
        TrainingSetup { adam, place: StatePlace::Device, lora: None, reference: None, seed: 0, critic: None }
    }
}

/// The activations that an [`Engine::forward`] keeps for its [`Engine::backward`]; only the engine that made it can read it.
pub struct Tape(Box<dyn Any>);

impl Tape {
    /// Wraps an engine's own tape.
    pub fn new(tape: impl Any) -> Tape {
        Tape(Box::new(tape))
    }

    /// Unwraps the engine's own tape.
    ///
    /// # Panics
    /// If another kind of engine made it.
    pub fn into_inner<T: Any>(self) -> T {
        *self.0.downcast().expect("the tape comes from this engine")
    }
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tape")
    }
}

/// A model, its optimiser, the accumulated gradient and the frozen reference.
pub trait Engine: Sampler {
    /// The model's shape.
    fn shape(&self) -> &ModelConfig;

    /// True if sampler and trainer give a token the same bits; if not, they differ by rounding.
    fn exact(&self) -> bool;

    /// The optimiser steps applied so far. As long as the number stays, so do the weights.
    fn steps(&self) -> u64;

    /// Log-probabilities of the scored tokens, with the tape to differentiate them.
    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Tape)>;

    /// Log-probabilities under the frozen reference, batch by batch.
    ///
    /// # Panics
    /// If the stage began without a reference and without an adapter.
    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>>;

    /// Adds the gradient of the sum over scored tokens of log-probabilities and entropies times their cotangents.
    fn backward(&mut self, tape: Tape, cotangents: Cotangents<'_>) -> Result<()>;

    /// Propagates what waits for the last row of a gradient: on the CPU the gradient of shared prompts. [`Engine::step`] does it otherwise.
    fn complete(&mut self) {}

    /// Takes an optimiser step with the accumulated gradient, then clears the gradient.
    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError>;

    /// The weights in full precision, with the adapter merged: the policy that is sampled.
    fn parameters(&self) -> Result<Cow<'_, Parameters<f32>>>;

    /// The frozen weights that a checkpoint needs to continue: the reference, or the weights under the adapter.
    fn frozen_weights(&self) -> Result<Option<Cow<'_, Parameters<f32>>>>;

    /// The adapter with its settings; `None` if all weights are trained.
    fn adapter(&self) -> Result<Option<(LoraSettings, Parameters<f32>)>>;

    /// Writes the optimiser's state, with full-precision copies of what is trained: see [`grpo_lambda_decoder::optim::AdamW::to_bytes`].
    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError>;

    /// Continues to the bit from the state that [`Engine::write_optimiser`] wrote. The stage must have begun with the weights of that checkpoint,
    /// or with the weights under its adapter.
    ///
    /// # Errors
    /// If the state is of another model. Nothing has changed then.
    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError>;

    /// The decoder that computes extra inputs; `None` if the weights are not on the CPU.
    fn input_model(&self) -> Option<&Decoder<f32>>;

    /// The critic that learns next to the policy; `None` in a stage that began without one, as on every engine but that of the CPU.
    fn critic(&self) -> Option<&Critic> {
        None
    }

    /// [`Engine::critic`], to let it learn.
    fn critic_mut(&mut self) -> Option<&mut Critic> {
        None
    }
}

/// A sampler elsewhere, such as a server, that gets an engine's weights whenever they have moved.
pub trait WeightFollower {
    /// Generates the responses of the engine's policy, by prompt.
    ///
    /// # Errors
    /// If the weights cannot be handed over, or the sampler fails.
    fn generate(&self, engine: &dyn Engine, request: &SamplingRequest<'_>) -> Responses;
}

/// An engine with the follower that samples in its place; without one it samples itself.
#[derive(Clone, Copy)]
pub struct SampledBy<'a> {
    pub engine: &'a dyn Engine,
    pub follower: Option<&'a dyn WeightFollower>,
}

impl Sampler for SampledBy<'_> {
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses {
        match self.follower {
            Some(follower) => follower.generate(self.engine, request),
            None => self.engine.generate(request),
        }
    }
}
