//! Table 2: the hyperparameters.

use serde::Deserialize;

/// A value of Table 2 for each size of model.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerSize<T> {
    /// 1.5B models.
    #[serde(rename = "1.5B")]
    pub small: T,
    /// The 3B model.
    #[serde(rename = "3B")]
    pub middle: T,
    /// The 7B model.
    #[serde(rename = "7B")]
    pub large: T,
}

/// Table 2, every printed line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Table2 {
    pub caption: String,
    pub common: Common,
    pub sft: Sft,
    pub rl: Rl,
    pub grpo_lambda: LambdaSettings,
}

/// First lines of Table 2.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Common {
    pub precision: String,
    pub distributed: String,
    pub num_devices: u32,
}

/// Table 2, "Supervised Finetuning stage".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Sft {
    pub epochs: u32,
    pub max_seq_len: u32,
    pub learning_rate: f64,
    pub per_device_batch_size: u32,
    pub grad_accum: u32,
    pub full_finetuning: PerSize<bool>,
}

/// Table 2, "GRPO and GRPO-λ configuration".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Rl {
    pub training_steps: PerSize<u32>,
    pub max_prompt_length: u32,
    pub group_size: u32,
    pub max_grad_norm: f64,
    pub beta: f64,
    pub accuracy_reward_weight: f64,
    pub format_reward_weight: f64,
    pub max_completion_length: PerSize<u32>,
    pub per_device_batch_size: PerSize<u32>,
    pub grad_accum: PerSize<u32>,
    pub full_finetuning: PerSize<bool>,
}

/// Table 2, "GRPO-λ specific configuration".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct LambdaSettings {
    pub advantage_clamp_min: f64,
}
