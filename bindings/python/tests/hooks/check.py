"""The adapters for SkyRL, slime, prime-rl and tinker on tensors, against stand-ins of those frameworks (see stand_ins.py) and formulas written out.

    python check.py            # in an environment with torch and this package
"""

import json
import os
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import stand_ins
import torch

import grpo_lambda
from grpo_lambda import _verl, prime_rl, skyrl, slime, tinker

RESULTS = Path(__file__).with_name("results.json")
LENGTHS = [5, 3, 4, 1, 2, 5, 3, 4]
REWARDS = [1.0, 0.0, 0.5, 0.25, 0.0, 1.0, 1.0, 0.0]
CLIP = SimpleNamespace(eps_clip_low=0.2, eps_clip_high=0.28)
APART = {}


def near(name, found, expected, limit=1e-9):
    found, expected = (torch.as_tensor(x, dtype=torch.float64) for x in (found, expected))
    difference = (found - expected).abs().max().item()
    APART[name] = difference
    assert difference <= limit, f"{name}: {difference}"


def batch(seed=3):
    """Old and current log-probabilities that move far enough to be clipped, and a mask of ragged rows."""
    torch.manual_seed(seed)
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    old = -torch.rand(8, 5, dtype=torch.float64) - 0.4
    new = old + 0.3 * torch.randn(8, 5, dtype=torch.float64).clamp(-1, 1)
    return old, new, mask


def group_advantages(rewards):
    """(r - mean) / (sample standard deviation + 1e-6) in groups of four, as GRPO has it."""
    groups = torch.tensor(rewards, dtype=torch.float64).view(2, 4)
    scaled = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-6)
    return scaled.flatten()


def clipped_surrogate(new, old, advantages, weights):
    ratio = (new - old).exp()
    return -(torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages) * weights).sum()


def by_hand(old, new, advantages, weights):
    leaf = new.clone().requires_grad_()
    loss = clipped_surrogate(leaf, old, advantages, weights)
    loss.backward()
    return loss.detach(), leaf.grad


def whole_loss(method, old, new, mask, **settings):
    """The method's own loss of the batch, summed over tokens and divided by their number."""
    fixed = grpo_lambda.credit_padded(
        method, REWARDS, old.numpy(), mask.numpy(), group_size=4, reduction="token_mean", **settings
    )
    return grpo_lambda.loss(fixed, new.numpy())


def in_skyrl():
    old, new, mask = batch()
    assert set(stand_ins.ESTIMATORS) == set(stand_ins.LOSSES) == {f"credit_{name}" for name in _verl.carried()}
    rewards = torch.zeros(8, 5, dtype=torch.float64)
    rewards[torch.arange(8), torch.tensor(LENGTHS) - 1] = torch.tensor(REWARDS, dtype=torch.float64)
    index = list("aaaabbbb")
    # SkyRL's own epsilon, as verl's.
    os.environ["GRPO_LAMBDA_SETTINGS"] = "std_preset=verl"
    advantages, returns = stand_ins.call_estimator("credit_grpo", rewards, mask, index)
    near("skyrl/advantages", advantages, group_advantages(REWARDS)[:, None] * mask)
    assert returns.shape == mask.shape
    # SkyRL's token_mean divides advantages; its losses are sums.
    advantages = group_advantages(REWARDS)[:, None] * mask / mask.sum()
    leaf = new.clone().requires_grad_()
    loss, metrics = stand_ins.LOSSES["credit_grpo"](leaf, old, advantages, CLIP, loss_mask=mask, rollout_logprobs=None)
    loss.backward()
    expected, gradient = by_hand(old, new, advantages, mask)
    near("skyrl/loss", loss.detach(), expected)
    near("skyrl/gradient", leaf.grad, gradient)
    assert 0 < metrics["clip_ratio"] < 1
    os.environ["GRPO_LAMBDA_SETTINGS"] = "lambda=0.9 epsilon_low=0.2 epsilon_high=0.28"
    advantages, _ = stand_ins.call_estimator("credit_grpo_lambda", rewards, mask, index)
    leaf = new.clone().requires_grad_()
    args = (leaf, old, advantages / mask.sum(), CLIP)
    loss, _ = stand_ins.LOSSES["credit_grpo_lambda"](*args, loss_mask=mask)
    loss.backward()
    whole = whole_loss("grpo_lambda", old, new, mask, lambda_=0.9, epsilon_low=0.2, epsilon_high=0.28)
    near("skyrl/trace loss", loss.detach(), whole.loss)
    near("skyrl/trace gradient", leaf.grad, whole.dlogps)
    del os.environ["GRPO_LAMBDA_SETTINGS"]


