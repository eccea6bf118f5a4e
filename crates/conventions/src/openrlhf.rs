//! OpenRLHF.

use super::{Convention, EMPTY, Framework, Scope};

const OPENRLHF: Framework = Framework { name: "OpenRLHF", version: "0.11.2" };
const ESTIMATOR: Convention = Convention {
    framework: OPENRLHF,
    reduction: "1/sum T of the global batch",
    clip: "PPO, 0.8 to 1.2; dual_clip: none",
    kl: "k1 in the reward, coefficient 0.01",
    place: "openrlhf/trainer/ppo_utils/experience_maker.py, openrlhf/models/loss.py",
    ..EMPTY
};
const WHITENED: &str =
    "whitened there over n and with the variance kept above 1e-8, here over n - 1 and with 1e-8 added";
const REWARD_KL: &str = "the KL penalty at each token of the reward is a setting of reinforce_pp only";

pub(super) static ROWS: &[Convention] = &[
    Convention {
        words: "advantage.estimator=group_norm",
        advantage: "(r - mean) / (std + 1e-9) of the group",
        ddof: Some(1),
        epsilon: Some(1e-9),
        method: "grpo",
        settings: "std_preset=openrlhf reduction=token_mean",
        differs: REWARD_KL,
        ..ESTIMATOR
    },
    Convention {
        words: "advantage.estimator=dr_grpo",
        advantage: "r - mean of the group",
        method: "grpo",
        settings: "scale=none reduction=token_mean",
        differs: "the token mean stays: not the constant length of Dr. GRPO",
        ..ESTIMATOR
    },
    Convention {
        words: "advantage.estimator=rloo",
        advantage: "r - mean of the other responses",
        method: "rloo",
        settings: "clip=ppo reduction=token_mean",
        differs: REWARD_KL,
        ..ESTIMATOR
    },
    Convention {
        words: "advantage.estimator=reinforce",
        advantage: "discounted rewards to come, whitened over all tokens",
        ddof: Some(0),
        method: "reinforce_pp",
        settings: "reward_beta=0.01",
        differs: WHITENED,
        ..ESTIMATOR
    },
    Convention {
        words: "advantage.estimator=reinforce_baseline",
        advantage: "r - mean of the group, whitened over all tokens",
        ddof: Some(0),
        method: "reinforce_pp_baseline",
        differs: WHITENED,
        ..ESTIMATOR
    },
    Convention {
        words: "advantage.estimator=gae",
        advantage: "GAE over a critic, whitened over all tokens",
        ddof: Some(0),
        method: "ppo",
        settings: "lambda=1",
        differs: WHITENED,
        ..ESTIMATOR
    },
    Convention {
        words: "policy_loss_type=gspo",
        scope: Scope::Loss,
        reduction: "1/(B T_i)",
        clip: "PPO on the geometric mean of ratios",
        method: "gspo",
        settings: "epsilon_low=0.2 epsilon_high=0.2",
        ..ESTIMATOR
    },
    Convention {
        words: "dual_clip=3",
        scope: Scope::Loss,
        clip: "PPO with the ratio capped at dual_clip where A < 0",
        method: "grpo",
        settings: "std_preset=openrlhf reduction=token_mean clip=two_sided clip_max=3",
        ..ESTIMATOR
    },
    Convention {
        words: "is_correction_level=token, mode=mask (0.5 to 5)",
        scope: Scope::Correction,
        method: "grpo",
        settings: "std_preset=openrlhf reduction=token_mean correction=token_mask correction_low=0.5 correction_high=5",
        ..ESTIMATOR
    },
    Convention {
        words: "is_correction_level=seq, mode=mask",
        scope: Scope::Correction,
        method: "grpo",
        settings: "std_preset=openrlhf reduction=token_mean correction=token_in_sequence_mask correction_low=0.5 correction_high=5",
        ..ESTIMATOR
    },
];
