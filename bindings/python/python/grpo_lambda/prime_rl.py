"""Methods of this library as the loss of prime-rl, which asks for one sequence at a time::

    [trainer.loss]
    type = "custom"
    import_path = "grpo_lambda.prime_rl.loss"

    [trainer.loss.kwargs]
    method = "grpo_lambda"
    lambda = 0.95

Advantages are the orchestrator's: what is chosen here is the surrogate and its trace. The loss is the sum over tokens, which prime-rl divides.
"""

from __future__ import annotations

import torch
from prime_rl.trainer.rl.loss import LossInputs, LossOutputs

from ._hooks import check_method, ragged_loss
from ._verl import carried


def loss(inputs: LossInputs, method: str = "grpo", **settings) -> LossOutputs:
    """The loss of one sequence under a method, with prime-rl's signature."""
    check_method(method, carried(), settings)
    mask = inputs.loss_mask.to(inputs.trainer_logprobs.dtype)
    weights = mask if inputs.loss_weights is None else mask * inputs.loss_weights
    rows = ([inputs.trainer_logprobs], [inputs.inference_logprobs], [inputs.advantages], [mask], [weights])
    value, metrics = ragged_loss(method, settings, *rows)
    clipped = metrics["clip_fraction_low"] + metrics["clip_fraction_high"]
    told = {"clip_fraction": clipped, "ratio_mean": metrics["ratio_mean"], "ratio_max": metrics["ratio_max"]}
    return LossOutputs(loss=value, metrics={name: torch.tensor(x, device=value.device) for name, x in told.items()})
