//! How a stage of a run begins.

use grpo_lambda::group::EvidenceKind;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{self, ModelConfig as Shape};
use grpo_lambda_decoder::optim::AdamWSettings;

use super::Run;
use super::checkpoint::OPTIMISER;
use super::error::TrainError;
use crate::problems::Stage;
use crate::run::Checkpoint;
use crate::step::engine::{Engine, TrainingSetup};

/// Builds the engine of a stage.
pub(super) type EngineFactory<'s, E> =
    dyn Fn(&Shape, Parameters<f32>, TrainingSetup) -> model::Result<E> + 's;

/// The result of the supervised stage.
pub(super) enum SftResult<E> {
    /// The weights that RL starts from.
    Weights(Parameters<f32>),
    /// The whole engine, where no RL follows: its moments and adapter are part of the result.
    Engine(E),
}

impl Run<'_> {
    /// Builds the engine of a stage. Its frozen reference weights are those of the checkpoint, if there is one, or else the weights it
    /// starts from. With an adapter they are also the weights under the adapter.
    pub(super) fn build_engine<E: Engine>(
        &mut self,
        parameters: Parameters<f32>,
        stage: Stage,
        from: Option<&Checkpoint>,
        new_engine: &EngineFactory<'_, E>,
    ) -> Result<E, TrainError> {
        let (adam, number): (&AdamWSettings, u64) = match stage {
            Stage::Sft => (&self.config.sft.adam, 0),
            Stage::Rl => (&self.config.rl.adam, 1),
        };
        let lora = self.config.lora.clone();
        let refers = stage == Stage::Rl && self.configured.evidence().contains(&EvidenceKind::RefLogps);
        let frozen = match (from, refers || lora.is_some()) {
            (Some(c), true) => Some(weights::load(&c.path().join("reference"), &self.shape)?),
            (None, true) if lora.is_none() => Some(parameters.clone()),
            _ => None,
        };
        let (parameters, reference) = match (&lora, frozen) {
            (Some(_), Some(base)) => (base, None),
            (_, frozen) => (parameters, frozen),
        };
        // The adapters of the two stages start from different seeds.
        let seed = self.config.seed.wrapping_add(number);
        let setup =
            TrainingSetup { adam: adam.clone(), place: self.config.memory.optimiser, lora, reference, seed };
        let mut engine = new_engine(&self.shape, parameters, setup)?;
        if let Some(c) = from {
            engine.restore_optimiser(&c.read(OPTIMISER)?)?;
        }
        self.stored_reference = from.cloned();
        Ok(engine)
    }
}
