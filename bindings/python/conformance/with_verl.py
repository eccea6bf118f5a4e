"""verl: estimators of advantages, losses with the gradient by each log-probability, KL terms, called like its trainer does."""

import types

import numpy as np
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig, PolicyLossConfig

import grpo_lambda
from grpo_lambda import _verl

PACKAGES = ["verl", "transformers", "torch"]

#: Estimators by verl's treatment of a prompt with one response.
ALONE = {
    "error": "a prompt with one response is an error in verl; this library refuses it",
    "reward": "verl gives a prompt with one response its raw reward; this library refuses the prompt",
    "other": "verl gives a prompt with one response another advantage; this library refuses the prompt",
}
AGREEING = "if the rewards of a group are equal, verl divides the 32-bit rounding error of reward minus mean by 1e-6; this library returns 0"
HOLES = "verl counts positions by the slots of a padded row, this library by the trained tokens"
ABSOLUTE = "verl's value is |d| and its gradient that of d^2 / 2; this library has no such setting"
#: Estimators that compare nothing within a prompt.
UNGROUPED = ("gae", "reinforce_plus_plus", "remax")
WORDS = {"std_preset": "verl"}
PLAIN = {"scale": "none"}


def estimators(batch):
    """verl's estimator with its arguments, our method, its settings and extra inputs."""
    passk = OmegaConf.create({"norm_adv_by_std_in_grpo": True})
    discounted = types.SimpleNamespace(gamma=0.95)
    squares = {"old_log_probs": torch.tensor(batch.old), "sum_pi_squared": torch.tensor(batch.collisions)}
    collisions, values = {"collisions": batch.collisions}, {"values": batch.values}
    greedy = {"reward_parts": batch.other[:, None].tolist()}
    for name in ("grpo", "grpo_vectorized"):
        yield name, {}, "grpo", WORDS, {}
        yield name, {"norm_adv_by_std_in_grpo": False}, "grpo", PLAIN, {}
    yield "grpo_passk", {"config": passk}, "grpo_passk", WORDS, {}
    yield "rloo", {}, "rloo", {}, {}
    yield "rloo_vectorized", {}, "rloo", {}, {}
    yield "opo", {}, "opo", {}, {}
    yield "gpg", {"f_norm": 2.0}, "gpg", {"divisor": 2.0}, {}
    yield "remax", {"reward_baselines": torch.tensor(batch.other)}, "remax", {}, greedy
    yield "reinforce_plus_plus", {"config": discounted}, "reinforce_pp", {"gamma": 0.95}, {}
    yield "reinforce_plus_plus_baseline", {}, "reinforce_pp_baseline", {}, {}
    yield "gae", {"values": torch.tensor(batch.values), "gamma": 0.97, "lam": 0.9}, "ppo", {"gamma": 0.97, "lambda": 0.9}, values
    for name in ("optimal_token_baseline", "tir_optimal_token_baseline"):
        yield name, squares, "optimal_token_baseline", {"tail": "zero"}, collisions


def words(method, settings):
    return " ".join([method, *(f"{key}={value}" for key, value in settings.items())])


def agreeing(batch):
    """True for a row if all responses to its prompt have its reward."""
    index = np.array(batch.index)
    return np.array([np.ptp(batch.rewards[index == name]) == 0 for name in index])


def alone_there(name, call, batch, alone):
    """verl's treatment of a prompt with one response: `error`, `reward` or `other`."""
    try:
        found, _ = core_algos.get_adv_estimator_fn(name)(**call)
    except ValueError as error:
        assert "2 samples" in str(error) or "at least" in str(error), error
        return "error"
    expected = batch.rewards[alone][:, None] * batch.mask[alone]
    return "reward" if np.allclose(found.numpy()[alone], expected, rtol=1e-5) else "other"


def refused(batch, method, settings, extra_inputs):
    """True if the batch is refused because a prompt has one response."""
    try:
        grpo_lambda.credit_padded(
            method, batch.rewards.tolist(), batch.old, batch.mask, group=batch.index, extra_inputs=extra_inputs, **settings
        )
    except ValueError as error:
        assert "the group has one response" in str(error), error
        return None
    raise AssertionError(f"{method} takes a prompt with one response")


def of_estimators(batch, holes, alone):
    """Advantages at the trained tokens. `alone` marks the rows whose prompt has no other."""
    rewards, mask = torch.tensor(batch.token_rewards()), torch.tensor(batch.mask)
    index = np.array(batch.index, dtype=object)
    for name, arguments, method, settings, extra_inputs in estimators(batch):
        call = dict(token_level_rewards=rewards.clone(), response_mask=mask, **arguments)
        if name not in UNGROUPED:
            call["index"] = index
        if alone.any() and "index" in call:
            theirs = alone_there(name, call, batch, alone)
            yield name, words(method, settings), "advantages", refused(batch, method, settings, extra_inputs), ALONE[theirs]
            continue
        theirs, _ = core_algos.get_adv_estimator_fn(name)(**call)
        group = batch.index if name not in UNGROUPED else [0] * len(index)
        found = grpo_lambda.credit_padded(
            method, batch.rewards.tolist(), batch.old, batch.mask, group=group, extra_inputs=extra_inputs, **settings
        )
        apart = np.where(batch.mask, found.advantages - theirs.numpy(), 0.0)
        definition = HOLES if name == "optimal_token_baseline" and holes else None
        if name == "grpo_vectorized" and settings == WORDS:
            agree = agreeing(batch)
            if agree.any():
                yield name, words(method, settings), "advantages", apart[agree], AGREEING
            apart = apart[~agree]
        yield name, words(method, settings), "advantages", apart, definition


