"""A method of this library in verl, without verl's trainer: the two functions that its configuration names, on one batch.

In a run, two lines of configuration choose them:

    algorithm.adv_estimator=credit_grpo_lambda
    actor_rollout_ref.actor.policy_loss.loss_mode=credit_grpo_lambda

Needs verl 0.9.1 and torch.
"""

import torch
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn

from grpo_lambda.verl import register

register("my_trace", "grpo_lambda", {"lambda": 0.9})

torch.manual_seed(0)
mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
rewards = torch.zeros(4, 4)
rewards[0, 2] = rewards[3, 0] = 1.0  # at the last token of a response
old = torch.randn(4, 4) * 0.1 - 1.0
logps = (old + 0.02).requires_grad_()

advantages, _ = get_adv_estimator_fn("my_trace")(token_level_rewards=rewards, response_mask=mask, index=["a", "a", "b", "b"])
loss, metrics = get_policy_loss_fn("my_trace")(old, logps, advantages, mask)
loss.backward()
print(f"loss {loss.item():.4f}, gradient of the first response {logps.grad[0].tolist()}")
