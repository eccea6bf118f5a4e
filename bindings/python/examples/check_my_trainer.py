"""Whose GRPO is it? A step of a trainer, and the convention that gives its numbers. Needs numpy alone.

With TRL, `grpo_lambda.trl.record` does all of this in one line.
"""

import numpy as np

import grpo_lambda


def my_trainer(groups):
    """The advantages and the gradient of a trainer of one's own: population z-scores, a mean over all tokens."""
    tokens = sum(len(row) for group in groups for row in group["logps"])
    advantages, gradient = [], []
    for group in groups:
        rewards = np.array(group["rewards"])
        scores = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
        ratios = [np.exp(np.array(new) - np.array(old)) for new, old in zip(group["logps"], group["old_logps"])]
        advantages.append([np.full(len(ratio), score) for ratio, score in zip(ratios, scores)])
        # PPO's clip: no gradient where the ratio has left the interval on the side that the advantage pushes to.
        flat = [((ratio > 1.2) & (score > 0)) | ((ratio < 0.8) & (score < 0)) for ratio, score in zip(ratios, scores)]
        gradient.append([np.where(f, 0.0, -score * ratio / tokens) for f, ratio, score in zip(flat, ratios, scores)])
    return advantages, gradient


rng = np.random.default_rng(0)
groups = []
for rewards in ([1, 0, 0, 1], [0, 1, 0, 0]):
    old = [-rng.exponential(size=length) for length in (3, 2, 4, 1)]
    groups.append({"rewards": rewards, "old_logps": old, "logps": [row + rng.normal(0, 0.2, size=len(row)) for row in old]})

advantages, gradient = my_trainer(groups)
for found in grpo_lambda.diagnose(groups, advantages=advantages, gradient=gradient):
    best = found.matches[0] if found.matches else found.nearest
    verdict = "is" if found.matches else "is none that is known; the nearest is"
    print(f"{found.quantity}: the convention {verdict} `{best.command}`, relative difference {best.error:.0e}")
    for label in best.labels[:3]:
        print(f"    as {label}")