def in_prime_rl():
    old, new, mask = batch()
    advantages = group_advantages(REWARDS)
    for i, length in enumerate(LENGTHS):
        leaf = new[i, :length].clone().requires_grad_()
        weights = None if i % 2 else torch.linspace(0.5, 1, length, dtype=torch.float64)
        members = mask[i, :length].clone()
        if length > 3:
            members[2] = False  # the output of a tool
        row = torch.full((length,), advantages[i].item(), dtype=torch.float64)
        inputs = stand_ins.LossInputs(leaf, old[i, :length], None, row, members, weights)
        found = prime_rl.loss(inputs, method="grpo", epsilon_low=0.2, epsilon_high=0.28)
        found.loss.backward()
        weights = members if weights is None else members * weights
        expected, gradient = by_hand(old[i, :length], new[i, :length], row, weights)
        near(f"prime-rl/{i} loss", found.loss.detach(), expected)
        near(f"prime-rl/{i} gradient", leaf.grad, gradient)
        assert all(isinstance(value, torch.Tensor) for value in found.metrics.values())


def in_slime():
    os.environ.update(GRPO_LAMBDA_METHOD="grpo", GRPO_LAMBDA_SETTINGS="std_preset=verl")
    sample = lambda i: SimpleNamespace(  # noqa: E731
        group_index=i % 2, response_length=LENGTHS[i], get_reward_value=lambda args, i=i: REWARDS[i]
    )
    raw, advantages = slime.rewards(SimpleNamespace(), [sample(i) for i in range(8)])
    scattered = [REWARDS[i] for i in (0, 2, 4, 6, 1, 3, 5, 7)]
    expected = group_advantages(scattered)
    assert raw == REWARDS
    near("slime/advantages", [advantages[i] for i in (0, 2, 4, 6, 1, 3, 5, 7)], expected)
    torch.manual_seed(5)
    total = [length + 2 for length in LENGTHS]
    logits = torch.randn(1, sum(total), 7, dtype=torch.float64, requires_grad=True)
    tokens = [torch.randint(7, (n,)) for n in total]
    args = SimpleNamespace(eps_clip=0.2, eps_clip_high=0.28, use_rollout_logprobs=False, context_parallel_size=1)
    _, scored = stand_ins.get_log_probs_and_entropy(
        logits, args=args, unconcat_tokens=tokens, total_lengths=total, response_lengths=LENGTHS
    )
    logps = scored["log_probs"]
    old = [row.detach() + 0.3 * torch.randn_like(row) for row in logps]
    masks = [torch.ones(n) for n in LENGTHS]
    masks[0][1] = 0
    rows = [torch.full((n,), a, dtype=torch.float64) for n, a in zip(LENGTHS, advantages)]

    def sum_of_sample_mean(x):
        parts = zip(x.split(LENGTHS), masks)
        return sum((part * mask).sum() / mask.sum() for part, mask in parts)

    names = ("unconcat_tokens", "total_lengths", "response_lengths", "log_probs", "advantages", "loss_masks")
    micro = dict(zip(names, (tokens, total, LENGTHS, old, rows, masks)))
    loss, told = slime.loss(args, micro, logits, sum_of_sample_mean)
    (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True)
    ratio = (torch.cat(logps) - torch.cat(old)).exp()
    surrogate = -torch.minimum(ratio * torch.cat(rows), ratio.clamp(0.8, 1.28) * torch.cat(rows))
    expected = sum_of_sample_mean(surrogate)
    near("slime/loss", loss.detach(), expected.detach())
    near("slime/gradient", gradient, torch.autograd.grad(expected, logits)[0])
    assert set(told) == {"loss", "pg_loss", "pg_clipfrac"}
    refused("context_parallel_size = 2; must be 1", slime.loss, SimpleNamespace(context_parallel_size=2), {}, None, None)
    del os.environ["GRPO_LAMBDA_METHOD"]
    refused("GRPO_LAMBDA_METHOD: missing", slime.rewards, SimpleNamespace(), [])


def in_tinker():
    old, new, mask = batch()
    rows = lambda x: [x[i, :length] for i, length in enumerate(LENGTHS)]  # noqa: E731
    for method, settings in [("grpo", {}), ("grpo_lambda", {"lambda_": 0.9}), ("cispo", {})]:
        loss = tinker.custom_loss(
            method, REWARDS, rows(old), rows(mask.int()), group_size=4, reduction="token_mean", **settings
        )
        value, metrics, weights = stand_ins.forward_backward_custom([None] * 8, rows(new), loss)
        whole = whole_loss(method, old, new, mask, **settings)
        near(f"tinker/{method} loss", value, whole.loss)
        for i, row in enumerate(weights):
            near(f"tinker/{method} weights {i}", row, -torch.as_tensor(whole.dlogps[i, : LENGTHS[i]]))
        assert metrics["tokens"] == sum(LENGTHS)
    refused("logprobs: rows of", loss, [], rows(new)[:3])


def refused(said, call, *args):
    try:
        call(*args)
    except ValueError as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"{said}: was taken")


def main():
    for check in (in_skyrl, in_prime_rl, in_slime, in_tinker):
        check()
        print(f"{check.__name__}: passed")
    results = {
        "versions": {"torch": torch.__version__, "grpo-lambda": metadata.version("grpo-lambda")},
        "against": "stand-ins and formulas written out",
        "largest difference": max(APART.values()),
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
