//! What TRL and verl call a setting, and what it is called here: a refusal of their name says ours.

/// A name of another trainer, without the sections before it, and what stands for it here.
struct Foreign {
    theirs: &'static str,
    ours: &'static str,
}

const fn of(theirs: &'static str, ours: &'static str) -> Foreign {
    Foreign { theirs, ours }
}

/// By the last part of their names; where two trainers share one, it means the same in both.
#[rustfmt::skip]
static NAMES: &[Foreign] = &[
    // TRL
    of("learning_rate", "`rl.lr` (`sft.lr` of the supervised stage)"),
    of("per_device_train_batch_size", "`rl.prompts_per_step` times `rl.group_size`; what fits into memory at once is `memory.micro_batch_tokens`"),
    of("gradient_accumulation_steps", "not needed: batches are split by `memory.micro_batch_tokens`, which changes no result"),
    of("num_generations", "`rl.group_size`"),
    of("max_completion_length", "`rl.max_new_tokens`"),
    of("num_iterations", "`rl.inner_updates`"),
    of("max_steps", "`rl.steps`"),
    of("num_train_epochs", "`rl.steps`, in steps: rows times epochs / `rl.prompts_per_step`"),
    of("epsilon", "`method.epsilon_low` and `method.epsilon_high`"),
    of("loss_type", "a method and its reduction: grpo is method.name=grpo method.reduction=response_mean; dr_grpo is method.name=dr_grpo; bnpo and dapo are \
        method.name=grpo method.reduction=token_mean (our `dapo` is the whole of DAPO, its clip and its length penalty too)"),
    of("scale_rewards", "`method.scale`"),
    of("mask_truncated_completions", "`method.mask_truncated`"),
    of("reward_weights", "`reward.accuracy`, `reward.format` and the others of [reward]"),
    of("reward_funcs", "`reward.command` for a program of your own, or the weights of [reward]"),
    of("max_grad_norm", "`rl.grad_clip`"),
    of("warmup_steps", "`rl.warmup`"),
    of("warmup_ratio", "`rl.warmup`, in steps"),
    of("lr_scheduler_type", "`rl.schedule`"),
    of("eval_steps", "`eval.every`"),
    of("save_steps", "`checkpoint.every`"),
    of("save_total_limit", "`checkpoint.keep`"),
    of("output_dir", "the option --run"),
    of("model_name_or_path", "`model.checkpoint`"),
    of("dataset_name", "`task.data`, with task.kind=dataset"),
    of("dataset_train_split", "`task.data`, as in task.data=openai/gsm8k:main/train"),
    of("dataset_test_split", "`task.test`, as in task.test=openai/gsm8k:main/test"),
    of("lora_r", "`lora.rank`"),
    of("r", "`lora.rank`"),
    of("lora_alpha", "`lora.alpha`"),
    of("lora_target_modules", "`lora.targets`"),
    of("lora_dropout", "not there: with dropout, sampler and trainer would be two policies"),
    of("dropout", "not there: with dropout, sampler and trainer would be two policies"),
    of("gradient_checkpointing", "`memory.recompute_layers`"),
    of("bf16", "`dtype=bf16`, on a card"),
    of("fp16", "not there: `dtype` is bf16 or f32"),
    of("adam_beta1", "`adam.beta1`"),
    of("adam_beta2", "`adam.beta2`"),
    of("adam_epsilon", "`adam.epsilon`"),
    of("max_prompt_length", "`task.max_prompt_tokens`"),
    of("completion_mask", "not there: rows are packed, so there is no padding to mask"),
    of("use_vllm", "`rollout.engine`, as in rollout.engine=vllm rollout.url=http://127.0.0.1:8000; local samples with this program"),
    of("vllm_server_base_url", "`rollout.url`"),
    of("report_to", "not needed: every run writes TensorBoard events, CSV and JSON lines"),
    of("logging_steps", "not needed: every step is logged"),
    // verl
    of("optim.lr", "`rl.lr`"),
    of("rollout.name", "`rollout.engine`"),
    of("rollout.n", "`rl.group_size`"),
    of("train_batch_size", "`rl.prompts_per_step`"),
    of("ppo_mini_batch_size", "not there: a step takes `rl.inner_updates` gradient steps on its whole batch"),
    of("ppo_micro_batch_size_per_gpu", "`memory.micro_batch_tokens`, in tokens; it changes no result"),
    of("ppo_epochs", "`rl.inner_updates`"),
    of("max_response_length", "`rl.max_new_tokens`"),
    of("kl_loss_coef", "`method.beta`"),
    of("kl_loss_type", "`method.kl`"),
    of("clip_ratio", "`method.epsilon_low` and `method.epsilon_high`"),
    of("clip_ratio_low", "`method.epsilon_low`"),
    of("clip_ratio_high", "`method.epsilon_high`"),
    of("loss_agg_mode", "`method.reduction`: token-mean is token_mean, seq-mean-token-mean is response_mean, seq-mean-token-sum is response_sum, \
        seq-mean-token-sum-norm is constant"),
    of("adv_estimator", "`method.name`"),
    of("norm_adv_by_std_in_grpo", "`method.scale`: none instead of group"),
    of("filter_groups.enable", "`rl.dynamic_sampling`"),
    of("total_epochs", "`rl.steps`, in steps: rows times epochs / `rl.prompts_per_step`"),
    of("total_training_steps", "`rl.steps`"),
    of("save_freq", "`checkpoint.every`"),
    of("test_freq", "`eval.every`"),
    of("train_files", "`task.data`"),
    of("val_files", "`task.test`"),
    of("prompt_key", "`task.columns.problem`"),
    of("model.path", "`model.checkpoint`"),
    of("enable_gradient_checkpointing", "`memory.recompute_layers`"),
    of("fsdp_config.optimizer_offload", "`memory.optimiser=host`"),
    of("custom_reward_function.path", "`reward.command`"),
];

