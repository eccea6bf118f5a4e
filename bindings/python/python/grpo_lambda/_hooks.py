"""What the modules for SkyRL, slime, prime-rl and tinker share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from . import _native
from ._torch import array, share
from ._verl import policy_loss


def environment_settings() -> dict[str, str]:
    """The settings in ``GRPO_LAMBDA_SETTINGS``."""
    words = os.environ.get("GRPO_LAMBDA_SETTINGS", "").split()
    for word in words:
        if "=" not in word:
            raise ValueError(f"GRPO_LAMBDA_SETTINGS: `{word}`: no setting; settings are written key=value, as in lambda=0.9")
    return dict(word.split("=", 1) for word in words)


def environment_method() -> str:
    """The method in ``GRPO_LAMBDA_METHOD``, for a framework that takes a path and no arguments."""
    method = os.environ.get("GRPO_LAMBDA_METHOD")
    if not method:
        raise ValueError("GRPO_LAMBDA_METHOD: missing; it names the method, as in GRPO_LAMBDA_METHOD=grpo_lambda, in every process")
    return method


def padded(rows: Sequence[np.ndarray], fill: float = 0.0) -> np.ndarray:
    """Rows of different lengths as an array of shape ``(B, T)``."""
    whole = np.full((len(rows), max((len(row) for row in rows), default=0)), fill)
    for line, row in zip(whole, rows):
        line[: len(row)] = row
    return whole


def ragged_loss(
    method: str,
    settings: dict[str, Any],
    logps: Sequence[torch.Tensor],
    old_logps: Sequence[torch.Tensor],
    advantages: Sequence[torch.Tensor],
    masks: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss of rows whose advantages and token weights are given, as a tensor through which gradients flow to ``logps``, and its metrics."""
    together = [padded([array(row) for row in rows]) for rows in (old_logps, logps, advantages, masks, weights)]
    found = policy_loss(method, *together, settings)
    gradient = np.concatenate([line[: len(row)] for line, row in zip(found.dlogps, logps)])
    return share(torch.cat(list(logps)), found.loss, gradient), found.metrics


def check_method(method: str, carried: Sequence[str], settings: dict[str, Any]) -> None:
    """Refuses a method that a framework cannot carry, and settings that it does not have."""
    if method not in carried:
        raise ValueError(f"method = `{method}`: too little is given for it here; possible are {', '.join(carried)}")
    _native.settings(method, **settings)
