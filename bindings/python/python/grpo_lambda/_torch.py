"""The loss of this library in a graph of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ._credit import loss
from ._native import Credit


def array(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor as ``float64``."""
    return tensor.detach().to("cpu", torch.float64).numpy()


class _Share(torch.autograd.Function):
    """A number with a known gradient by the log-probabilities."""

    @staticmethod
    def forward(ctx: Any, logps: torch.Tensor, value: torch.Tensor, dlogps: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(dlogps)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (dlogps,) = ctx.saved_tensors
        return dlogps * grad.to(dlogps.dtype), None, None


def share(logps: torch.Tensor, value: float, dlogps: np.ndarray) -> torch.Tensor:
    """``value`` as a tensor whose gradient by ``logps`` is ``dlogps``, both rounded to the type of ``logps``."""
    return _Share.apply(logps, torch.as_tensor(value, dtype=torch.float64).to(logps), torch.as_tensor(dlogps).to(logps))


def torch_loss(credit: Credit, logps: torch.Tensor) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss of a padded batch as a tensor through which gradients flow to ``logps``, and its metrics.

    Value and gradient are computed in ``float64``.
    """
    found = loss(credit, array(logps))
    return share(logps, found.loss, found.dlogps), found.metrics
