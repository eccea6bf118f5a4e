//! verl: its policy losses and its correction of the sampler's mismatch.

use super::verl::VERL;
use super::{Convention, EMPTY, Scope};

const LOSS: Convention = Convention {
    framework: VERL,
    scope: Scope::Loss,
    reduction: "as loss_agg_mode says, token-mean by default",
    recorded: "verl.json.gz",
    place: "verl/trainer/ppo/core_algos.py, register_policy_loss",
    ..EMPTY
};
const CORRECTION: Convention = Convention {
    framework: VERL,
    scope: Scope::Correction,
    place: "verl/trainer/ppo/rollout_corr_helper.py",
    ..EMPTY
};

const REJECTION: Convention = Convention {
    clip: "tokens or responses outside the bounds leave loss, KL and divisors; the bounds of k1 are ratios of the sampler to the policy",
    differs: "one distance at a time here; verl combines several",
    ..CORRECTION
};

pub(super) static ROWS: &[Convention] = &[
    Convention {
        words: "loss_mode=vanilla (the default)",
        clip: "PPO, 0.8 to 1.2, with clip_ratio_c = 3 where A < 0; log-ratios cut at 20",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3",
        differs: "verl's gradient is 0 beyond 20 nats, here it goes on in a straight line",
        ..LOSS
    },
    Convention {
        words: "loss_mode=gspo",
        reduction: "seq-mean-token-mean",
        clip: "PPO on the geometric mean of ratios, its gradient per token",
        method: "gspo_token",
        settings: "std_preset=verl",
        differs: "verl cuts the log-ratio at 10",
        ..LOSS
    },
    Convention {
        words: "loss_mode=cispo",
        clip: "the ratio clipped to [1 - low, 1 + high], held, weighs log pi",
        method: "cispo",
        settings: "std_preset=verl clip_form=interval epsilon_high=0.2",
        ..LOSS
    },
    Convention {
        words: "loss_mode=sapo",
        reduction: "seq-mean-token-mean, whatever loss_agg_mode says",
        clip: "(4/tau) sigma(tau (ratio - 1)), tau 1 and 1.05",
        method: "sapo",
        settings: "std_preset=verl",
        ..LOSS
    },
    Convention {
        words: "loss_mode=geo_mean",
        reduction: "1/B, whatever loss_agg_mode says",
        clip: "geometric mean of ratios whose logarithms are clipped one by one",
        method: "gmpo",
        settings: "std_preset=verl",
        ..LOSS
    },
    Convention {
        words: "loss_mode=dppo_tv",
        clip: "min(ratio, clip_ratio_c) weighs log pi inside a region of total variation",
        method: "dppo",
        settings: "std_preset=verl cap=3",
        differs: "the paper recommends a cap of 20, verl's default is clip_ratio_c = 3",
        ..LOSS
    },
    Convention {
        words: "loss_mode=dppo_kl",
        clip: "min(ratio, clip_ratio_c) weighs log pi inside a region of KL",
        method: "dppo",
        settings: "std_preset=verl divergence=kl cap=3",
        ..LOSS
    },
    Convention { words: "loss_mode=gpg", clip: "none: REINFORCE, -A log pi", method: "gpg", ..LOSS },
    Convention {
        words: "loss_mode=dro, dro_beta=0.5",
        clip: "none: REINFORCE with (beta/2) x^2",
        method: "dro",
        settings: "std_preset=verl pull=0.5",
        ..LOSS
    },
    Convention {
        words: "loss_mode=clip_cov",
        clip: "PPO, and a random share of the tokens with a covariance of log pi and A in a band has loss 0",
        differs: "no method here: the choice is random and made again at every update",
        ..LOSS
    },
    Convention {
        words: "loss_mode=kl_cov",
        clip: "none; coef |x| is added at the tokens of largest covariance of log pi and A",
        differs: "no method here: on-policy its added term has no gradient, so that it is REINFORCE with a ratio",
        ..LOSS
    },
    Convention {
        words: "loss_mode=bypass_mode, loss_type=ppo_clip",
        clip: "as vanilla, with the sampler as the old policy",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3",
        ..LOSS
    },
    Convention {
        words: "loss_mode=bypass_mode, loss_type=reinforce, rollout_is=token",
        clip: "min(ratio, 2), held, weighs log pi",
        method: "cispo",
        settings: "std_preset=verl cap=2",
        ..LOSS
    },
    Convention {
        words: "loss_mode=bypass_mode, loss_type=reinforce, rollout_is=sequence",
        clip: "min(product of ratios, 2), held, weighs log pi",
        method: "cispo",
        settings: "ratio=product std_preset=verl cap=2",
        ..LOSS
    },
    Convention {
        words: "rollout_is=token, rollout_is_threshold=2",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 correction=token_truncate correction_high=2",
        ..CORRECTION
    },
    Convention {
        words: "rollout_is=sequence, rollout_is_threshold=2",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 correction=sequence_truncate correction_high=2",
        ..CORRECTION
    },
    Convention {
        words: "rollout_is=token, rollout_is_threshold=0.5_5 (IcePop)",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 correction=token_mask correction_low=0.5 correction_high=5",
        ..CORRECTION
    },
    Convention {
        words: "rollout_rs=token_k1, rollout_rs_threshold=0.5_2",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=token_k1 reject_low=0.5 reject_high=2",
        recorded: "setups.json",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=token_k2, rollout_rs_threshold=0.5",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=token_k2 reject_high=0.5",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=token_k3, rollout_rs_threshold=0.5",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=token_k3 reject_high=0.5",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_sum_k1, rollout_rs_threshold=0.5_2",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_sum_k1 reject_low=0.5 reject_high=2",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_sum_k2, rollout_rs_threshold=1",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_sum_k2 reject_high=1",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_sum_k3, rollout_rs_threshold=1",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_sum_k3 reject_high=1",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_mean_k1 (geometric), rollout_rs_threshold=0.999_1.001",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_mean_k1 reject_low=0.999 reject_high=1.001",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_mean_k2, rollout_rs_threshold=0.1",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_mean_k2 reject_high=0.1",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_mean_k3, rollout_rs_threshold=0.1",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_mean_k3 reject_high=0.1",
        recorded: "setups.json",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_max_k2, rollout_rs_threshold=2",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_max_k2 reject_high=2",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_rs=seq_max_k3, rollout_rs_threshold=2",
        method: "grpo",
        settings: "std_preset=verl reduction=token_mean clip=two_sided clip_max=3 reject=seq_max_k3 reject_high=2",
        recorded: "-",
        ..REJECTION
    },
    Convention {
        words: "rollout_is_batch_normalize=True",
        clip: "the weights of rollout_is over their mean in the batch",
        differs: "no setting here: it is the setting of rollout_is times one number for the whole batch, which the search solves for",
        recorded: "setups.json",
        ..CORRECTION
    },
    Convention {
        words: "entropy_coeff",
        clip: "the loss less entropy_coeff times the entropy of the tokens, reduced by loss_agg_mode",
        differs: super::others::BONUS,
        recorded: "-",
        place: "verl/workers/utils/losses.py",
        ..LOSS
    },
];
