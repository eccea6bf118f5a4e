"""Random batches of padded rows for every framework: a batch depends only on the seed and its number."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Batch:
    """Rows of the responses to a few prompts; arrays of shape (B, T), 64 bits."""

    #: The prompt that a row answers.
    index: list[str]
    #: One reward per row.
    rewards: np.ndarray
    #: 1 at a trained token.
    mask: np.ndarray
    old: np.ndarray
    new: np.ndarray
    ref: np.ndarray
    values: np.ndarray
    #: The sum of the squared probabilities of the next-token distribution.
    collisions: np.ndarray
    #: A second reward of each row.
    other: np.ndarray

    @property
    def groups(self) -> int:
        return len(set(self.index))

    def token_rewards(self) -> np.ndarray:
        """The reward of a row at its last trained token."""
        found = np.zeros_like(self.old)
        last = self.mask.shape[1] - 1 - np.argmax(self.mask[:, ::-1], axis=1)
        found[np.arange(len(last)), last] = self.rewards
        return found


def masks(rng, rows: int, width: int, holes: bool) -> np.ndarray:
    """Ragged rows, at least one of the whole width; holes stand for the output of a tool."""
    lengths = rng.integers(1, width + 1, size=rows)
    lengths[rng.integers(rows)] = width
    found = (np.arange(width) < lengths[:, None]).astype(np.int64)
    if holes:
        found &= rng.random(found.shape) < 0.7
        empty = found.sum(axis=1) == 0
        found[empty, 0] = 1
    return found


def batch(seed: int, number: int, *, sizes: list[int] | None = None, holes: bool = False, width: int = 10) -> Batch:
    """Batch `number`. Without `sizes` it has four groups of 2 to 6 responses."""
    rng = np.random.default_rng([seed, number])
    sizes = rng.integers(2, 7, size=4).tolist() if sizes is None else sizes
    rows = sum(sizes)
    kind = number % 3
    rewards = [rng.integers(0, 2, size=rows).astype(float), rng.normal(size=rows), rng.normal(size=rows).round(1)][kind]
    index = [f"prompt {i}" for i, size in enumerate(sizes) for _ in range(size)]
    # In one batch of four a group has equal rewards.
    equal = [i for i, name in enumerate(index) if name == "prompt 1"]
    rewards[equal] = rewards[equal[0]] if number % 4 == 0 else rewards[equal]
    # A reward of 0 would hide the treatment of a prompt with one response.
    alone = [i for i, name in enumerate(index) if index.count(name) == 1 and rewards[i] == 0]
    rewards[alone] = 1.0
    if len(set(sizes)) > 1:
        order = rng.permutation(rows)  # frameworks that label rows take them in any order
        index = [index[i] for i in order]
        rewards = rewards[order]
    old = -rng.exponential(size=(rows, width))
    near = lambda spread: np.minimum(old + rng.normal(0, spread, size=old.shape), -1e-3)  # noqa: E731
    return Batch(
        index=index,
        rewards=rewards,
        mask=masks(rng, rows, width, holes),
        old=old,
        new=near(0.3),
        ref=near(0.5),
        values=rng.normal(size=old.shape),
        # Between the share of the sampled token alone and that of one other token with the rest.
        collisions=np.exp(old) ** 2 + rng.uniform(0.05, 1, size=old.shape) * (1 - np.exp(old)) ** 2,
        other=rng.random(rows),
    )
