//! NeMo-RL.

use super::{Convention, EMPTY, Framework, Scope};

const NEMO_RL: Framework = Framework { name: "NeMo-RL", version: "main at 006907a" };
const ENTRY: Convention = Convention {
    framework: NEMO_RL,
    reduction: "1/(sum T + 1e-8) of the global batch (token_level_loss)",
    clip: "PPO, 0.8 to 1.2 (ratio_clip_c: none)",
    kl: "k3 times exp(x - sg x), coefficient 0.01; log-ratios cut at 20, values at 10",
    place: "nemo_rl/algorithms/loss/loss_functions.py, advantage_estimator.py",
    ..EMPTY
};
const KL_GRADIENT: &str = "the KL gradient there is that of k3 times the ratio on-policy: kl=ratio_k3";

pub(super) static ROWS: &[Convention] = &[
    Convention {
        words: "adv_estimator=grpo (the default: leave-one-out baseline, normalize_rewards)",
        advantage: "(r - mean of the others) / (std of the others + 1e-6); not divided where the others agree",
        ddof: Some(1),
        epsilon: Some(1e-6),
        method: "rloo",
        settings: "scale=others std_preset=verl clip=ppo reduction=token_mean beta=0.01 kl=ratio_k3",
        differs: KL_GRADIENT,
        ..ENTRY
    },
    Convention {
        words: "adv_estimator=grpo, use_leave_one_out_baseline=False",
        advantage: "(r - mean) / (std + 1e-6) of the group",
        ddof: Some(1),
        epsilon: Some(1e-6),
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean beta=0.01 kl=ratio_k3",
        differs: KL_GRADIENT,
        ..ENTRY
    },
    Convention {
        words: "adv_estimator=reinforce_plus_plus",
        advantage: "r - mean of the group, whitened over all tokens",
        ddof: Some(0),
        method: "reinforce_pp_baseline",
        settings: "beta=0.01 kl=ratio_k3",
        differs: "whitened there over n and with the variance kept above 1e-8, here over n - 1 and with 1e-8 added",
        ..ENTRY
    },
    Convention {
        words: "sequence_level_importance_ratios=True, token_level_loss=False",
        scope: Scope::Loss,
        reduction: "1/(B T_i)",
        clip: "PPO on the geometric mean of ratios",
        method: "gspo",
        settings: "std_preset=verl epsilon_low=0.2 epsilon_high=0.2",
        ..ENTRY
    },
    Convention {
        words: "use_cispo=True",
        scope: Scope::Loss,
        clip: "the ratio clipped to [0.8, 1.2], held, weighs log pi",
        method: "cispo",
        settings: "std_preset=verl clip_form=interval epsilon_high=0.2",
        ..ENTRY
    },
    Convention {
        words: "disable_ppo_ratio=True",
        scope: Scope::Loss,
        clip: "none: REINFORCE, -A log pi",
        method: "gpg",
        settings: "alpha=one",
        ..ENTRY
    },
    Convention {
        words: "ratio_clip_c=3",
        scope: Scope::Loss,
        clip: "PPO with the ratio capped at ratio_clip_c where A < 0",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3",
        ..ENTRY
    },
    Convention {
        words: "truncated_importance_sampling_type=tis, ratio=2",
        scope: Scope::Correction,
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean correction=token_truncate correction_high=2",
        ..ENTRY
    },
    Convention {
        words: "truncated_importance_sampling_type=icepop, 0.5 to 5",
        scope: Scope::Correction,
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean correction=token_mask correction_low=0.5 correction_high=5",
        ..ENTRY
    },
    Convention {
        words: "truncated_importance_sampling_type=seq-mask-tis, 0.999 to 1.002",
        scope: Scope::Correction,
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean correction=token_in_sequence_mask correction_low=0.999 correction_high=1.002",
        ..ENTRY
    },
];
