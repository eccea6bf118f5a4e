//! Engines beyond this process: a vLLM server samples ([`remote`]), and this process computes.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

pub mod remote;

use std::path::Path;

use grpo_lambda_decoder::model;
use grpo_lambda_gpu::select::ComputeDevice;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::step::engine::{Engine, WeightFollower};
use grpo_lambda_trainer::train::{EngineStart, Engines, Local, refuse_candle};

use remote::{Server, ServerFollower};

/// The engines of this process, and the server that a configuration names.
#[derive(Clone, Copy, Debug)]
pub struct WithServer;

impl Engines for WithServer {
    fn check(&self, config: &Config, _: &ComputeDevice) -> Result<(), ConfigError> {
        refuse_candle(config)
    }

    fn engine<'s>(
        &'s self,
        config: &Config,
        device: &ComputeDevice,
        start: EngineStart<'_>,
    ) -> model::Result<Box<dyn Engine + 's>> {
        Local.engine(config, device, start)
    }

    fn follower(
        &self,
        config: &Config,
        vocabulary: usize,
        run: &Path,
    ) -> Result<Option<Box<dyn WeightFollower>>, ConfigError> {
        let Some(settings) = &config.rollout else { return Ok(None) };
        let server =
            Server::connect(settings, vocabulary).map_err(|e| ConfigError::Conflict(e.to_string()))?;
        Ok(Some(Box::new(ServerFollower::new(server, run, config.rl.max_logp_error))))
    }
}
