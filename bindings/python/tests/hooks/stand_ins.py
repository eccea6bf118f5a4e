"""Stand-ins of SkyRL, slime and prime-rl: the names and signatures that the adapters meet there, recorded from the public sources.

| framework | file | commit | read in |
| --- | --- | --- | --- |
| SkyRL | skyrl/backends/skyrl_train/utils/ppo_utils.py | 03d74caf596391a62a53528ca9d23a51baffae3c | 2026-11 |
| slime | slime/backends/megatron_utils/loss.py | 00c2d6db0f23a4900be6e80a8eb81eebf9e1ebff | 2026-11 |
| prime-rl | docs on custom losses, and src/prime_rl/trainer/rl/loss.py (dataclasses LossInputs, LossOutputs) | undated copy | 2026-11 |
| tinker | TrainingClient.forward_backward_custom of the client's public source | undated copy | 2026-11 |

They are no copies: each does the least that the adapter can tell from the framework.
"""

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import torch


def module(name, **members):
    """A module of this name with its parents, importable from now on."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:i]), ModuleType(".".join(parts[:i])))
    vars(sys.modules[name]).update(members)


ESTIMATORS, LOSSES = {}, {}


def registering(registry):
    def register(name):
        def decorator(function):
            if name in registry:
                raise ValueError(f"'{name}' already registered")
            registry[name] = function
            return function

        return decorator

    return register


def call_estimator(name, rewards, mask, index):
    """As SkyRL's `compute_advantages_and_returns` calls it: by keyword, with more than is asked for."""
    return ESTIMATORS[name](
        token_level_rewards=rewards, response_mask=mask, index=index, values=None, grpo_norm_by_std=True,
        gamma=1.0, lambd=1.0, config=SimpleNamespace(),
    )


@dataclass
class LossInputs:
    trainer_logprobs: torch.Tensor
    inference_logprobs: torch.Tensor
    ref_logprobs: torch.Tensor | None
    advantages: torch.Tensor
    loss_mask: torch.Tensor
    loss_weights: torch.Tensor | None = None


@dataclass
class LossOutputs:
    loss: torch.Tensor
    metrics: dict = field(default_factory=dict)


def get_log_probs_and_entropy(logits, *, args, unconcat_tokens, total_lengths, response_lengths, with_entropy=False):
    """Log-probabilities of the responses, packed end to end in `logits` of shape (1, T, vocabulary)."""
    found, start = [], 0
    for tokens, total, response in zip(unconcat_tokens, total_lengths, response_lengths):
        rows = logits[0, start + total - response - 1 : start + total - 1].log_softmax(dim=-1)
        found.append(rows.gather(1, tokens[-response:, None])[:, 0])
        start += total
    return torch.empty(0), {"log_probs": found}


def forward_backward_custom(data, logps, loss_fn):
    """What tinker's client does with a loss: the weights that it sends back, which its server's cross entropy multiplies."""
    leaves = [row.clone().detach().requires_grad_(True) for row in logps]
    loss, metrics = loss_fn(data, leaves)
    loss.backward()
    assert all(leaf.grad is not None for leaf in leaves)
    return loss.item(), metrics, [-leaf.grad for leaf in leaves]


module(
    "skyrl.backends.skyrl_train.utils.ppo_utils",
    register_advantage_estimator=registering(ESTIMATORS),
    register_policy_loss=registering(LOSSES),
)
module("prime_rl.trainer.rl.loss", LossInputs=LossInputs, LossOutputs=LossOutputs)
module("slime.backends.megatron_utils.loss", get_log_probs_and_entropy=get_log_probs_and_entropy)
