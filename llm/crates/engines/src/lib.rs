//! Engines beyond one process: [`team`] shares a run's work among processes, [`remote`] samples on a server, [`serve`] is such a server.
//!
//! A [`Team`], which by default is one process, builds the engines of [`grpo_lambda_trainer::train`] and connects the server.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

#[cfg(test)]
#[path = "../../../../tests/fuzzer/mod.rs"]
mod fuzzer;
pub mod remote;
pub mod serve;
pub mod team;

use std::path::Path;

use grpo_lambda_decoder::model::{self, Decoder};
use grpo_lambda_gpu::select::ComputeDevice;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::step::engine::{Engine, WeightFollower};
use grpo_lambda_trainer::train::{EngineStart, Engines, Local, refuse_candle};

use remote::{Server, ServerFollower};
use team::{Shards, Team, TeamEngine, TeamError};

fn refused(e: impl ToString) -> ConfigError {
    ConfigError::Conflict(e.to_string())
}

impl Engines for Team {
    fn check(&self, config: &Config, device: &ComputeDevice) -> Result<(), ConfigError> {
        refuse_candle(config)?;
        Shards::new(config.shards, self.size()).map_err(refused)?;
        match device {
            ComputeDevice::Cuda(card, _) if config.shards > 1 => Err(refused(TeamError::OnCard(card.name()))),
            _ => Ok(()),
        }
    }

    fn engine<'s>(
        &'s self,
        config: &Config,
        device: &ComputeDevice,
        start: EngineStart<'_>,
    ) -> model::Result<Box<dyn Engine + 's>> {
        match device {
            ComputeDevice::Cpu if config.shards > 1 => {
                let model = Decoder::new(start.shape.clone(), start.parameters)?;
                Ok(Box::new(TeamEngine::new(model, start.setup, self, config.shards)?))
            }
            _ => Local.engine(config, device, start),
        }
    }

    fn follower(
        &self,
        config: &Config,
        vocabulary: usize,
        run: &Path,
    ) -> Result<Option<Box<dyn WeightFollower>>, ConfigError> {
        let Some(settings) = &config.rollout else { return Ok(None) };
        let server = Server::connect(settings, vocabulary).map_err(refused)?;
        Ok(Some(Box::new(ServerFollower::new(server, run, config.rl.max_logp_error))))
    }
}
