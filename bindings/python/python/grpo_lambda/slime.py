"""Methods of this library in slime, by two of its hooks::

    GRPO_LAMBDA_METHOD=grpo_lambda GRPO_LAMBDA_SETTINGS="lambda=0.95" ... train.py \\
        --advantage-estimator grpo --custom-reward-post-process-path grpo_lambda.slime.rewards \\
        --loss-type custom_loss --custom-loss-function-path grpo_lambda.slime.loss

``rewards`` sees all samples of a rollout and gives each the advantage of its tokens, which slime's ``grpo`` then copies to them. slime's own hook
for advantages sees those of one data-parallel process, where the responses to a prompt may be missing. ``loss`` weighs tokens as slime does.
Context parallelism cuts responses and is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from slime.backends.megatron_utils.loss import get_log_probs_and_entropy

from ._hooks import environment_method, environment_settings, ragged_loss
from ._verl import advantages, clip_settings


def rewards(args: Any, samples: list) -> tuple[list[float], list[float]]:
    """The raw rewards of all samples, and the advantage of each."""
    method, settings = environment_method(), environment_settings()
    raw = [float(sample.get_reward_value(args)) for sample in samples]
    groups = [sample.group_index for sample in samples]
    if any(group is None for group in groups):
        raise ValueError("group_index: missing of a sample; it says which samples answer the same prompt")
    lengths = [max(int(sample.response_length), 1) for sample in samples]
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    scores = np.zeros(mask.shape)
    scores[np.arange(len(raw)), np.array(lengths) - 1] = raw
    found, _ = advantages(method, scores, mask, groups, {}, settings)
    first = found[:, 0]
    if not np.allclose(np.where(mask, found - first[:, None], 0), 0, atol=1e-12):
        raise ValueError(f"method = `{method}`: tokens of a response get different advantages, and slime takes one of a sample")
    return raw, first.tolist()


def loss(args: Any, batch: dict, logits: torch.Tensor, sum_of_sample_mean: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss of a micro-batch, with slime's signature."""
    if getattr(args, "context_parallel_size", 1) > 1:
        raise ValueError(f"context_parallel_size = {args.context_parallel_size}; must be 1: a method needs whole responses")
    method = environment_method()
    scored = get_log_probs_and_entropy(
        logits,
        args=args,
        unconcat_tokens=batch["unconcat_tokens"],
        total_lengths=batch["total_lengths"],
        response_lengths=batch["response_lengths"],
        with_entropy=False,
    )
    # Some versions of slime return a pair, some the dictionary alone.
    scored = scored[1] if isinstance(scored, tuple) else scored
    logps = scored["log_probs"]
    old = batch["rollout_log_probs"] if args.use_rollout_logprobs else batch["log_probs"]
    settings = clip_settings(method, environment_settings(), args.eps_clip, args.eps_clip_high)
    weights = token_weights(sum_of_sample_mean, logps)
    value, metrics = ragged_loss(method, settings, logps, old, batch["advantages"], batch["loss_masks"], weights)
    clipped = metrics["clip_fraction_low"] + metrics["clip_fraction_high"]
    told = {"loss": value.detach(), "pg_loss": value.detach(), "pg_clipfrac": torch.tensor(clipped).to(value)}
    return value, told


def token_weights(reduce: Any, rows: list[torch.Tensor]) -> list[torch.Tensor]:
    """The weight of every token in ``reduce``, a function that is linear in them: its gradient."""
    ones = torch.ones(sum(len(row) for row in rows), dtype=rows[0].dtype, device=rows[0].device, requires_grad=True)
    (weights,) = torch.autograd.grad(reduce(ones), ones)
    return list(weights.split([len(row) for row in rows]))
