"""The exact bias of a method of your own: the average of its update over all groups, against the policy gradient. Needs numpy alone."""

import numpy as np

import grpo_lambda


def median_baseline(groups, logps):
    """Reward minus the median of the group, PPO's ratio without a clip, mean over responses of the token sum."""
    responses = sum(len(group["rewards"]) for group in groups)
    loss, dlogps = 0.0, []
    for group, rows in zip(groups, logps):
        advantages = np.array(group["rewards"]) - np.median(group["rewards"])
        ratios = [np.exp(row - old) for row, old in zip(rows, group["old_logps"])]
        loss -= sum(a * ratio.sum() for a, ratio in zip(advantages, ratios)) / responses
        dlogps.append([-a * ratio / responses for a, ratio in zip(advantages, ratios)])
    return loss, dlogps


print(grpo_lambda.conformance(median_baseline))

task = grpo_lambda.Mdp(
    tokens="left right EOS",
    eos="EOS",
    horizon=2,
    rewards=[{"pattern": "left *", "reward": 1.0}],
    policy=[{"prefix": "", "probabilities": {"left": 0.3, "right": 0.6, "EOS": 0.1}}],
)
print(f"\nexpected reward {task.j:.2f}, {task.size[2]} responses; groups of 3, every one of them counted:")
for name, method in {"median baseline": median_baseline, "GRPO": "grpo", "RLOO": "rloo"}.items():
    found = task.expected(method, group_size=3, how="exact")
    noise = found.total_variance / found.scale**2
    print(f"  {name:16} cosine {found.cosine:.4f}  bias {found.bias:.4f}  scale {found.scale:.3f}  variance at scale 1 {noise:.3f}")
