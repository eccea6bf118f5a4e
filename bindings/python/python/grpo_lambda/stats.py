"""Intervals and paired tests of experiments.

A sample that is too small for the question gives ``None``. Random procedures take a seed and give equal numbers for equal seeds on every
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import _native


class Interval(NamedTuple):
    """A confidence interval. ``mid`` is the estimate, which need not be in the middle."""

    low: float
    mid: float
    high: float
    level: float


class Permutation(NamedTuple):
    """A permutation test: the mean difference, the two-sided p-value, and true if all sign flips were counted rather than drawn."""

    difference: float
    p: float
    exact: bool


def wilson(successes: int, n: int, level: float = 0.95) -> Interval | None:
    """Wilson's interval of a proportion."""
    return _interval(_native.wilson(successes, n, level))


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> Interval | None:
    """The interval of Clopper and Pearson, whose coverage is never below the level."""
    return _interval(_native.clopper_pearson(successes, n, level))


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Student's interval of a mean; ``None`` for fewer than two values."""
    return _interval(_native.t_interval(values, level))


def two_proportions(successes_1: int, n_1: int, successes_2: int, n_2: int, level: float = 0.95) -> Interval | None:
    """The normal interval of the difference of two independent proportions, the first minus the second."""
    return _interval(_native.two_proportions(successes_1, n_1, successes_2, n_2, level))


def paired_permutation(
    x: Sequence[float], y: Sequence[float], draws: int = 10_000, seed: int = 0
) -> Permutation | None:
    """The paired permutation test of ``x - y``. With up to 20 pairs it counts all sign flips, beyond that it draws ``draws`` of them."""
    found = _native.paired_permutation(x, y, draws, seed)
    return None if found is None else Permutation(*found)


def sign_flip_test(differences: Sequence[int]) -> float | None:
    """The exact p-value of whole-numbered paired differences; with differences of -1, 0 and 1 it is McNemar's test. ``None`` if the
    work would be excessive: use :func:`paired_permutation` then."""
    return _native.sign_flip_test(list(differences))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's p-values, adjusted for the number of tests."""
    return _native.holm(p)


def pass_at_k(n: int, successes: int, k: int) -> float | None:
    """The unbiased estimate of the chance that one of ``k`` attempts succeeds, from ``n`` attempts; ``None`` for ``k > n``."""
    return _native.pass_at_k(n, successes, k)


def bootstrap_iqm(
    tasks: Sequence[Sequence[float]], level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval | None:
    """The interquartile mean over tasks and runs, with its stratified percentile bootstrap. ``tasks[i]`` holds the runs of task ``i``."""
    return _interval(_native.bootstrap_iqm(list(tasks), level, resamples, seed))


def probability_of_improvement(x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> float | None:
    """The chance that a run of ``x`` beats a run of ``y`` on the same task, averaged over tasks; a tie counts one half."""
    return _native.probability_of_improvement(list(x), list(y))


def _interval(ends: tuple[float, float, float, float] | None) -> Interval | None:
    return None if ends is None else Interval(*ends)
