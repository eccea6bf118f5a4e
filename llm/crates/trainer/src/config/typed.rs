//! The typed sections of a configuration, read from its canonical values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::generate::{MAX_TEMPERATURE, MIN_TEMPERATURE};
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_gpu::StatePlace;
use grpo_lambda_gpu::select::{self, DevicePreference};

use super::sampling::SAMPLING;
use super::schedule::{Schedule, ScheduleShape};
use super::{
    CheckpointConfig, Config, ConfigError, EvalConfig, METHOD_NAME, MemoryConfig, ModelShape, ModelSource,
    RlConfig, SftConfig, rewards, rollout, task,
};

/// Canonical values by key. A missing field, or one that is not canonical, is a bug.
struct Values<'v>(&'v BTreeMap<String, String>);

/// Reads every section.
///
/// # Errors
/// [`ConfigError::Conflict`] for values that are right one by one and wrong together.
pub(super) fn read(values: BTreeMap<String, String>) -> Result<Config, ConfigError> {
    let v = Values(&values);
    Ok(Config {
        seed: v.whole("seed"),
        threads: v.size("threads"),
        device: DevicePreference::parse(v.word("device")).expect("one of the choices"),
        dtype: select::parse_dtype(v.word("dtype")),
        shards: v.size("shards"),
        memory: MemoryConfig {
            micro_batch_tokens: v.size("memory.micro_batch_tokens"),
            recompute_layers: v.word("memory.recompute_layers") != "false",
            optimiser: StatePlace::parse(v.word("memory.optimiser")).expect("one of the choices"),
            slots: Some(v.size("memory.slots")).filter(|slots| *slots > 0),
        },
        model: v.model()?,
        eval: v.eval()?,
        lora: v.lora(),
        task: task::read(&values)?,
        sft: v.sft(),
        rl: v.rl(),
        rollout: rollout::read(&values)?,
        reward: rewards::read(&values)?,
        checkpoint: CheckpointConfig {
            every: v.whole("checkpoint.every"),
            keep: v.size("checkpoint.keep"),
            best: v.flag("checkpoint.best"),
        },
        method: v.word(METHOD_NAME).to_owned(),
        values,
    })
}

impl Values<'_> {
    fn word(&self, key: &str) -> &str {
        &self.0[key]
    }

    fn whole(&self, key: &str) -> u64 {
        self.word(key).parse().expect("canonical whole number")
    }

    fn size(&self, key: &str) -> usize {
        usize::try_from(self.whole(key)).unwrap_or(usize::MAX)
    }

    fn number(&self, key: &str) -> f64 {
        self.word(key).parse().expect("canonical number")
    }

    fn flag(&self, key: &str) -> bool {
        self.word(key) == "true"
    }

    fn schedule(&self, stage: &str) -> Schedule {
        Schedule {
            peak: self.number(&format!("{stage}.lr")),
            warmup: self.whole(&format!("{stage}.warmup")),
            steps: self.whole(&format!("{stage}.steps")),
            shape: ScheduleShape::parse(self.word(&format!("{stage}.schedule"))).expect("one of the choices"),
        }
    }

    fn adam(&self, stage: &str) -> AdamWSettings {
        AdamWSettings {
            beta1: self.number("adam.beta1"),
            beta2: self.number("adam.beta2"),
            epsilon: self.number("adam.epsilon"),
            weight_decay: self.number("adam.weight_decay"),
            compensated: self.flag("adam.compensated"),
            max_grad_norm: self.word(&format!("{stage}.grad_clip")).parse().ok(),
            ..AdamWSettings::default()
        }
    }

    fn model(&self) -> Result<ModelSource, ConfigError> {
        match self.word("model.checkpoint") {
            "none" => {
                let shape = ModelShape {
                    hidden: self.size("model.hidden"),
                    layers: self.size("model.layers"),
                    heads: self.size("model.heads"),
                    kv_heads: self.size("model.kv_heads"),
                    intermediate: self.size("model.intermediate"),
                };
                check_shape(&shape)?;
                Ok(ModelSource::Random(shape))
            }
            path => Ok(ModelSource::Checkpoint(PathBuf::from(path))),
        }
    }

    fn lora(&self) -> Option<LoraSettings> {
        (self.size("lora.rank") > 0).then(|| LoraSettings {
            rank: self.size("lora.rank"),
            alpha: self.number("lora.alpha"),
            targets: self.word("lora.targets").split(',').map(str::to_owned).collect(),
        })
    }

    fn sft(&self) -> SftConfig {
        SftConfig {
            steps: self.whole("sft.steps"),
            batch: self.size("sft.batch"),
            worked_share: self.number("sft.worked_share"),
            schedule: self.schedule("sft"),
            adam: self.adam("sft"),
        }
    }

    fn rl(&self) -> RlConfig {
        RlConfig {
            steps: self.whole("rl.steps"),
            prompts_per_step: self.size("rl.prompts_per_step"),
            group_size: self.size("rl.group_size"),
            sets: (self.word("rl.sampling") != SAMPLING[0]).then(|| Sets::new(self.size("rl.sets"))),
            inner_updates: self.size("rl.inner_updates"),
            schedule: self.schedule("rl"),
            adam: self.adam("rl"),
            max_new_tokens: self.size("rl.max_new_tokens"),
            temperature: self.number("rl.temperature"),
            dynamic_sampling: self.flag("rl.dynamic_sampling"),
            max_nan_steps: self.whole("rl.max_nan_steps"),
            max_logp_error: self.number("rl.max_logp_error"),
        }
    }

    fn eval(&self) -> Result<EvalConfig, ConfigError> {
        let temperature = self.number("eval.temperature");
        if (f64::MIN_POSITIVE..MIN_TEMPERATURE).contains(&temperature) {
            return Err(ConfigError::Conflict(format!(
                "eval.temperature = {temperature:e}: must be 0, for the most probable token, or a number from {MIN_TEMPERATURE:e} to {MAX_TEMPERATURE}"
            )));
        }
        if self.whole("eval.patience") > 0 && self.whole("eval.every") == 0 {
            return Err(ConfigError::Conflict(format!(
                "eval.patience = {}: counts evaluations during RL, of which eval.every = 0 makes none; give eval.every a number of steps",
                self.whole("eval.patience")
            )));
        }
        Ok(EvalConfig {
            n: self.size("eval.n"),
            every: self.whole("eval.every"),
            temperature,
            patience: self.whole("eval.patience"),
        })
    }
}

fn check_shape(shape: &ModelShape) -> Result<(), ConfigError> {
    let ModelShape { hidden, heads, kv_heads, .. } = *shape;
    let conflict = |text: String| Err(ConfigError::Conflict(text));
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
    Ok(())
}
