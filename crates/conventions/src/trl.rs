//! Hugging Face TRL.

use super::{Convention, EMPTY, Framework, Scope};

const TRL: Framework = Framework { name: "TRL", version: "1.16.0" };
const LOSS: Convention = Convention {
    framework: TRL,
    advantage: "(r - mean) / (std + 1e-4) of the group",
    ddof: Some(1),
    epsilon: Some(1e-4),
    clip: "PPO, 0.8 to 1.2 (epsilon_high: none)",
    kl: "none by default; k3 times the ratio (use_bias_correction_kl)",
    recorded: "trl.json.gz",
    place: "trl/trainer/grpo_trainer.py, _compute_loss",
    ..EMPTY
};
const ADVANTAGE: Convention = Convention {
    framework: TRL,
    scope: Scope::Advantages,
    ddof: Some(1),
    epsilon: Some(1e-4),
    recorded: "trl.json.gz",
    place: "trl/trainer/grpo_trainer.py, _generate_and_score_completions",
    ..EMPTY
};
const CORRECTION: Convention = Convention {
    framework: TRL,
    scope: Scope::Correction,
    recorded: "setups.json",
    place: "trl/trainer/grpo_trainer.py, _generate_and_score_completions",
    ..EMPTY
};

const RLOO: Convention = Convention {
    framework: TRL,
    advantage: "r - beta KL - mean of the others, KL = sum over the response of log pi_old - log pi_ref",
    reduction: "1/B: one loss per response",
    clip: "PPO on the product of ratios of the response, 0.8 to 1.2",
    kl: "k1 of the response in its reward, beta 0.05 by default",
    method: "rloo",
    recorded: "setups.json",
    place: "trl/trainer/rloo_trainer.py",
    ..EMPTY
};

