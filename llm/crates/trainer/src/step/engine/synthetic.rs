//! An engine with synthetic weights, for measurements that depend on the shape alone.

use std::sync::Arc;

use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{ModelConfig, Result};
use grpo_lambda_gpu::lora::AdapterLayout;
use grpo_lambda_gpu::ptr::Float;
use grpo_lambda_gpu::weights::Tensors;
use grpo_lambda_gpu::{
    Adapter, Budget, Device, DeviceError, Dtype, GpuAdamW, GpuDecoder, Kernels, StatePlace, Weights, random,
};

use super::TrainingSetup;
use super::gpu::{GpuEngine, GpuModel, layout};

/// The weights of [`GpuEngine::synthetic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntheticWeights {
    /// Random numbers.
    Random,
    /// Uninitialised: for dry runs, which compute nothing.
    Uninitialised,
}

impl SyntheticWeights {
    fn fill<T: Float>(self, tensors: &Tensors<T>, seed: u64) -> Result<(), DeviceError> {
        match self {
            SyntheticWeights::Random => random::fill(tensors, seed, 0.02),
            SyntheticWeights::Uninitialised => Ok(()),
        }
    }

    /// The optimiser of weights that are filled.
    fn optimiser(
        self,
        kernels: &Kernels,
        setup: &TrainingSetup,
        trained: &Tensors,
    ) -> Result<GpuAdamW, DeviceError> {
        // What is on the host starts from there: no kernel fills it.
        let start = match (self, setup.place) {
            (SyntheticWeights::Random, StatePlace::Host) => trained.read()?,
            _ => Parameters::new(),
        };
        let optimiser = GpuAdamW::placed(setup.place, kernels.clone(), setup.adam.clone(), trained, &start)?;
        optimiser.master().map_or(Ok(()), |master| self.fill(master, setup.seed))?;
        Ok(optimiser)
    }
}

impl GpuModel {
    /// A model without weights, for dry runs, which compute nothing.
    pub(crate) fn uninitialised(device: &Arc<dyn Device>, dtype: Dtype, shape: &ModelConfig) -> Result<Self> {
        let layout = layout(shape)?;
        let weights = Weights::zeros(device, "weights", &layout, dtype)?;
        let decoder = GpuDecoder::new(Kernels { device: device.clone(), dtype }, layout, Budget::default());
        Ok(GpuModel { decoder, weights, adapter: None })
    }
}

impl GpuEngine {
    /// An engine whose weights are generated on the device, for measuring time and memory; a dry run leaves them uninitialised. `reference`
    /// says whether there is a reference model; that of `setup` is ignored.
    pub fn synthetic(
        device: &Arc<dyn Device>,
        dtype: Dtype,
        shape: &ModelConfig,
        setup: TrainingSetup,
        reference: bool,
        fill_with: SyntheticWeights,
    ) -> Result<Self> {
        let seed = setup.seed;
        let layout = layout(shape)?;
        let weights = Weights::zeros(device, "weights", &layout, dtype)?;
        fill_with.fill(weights.tensors(), seed)?;
        let kernels = Kernels { device: device.clone(), dtype };
        let (adapter, optimiser) = match &setup.lora {
            Some(settings) => {
                let layout = Arc::new(AdapterLayout::new(settings, shape)?);
                let adapter = Adapter::zeros(device, "weights", &layout, dtype)?;
                fill_with.fill(adapter.tensors(), seed)?;
                let optimiser = fill_with.optimiser(&kernels, &setup, adapter.tensors())?;
                (Some(adapter), optimiser)
            }
            None => (None, fill_with.optimiser(&kernels, &setup, weights.tensors())?),
        };
        let reference = match reference && adapter.is_none() {
            true => {
                let reference = Weights::zeros(device, "reference", &layout, dtype)?;
                fill_with.fill(reference.tensors(), seed)?;
                Some(reference)
            }
            false => None,
        };
        let decoder = GpuDecoder::new(kernels, layout, Budget::default());
        let model = GpuModel { decoder, weights, adapter };
        Ok(GpuEngine { model, reference, optimiser, gradients: None })
    }
}
