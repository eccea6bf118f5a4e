//! [`Engine`]: a model in training on some device, as a training loop sees it.
//!
//! The loop, the policy and supervised learning are written once over this trait. [`CpuEngine`] is the exact engine: own decoder in f32, where
//! sampler and trainer agree to the bit. Others may round; the policy then measures how far the two are apart.

mod cpu;
mod gpu;

use std::borrow::Cow;
use std::io::Write;

pub use cpu::{CpuEngine, owned};
pub use gpu::{GpuEngine, GpuModel, SyntheticWeights};

use grpo_lambda_decoder::generate::Sampler;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, Error, ForwardOptions, ModelConfig, Rows, TokenScores};
use grpo_lambda_decoder::optim::{AdamWSettings, OptimError, StepOutcome, WriteStateError};
use grpo_lambda_gpu::StatePlace;

impl TrainingSetup {
    /// All weights are trained, without a reference policy; the optimiser's state is where the weights are.
    pub fn new(adam: AdamWSettings) -> Self {
        TrainingSetup { adam, place: StatePlace::Device, lora: None, reference: None, seed: 0 }
    }
}

/// What an engine needs at the start of a training stage.
#[derive(Clone, Debug)]
pub struct TrainingSetup {
    /// The optimiser.
    pub adam: AdamWSettings,
    /// Where its state is; on the CPU there is but one place.
    pub place: StatePlace,
    /// The adapter that is trained instead of the weights.
    pub lora: Option<LoraSettings>,
    /// Weights of the frozen policy of a KL term. An adapter needs none: its reference is the model without it.
    pub reference: Option<Parameters<f32>>,
    /// Seed of a new adapter.
    pub seed: u64,
}

/// A model, its optimiser, the accumulated gradient and the frozen reference.
pub trait Engine: Sampler + Sized {
    /// What [`Engine::forward`] keeps for [`Engine::backward`].
    type Tape;

    /// The model's shape.
    fn shape(&self) -> &ModelConfig;

    /// Whether sampler and trainer give a token the same bits; if not, they differ by rounding.
    fn exact(&self) -> bool;

    /// How many processes share a pass, so that it may have as many times the tokens of one.
    fn processes(&self) -> usize {
        1
    }

    /// Log-probabilities of the scored tokens, with the tape to differentiate them.
    ///
    /// # Errors
    /// When the rows do not suit the model or the device fails.
    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Self::Tape), Error>;

    /// Log-probabilities under the frozen reference, batch by batch.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    ///
    /// # Panics
    /// If the stage began without a reference and without an adapter.
    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>, Error>;

    /// Adds `sum_i,t dlogps[i][t] d log pi(i, t) / d theta` to the gradient.
    fn backward(&mut self, tape: Self::Tape, dlogps: &[Vec<f64>]) -> Result<(), Error>;

    /// Takes an optimiser step with the accumulated gradient, then clears the gradient.
    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError>;

    /// The weights in full precision, with the adapter merged: the policy that is sampled.
    fn parameters(&self) -> Result<Cow<'_, Parameters<f32>>, Error>;

    /// The frozen weights that a checkpoint needs to continue: the reference, or the weights under the adapter.
    fn frozen_weights(&self) -> Result<Option<Cow<'_, Parameters<f32>>>, Error>;

    /// The adapter, where one is trained.
    fn adapter(&self) -> Result<Option<(LoraSettings, Parameters<f32>)>, Error>;

    /// Writes the optimiser's state, with full-precision copies of what is trained: see [`grpo_lambda_decoder::optim::AdamW::to_bytes`].
    ///
    /// # Errors
    /// When the device fails or `to` refuses.
    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError>;

    /// Continues from what [`Engine::write_optimiser`] gave, to the bit. The stage must have begun with the weights of that checkpoint, or with the
    /// weights under its adapter.
    ///
    /// # Errors
    /// When the state is of another model. Nothing has changed then.
    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError>;

    /// The model as a CPU decoder, where it is one. Evidence is computed with it.
    fn cpu_decoder(&self) -> Option<&Decoder<f32>>;
}
