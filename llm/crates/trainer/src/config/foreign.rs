//! Names of settings in TRL and verl with ours, which the refusal of theirs states.

/// Another trainer's name, without the sections before it, and the setting here.
pub struct Foreign {
    pub theirs: &'static str,
    pub ours: &'static str,
}

const fn foreign(theirs: &'static str, ours: &'static str) -> Foreign {
    Foreign { theirs, ours }
}

/// Every name by its last part; one that both trainers have means the same in both.
#[rustfmt::skip]
pub static NAMES: &[Foreign] = &[
    // TRL
    foreign("learning_rate", "`rl.lr` (`sft.lr` of the supervised stage)"),
    foreign("per_device_train_batch_size", "`rl.prompts_per_step` times `rl.group_size`; what fits into memory at once is `memory.micro_batch_tokens`"),
    foreign("gradient_accumulation_steps", "not needed: batches are split by `memory.micro_batch_tokens`, which changes no result"),
    foreign("num_generations", "`rl.group_size`"),
    foreign("max_completion_length", "`rl.max_new_tokens`"),
    foreign("num_iterations", "`rl.inner_updates`"),
    foreign("max_steps", "`rl.steps`"),
    foreign("num_train_epochs", "`rl.steps`, in steps: rows times epochs / `rl.prompts_per_step`"),
    foreign("epsilon", "`method.epsilon_low` and `method.epsilon_high`"),
    foreign("loss_type", "a method and its reduction: grpo is method.name=grpo method.reduction=response_mean; dr_grpo is method.name=dr_grpo; bnpo and dapo are \
        method.name=grpo method.reduction=token_mean (our `dapo` is the whole of DAPO, its clip and its length penalty too)"),
    foreign("scale_rewards", "`method.scale`"),
    foreign("mask_truncated_completions", "`method.mask_truncated`"),
    foreign("cliprange_value", "`critic.clip`"),
    foreign("vf_coef", "not needed: the critic has weights and an AdamW of its own, whose steps do not depend on a factor of the loss; its rate is `critic.lr`"),
    foreign("num_ppo_epochs", "`rl.inner_updates`, and `critic.updates` for the critic"),
    foreign("reward_weights", "`reward.accuracy`, `reward.format` and the others of [reward]"),
    foreign("reward_funcs", "`reward.command` for a program of your own, or the weights of [reward]"),
    foreign("max_grad_norm", "`rl.grad_clip`"),
    foreign("warmup_steps", "`rl.warmup`"),
    foreign("warmup_ratio", "`rl.warmup`, in steps"),
    foreign("lr_scheduler_type", "`rl.schedule`"),
    foreign("eval_steps", "`eval.every`"),
    foreign("save_steps", "`checkpoint.every`"),
    foreign("save_total_limit", "`checkpoint.keep`"),
    foreign("output_dir", "the option --run"),
    foreign("model_name_or_path", "`model.checkpoint`"),
    foreign("dataset_name", "`task.data`, with task.kind=dataset"),
    foreign("dataset_train_split", "`task.data`, as in task.data=openai/gsm8k:main/train"),
    foreign("dataset_test_split", "`task.test`, as in task.test=openai/gsm8k:main/test"),
    foreign("lora_r", "`lora.rank`"),
    foreign("r", "`lora.rank`"),
    foreign("lora_alpha", "`lora.alpha`"),
    foreign("lora_target_modules", "`lora.targets`"),
    foreign("lora_dropout", "not there: with dropout, sampler and trainer would be two policies"),
    foreign("dropout", "not there: with dropout, sampler and trainer would be two policies"),
    foreign("gradient_checkpointing", "`memory.recompute_layers`"),
    foreign("bf16", "`dtype=bf16`, on a card"),
    foreign("fp16", "not there: `dtype` is bf16 or f32"),
    foreign("adam_beta1", "`adam.beta1`"),
    foreign("adam_beta2", "`adam.beta2`"),
    foreign("adam_epsilon", "`adam.epsilon`"),
    foreign("max_prompt_length", "`task.max_prompt_tokens`"),
    foreign("completion_mask", "not there: rows are packed, so there is no padding to mask"),
    foreign("use_vllm", "`rollout.engine`, as in rollout.engine=vllm rollout.url=http://127.0.0.1:8000; local samples with this program"),
    foreign("vllm_server_base_url", "`rollout.url`"),
    foreign("report_to", "not needed: every run writes TensorBoard events, CSV and JSON lines"),
    foreign("logging_steps", "not needed: every step is logged"),
    // verl
    foreign("optim.lr", "`rl.lr`"),
    foreign("rollout.name", "`rollout.engine`"),
    foreign("rollout.n", "`rl.group_size`"),
    foreign("train_batch_size", "`rl.prompts_per_step`"),
    foreign("ppo_mini_batch_size", "not there: a step takes `rl.inner_updates` gradient steps on its whole batch"),
    foreign("ppo_micro_batch_size_per_gpu", "`memory.micro_batch_tokens`, in tokens; it changes no result"),
    foreign("critic.ppo_epochs", "`critic.updates`"),
    foreign("critic.optim.lr", "`critic.lr`"),
    foreign("ppo_epochs", "`rl.inner_updates`"),
    foreign("max_response_length", "`rl.max_new_tokens`"),
    foreign("kl_loss_coef", "`method.beta`"),
    foreign("kl_loss_type", "`method.kl`"),
    foreign("clip_ratio", "`method.epsilon_low` and `method.epsilon_high`"),
    foreign("clip_ratio_low", "`method.epsilon_low`"),
    foreign("clip_ratio_high", "`method.epsilon_high`"),
    foreign("loss_agg_mode", "`method.reduction`: token-mean is token_mean, seq-mean-token-mean is response_mean, seq-mean-token-sum is response_sum, \
        seq-mean-token-sum-norm is constant"),
    foreign("adv_estimator", "`method.name`"),
    foreign("norm_adv_by_std_in_grpo", "`method.scale`: none instead of group"),
    foreign("filter_groups.enable", "`rl.dynamic_sampling`"),
    foreign("total_epochs", "`rl.steps`, in steps: rows times epochs / `rl.prompts_per_step`"),
    foreign("total_training_steps", "`rl.steps`"),
    foreign("save_freq", "`checkpoint.every`"),
    foreign("test_freq", "`eval.every`"),
    foreign("train_files", "`task.data`"),
    foreign("val_files", "`task.test`"),
    foreign("prompt_key", "`task.columns.problem`"),
    foreign("model.path", "`model.checkpoint`"),
    foreign("enable_gradient_checkpointing", "`memory.recompute_layers`"),
    foreign("fsdp_config.optimizer_offload", "`memory.optimiser=host`"),
    foreign("custom_reward_function.path", "`reward.command`"),
];

/// A hint for another trainer's key: ` (here: ..)`.
pub fn hint(key: &str) -> Option<String> {
    let key = key.trim_start_matches('-').replace('-', "_");
    let fits = |f: &&Foreign| key == f.theirs || key.ends_with(&format!(".{}", f.theirs));
    // The longest name fits best: `rollout.n` rather than `n`.
    let found = NAMES.iter().filter(fits).max_by_key(|f| f.theirs.len())?;
    Some(format!(" (a name of TRL or verl; here it is {})", found.ours))
}
