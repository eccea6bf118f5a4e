"""The plug-in in a real verl on the CPU: it is found, in Ray workers too, and computes verl's recorded numbers on tensors.

    python check.py            # in an environment with verl 0.9.1 and this package
"""

import gzip
import json
import re
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
import verl  # noqa: F401  loads the plug-in
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig, PolicyLossConfig

from grpo_lambda import _verl

ROOT = Path(__file__).parents[4]
RESULTS = Path(__file__).with_name("results.json")


def found_without_an_import():
    names = [f"credit_{name}" for name in _verl.carried()]
    assert all(name in core_algos.ADV_ESTIMATOR_REGISTRY for name in names), "the plug-in was not loaded"
    assert all(name in core_algos.POLICY_LOSS_REGISTRY for name in names)
    return names


def in_a_ray_worker(names):
    import ray

    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100 * 1024**2, logging_level="ERROR")

    @ray.remote
    def registered():
        import verl  # noqa: F401
        from verl.trainer.ppo import core_algos

        return sorted(name for name in core_algos.ADV_ESTIMATOR_REGISTRY if name.startswith("credit_"))

    found = ray.get(registered.remote())
    ray.shutdown()
    assert found == sorted(names)


def tensors(inputs, *names):
    return [torch.tensor(inputs[name], dtype=torch.float64) for name in names]


def as_verl_computes():
    """Our estimators and losses against verl's on the recorded batches, called like verl does."""
    recorded = json.loads(gzip.decompress((ROOT / "tests/fixtures/verl.json.gz").read_bytes()))
    apart = {}
    for k, inputs in recorded["advantages"]["batches"].items():
        if k in ("3", "5"):  # a prompt of one response, and a row without tokens: differences of definition
            continue
        rewards, = tensors(inputs, "token_level_rewards")
        mask = torch.tensor(inputs["response_mask"])
        index = np.array(inputs["index"], dtype=object)
        for name in ("rloo", "opo"):
            ours = core_algos.get_adv_estimator_fn(f"credit_{name}")
            theirs = core_algos.get_adv_estimator_fn(name)
            a, _ = ours(token_level_rewards=rewards, response_mask=mask, index=index, config=None)
            b, _ = theirs(token_level_rewards=rewards.clone(), response_mask=mask, index=index)
            assert a.dtype == rewards.dtype and a.shape == rewards.shape
            apart[f"{name}/{k}"] = (a - b * mask).abs().max().item()
    config = dict(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=3.0)
    for k, inputs in recorded["losses"]["batches"].items():
        old, new, advantages = tensors(inputs, "old_log_prob", "log_prob", "advantages")
        mask = torch.tensor(inputs["response_mask"])
        for ours, theirs, mode in [("gspo_token", "gspo", "seq-mean-token-mean"), ("sapo", "sapo", "seq-mean-token-mean")]:
            actor = ActorConfig(
                strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=8, policy_loss=PolicyLossConfig(), **config
            )
            grads = []
            for name in (f"credit_{ours}", theirs):
                at = new.clone().requires_grad_()
                loss, metrics = core_algos.get_policy_loss_fn(name)(
                    old_log_prob=old, log_prob=at, advantages=advantages, response_mask=mask,
                    loss_agg_mode=mode, config=actor, rollout_is_weights=None,
                )
                loss.backward()
                grads.append(torch.cat([at.grad.flatten(), loss.detach().reshape(1)]))
                assert all(isinstance(value, float) for value in metrics.values())
            apart[f"{ours}/{k}"] = (grads[0] - grads[1]).abs().max().item()
    return apart


def settings_of_the_environment_and_of_a_name():
    import os

    os.environ["GRPO_LAMBDA_SETTINGS"] = "scale=none"
    rewards = torch.tensor([[0.0, 3.0], [0.0, 1.0]])
    mask, index = torch.ones(2, 2), np.array(["a", "a"], dtype=object)
    found, _ = core_algos.get_adv_estimator_fn("credit_grpo")(token_level_rewards=rewards, response_mask=mask, index=index)
    assert found.tolist() == [[1.0, 1.0], [-1.0, -1.0]]
    os.environ["GRPO_LAMBDA_SETTINGS"] = "lambda=0.9"
    try:
        core_algos.get_adv_estimator_fn("credit_grpo")(token_level_rewards=rewards, response_mask=mask, index=index)
    except ValueError as error:
        assert "unknown key `lambda` for method grpo" in str(error)
    else:
        raise AssertionError("accepted a setting that GRPO does not have")
    del os.environ["GRPO_LAMBDA_SETTINGS"]
    page = (ROOT / "docs/python.md").read_text()
    (block,) = [b for b in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "grpo_lambda.verl" in b]
    exec(compile(block, "docs/python.md", "exec"), {})
    assert "my_trace" in core_algos.POLICY_LOSS_REGISTRY


def main():
    names = found_without_an_import()
    apart = as_verl_computes()
    assert max(apart.values()) <= 1e-6, apart
    settings_of_the_environment_and_of_a_name()
    in_a_ray_worker(names)
    versions = {name: metadata.version(name) for name in ("verl", "torch", "ray", "tensordict", "transformers")}
    found = {"versions": versions, "registered": names, "largest difference": max(apart.values())}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.exit(main())
