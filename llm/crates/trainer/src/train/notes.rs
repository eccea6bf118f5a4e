//! Lines of a run for people, and its progress.

use grpo_lambda_gpu::select::ComputeDevice;

use super::Run;
use super::error::TrainError;
use crate::run::progress::say;
use crate::run::{Checkpoint, stop};

impl Run<'_> {
    /// Prints a line that stays above the progress line.
    pub(super) fn say(&mut self, line: &str) {
        match &mut self.progress {
            Some(progress) => progress.note(line),
            None => say(line),
        }
    }

    pub(super) fn step_done(&mut self, step: u64, figures: &[(&str, f64)], tokens: usize) {
        if let Some(progress) = &mut self.progress {
            progress.step(step, figures, tokens as u64);
        }
    }

    pub(super) fn stage_done(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
    }

    /// Ends the run where a signal asked for it; `saved` holds everything that was done.
    pub(super) fn heed_stop(&mut self, saved: &Checkpoint) -> Result<(), TrainError> {
        let Some(signal) = stop::requested() else { return Ok(()) };
        self.stage_done();
        Err(TrainError::Stopped { signal, step: saved.step(), checkpoint: saved.path().to_owned() })
    }

    /// Parameters of the model.
    pub(super) fn parameters(&self) -> usize {
        self.shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum()
    }

    /// Warns when a resumed run continues on another device: results then agree only up to rounding.
    pub(super) fn note_device(&mut self, chosen: &ComputeDevice) {
        let here = chosen.describe();
        if let Some(there) = self.state.device.replace(here.clone()).filter(|there| *there != here) {
            self.say(&format!(
                "this run was {there} so far and continues {here}, where rounding differs: its numbers will not be bit-identical to those of an uninterrupted run"
            ));
        }
    }

    /// What is trained, where, how and into which directory.
    pub(super) fn announce(&mut self, chosen: &ComputeDevice) {
        let c = &self.shape;
        let rl = &self.config.rl;
        let adapter = self.config.lora.as_ref().map_or(String::new(), |lora| {
            format!(", of which an adapter of rank {} to {} is trained", lora.rank, lora.targets.join(", "))
        });
        self.say(&format!(
            "{} parameters ({} layers, width {}, vocabulary {}){adapter} {}; {} with {} responses to each of {} problems a step; run directory {}",
            self.parameters(),
            c.num_hidden_layers,
            c.hidden_size,
            c.vocab_size,
            chosen.describe(),
            self.configured.spec.title,
            rl.group_size,
            rl.prompts_per_step,
            self.dir.path().display()
        ));
    }
}
