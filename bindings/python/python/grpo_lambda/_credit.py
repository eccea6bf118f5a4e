"""Credit of a batch and the loss of its responses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _native
from ._native import Credit


class Loss(NamedTuple):
    """The result of :func:`loss`.

    Minimise ``loss``. ``dlogps`` holds its derivative with respect to every log-probability, in the form of the batch.
    ``metrics`` has the names of ``sim estimate``.
    """

    loss: float
    dlogps: Any
    metrics: dict[str, float]


class Estimate(NamedTuple):
    """The result of :func:`estimate` for a group: the fields of a line of ``sim estimate``."""

    id: str | int | float | None
    advantages: list
    loss: float
    dlogps: list
    metrics: dict[str, float]


def credit(method: str, groups: Sequence[Mapping[str, Any]], /, **settings) -> Credit:
    """Fixes the credit of a batch of groups.

    A group (the responses to one prompt) is a dictionary with the keys of a ``sim estimate`` line: ``rewards`` (one number per response,
    ``None`` if it could not be graded) and ``old_logps`` (one list or array per response: the log-probability of every sampled token under
    the policy that sampled). Optional: ``ref_logps``, ``tokens``, ``truncated``, ``id``, every kind of evidence, and ``logps``, the current
    log-probabilities, which :func:`loss` uses by default.

    A setting named like a keyword of Python takes a trailing underscore: ``lambda_=0.9``.
    """
    if isinstance(groups, Mapping):
        raise ValueError("groups = an object; must be a list of groups, as in credit(method, [group])")
    return _native.credit(method, list(groups), settings)


def credit_padded(
    method: str,
    /,
    rewards: Any,
    old_logps: Any,
    mask: Any,
    *,
    group_size: int | None = None,
    group: Sequence[Hashable] | None = None,
    ref_logps: Any = None,
    truncated: Any = None,
    tokens: Any = None,
    evidence: Mapping[str, Any] | None = None,
    **settings,
) -> Credit:
    """Fixes the credit of padded rows, the form of trainers.

    ``old_logps`` and ``mask`` have shape ``(B, T)``. The mask is 1 at the tokens of the policy and 0 elsewhere: padding on either side, the
    output of a tool in the middle. Values in slots with mask 0 are never read. ``rewards`` has one entry per row, ``None`` if it could not
    be graded. ``group_size`` is the number of consecutive rows that answer one prompt; ``group`` gives a label per row instead. ``evidence`` maps a kind to
    an array of shape ``(B, T)`` (hidden states ``(B, T, width)``), or to a list per row with an entry per token, without padding.

    Advantages, weights and gradients come back with shape ``(B, T)``, 0 where the mask is 0.
    """
    rewards = rewards if isinstance(rewards, (list, tuple)) else _list(rewards)
    of_row = _group_of_row(len(rewards), group_size, group)
    evidence = None if evidence is None else dict(evidence)
    return _native.credit_padded(
        method, rewards, old_logps, mask, of_row, ref_logps, truncated, tokens, evidence, settings
    )


def credit_from_rows(
    method: str,
    /,
    *,
    advantages: Any,
    weights: Any,
    old_logps: Any,
    mask: Any,
    eligible: Any = None,
    ref_logps: Any = None,
    sampler_logps: Any = None,
    **settings,
) -> Credit:
    """Makes a micro-batch of rows whose credit is fixed, in any selection and order.

    All arrays have shape ``(B, T)``; ``advantages``, ``weights`` and ``eligible`` are those of a :class:`Credit`. A correction of the
    sampler's mismatch needs ``sampler_logps``. The losses of a batch's parts add up to the loss of the batch.
    """
    return _native.credit_from_rows(
        method, advantages, weights, old_logps, mask, eligible, ref_logps, sampler_logps, settings
    )


def loss(credit: Credit, logps: Any = None) -> Loss:
    """The loss of a batch at current log-probabilities, with its gradient.

    ``logps`` has the form of the batch: a list of groups, each a list of rows, or an array of shape ``(B, T)``. An array of ``float64`` in C
    order is not copied.
    """
    return Loss(*credit.loss(logps))


def estimate(method: str, groups: Sequence[Mapping[str, Any]], /, **settings) -> list[Estimate]:
    """Computes the lines of ``sim estimate``: each group, with its ``logps``, is a batch of its own."""
    if isinstance(groups, Mapping):
        raise ValueError("groups = an object; must be a list of groups, as in estimate(method, [group])")
    return [_estimate(method, i, group, settings) for i, group in enumerate(groups)]


def _estimate(method: str, index: int, group: Mapping[str, Any], settings: dict) -> Estimate:
    if isinstance(group, Mapping) and group.get("logps") is None:
        raise ValueError(f"groups[{index}]: logps: missing; every line needs rewards, logps, old_logps")
    try:
        fixed = _native.credit(method, [group], settings)
        found = Loss(*fixed.loss())
    except ValueError as error:
        # The batch holds this group alone, at place 0.
        raise ValueError(str(error).replace("groups[0]", f"groups[{index}]")) from None
    name = group.get("id")
    return Estimate(name, fixed.advantages[0], found.loss, found.dlogps[0], found.metrics)


def _list(values: Any) -> list:
    """The entries of an array or a tensor."""
    if not hasattr(values, "tolist"):
        raise ValueError(f"rewards = a value of type {type(values).__name__}; must be a list of numbers, one per row")
    return values.tolist()


def _group_of_row(rows: int, size: int | None, labels: Sequence[Hashable] | None) -> list[int]:
    """The number of each row's group, counted from 0 in order of first rows."""
    if (size is None) == (labels is None):
        raise ValueError("group_size, group: give one of them, to say which rows answer the same prompt")
    if size is not None:
        if size < 1 or rows % size != 0:
            raise ValueError(f"group_size = {size}; must divide the number of rows, {rows}")
        return [row // size for row in range(rows)]
    number: dict[Hashable, int] = {}
    labels = labels.tolist() if hasattr(labels, "tolist") else labels
    return [number.setdefault(label, len(number)) for label in labels]
