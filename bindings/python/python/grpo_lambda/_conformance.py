"""Checks of a method that was written in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._credit import credit, loss
from ._methods import MethodName

#: A batch of groups and its log-probabilities, to the loss and its derivative by each of them.
Function = Callable[[list[dict[str, Any]], list[list[NDArray[np.float64]]]], tuple[float, Any]]


class Check(NamedTuple):
    """A check of a method.

    ``verdict`` is ``holds``, ``fails``, ``depends`` where both are legitimate, or ``held`` where a gradient is right with the weights that the
    method holds constant. ``detail`` names the number.
    """

    name: str
    verdict: str
    detail: str


class Report(NamedTuple):
    """The checks of a method, printed as a table. ``ok`` is true if none fails."""

    checks: list[Check]

    @property
    def ok(self) -> bool:
        return all(check.verdict != "fails" for check in self.checks)

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        return "\n".join(f"{check.name:<{width}}  {check.verdict:<7}  {check.detail}".rstrip() for check in self.checks)


def conformance(method: Function | MethodName, /, *, seed: int = 0, tolerance: float = 1e-6, **settings: Any) -> Report:
    """Checks a method on random batches of three groups with ragged responses, off-policy by ratios of 0.7 to 1.4.

    A batch of groups is written as for :func:`grpo_lambda.credit`: each has ``rewards``, ``old_logps``, ``ref_logps`` and ``tokens``.

    * ``gradient``: ``dlogps`` is the derivative of the loss, by central differences. A method of this library that holds weights constant, as
      CISPO does, is ``held``: its ``dlogps`` is the derivative with these weights fixed. A callable with a stopped gradient fails, and so does
      one whose advantages are differentiated although they should be held.
    * ``permutation``: the order of responses in a group, and of groups, does not matter.
    * ``agreeing group``: a group whose rewards all agree has no gradient.
    * ``shifted rewards``: a constant added to all rewards of a group changes nothing.
    * ``micro-batches``: the mean over groups, each a batch of its own, is the batch's loss. A token mean or a statistic of the batch depends
      on the split: fix its credit on the whole batch.
    * ``finite``: rewards of 1e6 and log-ratios of 20 give finite numbers.

    Args:
        method: a callable ``f(groups, logps) -> (loss, dlogps)``, ``logps`` and ``dlogps`` nested as groups, responses, tokens; or the name of
            a method of this library.
        seed: of the random batches.
        tolerance: the largest difference that counts as equal, relative to the largest number; finite differences have 1e-4.
        settings: settings of a named method.

    Returns:
        A :class:`Report`: ``print`` it, or assert ``report.ok``.

    Example:
        >>> import grpo_lambda
        >>> def sum_of_logps(groups, logps):
        ...     total = sum(-reward * row.sum() for group, rows in zip(groups, logps) for reward, row in zip(group["rewards"], rows))
        ...     return total, [[-reward + 0 * row for reward, row in zip(g["rewards"], rows)] for g, rows in zip(groups, logps)]
        >>> report = grpo_lambda.conformance(sum_of_logps)
        >>> [(check.name, check.verdict) for check in report.checks][:3]
        [('gradient', 'holds'), ('permutation', 'holds'), ('agreeing group', 'fails')]
    """
    if not isinstance(method, str) and not callable(method):
        raise ValueError(f"method = {method!r}; must be the name of a method, or a callable")
    function = _named(method, settings) if isinstance(method, str) else method
    if settings and not isinstance(method, str):
        raise ValueError(f"{next(iter(settings))}: a callable has no settings; bind them in the function")
    rng = random.Random(seed)
    groups, logps = _batch(rng)
    gradient = _gradient(function, groups, logps)
    if gradient.verdict == "fails" and isinstance(method, str):
        held = _gradient(_held(method, settings), groups, logps)
        gradient = held._replace(verdict="held", detail=f"{held.detail}, with the weights that it holds constant") if held.verdict == "holds" else gradient
    checks = [gradient, _permutation(function, groups, logps, rng, tolerance)]
    checks += [_agreeing(function, groups, logps, tolerance), _shifted(function, groups, logps, tolerance)]
    return Report([*checks, _micro_batches(function, groups, logps, tolerance), _finite(function, groups, logps)])


def _named(method: MethodName, settings: dict[str, Any]) -> Function:
    def function(groups: list[dict[str, Any]], logps: list[list[NDArray[np.float64]]]) -> tuple[float, Any]:
        found = loss(credit(method, groups, **settings), logps)
        return found.loss, found.dlogps

    return function


def _held(method: MethodName, settings: dict[str, Any]) -> Function:
    """The method with the weights that it holds constant fixed at the log-probabilities of the first call."""
    first: list[Any] = []

    def function(groups: list[dict[str, Any]], logps: list[list[NDArray[np.float64]]]) -> tuple[float, Any]:
        first.append(logps)
        fixed = credit(method, groups, **settings)
        return fixed._loss_around(logps, first[0]), loss(fixed, logps).dlogps

    return function


def _batch(rng: random.Random) -> tuple[list[dict[str, Any]], list[list[NDArray[np.float64]]]]:
    """Three groups with rewards that differ, and log-probabilities after a step."""
    groups, logps = [], []
    for size in (4, 3, 5):
        lengths = [rng.randint(1, 6) for _ in range(size)]
        old = [np.array([-rng.expovariate(1.0) - 0.5 for _ in range(n)]) for n in lengths]
        rewards = [rng.choice([0.0, 1.0, 0.5, rng.random()]) for _ in lengths]
        rewards[0], rewards[1] = 1.0, 0.0
        ref = [row + np.array([rng.gauss(0, 0.1) for _ in row]) for row in old]
        tokens = [[rng.randrange(9) for _ in range(n)] for n in lengths]
        groups.append({"rewards": rewards, "old_logps": old, "ref_logps": ref, "tokens": tokens})
        logps.append([row + np.array([rng.uniform(-0.35, 0.35) for _ in row]) for row in old])
    return groups, logps


def _called(function: Function, groups: Any, logps: Any) -> tuple[float, list[NDArray[np.float64]]]:
    """Value and gradient, the gradient response by response; refused by name if it has another form."""
    found = function([dict(group) for group in groups], [[row.copy() for row in rows] for rows in logps])
    try:
        value, dlogps = found
        flat = [np.asarray(row, dtype=float) for of_group in dlogps for row in of_group]
        value = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"method(groups, logps) = {type(found).__name__}; must be (loss, dlogps), dlogps nested like logps") from None
    expected = [row.shape for rows in logps for row in rows]
    if [row.shape for row in flat] != expected:
        raise ValueError("dlogps: must have the shapes of logps: groups, responses, tokens")
    return value, flat


def _apart(ours: list[NDArray[np.float64]], theirs: list[NDArray[np.float64]]) -> float:
    """The largest difference relative to the largest number."""
    a, b = np.concatenate(ours), np.concatenate(theirs)
    return float(np.abs(a - b).max() / max(np.abs(a).max(), np.abs(b).max(), 1e-300))


def _verdict(name: str, apart: float, bound: float, what: str, otherwise: str = "fails") -> Check:
    return Check(name, "holds" if apart <= bound else otherwise, f"{what}: relative difference {apart:.1e}")


def _gradient(function: Function, groups: Any, logps: Any) -> Check:
    _, dlogps = _called(function, groups, logps)
    slopes, step = [], 1e-5
    for g, rows in enumerate(logps):
        for i, row in enumerate(rows):
            slope = np.zeros_like(row)
            for t in range(len(row)):
                ends = []
                for sign in (1, -1):
                    moved = [[r.copy() for r in rs] for rs in logps]
                    moved[g][i][t] += sign * step
                    ends.append(_called(function, groups, moved)[0])
                slope[t] = (ends[0] - ends[1]) / (2 * step)
            slopes.append(slope)
    return _verdict("gradient", _apart(dlogps, slopes), 1e-4, "dlogps against finite differences of the loss")


def _permutation(function: Function, groups: Any, logps: Any, rng: random.Random, tolerance: float) -> Check:
    value, dlogps = _called(function, groups, logps)
    places = [[(g, i) for i in range(len(rows))] for g, rows in enumerate(logps)]
    for own in places:
        rng.shuffle(own)
    places = places[1:] + places[:1]
    moved = [{key: [groups[g][key][i] for g, i in own] for key in groups[0]} for own in places]
    other, found = _called(function, moved, [[logps[g][i] for g, i in own] for own in places])
    first = [sum(len(rows) for rows in logps[:g]) for g in range(len(logps))]
    expected = [dlogps[first[g] + i] for own in places for g, i in own]
    apart = max(_apart(found, expected), abs(value - other) / max(abs(value), abs(other), 1e-300))
    return _verdict("permutation", apart, tolerance, "responses and groups in another order")


def _agreeing(function: Function, groups: Any, logps: Any, tolerance: float) -> Check:
    _, usual = _called(function, groups, logps)
    same = [{**groups[0], "rewards": [1.0] * len(groups[0]["rewards"])}, *groups[1:]]
    _, dlogps = _called(function, same, logps)
    own = np.concatenate(dlogps[: len(logps[0])])
    apart = float(np.abs(own).max() / max(np.abs(np.concatenate(usual)).max(), 1e-300))
    return _verdict("agreeing group", apart, tolerance, "gradient of a group whose rewards agree, against 0")


def _shifted(function: Function, groups: Any, logps: Any, tolerance: float) -> Check:
    _, dlogps = _called(function, groups, logps)
    moved = [{**group, "rewards": [r + 0.5 for r in group["rewards"]]} for group in groups]
    apart = _apart(_called(function, moved, logps)[1], dlogps)
    return _verdict("shifted rewards", apart, tolerance, "0.5 added to every reward", "depends")


def _micro_batches(function: Function, groups: Any, logps: Any, tolerance: float) -> Check:
    # Groups of one size, so that a mean over responses is a mean over groups.
    cut = [{key: value[:3] for key, value in group.items()} for group in groups]
    rows = [rows[:3] for rows in logps]
    _, whole = _called(function, cut, rows)
    parts = [_called(function, [group], [own])[1] for group, own in zip(cut, rows)]
    apart = _apart([row / len(cut) for part in parts for row in part], whole)
    return _verdict("micro-batches", apart, tolerance, "groups as batches of their own, averaged", "depends")


def _finite(function: Function, groups: Any, logps: Any) -> Check:
    huge = [{**group, "rewards": [1e6 * r for r in group["rewards"]]} for group in groups]
    far = [[row + 20.0 * (-1) ** i for i, row in enumerate(rows)] for rows in logps]
    with np.errstate(all="ignore"):
        value, dlogps = _called(function, huge, [[np.minimum(row, 0.0) for row in rows] for rows in far])
    fine = np.isfinite(value) and all(np.isfinite(row).all() for row in dlogps)
    return Check("finite", "holds" if fine else "fails", "rewards of 1e6 and log-ratios of 20")
