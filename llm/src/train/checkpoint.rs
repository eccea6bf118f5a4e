//! What a checkpoint of a run holds.

use std::path::Path;

use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::weights::{self, Parameters};

use super::Run;
use super::error::TrainError;
use crate::config::ModelSource;
use crate::run::Checkpoint;
use crate::run::adapter_base::{self, AdapterBase};
use crate::step::engine::Engine;

impl Run<'_> {
    /// Writes the checkpoint after the steps done so far.
    pub(super) fn save<E: Engine>(&mut self, engine: &E) -> Result<Checkpoint, TrainError> {
        let (shape, adapter) = (self.shape.clone(), engine.adapter()?);
        // Only this checkpoint holds the weights that RL starts from after supervised learning.
        let (sft, rl) = (self.config.sft.steps, self.config.rl.steps);
        let own = rl > 0 && sft > 0 && self.state.sft_done == sft;
        let base = match &self.config.model {
            // PEFT reads a relative path from where it is started.
            ModelSource::Checkpoint(path) if !own => {
                std::path::absolute(path).as_ref().unwrap_or(path).display().to_string()
            }
            _ => "../reference".to_owned(),
        };
        let (state_file, state) = self.state.to_file();
        self.dir.save(self.state.done(), |writer| {
            let directory = writer.directory().to_owned();
            let put = |parameters: &Parameters<f32>, directory: &Path| {
                weights::save(directory, &shape, parameters, weights::SaveDtype::F32, usize::MAX)
            };
            // Saved one after the other, so that two copies of a large model are never held at once.
            put(&*engine.parameters()?, &directory).map_err(TrainError::Save)?;
            let frozen = engine.frozen_weights()?;
            let under = frozen.as_ref().filter(|_| adapter.is_some()).map(|frozen| AdapterBase::of(frozen));
            let frozen = frozen.map(|frozen| put(&frozen, &directory.join("reference")));
            let referred = frozen.transpose().map_err(TrainError::Save)?.is_some();
            if let Some((settings, tensors)) = &adapter {
                let directory = directory.join("adapter");
                lora::save(&directory, settings, tensors, &base).map_err(TrainError::Save)?;
                for file in [lora::CONFIG_FILE, lora::WEIGHTS_FILE] {
                    writer.adopt(&format!("adapter/{file}"))?;
                }
                if let Some(under) = under {
                    writer.file(&format!("adapter/{}", adapter_base::FILE), &under.to_bytes())?;
                }
            }
            for file in ["model.safetensors", "config.json"] {
                writer.adopt(file)?;
                if referred {
                    writer.adopt(&format!("reference/{file}"))?;
                }
            }
            writer.file("optimiser.safetensors", &engine.optimiser_state()?)?;
            for (name, bytes) in self.tokens.files() {
                writer.file(name, bytes)?;
            }
            Ok(writer.file(state_file, &state)?)
        })
    }
}
