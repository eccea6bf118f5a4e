//! The typed configuration of canonical values.

use std::collections::BTreeMap;
use std::sync::Arc;

use grpo_lambda::methods::Configured;
use grpo_lambda_decoder::generate::{MAX_TEMPERATURE, MIN_TEMPERATURE};
use grpo_lambda_decoder::lora::LoraSettings;

use super::sections::{
    AdamConfig, ColumnFields, CriticConfig, LoraFields, ModelFields, RewardFields, RolloutFields, RunFields,
    TaskFields,
};
use super::{
    CheckpointConfig, Config, ConfigError, EvalConfig, GpuConfig, METHOD_NAME, MemoryConfig, ModelShape,
    ModelSource, RlConfig, SftConfig, rewards, rollout, task,
};

/// Reads every section.
///
/// # Errors
/// [`ConfigError::Conflict`] for values that are right one by one and wrong together.
pub(super) fn read(values: BTreeMap<String, String>, configured: Configured) -> Result<Config, ConfigError> {
    let run = RunFields::read(&values);
    let rl = checked_bonus(RlConfig::read(&values))?;
    Ok(Config {
        seed: run.seed,
        threads: run.threads,
        engine: run.engine,
        device: run.device,
        dtype: run.dtype,
        memory: MemoryConfig::read(&values),
        gpu: GpuConfig::read(&values),
        model: model(ModelFields::read(&values))?,
        lora: lora(LoraFields::read(&values)),
        task: task::read(TaskFields::read(&values), ColumnFields::read(&values))?,
        adam: AdamConfig::read(&values),
        sft: SftConfig::read(&values),
        rollout: rollout::read(RolloutFields::read(&values))?,
        reward: rewards::read(RewardFields::read(&values), &rl, &values)?,
        rl,
        critic: CriticConfig::read(&values),
        eval: checked(EvalConfig::read(&values))?,
        checkpoint: CheckpointConfig::read(&values),
        method: values[METHOD_NAME].clone(),
        configured: Arc::new(configured),
        values,
    })
}

fn model(fields: ModelFields) -> Result<ModelSource, ConfigError> {
    let ModelFields { checkpoint, hidden, layers, heads, kv_heads, intermediate } = fields;
    let conflict = |text: String| Err(ConfigError::Conflict(text));
    if let Some(path) = checkpoint {
        return Ok(ModelSource::Checkpoint(path));
    }
    if hidden % heads != 0 {
        return conflict(format!("model.hidden = {hidden} is not a multiple of model.heads = {heads}"));
    }
    if heads % kv_heads != 0 {
        return conflict(format!("model.heads = {heads} is not a multiple of model.kv_heads = {kv_heads}"));
    }
    if (hidden / heads) % 2 != 0 {
        return conflict(format!(
            "model.hidden / model.heads = {} is odd, and rotary positions turn pairs",
            hidden / heads
        ));
    }
    Ok(ModelSource::Random(ModelShape { hidden, layers, heads, kv_heads, intermediate }))
}

fn lora(LoraFields { rank, alpha, targets }: LoraFields) -> Option<LoraSettings> {
    (rank > 0).then_some(LoraSettings { rank, alpha, targets })
}

fn checked_bonus(rl: RlConfig) -> Result<RlConfig, ConfigError> {
    let RlConfig { entropy_coef, entropy_coef_max, .. } = rl;
    if rl.entropy_target.is_some() && entropy_coef > entropy_coef_max {
        return Err(ConfigError::Conflict(format!(
            "rl.entropy_coef = {entropy_coef}: exceeds rl.entropy_coef_max = {entropy_coef_max}, the largest coefficient with \
             rl.entropy_target; lower the one or raise the other"
        )));
    }
    Ok(rl)
}

fn checked(eval: EvalConfig) -> Result<EvalConfig, ConfigError> {
    let EvalConfig { every, temperature, patience, .. } = eval;
    if (f64::MIN_POSITIVE..MIN_TEMPERATURE).contains(&temperature) {
        return Err(ConfigError::Conflict(format!(
            "eval.temperature = {temperature:e}: must be 0, for the most probable token, or a number from {MIN_TEMPERATURE:e} to {MAX_TEMPERATURE}"
        )));
    }
    if patience > 0 && every == 0 {
        return Err(ConfigError::Conflict(format!(
            "eval.patience = {patience}: counts evaluations during RL, of which eval.every = 0 makes none; give eval.every a number of steps"
        )));
    }
    Ok(eval)
}
