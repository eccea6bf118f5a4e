//! The engine of a device: [`GpuDecoder`] with [`GpuAdamW`].

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use grpo_lambda_decoder::generate::{Responses, Sampler, SamplingRequest};
use grpo_lambda_decoder::lora::{self, LoraSettings};
use grpo_lambda_decoder::model::config::{NormPlacement, QkNorm};
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{
    Cotangents, Decoder, Error, ForwardOptions, ModelConfig, Result, Rows, TokenScores,
};
use grpo_lambda_decoder::optim::{OptimError, StepOutcome, WriteStateError};
use grpo_lambda_gpu::generate::{self, GenerateOptions};
use grpo_lambda_gpu::lora::AdapterLayout;
use grpo_lambda_gpu::weights::Tensors;
use grpo_lambda_gpu::{
    Adapter, Budget, Device, DeviceError, Dtype, GpuAdamW, GpuDecoder, Gradients, Kernels, Layout, Network,
    Weights,
};

use super::{Engine, Tape, TrainingSetup};

/// The layout of a model on a device.
///
/// # Errors
/// [`Error::Unsupported`] names the part of its layers that has no kernels.
pub(super) fn layout(shape: &ModelConfig) -> Result<Arc<Layout>> {
    let part = match (shape.norm_placement, shape.qk_norm) {
        (NormPlacement::Pre, QkNorm::None | QkNorm::PerHead) => return Ok(Arc::new(Layout::new(shape))),
        (NormPlacement::Post, _) => "norms after attention and the MLP",
        (NormPlacement::Pre, QkNorm::Whole) => "norms over the queries and keys of all heads",
    };
    Err(Error::Unsupported { family: format!("{:?}", shape.architecture), device: "GPU", part })
}

/// A model on a device, for sampling.
#[derive(Debug)]
pub struct GpuModel {
    pub(super) decoder: GpuDecoder,
    pub(super) weights: Weights,
    pub(super) adapter: Option<Adapter>,
}

impl GpuModel {
    /// A model with these parameters, rounded to `dtype`.
    pub fn new(
        device: &Arc<dyn Device>,
        dtype: Dtype,
        shape: &ModelConfig,
        parameters: &Parameters<f32>,
    ) -> Result<Self> {
        weights::check(shape, parameters)?;
        let layout = layout(shape)?;
        let weights = Weights::upload(device, "weights", &layout, parameters, dtype)?;
        let decoder = GpuDecoder::new(Kernels { device: device.clone(), dtype }, layout, Budget::default());
        Ok(GpuModel { decoder, weights, adapter: None })
    }

    /// Adds an adapter next to the weights, unmerged: merged, the two would be rounded together.
    fn with_adapter(self, settings: &LoraSettings, adapter: &Parameters<f32>, dtype: Dtype) -> Result<Self> {
        let device = &self.decoder.kernels().device;
        let layout = Arc::new(AdapterLayout::new(settings, self.decoder.config())?);
        let adapter = Adapter::upload(device, "weights", &layout, adapter, dtype)?;
        Ok(GpuModel { adapter: Some(adapter), ..self })
    }

    /// The model of a checkpoint directory. The adapter of a run in bf16 stays next to its weights, as in training: merged into weights that are
    /// rounded, it would lose its smallest changes.
    pub fn load(
        device: &Arc<dyn Device>,
        dtype: Dtype,
        shape: &ModelConfig,
        directory: &Path,
    ) -> Result<Self> {
        let (own, base) = (directory.join("adapter"), directory.join("reference"));
        let apart = dtype == Dtype::Bf16 && own.join(lora::CONFIG_FILE).is_file() && base.is_dir();
        if !apart {
            return GpuModel::new(device, dtype, shape, &weights::load(directory, shape)?);
        }
        let (settings, adapter) = lora::load(&own, shape)?;
        let model = GpuModel::new(device, dtype, shape, &weights::load(&base, shape)?)?;
        model.with_adapter(&settings, &adapter, dtype)
    }

    /// Bytes of the adapter next to the weights; 0 without one.
    pub fn adapter_bytes(&self) -> u64 {
        let bytes =
            |adapter: &Adapter| adapter.tensors().flat().len() * adapter.tensors().dtype().bytes() as u64;
        self.adapter.as_ref().map_or(0, bytes)
    }

    /// The tensors that are trained.
    fn trained(&self) -> &Tensors {
        self.adapter.as_ref().map_or(self.weights.tensors(), Adapter::tensors)
    }

    fn network(&self) -> Network<'_> {
        Network { weights: &self.weights, adapter: self.adapter.as_ref() }
    }
}

impl Sampler for GpuModel {
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses {
        Ok(generate::run(&self.decoder, self.network(), request, GenerateOptions::default())?.0)
    }
}

