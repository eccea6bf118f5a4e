//! Gradients of a batch in all parameters, as one vector.

use grpo_lambda_decoder::model::ForwardOptions;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine};
use grpo_lambda_trainer::step::micro_batch::Batch;

use super::lab::Result;

/// `Σ_i Σ_k pull_ik ∇log π_ik` of a batch, with respect to all parameters in their order.
pub(crate) fn pulled(
    engine: &mut CpuEngine,
    batch: Batch,
    pull: &[Vec<f64>],
    options: ForwardOptions,
    micro_batch_tokens: usize,
) -> Result<Vec<f32>> {
    engine.gradients().clear();
    for part in batch.parts(micro_batch_tokens) {
        let (_, tape) = engine.forward(&batch.rows(part.clone()), options)?;
        engine.backward(tape, (&pull[part]).into())?;
    }
    Ok(engine.gradients().by_name().into_iter().flat_map(|(_, g)| g.iter().copied()).collect())
}

pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}
