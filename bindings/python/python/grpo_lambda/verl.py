"""Methods of this library as estimators and losses of verl, under the names ``credit_NAME``.

verl imports this module through the entry point ``verl.plugins``. Two lines of configuration choose a method::

    algorithm.adv_estimator=credit_grpo_lambda
    actor_rollout_ref.actor.policy_loss.loss_mode=credit_grpo_lambda

Give settings in the environment variable ``GRPO_LAMBDA_SETTINGS`` of every process, as in ``lambda=0.95 clamp=none``, or fix them under a
name of your own with :func:`register`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import register_adv_est, register_policy_loss

from . import _native
from .torch import array, share
from ._verl import advantages, aggregation_weights, carried, clip_settings, estimator_settings, policy_loss, warn_of_dual_clip

#: Kinds of extra inputs by verl's names.
_EXTRA_INPUTS = {"values": "values", "old_log_probs": "old_logps", "sum_pi_squared": "collisions", "entropys": "entropies"}

#: Settings of an estimator that are verl's own configuration.
_DISCOUNTS = {"ppo": {"gamma": "gamma", "lambda": "lam"}, "reinforce_pp": {"gamma": "gamma"}}


def environment_settings() -> dict[str, str]:
    """The settings in ``GRPO_LAMBDA_SETTINGS``."""
    words = os.environ.get("GRPO_LAMBDA_SETTINGS", "").split()
    for word in words:
        if "=" not in word:
            raise ValueError(f"GRPO_LAMBDA_SETTINGS: `{word}`: no setting; write key=value, as in lambda=0.9")
    return dict(word.split("=", 1) for word in words)


def estimator(method: str, settings: dict[str, Any] | None = None):
    """An advantage estimator with verl's signature. ``settings`` of ``None`` are those of the environment."""

    def estimate(token_level_rewards, response_mask, index=None, config=None, **kwargs):
        chosen = dict(environment_settings() if settings is None else settings)
        for key, field in _DISCOUNTS.get(method, {}).items():
            given = kwargs.get(field, None if config is None else config.get(field, None))
            if given is not None:
                chosen.setdefault(key, float(given))
        chosen = estimator_settings(method, chosen, None if config is None else config.get("norm_adv_by_std_in_grpo", None))
        extra_inputs = {ours: array(kwargs[theirs]) for theirs, ours in _EXTRA_INPUTS.items() if kwargs.get(theirs) is not None}
        index = index.tolist() if isinstance(index, (np.ndarray, torch.Tensor)) else index
        found = advantages(method, array(token_level_rewards), array(response_mask), index, extra_inputs, chosen)
        return tuple(torch.as_tensor(x).to(token_level_rewards) for x in found)

    estimate.__name__ = f"credit_{method}"
    return estimate


def loss(method: str, settings: dict[str, Any] | None = None):
    """A policy loss with verl's signature. ``settings`` of ``None`` are those of the environment.

    ``clip_ratio_low`` and ``clip_ratio_high`` of the actor are the method's ``epsilon_low`` and ``epsilon_high`` (GMPO: ``log_low``, ``log_high``; DPPO:
    ``divergence_low``, ``divergence_high``, and ``clip_ratio_c`` its ``cap``), and ``loss_agg_mode`` is the reduction.
    verl's dual clip (``clip_ratio_c``) is the setting ``clip=two_sided clip_max=3``; without a setting ``clip`` a warning says that it is not
    applied.
    """

    def compute(
        old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean", config=None, rollout_is_weights=None
    ):
        chosen = dict(environment_settings() if settings is None else settings)
        batch = {}
        if config is not None:
            both = config.clip_ratio
            low = both if config.clip_ratio_low is None else config.clip_ratio_low
            high = both if config.clip_ratio_high is None else config.clip_ratio_high
            cap = getattr(config, "clip_ratio_c", None)
            warn_of_dual_clip(method, chosen, cap)
            chosen, batch = clip_settings(method, chosen, low, high, cap), dict(config.global_batch_info)
        mask = array(response_mask)
        weights = aggregation_weights(mask, loss_agg_mode, **batch)
        if rollout_is_weights is not None:
            weights = weights * array(rollout_is_weights)
        old = array(old_log_prob)
        found = policy_loss(method, old, array(log_prob), array(advantages), mask, weights, chosen)
        moved = ((old - array(log_prob)) * mask)[mask > 0]
        metrics = {
            "actor/pg_clipfrac": found.metrics["clip_fraction_low"] + found.metrics["clip_fraction_high"],
            "actor/ppo_kl": float(moved.mean()) if moved.size else 0.0,
            "actor/ratio_mean": found.metrics["ratio_mean"],
            "actor/ratio_max": found.metrics["ratio_max"],
        }
        return share(log_prob, found.loss, found.dlogps), metrics

    compute.__name__ = f"credit_{method}"
    return compute


def register(name: str, method: str, settings: dict[str, Any]) -> None:
    """Registers a method under fixed settings, as estimator and as loss called ``name``.

    Call it in a module that ``VERL_USE_EXTERNAL_MODULES`` names, so that every process of verl does.
    """
    if method not in carried():
        raise ValueError(f"method = `{method}`: verl gives an estimator too little for it; choose one of {', '.join(carried())}")
    _native.settings(method, **settings)
    _register(name, method, settings)


def _register(name: str, method: str, settings: dict[str, Any] | None) -> None:
    register_adv_est(name)(estimator(method, settings))
    register_policy_loss(name)(loss(method, settings))


for _method in carried():
    _register(f"credit_{_method}", _method, None)
