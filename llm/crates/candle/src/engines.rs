//! [`WithCandle`]: the engines of a run, and candle's next to them.

use std::path::Path;

use candle_core::{DType, Device};
use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model;
use grpo_lambda_gpu::select::{CandleDevice, ComputeDevice};
use grpo_lambda_trainer::config::{Config, ConfigError, EngineKind};
use grpo_lambda_trainer::step::engine::{Engine, WeightFollower};
use grpo_lambda_trainer::train::{EngineStart, Engines};

use crate::{CandleEngine, said};

/// Builds a [`CandleEngine`] where a configuration asks for one, and what the other engines build elsewhere.
pub struct WithCandle<'e>(pub &'e dyn Engines);

/// The device, if this program was built for it and the machine has it.
fn open(device: CandleDevice) -> Result<Device, String> {
    let (built, opened) = match device {
        CandleDevice::Cpu => return Ok(Device::Cpu),
        CandleDevice::Cuda => (cfg!(feature = "cuda"), Device::new_cuda(0)),
        CandleDevice::Metal => (cfg!(feature = "metal"), Device::new_metal(0)),
    };
    let name = if device == CandleDevice::Cuda { "cuda" } else { "metal" };
    match opened {
        Ok(device) => Ok(device),
        Err(_) if !built => Err(format!(
            "engine = candle, device = {name}: this program was built without it; build it with --features \
            candle-{name}, or set device=cpu"
        )),
        Err(e) => Err(format!("engine = candle, device = {name}: {}; set device=cpu", said(&e))),
    }
}

impl Engines for WithCandle<'_> {
    fn check(&self, config: &Config, device: &ComputeDevice) -> Result<(), ConfigError> {
        let ComputeDevice::Candle(device, _) = device else { return self.0.check(config, device) };
        let mut own = config.clone();
        own.engine = EngineKind::Own;
        self.0.check(&own, &ComputeDevice::Cpu)?;
        let refused = |problem: String| Err(ConfigError::Conflict(problem));
        open(*device).map_or_else(refused, |_| Ok(()))
    }

    fn engine<'s>(
        &'s self,
        config: &Config,
        device: &ComputeDevice,
        start: EngineStart<'_>,
    ) -> model::Result<Box<dyn Engine + 's>> {
        let ComputeDevice::Candle(device, dtype) = device else {
            return self.0.engine(config, device, start);
        };
        let device = open(*device).map_err(DeviceError::Missing)?;
        let dtype = if *dtype == Dtype::F32 { DType::F32 } else { DType::BF16 };
        let EngineStart { shape, parameters, setup } = start;
        Ok(Box::new(CandleEngine::new(&device, dtype, shape, &parameters, setup)?))
    }

    fn follower(
        &self,
        config: &Config,
        vocabulary: usize,
        run: &Path,
    ) -> Result<Option<Box<dyn WeightFollower>>, ConfigError> {
        self.0.follower(config, vocabulary, run)
    }
}
