"""Methods of this library as the custom loss of tinker's training client::

    from grpo_lambda.tinker import custom_loss

    loss = custom_loss("grpo_lambda", rewards, old_logps, masks, group_size=8, lambda_=0.95)
    training_client.forward_backward_custom(data, loss).result()

The client computes the log-probabilities, calls the loss here, and sends back its gradient by them. It needs torch; it does not import tinker.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch

from ._credit import credit_padded
from ._credit import loss as loss_of
from ._hooks import padded
from ._torch import array, share


def custom_loss(
    method: str,
    rewards: Sequence[float | None],
    old_logps: Sequence[Sequence[float]],
    masks: Sequence[Sequence[int]],
    *,
    group_size: int | None = None,
    group: Sequence[Hashable] | None = None,
    **settings: Any,
) -> Callable[[list, list[torch.Tensor]], tuple[torch.Tensor, dict[str, float]]]:
    """A loss for ``forward_backward_custom`` on the data whose rewards these are, one entry per datum.

    ``old_logps`` and ``masks`` have a number for every target token of a datum: the sampler's log-probability, and 1 where the policy
    chose the token, 0 at the prompt's. Credit is fixed here, once for the whole batch; the loss may be called again on the same data.
    """
    lengths = [len(row) for row in masks]
    if lengths != [len(row) for row in old_logps]:
        raise ValueError(f"masks, old_logps: rows of {lengths} and {[len(row) for row in old_logps]} numbers; they must fit each other")
    mask = padded([np.asarray(row, dtype=np.float64) for row in masks])
    old = padded([np.asarray(row, dtype=np.float64) for row in old_logps])
    fixed = credit_padded(method, list(rewards), old, mask, group_size=group_size, group=group, **settings)

    def loss(data: list, logprobs: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        given = [len(row) for row in logprobs]
        if given != lengths:
            raise ValueError(f"logprobs: rows of {given} numbers; the rewards are of data with {lengths}")
        found = loss_of(fixed, padded([array(row) for row in logprobs]))
        gradient = np.concatenate([line[:length] for line, length in zip(found.dlogps, lengths)])
        return share(torch.cat(logprobs), found.loss, gradient), dict(found.metrics)

    return loss