CLIP = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 3.0}
BOUNDS = {"epsilon_low": 0.2, "epsilon_high": 0.28}
MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
#: verl's loss, its configuration, our method and settings, the aggregations.
LOSSES = [
    ("vanilla", CLIP, "grpo", {**BOUNDS, "clip": "two_sided", "clip_max": 3.0}, MODES),
    ("gspo", CLIP, "gspo_token", BOUNDS, ["seq-mean-token-mean"]),
    ("sapo", {}, "sapo", {}, ["seq-mean-token-mean"]),
    ("gpg", {}, "gpg", {}, ["token-mean"]),
    ("cispo", CLIP, "cispo", {**BOUNDS, "clip_form": "interval"}, ["token-mean"]),
    ("dro", {}, "dro", {"pull": 0.5}, ["token-mean"]),
    ("dppo_tv", CLIP, "dppo", {"divergence": "tv", "divergence_low": 0.2, "divergence_high": 0.28, "cap": 3.0}, ["token-mean"]),
    ("dppo_kl", CLIP, "dppo", {"divergence": "kl", "divergence_low": 0.2, "divergence_high": 0.28, "cap": 3.0}, ["token-mean"]),
    (
        "geo_mean",
        {"clip_ratio": 0.2, "clip_ratio_low": 0.4, "clip_ratio_high": 0.4},
        "gmpo",
        {"log_low": 0.4, "log_high": 0.4},
        ["seq-mean-token-mean"],
    ),
]


def actor(config):
    policy = PolicyLossConfig()
    object.__setattr__(policy, "dro_beta", 0.5)
    return ActorConfig(strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=8, policy_loss=policy, **config)


def of_losses(batch):
    fixed = grpo_lambda.credit_padded("grpo", batch.rewards.tolist(), batch.old, batch.mask, group=batch.index)
    mask, old = torch.tensor(batch.mask), torch.tensor(batch.old)
    for name, config, method, settings, modes in LOSSES:
        for mode in modes:
            logps = torch.tensor(batch.new, requires_grad=True)
            loss, _ = core_algos.get_policy_loss_fn(name)(
                old_log_prob=old, log_prob=logps, advantages=torch.tensor(fixed.advantages), response_mask=mask,
                loss_agg_mode=mode, config=actor(config), rollout_is_weights=None,
            )
            loss.backward()
            weights = _verl.aggregation_weights(batch.mask, mode)
            ours = _verl.policy_loss(method, batch.old, batch.new, fixed.advantages, batch.mask, weights, settings)
            name_of_mode = name if len(modes) == 1 else f"{name} {mode}"
            yield name_of_mode, words(method, settings), "loss", np.asarray(ours.loss - loss.item()), None
            yield name_of_mode, words(method, settings), "gradient", ours.dlogps - logps.grad.numpy(), None


#: verl's estimator of the KL and ours.
KL = [("kl", "k1"), ("abs", "abs"), ("mse", "k2"), ("low_var_kl", "k3"), ("kl+", "k1_k2"), ("low_var_kl+", "k3_k2"), ("abs+", "abs")]


def of_kl(batch):
    """The mean over the tokens of a KL term alone, with its gradient."""
    nothing = np.zeros_like(batch.old)
    weights = batch.mask / batch.mask.sum()
    for theirs, ours in KL:
        logps = torch.tensor(batch.new, requires_grad=True)
        per_token = core_algos.kl_penalty(logps, torch.tensor(batch.ref), theirs)
        loss = (per_token * torch.tensor(weights)).sum()
        loss.backward()
        fixed = grpo_lambda.credit_from_rows(
            "grpo", advantages=nothing, weights=weights, old_logps=batch.new, mask=batch.mask, ref_logps=batch.ref, beta=1.0, kl=ours
        )
        found = grpo_lambda.loss(fixed, batch.new)
        definition = ABSOLUTE if theirs == "abs+" else None
        yield f"kl_penalty {theirs}", f"kl={ours}", "loss", np.asarray(found.loss - loss.item()), None
        yield f"kl_penalty {theirs}", f"kl={ours}", "gradient", found.dlogps - logps.grad.numpy(), definition


def compare(batch, holes):
    sizes = np.array([batch.index.count(name) for name in batch.index])
    yield from of_estimators(batch, holes, sizes == 1)
    if (sizes > 1).all():
        yield from of_losses(batch)
        yield from of_kl(batch)


def sizes(number):
    """Unequal groups; in one batch of five a prompt has one response."""
    return [1, 3, 2, 5] if number % 5 == 4 else None
