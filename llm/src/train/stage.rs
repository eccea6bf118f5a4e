//! How a stage of a run begins.

use grpo_lambda::group::EvidenceKind;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{self, Config as Shape};
use grpo_lambda_decoder::optim::AdamWSettings;

use super::Run;
use super::error::TrainError;
use crate::problems::Stage;
use crate::run::Checkpoint;
use crate::step::engine::{Engine, TrainingSetup};

/// Makes the engine of a stage.
pub(super) type EngineFactory<'s, E> =
    dyn Fn(&Shape, Parameters<f32>, TrainingSetup) -> model::Result<E> + 's;

/// What supervised learning leaves.
pub(super) enum SftResult<E> {
    /// What RL starts from.
    Weights(Parameters<f32>),
    /// Where no RL follows, everything: the moments and the adapter are what the run found.
    Engine(E),
}

impl Run<'_> {
    /// How a stage begins: the frozen weights it refers to are those of the checkpoint, if there is one, or else those it starts from.
    /// With an adapter they are also the weights it starts from.
    pub(super) fn build_engine<E: Engine>(
        &self,
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
        // The adapters of the two stages are not to begin alike.
        let seed = self.config.seed.wrapping_add(number);
        let setup = TrainingSetup { adam: adam.clone(), lora, reference, seed };
        let mut engine = new_engine(&self.shape, parameters, setup)?;
        if let Some(c) = from {
            engine.restore_optimiser(&c.read("optimiser.safetensors")?)?;
        }
        Ok(engine)
    }
}