/// What is said of a key that is another trainer's: ` (here: ..)`.
pub(super) fn hint(key: &str) -> Option<String> {
    let key = key.trim_start_matches('-').replace('-', "_");
    let fits = |f: &&Foreign| key == f.theirs || key.ends_with(&format!(".{}", f.theirs));
    // The longest fits best: `rollout.n` says more than `n`.
    let found = NAMES.iter().filter(fits).max_by_key(|f| f.theirs.len())?;
    Some(format!(" (a name of TRL or verl; here it is {})", found.ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FIELDS;

    #[test]
    fn names_of_other_trainers_lead_to_ours() {
        for (theirs, ours) in [
            ("learning_rate", "`rl.lr`"),
            ("--num-generations", "`rl.group_size`"),
            ("actor_rollout_ref.rollout.n", "`rl.group_size`"),
            ("actor_rollout_ref.actor.optim.lr", "`rl.lr`"),
            ("lora.dropout", "not there"),
            ("loss_type", "method.name=dr_grpo"),
        ] {
            assert!(hint(theirs).is_some_and(|said| said.contains(ours)), "{theirs}: {:?}", hint(theirs));
        }
        assert_eq!(hint("rl.lr"), None);
        assert_eq!(hint("stepz"), None);
    }

    /// Every key in backticks is one, so that no advice leads into another refusal.
    #[test]
    fn what_stands_for_them_exists() {
        let methods: Vec<&str> =
            grpo_lambda::methods::REGISTRY.iter().flat_map(|m| (m.params)()).map(|p| p.key).collect();
        for f in NAMES {
            for key in f.ours.split('`').skip(1).step_by(2) {
                let key = key.split('=').next().unwrap_or(key);
                let known = match key.strip_prefix("method.") {
                    Some(setting) => setting == "name" || methods.contains(&setting),
                    None => FIELDS.iter().any(|field| field.key == key) || key == "dapo",
                };
                assert!(known, "{}: {key}", f.theirs);
            }
            assert!(!FIELDS.iter().any(|field| field.key == f.theirs), "{} is a key of ours", f.theirs);
        }
    }
}
