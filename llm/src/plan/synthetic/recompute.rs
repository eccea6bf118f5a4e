//! Whether layers are kept or computed again, where the configuration leaves it to counted memory.

use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_gpu::Dtype;

use super::SyntheticStepError;
use super::memory_check::memory_check;
use super::predict::{StepPrediction, predict};
use crate::config::Config;
use crate::problems::MaxLengths;

/// The configuration with `memory.recompute_layers=auto` decided for a card with `free` bytes, by dry runs of both ways, and the step
/// that is predicted for it.
///
/// # Errors
/// [`SyntheticStepError`], when the settings do not fit together.
pub fn decided(
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    longest: MaxLengths,
    free: u64,
) -> Result<(Config, StepPrediction), SyntheticStepError> {
    let mut kept = None;
    let decided = config.deciding_recomputation(|config| {
        let predicted = predict(shape, config, dtype, longest)?;
        let fits = memory_check(&predicted, free, config).is_ok();
        kept = fits.then_some(predicted);
        Ok::<_, SyntheticStepError>(fits)
    })?;
    let predicted = kept.map_or_else(|| predict(shape, &decided, dtype, longest), Ok)?;
    Ok((decided, predicted))
}
