//! The files of a run's checkpoint.

use std::path::Path;

use grpo_lambda_decoder::disk::DiskError;
use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::optim::WriteStateError;

use super::Run;
use super::error::{Result, TrainError};
use crate::config::ModelSource;
use crate::run::adapter_base::{self, AdapterBase};
use crate::run::{Checkpoint, CheckpointWriter, RunError};
use crate::step::engine::Engine;

const MODEL: [&str; 2] = ["model.safetensors", "config.json"];
const REFERENCE: [&str; 2] = ["reference/model.safetensors", "reference/config.json"];
/// A safetensors file by another ending: engines such as vLLM read every `.safetensors` of a directory as weights.
pub(super) const OPTIMISER: &str = "optimiser.state";
/// The weights and the optimiser of a critic.
pub(super) const CRITIC: &str = "critic.state";

impl Run<'_> {
    /// Writes the checkpoint after the steps done so far.
    pub(super) fn save(&mut self, engine: &dyn Engine) -> Result<Checkpoint> {
        let session = self.session;
        let adapter = engine.adapter()?;
        // Only this checkpoint holds the weights that RL starts from after supervised learning.
        let (sft, rl) = (session.config.sft.steps, session.config.rl.steps);
        let own = rl > 0 && sft > 0 && self.state.sft_done == sft;
        let base = match &session.config.model {
            // PEFT reads a relative path from where it is started.
            ModelSource::Checkpoint(path) if !own => {
                std::path::absolute(path).as_ref().unwrap_or(path).display().to_string()
            }
            _ => "../reference".to_owned(),
        };
        let (state_file, state) = self.state.to_file();
        let stored = self.stored_reference.clone();
        let best = self.state.best.filter(|_| session.config.checkpoint.best);
        let saved: Checkpoint = self.dir.save(self.state.done(), best, |writer| {
            let (directory, disk) = (writer.directory().to_owned(), writer.disk().clone());
            let put = |parameters: &Parameters<f32>, directory: &Path| {
                weights::save_on(
                    &disk,
                    directory,
                    (&session.shape, parameters),
                    (weights::SaveDtype::F32, usize::MAX),
                )
            };
            // Saved one after the other, so that two copies of a large model are never held at once.
            put(&*engine.parameters()?, &directory).map_err(TrainError::Save)?;
            adopt(writer, "", &MODEL)?;
            if let Some((settings, tensors)) = &adapter {
                let directory = directory.join("adapter");
                lora::save_on(&disk, &directory, (settings, tensors), &base).map_err(TrainError::Save)?;
                adopt(writer, "adapter/", &[lora::CONFIG_FILE, lora::WEIGHTS_FILE])?;
            }
            // The reference stays the same during a stage: it is on the disk once, and so is its fingerprint next to an adapter.
            let under = format!("adapter/{}", adapter_base::FILE);
            let fingerprint = adapter.is_some().then_some(under.as_str());
            // The fingerprint is linked last: once it is, nothing is written over the file that another checkpoint has.
            let constant: Vec<&str> = REFERENCE.into_iter().chain(fingerprint).collect();
            if !linked(writer, stored.as_ref(), &constant)?
                && let Some(frozen) = engine.frozen_weights()?
            {
                put(&frozen, &directory.join("reference")).map_err(TrainError::Save)?;
                adopt(writer, "", &REFERENCE)?;
                if adapter.is_some() {
                    writer.file(&under, &AdapterBase::new(&frozen).to_bytes())?;
                }
            }
            let refused = |file: &str, e: WriteStateError| match e {
                WriteStateError::Write(source) => {
                    let path = directory.join(file);
                    TrainError::Run(RunError::Io(DiskError { action: "write", path, source }))
                }
                WriteStateError::Device(e) => TrainError::Model(model::Error::Device(e)),
            };
            writer.stream(OPTIMISER, |to| engine.write_optimiser(to).map_err(|e| refused(OPTIMISER, e)))?;
            if let Some(critic) = engine.critic() {
                writer.stream(CRITIC, |to| critic.write(to).map_err(|e| refused(CRITIC, e)))?;
            }
            for (name, bytes) in session.tokens.files() {
                writer.file(name, bytes)?;
            }
            Ok::<_, TrainError>(writer.file(state_file, &state)?)
        })?;
        self.stored_reference = Some(saved.clone());
        Ok(saved)
    }
}

/// Makes files that were written into a checkpoint part of it.
fn adopt(writer: &mut CheckpointWriter, directory: &str, files: &[&str]) -> Result<(), RunError> {
    files.iter().try_for_each(|file| writer.adopt(&format!("{directory}{file}")))
}

/// Links these files of another checkpoint into this one. True if all were.
fn linked(
    writer: &mut CheckpointWriter,
    from: Option<&Checkpoint>,
    files: &[&str],
) -> Result<bool, RunError> {
    let Some(from) = from else { return Ok(false) };
    files.iter().try_fold(true, |all, file| Ok(all && writer.link(from, file)?))
}
