"""Credit of a batch and the loss of its responses."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from . import _native
from ._methods import MethodName
from ._native import Credit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ._types import Form, Groups, Padded

    class Loss(NamedTuple, Generic[Form]):  # only from Python 3.11 on at run time
        loss: float
        dlogps: Form
        metrics: dict[str, float]

else:

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
    advantages: list[NDArray[np.float64]]
    loss: float
    dlogps: list[NDArray[np.float64]]
    metrics: dict[str, float]


def credit(method: MethodName, groups: Sequence[Mapping[str, Any]], /, **settings: Any) -> Credit[Groups]:
    """Fixes the credit of a batch of groups.

    Args:
        method: the name of a method; :func:`grpo_lambda.methods` lists them.
        groups: a dictionary per prompt with the keys of a ``sim estimate`` line. ``rewards``, of length ``G``, holds a number per response,
            ``None`` if it could not be graded; ``old_logps``, ``G`` lists or arrays of length ``T_i``, the log-probability of every sampled
            token under the policy that sampled. Optional: ``ref_logps``, ``tokens``, ``truncated``, ``id``, every kind of extra input, and
            ``logps``, the current log-probabilities, which :func:`loss` uses by default.
        settings: settings of the method. One named like a keyword of Python takes a trailing underscore: ``lambda_=0.9``.

    Returns:
        The batch with its credit: ``advantages`` and ``weights`` of every token, nested like the groups.

    Example:
        >>> import grpo_lambda
        >>> fixed = grpo_lambda.credit("rloo", [{"rewards": [1, 0], "old_logps": [[-0.5, -0.25], [-1.0]]}])
        >>> [row.tolist() for row in fixed.advantages[0]]
        [[1.0, 1.0], [-1.0]]
    """
    return _native.credit(method, listed(groups, "credit(method, [group])"), settings)


def credit_padded(
    method: MethodName,
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
    extra_inputs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Credit[Padded]:
    """Fixes the credit of padded rows, the form of trainers.

    Args:
        method: the name of a method.
        rewards: shape ``(B,)``, ``None`` for a row that could not be graded.
        old_logps: shape ``(B, T)``, log-probabilities under the policy that sampled.
        mask: shape ``(B, T)``, 1 at the tokens of the policy and 0 elsewhere: padding on either side, the output of a tool in the middle.
            Values in slots with mask 0 are never read. A row without a token counts with its reward and has weight 0.
        group_size: the number of consecutive rows that answer one prompt.
        group: a label per row instead, equal for the rows of one prompt.
        ref_logps: shape ``(B, T)``, log-probabilities under the reference of the KL term.
        truncated: shape ``(B,)``, true for a response that was cut off.
        tokens: shape ``(B, T)``, token ids.
        extra_inputs: a kind to an array of shape ``(B, T)`` (hidden states ``(B, T, width)``), or to a list per row without padding.
        settings: settings of the method.

    Returns:
        The batch with its credit; advantages, weights and gradients have shape ``(B, T)``, 0 where the mask is 0.

    Example:
        >>> import grpo_lambda
        >>> fixed = grpo_lambda.credit_padded("rloo", [1, 0], [[-0.5, -0.25], [-1.0, 0.0]], [[1, 1], [1, 0]], group_size=2)
        >>> fixed.advantages.tolist()
        [[1.0, 1.0], [-1.0, 0.0]]
    """
    rewards = rewards if isinstance(rewards, (list, tuple)) else _list(rewards)
    of_row = _group_of_row(len(rewards), group_size, group)
    extra_inputs = None if extra_inputs is None else dict(extra_inputs)
    return _native.credit_padded(
        method, rewards, old_logps, mask, of_row, ref_logps, truncated, tokens, extra_inputs, settings
    )


def credit_from_rows(
    method: MethodName,
    /,
    *,
    advantages: Any,
    weights: Any,
    old_logps: Any,
    mask: Any,
    eligible: Any = None,
    ref_logps: Any = None,
    sampler_logps: Any = None,
    **settings: Any,
) -> Credit[Padded]:
    """Makes a micro-batch of rows whose credit is fixed, in any selection and order.

    The losses of a batch's parts add up to the loss of the batch.

    Args:
        method: the name of the method that fixed the credit.
        advantages: shape ``(B, T)``, rows of :attr:`Credit.advantages`.
        weights: shape ``(B, T)``, rows of :attr:`Credit.weights`.
        old_logps: shape ``(B, T)``.
        mask: shape ``(B, T)``.
        eligible: shape ``(B, T)``, rows of :attr:`Credit.eligible`, if that is not ``None``.
        ref_logps: shape ``(B, T)``, for a KL term.
        sampler_logps: shape ``(B, T)``, for a correction of the sampler's mismatch.
        settings: the settings that the credit was fixed under.

    Example:
        >>> import grpo_lambda
        >>> old, mask = [[-0.5, -0.25], [-1.0, 0.0]], [[1, 1], [1, 0]]
        >>> fixed = grpo_lambda.credit_padded("rloo", [1, 0], old, mask, group_size=2)
        >>> part = grpo_lambda.credit_from_rows(
        ...     "rloo", advantages=fixed.advantages[:1], weights=fixed.weights[:1], old_logps=old[:1], mask=mask[:1])
        >>> grpo_lambda.loss(part, [[-0.5, -0.25]]).loss
        -1.0
    """
    return _native.credit_from_rows(
        method, advantages, weights, old_logps, mask, eligible, ref_logps, sampler_logps, settings
    )


def loss(credit: Credit[Form], logps: Any = None) -> Loss[Form]:
    """The loss of a batch at current log-probabilities, with its gradient.

    Args:
        credit: a batch whose credit is fixed.
        logps: the current log-probabilities in the form of the batch: a list of groups, each a list of rows of length ``T_i``, or an array of
            shape ``(B, T)``. An array of ``float64`` in C order is not copied. ``None`` takes those that the groups hold.

    Example:
        >>> import grpo_lambda
        >>> fixed = grpo_lambda.credit("rloo", [{"rewards": [1, 0], "old_logps": [[-0.5], [-1.0]]}])
        >>> grpo_lambda.loss(fixed, [[[-0.5], [-1.0]]]).dlogps[0][0].tolist()
        [-0.5]
    """
    if not isinstance(credit, Credit):
        raise ValueError(f"credit = a value of type {type(credit).__name__}; must be what credit, credit_padded or credit_from_rows returned")
    return Loss(*credit.loss(logps))


def estimate(method: MethodName, groups: Sequence[Mapping[str, Any]], /, **settings: Any) -> list[Estimate]:
    """Computes the lines of ``sim estimate``: each group, with its ``logps``, is a batch of its own.

    Args:
        method: the name of a method.
        groups: a dictionary per prompt, as in :func:`credit`, each with ``logps``.
        settings: settings of the method.

    Example:
        >>> import grpo_lambda
        >>> group = {"rewards": [1, 0], "old_logps": [[-0.5], [-1.0]], "logps": [[-0.5], [-1.0]]}
        >>> grpo_lambda.estimate("grpo", [group])[0].loss
        0.0
    """
    taken = listed(groups, "estimate(method, [group])")
    return [_estimate(method, i, group, settings) for i, group in enumerate(taken)]


def _estimate(method: MethodName, index: int, group: Mapping[str, Any], settings: dict[str, Any]) -> Estimate:
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


def listed(groups: Any, call: str) -> list[Any]:
    """The groups of a batch; ``call`` shows what takes them, for the error about what is no list."""
    if isinstance(groups, (Mapping, str)) or not isinstance(groups, Iterable):
        raise ValueError(f"groups = a value of type {type(groups).__name__}; must be a list of groups, as in {call}")
    return list(groups)


def _list(values: Any) -> list[Any]:
    """The entries of an array or a tensor."""
    if not hasattr(values, "tolist"):
        raise ValueError(f"rewards = a value of type {type(values).__name__}; must be a list of numbers, one per row")
    listed: list[Any] = values.tolist()
    return listed


def _group_of_row(rows: int, size: int | None, labels: Sequence[Hashable] | None) -> list[int]:
    """The number of each row's group, counted from 0 in order of first rows."""
    if (size is None and labels is None) or (size is not None and labels is not None):
        raise ValueError("group_size, group: give one of them, to say which rows answer the same prompt")
    if size is not None:
        try:
            size = operator.index(None if isinstance(size, bool) else size)
        except TypeError:
            raise ValueError(f"group_size = {size!r}; must be a whole number") from None
        if size < 1 or rows % size != 0:
            raise ValueError(f"group_size = {size}; must divide the number of rows, {rows}")
        return [row // size for row in range(rows)]
    number: dict[Hashable, int] = {}
    listed: Any = labels
    if hasattr(listed, "tolist"):
        listed = listed.tolist()
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise ValueError(f"group = a value of type {type(labels).__name__}; must be a list with a label per row")
    labelled = list(listed)
    for row, label in enumerate(labelled):
        try:
            hash(label)
        except TypeError:
            raise ValueError(f"group[{row}] = a value of type {type(label).__name__}; must be a text, a number or a tuple of these") from None
    return [number.setdefault(label, len(number)) for label in labelled]
