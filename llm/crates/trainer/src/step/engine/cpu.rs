//! The exact engine: [`Decoder`] in f32 with [`AdamW`].

use std::borrow::Cow;
use std::io::Write;

use grpo_lambda_decoder::generate::{Responses, Sampler, SamplingRequest};
use grpo_lambda_decoder::lora::{Lora, LoraSettings};
use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use grpo_lambda_decoder::model::{
    Cotangents, Decoder, ForwardOptions, Gradients, ModelConfig, Result, Rows, Tape as DecoderTape,
    TokenScores,
};
use grpo_lambda_decoder::optim::{AdamW, OptimError, StepOutcome, WriteStateError};

use super::{Engine, Tape, TrainingSetup};
use crate::step::critic::Critic;

/// A decoder in training. With an adapter, the optimiser holds its matrices and the decoder computes with the merged weights.
pub struct CpuEngine {
    pub model: Decoder<f32>,
    /// Moments, and the adapter's weights.
    pub optimiser: AdamW,
    gradients: Gradients<f32>,
    /// True if the passes of this gradient recompute layers.
    recomputes: bool,
    reference: Option<Decoder<f32>>,
    lora: Option<Lora>,
    critic: Option<Critic>,
}

impl CpuEngine {
    /// An engine that starts from `model`.
    pub fn new(model: Decoder<f32>, setup: TrainingSetup) -> Result<Self> {
        let shape = model.config().clone();
        let reference = setup.reference.map(|p| Decoder::new(shape.clone(), p)).transpose()?;
        let critic =
            setup.critic.map(|adam| Critic::new(&shape, model.parameters().clone(), adam)).transpose()?;
        let lora = match setup.lora {
            Some(settings) => Some(Lora::new(settings, &model)?),
            None => None,
        };
        let optimiser = match &lora {
            Some(lora) => {
                let adapter = lora.settings().initialise(&shape, setup.seed)?;
                AdamW::new(setup.adam, adapter.into_iter().map(|(name, t)| (name, t.data)))
            }
            None => AdamW::for_model(&model, setup.adam),
        };
        let gradients = match &lora {
            Some(lora) => Gradients::new(&shape, |name| lora.adapts(name)),
            None => Gradients::new(&shape, |_| true),
        };
        Ok(CpuEngine { model, optimiser, gradients, recomputes: false, reference, lora, critic })
    }

    /// The accumulated gradient, that of shared prompts included.
    pub fn gradients(&mut self) -> &mut Gradients<f32> {
        self.complete();
        &mut self.gradients
    }

    /// Merges the adapter's weights into the decoder.
    fn merge(&mut self) {
        let optimiser = &self.optimiser;
        if let Some(lora) = &self.lora {
            lora.merge(&mut self.model, &|name| optimiser.weights(name));
        }
    }
}

impl Sampler for CpuEngine {
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses {
        self.model.generate(request)
    }
}

impl Engine for CpuEngine {
    fn shape(&self) -> &ModelConfig {
        self.model.config()
    }

    fn exact(&self) -> bool {
        true
    }

    fn steps(&self) -> u64 {
        self.optimiser.steps()
    }

    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Tape)> {
        let (scores, tape) = self.model.forward(rows, options)?;
        Ok((scores, Tape::new(tape)))
    }

    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>> {
        let score = |model: &Decoder<f32>| rows.iter().map(|rows| model.score(rows, options)).collect();
        match (&self.reference, &self.lora) {
            (Some(reference), _) => score(reference),
            (None, Some(lora)) => lora.without(&mut self.model, score),
            (None, None) => panic!("the stage began without a reference"),
        }
    }

    fn backward(&mut self, tape: Tape, cotangents: Cotangents<'_>) -> Result<()> {
        let tape: DecoderTape<f32> = tape.into_inner();
        self.recomputes = tape.recomputes();
        self.model.backward(tape, cotangents, &mut self.gradients);
        Ok(())
    }

    fn complete(&mut self) {
        self.model.complete(&mut self.gradients, self.recomputes);
    }

    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError> {
        self.complete();
        let outcome = match &self.lora {
            Some(lora) => {
                let optimiser = &self.optimiser;
                let thin = lora.gradients(&mut self.gradients, &|name| optimiser.weights(name));
                let thin: Vec<(&str, &[f32])> =
                    thin.iter().map(|(name, t)| (name.as_str(), t.data.as_slice())).collect();
                self.optimiser.step(rate, &thin)?
            }
            None => self.optimiser.step_in(&mut self.model, rate, &self.gradients.by_name())?,
        };
        if let StepOutcome::Applied { .. } = outcome {
            self.merge();
        }
        self.gradients.clear();
        Ok(outcome)
    }

    fn parameters(&self) -> Result<Cow<'_, Parameters<f32>>> {
        Ok(Cow::Borrowed(self.model.parameters()))
    }

    fn frozen_weights(&self) -> Result<Option<Cow<'_, Parameters<f32>>>> {
        Ok(match (&self.reference, &self.lora) {
            (Some(reference), _) => Some(Cow::Borrowed(reference.parameters())),
            (None, Some(lora)) => Some(Cow::Owned(lora.under(&self.model))),
            (None, None) => None,
        })
    }

    fn adapter(&self) -> Result<Option<(LoraSettings, Parameters<f32>)>> {
        let Some(lora) = &self.lora else { return Ok(None) };
        let shapes = lora.settings().shapes(self.model.config())?;
        let tensor = |(name, weights): (&str, &[f32])| {
            (name.to_owned(), Tensor { shape: shapes[name].to_vec(), data: weights.to_vec() })
        };
        Ok(Some((lora.settings().clone(), self.optimiser.parameters().map(tensor).collect())))
    }

    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        Ok(self.optimiser.write_of(&self.model, to)?)
    }

    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError> {
        self.optimiser.restore_in(&mut self.model, state)?;
        self.merge();
        Ok(())
    }

    fn input_model(&self) -> Option<&Decoder<f32>> {
        Some(&self.model)
    }

    fn critic(&self) -> Option<&Critic> {
        self.critic.as_ref()
    }

    fn critic_mut(&mut self) -> Option<&mut Critic> {
        self.critic.as_mut()
    }
}
