"""Methods of this library as advantage estimators and policy losses of SkyRL, under the names ``credit_NAME``.

Import this module in the script that starts SkyRL's entry point, before Ray is initialised; SkyRL hands its registries to every process::

    import grpo_lambda.skyrl
    # trainer.algorithm.advantage_estimator=credit_grpo_lambda trainer.algorithm.policy_loss_type=credit_grpo_lambda

Settings are read from the environment variable ``GRPO_LAMBDA_SETTINGS`` in every process, as in ``lambda=0.95 clamp=none``.
"""

from __future__ import annotations

import numpy as np
import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator, register_policy_loss

from ._hooks import environment_settings
from ._torch import array, share
from ._verl import advantages, carried, clip_settings, policy_loss


def estimator(method: str):
    """An advantage estimator with SkyRL's signature."""

    def estimate(token_level_rewards, response_mask, index, **kwargs):
        index = index.tolist() if isinstance(index, (np.ndarray, torch.Tensor)) else index
        found = advantages(method, array(token_level_rewards), array(response_mask), index, {}, environment_settings())
        return tuple(torch.as_tensor(x).to(token_level_rewards) for x in found)

    estimate.__name__ = f"credit_{method}"
    return estimate


def loss(method: str):
    """A policy loss with SkyRL's signature.

    SkyRL has divided the advantages by what its ``loss_reduction`` says, so that the loss is a sum over tokens. ``eps_clip_low`` and
    ``eps_clip_high`` are the method's ``epsilon_low`` and ``epsilon_high``.
    """

    def compute(log_probs, old_log_probs, advantages, config, loss_mask=None, rollout_logprobs=None):
        settings = clip_settings(method, environment_settings(), config.eps_clip_low, config.eps_clip_high)
        mask = np.ones(log_probs.shape) if loss_mask is None else array(loss_mask)
        old, moved = array(old_log_probs), array(log_probs)
        found = policy_loss(method, old, moved, array(advantages), mask, mask, settings)
        clipped = found.metrics["clip_fraction_low"] + found.metrics["clip_fraction_high"]
        return share(log_probs, found.loss, found.dlogps), {"clip_ratio": clipped}

    compute.__name__ = f"credit_{method}"
    return compute


for _method in carried():
    register_advantage_estimator(f"credit_{_method}")(estimator(_method))
    register_policy_loss(f"credit_{_method}")(loss(_method))
