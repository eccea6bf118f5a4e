"""The loss of a batch in a graph of PyTorch.

>>> import numpy, torch, grpo_lambda                                                            # doctest: +SKIP
>>> from grpo_lambda.torch import loss                                                          # doctest: +SKIP
>>> fixed = grpo_lambda.credit_padded("grpo", rewards, old_logps, mask, group_size=8)           # doctest: +SKIP
>>> value, metrics = loss(fixed, logps)        # logps of the current policy, in the graph      # doctest: +SKIP
>>> value.backward()                                                                            # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from ._credit import loss as _loss
from ._native import Credit

__all__ = ["array", "loss", "share"]


def array(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor as ``float64`` on the CPU, without its graph.

    Args:
        tensor: of any shape, type and device.

    Example:
        >>> import torch
        >>> from grpo_lambda.torch import array
        >>> array(torch.tensor([0.5], requires_grad=True))
        array([0.5])
    """
    return tensor.detach().to("cpu", torch.float64).numpy()


class _Share(torch.autograd.Function):
    """A number with a known gradient by the log-probabilities."""

    @staticmethod
    def forward(ctx: Any, logps: torch.Tensor, value: torch.Tensor, dlogps: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(dlogps)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (dlogps,) = ctx.saved_tensors
        return dlogps * grad.to(dlogps.dtype), None, None


def share(logps: torch.Tensor, value: float, dlogps: np.ndarray) -> torch.Tensor:
    """A number as a tensor whose gradient by ``logps`` is given.

    Args:
        logps: the tensor that the gradient flows to, of shape ``(B, T)``.
        value: the number.
        dlogps: its derivative by ``logps``, of shape ``(B, T)``.

    Returns:
        A tensor without axes, of the type and on the device of ``logps``, as the gradient is.

    Example:
        >>> import torch
        >>> from grpo_lambda.torch import share
        >>> x = torch.zeros(1, 2, requires_grad=True)
        >>> share(x, 3.0, torch.tensor([[1.0, -2.0]]).numpy()).backward()
        >>> x.grad
        tensor([[ 1., -2.]])
    """
    numbers = torch.as_tensor(value, dtype=torch.float64).to(logps), torch.as_tensor(dlogps).to(logps)
    return _Share.apply(logps, *numbers)


def loss(credit: Credit, logps: torch.Tensor) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss of a padded batch, differentiable in the log-probabilities, and its metrics.

    Value and gradient are computed in ``float64`` on the CPU by :func:`grpo_lambda.loss`. The gradient can be taken once, not twice.

    Args:
        credit: a batch from :func:`grpo_lambda.credit_padded`, or a micro-batch from :func:`grpo_lambda.credit_from_rows`.
        logps: log-probabilities of the sampled tokens under the current policy, of shape ``(B, T)``; slots outside the mask are not read, and
            get gradient 0.

    Returns:
        The loss to minimise, a tensor without axes, and the metrics of ``sim estimate`` as numbers.

    Example:
        >>> import torch, grpo_lambda
        >>> from grpo_lambda.torch import loss
        >>> logps = torch.log(torch.tensor([[0.5, 0.25], [0.5, 0.5]])).requires_grad_()
        >>> mask = [[1, 1], [1, 0]]
        >>> fixed = grpo_lambda.credit_padded("rloo", [1, 0], logps.detach().numpy(), mask, group_size=2)
        >>> value, metrics = loss(fixed, logps)
        >>> value.backward()
        >>> logps.grad
        tensor([[-0.5000, -0.5000],
                [ 0.5000,  0.0000]])
    """
    if not isinstance(logps, torch.Tensor) or not logps.is_floating_point():
        kind = logps.dtype if isinstance(logps, torch.Tensor) else type(logps).__name__
        raise ValueError(f"logps = a value of type {kind}; must be a tensor of floating-point numbers")
    found = _loss(credit, array(logps))
    return share(logps, found.loss, found.dlogps), found.metrics
