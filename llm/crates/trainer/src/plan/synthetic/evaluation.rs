//! The number of responses that a card decodes at a time in an evaluation.

use std::sync::Arc;

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::dry::{Ceilings, Dry, Work};
use grpo_lambda_gpu::{Device, Dtype};

use super::Result;
use super::memory_check::ALLOWANCE;
use crate::step::engine::GpuModel;

/// An evaluation of a model of this shape, every row as long as the longest.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationShape<'a> {
    pub shape: &'a Shape,
    pub dtype: Dtype,
    pub prompt_tokens: usize,
    /// Length limit of a response.
    pub new_tokens: usize,
}

/// The counts of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluationPrediction {
    /// Responses decoded at a time.
    pub slots: usize,
    /// The most bytes held, the weights included.
    pub peak: u64,
}

impl EvaluationShape<'_> {
    /// Counts an evaluation that decodes so many responses at a time.
    pub fn predict(&self, slots: usize) -> Result<EvaluationPrediction> {
        let dry = self.generate(Ceilings::default(), slots)?;
        Ok(EvaluationPrediction { slots, peak: dry.ledger().peak().0 })
    }

    /// Work of so many responses decoded together: the prompts, and the other tokens with rows of their mean length.
    pub fn work(&self, ceilings: Ceilings, rows: usize) -> Result<Work> {
        let work = |prompt_tokens: usize, new_tokens: usize| {
            let shape = EvaluationShape { prompt_tokens, new_tokens, ..*self };
            shape.generate(ceilings, rows).map(|dry| dry.work())
        };
        // Two new tokens take one step more than one.
        let mean = (self.prompt_tokens + self.new_tokens / 2).saturating_sub(2).max(1);
        let step = work(mean, 2)? - work(mean, 1)?;
        Ok(work(self.prompt_tokens, 1)? + step.times(self.new_tokens.saturating_sub(1) as u64))
    }

    /// The dry device after generating.
    fn generate(&self, ceilings: Ceilings, rows: usize) -> Result<Arc<Dry>> {
        let dry = Arc::new(Dry::at(ceilings));
        let device: Arc<dyn Device> = dry.clone();
        let model = GpuModel::uninitialised(&device, self.dtype, self.shape)?;
        let prompt = vec![0; self.prompt_tokens];
        let prompts = vec![prompt.as_slice(); rows];
        let sampling = SamplingParams::new(self.new_tokens, 1.0);
        let address = |_: usize, _: usize| Address::new(0, Purpose::Evaluation);
        model.generate(&SamplingRequest::new(&prompts, 1, &[], sampling, &address))?;
        Ok(dry)
    }

    /// The evaluation with the most slots, at most `most`, whose peak and [`ALLOWANCE`] take at most `free` bytes; none where one response is
    /// too much.
    pub fn most(&self, most: usize, free: u64) -> Result<Option<EvaluationPrediction>> {
        let (mut fits, mut too_many) = (None, most + 1);
        // All of them, then by halves.
        let mut next = most;
        while next > 0 {
            let one = self.predict(next)?;
            if one.peak.saturating_add(ALLOWANCE) <= free {
                fits = Some(one);
            } else {
                too_many = next;
            }
            let least = fits.map_or(0, |one| one.slots);
            next = if too_many - least > 1 { least + (too_many - least) / 2 } else { 0 };
        }
        Ok(fits)
    }

    /// The slots of an evaluation on a card with `free` bytes: those asked for, or the most up to `otherwise`.
    ///
    /// # Errors
    /// One line that says what to change, where they do not fit.
    pub fn slots(&self, asked: Option<usize>, otherwise: usize, free: u64) -> Result<Result<usize, String>> {
        let most = asked.unwrap_or(otherwise);
        let found = self.most(most, free)?;
        let slots = found.map_or(0, |found| found.slots);
        if slots == most || (asked.is_none() && slots > 0) {
            return Ok(Ok(slots));
        }
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        let taken = self.predict(most.min(asked.unwrap_or(1)))?;
        let instead = match slots {
            0 => "lower the length limit of a response".to_owned(),
            slots => format!("decode at most {slots} at a time"),
        };
        Ok(Err(format!(
            "decoding {} at a time, in rows of {} tokens with their prompts, takes {:.1} GiB with the weights, and {:.1} GiB are for driver and libraries: the card \
             has {:.1} GiB free; {instead}",
            taken.slots,
            self.prompt_tokens + self.new_tokens,
            gib(taken.peak),
            gib(ALLOWANCE),
            gib(free)
        )))
    }
}
