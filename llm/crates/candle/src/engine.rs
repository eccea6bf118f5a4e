//! The engine: working weights on candle's device; what is trained in full precision, and the optimiser's state, in the machine's memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use candle_core::{DType, Device};
use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::generate::{RolloutError, SampledResponse, Sampler, SamplingRequest};
use grpo_lambda_decoder::lora::{self, LoraSettings};
use grpo_lambda_decoder::model::weights::{self, Parameters, Tensor};
use grpo_lambda_decoder::model::{
    Cotangents, Decoder, Error, ForwardOptions, ModelConfig, Rows, TokenScores,
};
use grpo_lambda_decoder::optim::{AdamW, OptimError, StepOutcome, WriteStateError};
use grpo_lambda_trainer::step::engine::{Engine, Tape, TrainingSetup};

use crate::failed;
use crate::model::Model;
use crate::pass::{self, Slopes};

/// A model in training. The policy is what the full-precision weights round to, with the adapter next to them unmerged.
pub struct CandleEngine {
    model: Model,
    reference: Option<Model>,
    lora: Option<LoraSettings>,
    /// Names and shapes of what is trained.
    trained: BTreeMap<String, Vec<usize>>,
    optimiser: AdamW,
    slopes: Slopes,
}

impl CandleEngine {
    /// An engine that starts from these parameters, rounded to `dtype`.
    ///
    /// # Errors
    /// When they do not fit the shape, or the device fails.
    pub fn new(
        device: &Device,
        dtype: DType,
        shape: &ModelConfig,
        parameters: &Parameters<f32>,
        setup: TrainingSetup,
    ) -> Result<Self, Error> {
        let model = |parameters| {
            weights::check(shape, parameters)?;
            Ok::<_, Error>(Model::new(shape, parameters, dtype, device).map_err(|e| failed(device, e))?)
        };
        let mut policy = model(parameters)?;
        let reference = setup.reference.as_ref().map(model).transpose()?;
        let adapter = match &setup.lora {
            Some(lora) => Some(lora.initialise(shape, setup.seed)?),
            None => None,
        };
        if let (Some(lora), Some(adapter)) = (&setup.lora, &adapter) {
            policy = policy.with_adapter(lora, adapter).map_err(|e| failed(device, e))?;
        }
        let trained = adapter.as_ref().unwrap_or(parameters);
        Ok(CandleEngine {
            model: policy,
            reference,
            lora: setup.lora,
            trained: trained.iter().map(|(name, t)| (name.clone(), t.shape.clone())).collect(),
            optimiser: AdamW::new(setup.adam, trained.iter().map(|(name, t)| (name.clone(), t.data.clone()))),
            slopes: Slopes::new(),
        })
    }

    fn failed(&self, error: candle_core::Error) -> DeviceError {
        failed(&self.model.device, error)
    }

    /// Rounds the optimiser's weights to the model's.
    fn take_weights(&mut self) -> candle_core::Result<()> {
        self.optimiser
            .parameters()
            .try_for_each(|(name, data)| self.model.set(name, data, &self.trained[name]))
    }

    /// The accumulated gradient, taken off the device tensor by tensor; zeros if nothing was added up.
    fn take_slopes(&mut self) -> candle_core::Result<BTreeMap<String, Vec<f32>>> {
        let untouched = self.slopes.is_empty();
        let mut taken = BTreeMap::new();
        for (name, shape) in &self.trained {
            if let Some(slope) = self.slopes.remove(name) {
                taken.insert(name.clone(), slope.flatten_all()?.to_vec1()?);
            } else if untouched {
                taken.insert(name.clone(), vec![0.0; shape.iter().product()]);
            }
        }
        Ok(taken)
    }

    /// The trained parameters in full precision.
    fn masters(&self) -> Parameters<f32> {
        let tensor = |(name, data): (&str, &[f32])| {
            (name.to_owned(), Tensor { shape: self.trained[name].clone(), data: data.to_vec() })
        };
        self.optimiser.parameters().map(tensor).collect()
    }
}

impl Sampler for CandleEngine {
    fn generate(&self, request: &SamplingRequest<'_>) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        self.model.generate(request)
    }
}

impl Engine for CandleEngine {
    fn shape(&self) -> &ModelConfig {
        &self.model.config
    }

    fn exact(&self) -> bool {
        false
    }

    fn steps(&self) -> u64 {
        self.optimiser.steps()
    }

    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Tape), Error> {
        rows.check(self.shape())?;
        let (scores, tape) = pass::forward(&self.model, rows, options).map_err(|e| self.failed(e))?;
        Ok((scores, Tape::new(tape)))
    }

    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>, Error> {
        let reference = match (&self.reference, &self.lora) {
            (Some(reference), _) => reference.clone(),
            (None, Some(_)) => self.model.without_adapter(),
            (None, None) => panic!("the stage began without a reference"),
        };
        let score = |rows: &Rows| {
            rows.check(&reference.config)?;
            Ok(pass::score(&reference, rows, options).map_err(|e| self.failed(e))?)
        };
        rows.iter().map(score).collect()
    }

    fn backward(&mut self, tape: Tape, cotangents: Cotangents<'_>) -> Result<(), Error> {
        let trained = &self.trained;
        let trains = |name: &str| trained.contains_key(name);
        let done = pass::backward(&self.model, tape.into_inner(), cotangents, &trains, &mut self.slopes);
        Ok(done.map_err(|e| failed(&self.model.device, e))?)
    }

    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError> {
        let slopes = self.take_slopes().map_err(|e| self.failed(e))?;
        let by_name: Vec<(&str, &[f32])> =
            slopes.iter().map(|(name, slope)| (name.as_str(), slope.as_slice())).collect();
        let outcome = self.optimiser.step(rate, &by_name)?;
        if let StepOutcome::Applied { .. } = outcome {
            self.take_weights().map_err(|e| self.failed(e))?;
        }
        Ok(outcome)
    }

    fn parameters(&self) -> Result<Cow<'_, Parameters<f32>>, Error> {
        let Some(settings) = &self.lora else { return Ok(Cow::Owned(self.masters())) };
        let mut parameters = self.model.without_adapter().read().map_err(|e| self.failed(e))?;
        lora::merge(settings, &self.masters(), self.shape(), &mut parameters)?;
        Ok(Cow::Owned(parameters))
    }

    fn frozen_weights(&self) -> Result<Option<Cow<'_, Parameters<f32>>>, Error> {
        let frozen = match (&self.reference, &self.lora) {
            (Some(reference), _) => reference.read(),
            (None, Some(_)) => self.model.without_adapter().read(),
            (None, None) => return Ok(None),
        };
        Ok(Some(Cow::Owned(frozen.map_err(|e| self.failed(e))?)))
    }

    fn adapter(&self) -> Result<Option<(LoraSettings, Parameters<f32>)>, Error> {
        Ok(self.lora.clone().map(|settings| (settings, self.masters())))
    }

    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        Ok(self.optimiser.write(to)?)
    }

    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError> {
        self.optimiser.restore(state)?;
        Ok(self.take_weights().map_err(|e| self.failed(e))?)
    }

    fn input_model(&self) -> Option<&Decoder<f32>> {
        None
    }
}