/// A model in training on a device. Weights and activations have its dtype; what is trained is kept in `f32` next to them, and the policy
/// is what they round to. With an adapter the weights stay as they are, and without it they are the reference.
#[derive(Debug)]
pub struct GpuEngine {
    pub(super) model: GpuModel,
    pub(super) reference: Option<Weights>,
    pub(super) optimiser: GpuAdamW,
    /// Allocated from the first backward pass of a step to its end, so that the KV caches can use this memory while responses are sampled.
    pub(super) gradients: Option<Gradients>,
}

impl GpuEngine {
    /// An engine that starts from these parameters.
    pub fn new(
        device: &Arc<dyn Device>,
        dtype: Dtype,
        shape: &ModelConfig,
        parameters: &Parameters<f32>,
        setup: TrainingSetup,
    ) -> Result<Self> {
        let mut model = GpuModel::new(device, dtype, shape, parameters)?;
        let layout = model.weights.layout().clone();
        let reference = match &setup.reference {
            Some(reference) => {
                weights::check(shape, reference)?;
                Some(Weights::upload(device, "reference", &layout, reference, dtype)?)
            }
            None => None,
        };
        let kernels = model.decoder.kernels().clone();
        let optimiser = match &setup.lora {
            Some(settings) => {
                let layout = Arc::new(AdapterLayout::new(settings, shape)?);
                let first = settings.initialise(shape, setup.seed)?;
                let adapter = Adapter::upload(device, "weights", &layout, &first, dtype)?;
                let optimiser =
                    GpuAdamW::placed(setup.place, kernels, setup.adam, adapter.tensors(), &first)?;
                model.adapter = Some(adapter);
                optimiser
            }
            None => GpuAdamW::placed(setup.place, kernels, setup.adam, model.weights.tensors(), parameters)?,
        };
        Ok(GpuEngine { model, reference, optimiser, gradients: None })
    }

    /// Bytes of the optimiser's state in the host's memory.
    pub fn host_bytes(&self) -> u64 {
        self.optimiser.host_bytes()
    }

    /// Takes the accumulated gradient; zeros if there is none.
    fn take_gradients(&mut self) -> Result<Gradients, DeviceError> {
        if let Some(gradients) = self.gradients.take() {
            return Ok(gradients);
        }
        let device = &self.model.decoder.kernels().device;
        match &self.model.adapter {
            Some(adapter) => Gradients::adapter(device, adapter.layout()),
            None => Gradients::weights(device, self.model.weights.layout()),
        }
    }
}

impl Sampler for GpuEngine {
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses {
        self.model.generate(request)
    }
}

impl Engine for GpuEngine {
    fn shape(&self) -> &ModelConfig {
        self.model.decoder.config()
    }

    fn exact(&self) -> bool {
        false
    }

    fn steps(&self) -> u64 {
        self.optimiser.steps()
    }

    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, Tape)> {
        let (scores, tape) = self.model.decoder.forward(self.model.network(), rows, options)?;
        Ok((scores, Tape::new(tape)))
    }

    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>> {
        let weights = match (&self.reference, &self.model.adapter) {
            (Some(reference), _) => reference,
            (None, Some(_)) => &self.model.weights,
            (None, None) => panic!("the stage began without a reference"),
        };
        rows.iter().map(|rows| Ok(self.model.decoder.score(weights, rows, options)?)).collect()
    }

    fn backward(&mut self, tape: Tape, cotangents: Cotangents<'_>) -> Result<()> {
        let (tape, gradients) = (tape.into_inner(), self.take_gradients()?);
        self.model.decoder.backward(self.model.network(), tape, cotangents, &gradients)?;
        self.gradients = Some(gradients);
        Ok(())
    }

    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError> {
        let gradients = self.take_gradients()?;
        Ok(self.optimiser.step(rate, &gradients, self.model.trained())?)
    }

    fn parameters(&self) -> Result<Cow<'_, Parameters<f32>>> {
        let Some((settings, adapter)) = self.adapter()? else {
            return Ok(Cow::Owned(self.optimiser.parameters()?));
        };
        let mut parameters = self.model.weights.tensors().read()?;
        lora::merge(&settings, &adapter, self.shape(), &mut parameters)?;
        Ok(Cow::Owned(parameters))
    }

    fn frozen_weights(&self) -> Result<Option<Cow<'_, Parameters<f32>>>> {
        let frozen = match (&self.reference, &self.model.adapter) {
            (Some(reference), _) => Some(reference),
            (None, Some(_)) => Some(&self.model.weights),
            (None, None) => None,
        };
        Ok(frozen.map(|weights| weights.tensors().read()).transpose()?.map(Cow::Owned))
    }

    fn adapter(&self) -> Result<Option<(LoraSettings, Parameters<f32>)>> {
        let Some(adapter) = &self.model.adapter else { return Ok(None) };
        Ok(Some((adapter.layout().settings().clone(), self.optimiser.parameters()?)))
    }

    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        self.optimiser.write(to)
    }

    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError> {
        self.optimiser.restore(state, self.model.trained())
    }

    fn input_model(&self) -> Option<&Decoder<f32>> {
        None
    }
}