pub(super) static ROWS: &[Convention] = &[
    Convention {
        words: "loss_type=dapo (the default)",
        reduction: "1/sum T over the accumulated batch of all processes",
        method: "grpo",
        settings: "reduction=token_mean",
        differs: "no higher upper bound and no penalty of length: not the paper's DAPO",
        ..LOSS
    },
    Convention {
        words: "loss_type=grpo",
        reduction: "1/(B T_i), mean over micro-batches",
        method: "grpo",
        ..LOSS
    },
    Convention {
        words: "loss_type=bnpo",
        reduction: "1/sum T over the micro-batch of a process, mean over micro-batches",
        method: "bnpo",
        differs: "a micro-batch is a group here; reduction=token_mean where it is the whole batch",
        ..LOSS
    },
    Convention {
        words: "loss_type=dr_grpo",
        reduction: "1/(B L), L = max_completion_length, 512 by default",
        method: "dr_grpo",
        settings: "scale=group max_length=512",
        differs: "the standard deviation stays unless scale_rewards=none",
        ..LOSS
    },
    Convention {
        words: "loss_type=dr_grpo, scale_rewards=none",
        advantage: "r - mean of the group",
        ddof: None,
        epsilon: None,
        reduction: "1/(B L), L = max_completion_length, 512 by default",
        method: "dr_grpo",
        settings: "max_length=512",
        ..LOSS
    },
    Convention {
        words: "loss_type=cispo, epsilon_high=5",
        reduction: "1/sum T, as dapo",
        clip: "min(ratio, epsilon_high), held, weighs log pi",
        method: "cispo",
        settings: "cap=5",
        differs: "epsilon_high is the cap itself; left out it is epsilon = 0.2, which caps every weight at 0.2",
        ..LOSS
    },
    Convention {
        words: "loss_type=luspo, importance_sampling_level=sequence",
        reduction: "1/B: sum over tokens, mean over responses",
        clip: "PPO on the geometric mean of ratios, 0.8 to 1.2 by default",
        method: "luspo",
        settings: "epsilon_low=0.2 epsilon_high=0.2",
        ..LOSS
    },
    Convention {
        words: "loss_type=sapo",
        reduction: "1/(B T_i)",
        clip: "(4/tau) sigma(tau (ratio - 1)), tau 1 and 1.05",
        method: "sapo",
        recorded: "-",
        ..LOSS
    },
    Convention {
        words: "loss_type=vespo",
        reduction: "1/sum T, as dapo",
        clip: "a gamma density of the response's ratio, held, weighs log pi",
        method: "vespo",
        differs: "TRL puts the sampler's correction into the ratio of the density; here it multiplies the loss",
        recorded: "-",
        ..LOSS
    },
    Convention {
        words: "importance_sampling_level=sequence, loss_type=grpo",
        reduction: "1/(B T_i)",
        clip: "PPO on the geometric mean of ratios, 0.8 to 1.2 by default",
        method: "gspo",
        settings: "epsilon_low=0.2 epsilon_high=0.2",
        differs: "under use_bias_correction_kl the k3 of every token is times the ratio of the response: kl=response_ratio_k3",
        ..LOSS
    },
    Convention {
        words: "delta=4",
        reduction: "1/sum T over the accumulated batch of all processes",
        clip: "PPO with the ratio capped at delta",
        method: "grpo",
        settings: "reduction=token_mean clip=two_sided clip_max=4",
        ..LOSS
    },
    Convention {
        words: "top_entropy_quantile=0.2",
        reduction: "1/sum T, the masked tokens counted",
        method: "high_entropy",
        settings: "epsilon_high=0.2",
        differs: "H is of the policy that sampled; TRL takes the current one",
        recorded: "-",
        ..LOSS
    },
    Convention {
        words: "scale_rewards=group (the default)",
        advantage: "(r - mean) / (std + 1e-4) of the group",
        method: "grpo",
        ..ADVANTAGE
    },
    Convention {
        words: "scale_rewards=batch",
        advantage: "(r - mean of the group) / (std of the batch + 1e-4)",
        method: "grpo_batch_std",
        ..ADVANTAGE
    },
    Convention {
        words: "scale_rewards=none",
        advantage: "r - mean of the group",
        ddof: None,
        epsilon: None,
        method: "grpo",
        settings: "scale=none",
        ..ADVANTAGE
    },
    Convention {
        words: "multi_objective_aggregation=normalize_then_sum",
        advantage: "z-score of each reward in its group, summed, then a z-score over the responses of the batch",
        method: "gdpo",
        settings: "std_preset=trl whiten_over=responses",
        recorded: "-",
        ..ADVANTAGE
    },
    Convention {
        words: "off_policy_mask_threshold=0.05",
        clip: "responses with A < 0 whose mean log-ratio of the sampler to the policy exceeds the threshold lose their policy term",
        method: "grpo",
        settings: "reduction=token_mean off_policy_mask=0.05",
        recorded: "setups.json",
        ..CORRECTION
    },
    Convention {
        words: "entropy_coef, use_adaptive_entropy",
        scope: Scope::Loss,
        clip: "the loss minus entropy_coef times the mean entropy of the tokens; adaptive: the coefficient moves by 0.005 a step, up at or below entropy_target, where alone it applies",
        differs: "the trainer's term: `llm-train` rl.entropy_coef, reduced as the loss is, where TRL takes the mean over tokens; adaptive (rl.entropy_target) by the entropy of the step's own rollout, where TRL takes the last step's. The gradient by log-probabilities of sampled tokens is that of the rest",
        recorded: "setups.json",
        ..LOSS
    },
    Convention {
        words: "vllm_importance_sampling_mode=sequence_mask (the default)",
        method: "grpo",
        settings: "reduction=token_mean correction=sequence_mask correction_high=3",
        ..CORRECTION
    },
    Convention {
        words: "vllm_importance_sampling_mode=token_truncate",
        method: "grpo",
        settings: "reduction=token_mean correction=token_truncate correction_high=3",
        ..CORRECTION
    },
    Convention {
        words: "vllm_importance_sampling_mode=token_mask",
        method: "grpo",
        settings: "reduction=token_mean correction=token_mask correction_high=3",
        ..CORRECTION
    },
    Convention {
        words: "vllm_importance_sampling_mode=sequence_truncate",
        method: "grpo",
        settings: "reduction=token_mean correction=sequence_truncate correction_high=3",
        ..CORRECTION
    },
    Convention {
        words: "RLOOTrainer",
        settings: "ratio=product clip=ppo reduction=response_mean reward_beta=0.05",
        ..RLOO
    },
    Convention {
        words: "RLOOTrainer, beta=0",
        advantage: "r - mean of the others",
        kl: "none",
        settings: "ratio=product clip=ppo reduction=response_mean",
        ..RLOO
    },
    Convention {
        words: "RLOOTrainer, normalize_advantages=True",
        advantage: "the same, centred and over (std + 1e-4) of the responses of the batch",
        ddof: Some(1),
        epsilon: Some(1e-4),
        settings: "ratio=product clip=ppo reduction=response_mean reward_beta=0.05 normalise=true",
        ..RLOO
    },
    Convention {
        words: "RLOOTrainer, reward_clip_range=[-1, 1]",
        scope: Scope::Advantages,
        settings: "reward_low=-1 reward_high=1 reward_beta=0.05",
        ..RLOO
    },
];
