//! verl: its estimators of advantages, its reductions and KL estimators.

use super::{Convention, EMPTY, Framework, Scope};

pub(super) const VERL: Framework = Framework { name: "verl", version: "0.9.1" };
const ESTIMATOR: Convention = Convention {
    framework: VERL,
    scope: Scope::Advantages,
    recorded: "verl.json.gz",
    place: "verl/trainer/ppo/core_algos.py, register_adv_est",
    ..EMPTY
};
const REDUCTION: Convention = Convention {
    framework: VERL,
    scope: Scope::Reduction,
    method: "grpo",
    recorded: "verl.json.gz",
    place: "verl/trainer/ppo/core_algos.py, agg_loss",
    ..EMPTY
};
const KL: Convention = Convention {
    framework: VERL,
    scope: Scope::Kl,
    method: "grpo",
    recorded: "verl.json.gz",
    place: "verl/trainer/ppo/core_algos.py, kl_penalty",
    ..EMPTY
};

const ALONE: &str = "a group of one response keeps its reward there and gets 0 here";
const EMPTY_ROWS: &str = "responses without tokens are left out of B there and counted here, as in TRL";

pub(super) static ROWS: &[Convention] = &[
    Convention {
        words: "adv_estimator=grpo",
        advantage: "(r - mean) / (std + 1e-6) of the group",
        ddof: Some(1),
        epsilon: Some(1e-6),
        method: "grpo",
        settings: "std_preset=verl",
        differs: ALONE,
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=grpo, norm_adv_by_std_in_grpo=False",
        advantage: "r - mean of the group",
        method: "grpo",
        settings: "scale=none",
        differs: ALONE,
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=grpo_vectorized",
        advantage: "as grpo, statistics in 32 bits",
        ddof: Some(1),
        epsilon: Some(1e-6),
        method: "grpo",
        settings: "std_preset=verl",
        differs: "statistics are rounded to 32 bits there; a group of one response keeps its reward",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=rloo, rloo_vectorized",
        advantage: "r - mean of the other responses",
        method: "rloo",
        settings: "clip=two_sided clip_max=3 reduction=token_mean",
        differs: "a group of one response keeps its reward in rloo and gets 0 in rloo_vectorized and here",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=reinforce_plus_plus",
        advantage: "discounted rewards to come, whitened over all tokens, 1e-8 added to the variance",
        ddof: Some(1),
        method: "reinforce_pp",
        settings: "gamma=1",
        differs: "rewards of single tokens are not read here, except through the KL penalty",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=reinforce_plus_plus_baseline",
        advantage: "r - mean of the group, whitened over all tokens, 1e-8 added to the variance",
        ddof: Some(1),
        method: "reinforce_pp_baseline",
        differs: ALONE,
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=opo",
        advantage: "r - mean of the group weighted by length",
        method: "opo",
        differs: ALONE,
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=grpo_passk",
        advantage: "(best - second best) / (std + 1e-6) for the best of a group, else 0",
        ddof: Some(1),
        epsilon: Some(1e-6),
        method: "grpo_passk",
        differs: "a group of one response is an error there and 0 here",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=gpg",
        advantage: "(responses / responses of reward not 0) (r - mean of the group) / f_norm",
        method: "gpg",
        settings: "alpha=rewarded",
        differs: "the paper counts groups whose rewards differ: alpha=mixed; a group of one response keeps its reward there",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=gae",
        advantage: "GAE over a critic, whitened over all tokens, 1e-8 added to the variance",
        ddof: Some(1),
        method: "ppo",
        settings: "lambda=1 gamma=1",
        differs: "rewards of single tokens are not read here",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=optimal_token_baseline",
        advantage: "r - baseline of the token's position, weighted by realised energy",
        method: "optimal_token_baseline",
        settings: "tail=zero",
        differs: "1e-8 is added to the energies there; positions count slots of a padded row there and trained tokens here",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=tir_optimal_token_baseline",
        advantage: "the same with positions that count trained tokens",
        method: "optimal_token_baseline",
        settings: "tail=zero",
        differs: "1e-8 is added to the energies there",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=remax",
        advantage: "r - reward of the greedy response to the prompt",
        method: "remax",
        settings: "clip=two_sided clip_max=3 reduction=token_mean",
        differs: "rewards of single tokens are not read here",
        ..ESTIMATOR
    },
    Convention {
        words: "adv_estimator=gdpo",
        advantage: "z-score of each reward in its group, summed, then whitened over all tokens",
        ddof: Some(1),
        epsilon: Some(1e-6),
        method: "gdpo",
        differs: "computed in 32 bits there; a group of one response keeps its reward",
        ..ESTIMATOR
    },
    Convention {
        words: "loss_agg_mode=token-mean",
        reduction: "1/sum T over the global batch",
        settings: "reduction=token_mean",
        ..REDUCTION
    },
    Convention {
        words: "loss_agg_mode=seq-mean-token-mean",
        reduction: "1/(B (T_i + 1e-8))",
        settings: "reduction=response_mean",
        differs: EMPTY_ROWS,
        ..REDUCTION
    },
    Convention {
        words: "loss_agg_mode=seq-mean-token-sum",
        reduction: "1/B",
        settings: "reduction=response_sum",
        differs: EMPTY_ROWS,
        ..REDUCTION
    },
    Convention {
        words: "loss_agg_mode=seq-mean-token-sum-norm",
        reduction: "1/(B L), L the padded length or loss_scale_factor",
        settings: "reduction=constant max_length=256",
        differs: EMPTY_ROWS,
        ..REDUCTION
    },
    Convention {
        words: "loss_agg_mode=token-sum",
        reduction: "1: the sum over all tokens",
        method: "",
        differs: "no reduction here: it is reduction=response_sum times the number of responses",
        ..REDUCTION
    },
    Convention { words: "kl_penalty=kl, k1", kl: "d", settings: "beta=0.001 kl=k1", ..KL },
    Convention { words: "kl_penalty=mse, k2", kl: "d^2 / 2", settings: "beta=0.001 kl=k2", ..KL },
    Convention {
        words: "kl_penalty=low_var_kl, k3",
        kl: "exp(-d) - 1 + d, cut at 10",
        settings: "beta=0.001 kl=k3",
        differs: "verl cuts d at 20 nats and the value at 10, where the gradient is then 0",
        ..KL
    },
    Convention { words: "kl_penalty=abs", kl: "|d|", settings: "beta=0.001 kl=abs", ..KL },
    Convention {
        words: "kl_penalty=k1+",
        kl: "d with the gradient of d^2 / 2",
        settings: "beta=0.001 kl=k1_k2",
        ..KL
    },
    Convention {
        words: "kl_penalty=k3+, low_var_kl+",
        kl: "k3 with the gradient of d^2 / 2",
        settings: "beta=0.001 kl=k3_k2",
        differs: "verl cuts the value at 10",
        ..KL
    },
];
