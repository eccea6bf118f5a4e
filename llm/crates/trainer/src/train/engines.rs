//! [`Engines`]: the engines that a run may use; and [`Local`]: those of this process.

use std::path::Path;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{self, Decoder, ModelConfig as Shape};
use grpo_lambda_gpu::select::ComputeDevice;

use crate::config::{Config, ConfigError, EngineKind};
use crate::step::engine::{CpuEngine, Engine, GpuEngine, TrainingSetup, WeightFollower};

/// The start of an engine: a model's shape, its weights, and the setup of a stage.
pub struct EngineStart<'a> {
    pub shape: &'a Shape,
    pub parameters: Parameters<f32>,
    pub setup: TrainingSetup,
}

/// Builds the engines of a run.
pub trait Engines {
    /// Refuses a configuration that these engines cannot carry out, before there is a run directory.
    fn check(&self, config: &Config, device: &ComputeDevice) -> Result<(), ConfigError>;

    /// Builds an engine on `device`.
    fn engine<'s>(
        &'s self,
        config: &Config,
        device: &ComputeDevice,
        start: EngineStart<'_>,
    ) -> model::Result<Box<dyn Engine + 's>>;

    /// Connects the server that samples in the engine's place; `None` if the configuration names none. Weights may be handed over below `run`.
    fn follower(
        &self,
        config: &Config,
        vocabulary: usize,
        run: &Path,
    ) -> Result<Option<Box<dyn WeightFollower>>, ConfigError>;
}

/// Refuses a configuration that asks for candle, of engines that have only our own decoders.
pub fn refuse_candle(config: &Config) -> Result<(), ConfigError> {
    match config.engine {
        EngineKind::Own => Ok(()),
        EngineKind::Candle => Err(ConfigError::Conflict(
            "engine = candle: this program was built without it; build it with --features candle (candle-cuda, candle-metal), or set engine=own"
                .into(),
        )),
    }
}

/// The engines of this process alone.
#[derive(Clone, Copy, Debug)]
pub struct Local;

impl Engines for Local {
    fn check(&self, config: &Config, _: &ComputeDevice) -> Result<(), ConfigError> {
        refuse_candle(config)?;
        let conflict = |problem: String| Err(ConfigError::Conflict(problem));
        if config.rollout.is_some() {
            return conflict(
                "rollout.engine: these engines sample in process; set rollout.engine=local".into(),
            );
        }
        Ok(())
    }

    fn engine<'s>(
        &'s self,
        _: &Config,
        device: &ComputeDevice,
        EngineStart { shape, parameters, setup }: EngineStart<'_>,
    ) -> model::Result<Box<dyn Engine + 's>> {
        Ok(match device {
            ComputeDevice::Cpu => Box::new(CpuEngine::new(Decoder::new(shape.clone(), parameters)?, setup)?),
            ComputeDevice::Cuda(card, dtype) => {
                Box::new(GpuEngine::new(card, *dtype, shape, &parameters, setup)?)
            }
            ComputeDevice::Candle(..) => {
                return Err(DeviceError::Missing(format!("no engine computes {}", device.describe())).into());
            }
        })
    }

    fn follower(
        &self,
        _: &Config,
        _: usize,
        _: &Path,
    ) -> Result<Option<Box<dyn WeightFollower>>, ConfigError> {
        Ok(None)
    }
}
