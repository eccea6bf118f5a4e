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
    """Wilson's interval of a proportion.

    Args:
        successes: the number of successes.
        n: the number of trials.
        level: the coverage, as 0.95.

    Example:
        >>> from grpo_lambda import stats
        >>> round(stats.wilson(8, 10).low, 3)
        0.49
    """
    return _interval(_native.wilson(successes, n, level))


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> Interval | None:
    """The interval of Clopper and Pearson, whose coverage is never below the level.

    Args:
        successes: the number of successes.
        n: the number of trials.
        level: the coverage, as 0.95.

    Example:
        >>> from grpo_lambda import stats
        >>> round(stats.clopper_pearson(8, 10).low, 3)
        0.444
    """
    return _interval(_native.clopper_pearson(successes, n, level))


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Student's interval of a mean; ``None`` for fewer than two values.

    Args:
        values: shape ``(n,)``.
        level: the coverage, as 0.95.

    Example:
        >>> from grpo_lambda import stats
        >>> stats.t_interval([1, 3]).mid
        2.0
    """
    return _interval(_native.t_interval(values, level))


def two_proportions(successes_1: int, n_1: int, successes_2: int, n_2: int, level: float = 0.95) -> Interval | None:
    """The normal interval of the difference of two independent proportions, the first minus the second.

    Args:
        successes_1: successes of the first.
        n_1: trials of the first.
        successes_2: successes of the second.
        n_2: trials of the second.
        level: the coverage, as 0.95.

    Example:
        >>> from grpo_lambda import stats
        >>> round(stats.two_proportions(60, 100, 50, 100).mid, 3)
        0.1
    """
    return _interval(_native.two_proportions(successes_1, n_1, successes_2, n_2, level))


def paired_permutation(
    x: Sequence[float], y: Sequence[float], draws: int = 10_000, seed: int = 0
) -> Permutation | None:
    """The paired permutation test of ``x - y``. With up to 20 pairs it counts all sign flips, beyond that it draws ``draws`` of them.

    Args:
        x: shape ``(n,)``.
        y: shape ``(n,)``, the partners of ``x``.
        draws: sign flips that are drawn with more than 20 pairs.
        seed: of the draws.

    Example:
        >>> from grpo_lambda import stats
        >>> stats.paired_permutation([2, 3, 4], [1, 1, 1]).p
        0.25
    """
    found = _native.paired_permutation(x, y, draws, seed)
    return None if found is None else Permutation(*found)


def sign_flip_test(differences: Sequence[int]) -> float | None:
    """The exact p-value of whole-numbered paired differences; with differences of -1, 0 and 1 it is McNemar's test. ``None`` if the
    work would be excessive: use :func:`paired_permutation` then.

    Args:
        differences: shape ``(n,)``, whole numbers.

    Example:
        >>> from grpo_lambda import stats
        >>> stats.sign_flip_test([1, 1, 1, 1])
        0.125
    """
    return _native.sign_flip_test(list(differences))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's p-values, adjusted for the number of tests.

    Args:
        p: shape ``(n,)``, in [0, 1].

    Example:
        >>> from grpo_lambda import stats
        >>> stats.holm([0.04, 0.01, 0.03])
        [0.06, 0.03, 0.06]
    """
    return _native.holm(p)


def pass_at_k(n: int, successes: int, k: int) -> float | None:
    """The unbiased estimate of the chance that one of ``k`` attempts succeeds, from ``n`` attempts; ``None`` for ``k > n``.

    Args:
        n: the attempts that were made.
        successes: those that succeeded.
        k: the attempts in question.

    Example:
        >>> from grpo_lambda import stats
        >>> round(stats.pass_at_k(4, 2, 2), 3)
        0.833
    """
    return _native.pass_at_k(n, successes, k)


def bootstrap_iqm(
    tasks: Sequence[Sequence[float]], level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval | None:
    """The interquartile mean over tasks and runs, with its stratified percentile bootstrap. ``tasks[i]`` holds the runs of task ``i``.

    Args:
        tasks: a list per task of the values of its runs.
        level: the coverage, as 0.95.
        resamples: of the bootstrap.
        seed: of the resamples.

    Example:
        >>> from grpo_lambda import stats
        >>> round(stats.bootstrap_iqm([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]]).mid, 3)
        0.45
    """
    return _interval(_native.bootstrap_iqm(list(tasks), level, resamples, seed))


def probability_of_improvement(x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> float | None:
    """The chance that a run of ``x`` beats a run of ``y`` on the same task, averaged over tasks; a tie counts one half.

    Args:
        x: a list per task of the values of its runs.
        y: likewise, of the same tasks.

    Example:
        >>> from grpo_lambda import stats
        >>> stats.probability_of_improvement([[1, 3]], [[1, 2]])
        0.625
    """
    return _native.probability_of_improvement(list(x), list(y))


def _interval(ends: tuple[float, float, float, float] | None) -> Interval | None:
    return None if ends is None else Interval(*ends)
