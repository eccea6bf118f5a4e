"""Search for the framework convention that produced a trainer's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _native
from ._credit import listed


class Convention(NamedTuple):
    """The meaning that a framework or a paper gives to some words, as a method here: a row of docs/conventions.md.

    ``about`` is the part of the objective that the words determine: ``objective`` (advantages and loss), ``advantages``, ``loss``,
    ``reduction``, ``KL`` or ``correction``. ``method`` is empty where nothing here reproduces it. ``differs`` says where it departs.
    """

    framework: str
    version: str
    words: str
    about: str
    method: str
    settings: dict[str, str]
    differs: str


def conventions() -> list[Convention]:
    """Every convention, framework by framework.

    Example:
        >>> import grpo_lambda
        >>> [c.settings for c in grpo_lambda.conventions() if c.words == "loss_type=dapo (the default)"]
        [{'reduction': 'token_mean'}]
    """
    return [Convention(**entry) for entry in _native.conventions()]


class Candidate(NamedTuple):
    """One explanation of a trainer's numbers.

    ``command`` is the method with its settings here, ``labels`` the equal conventions of frameworks, ``error`` the largest difference
    relative to the largest of their numbers. ``factor`` is theirs over ours if the whole batch was scaled. ``of_parts`` is true if the command
    computes it on each micro-batch, and the loss is their mean.
    """

    what: str
    command: str
    labels: list[str]
    error: float
    factor: float
    beta: float
    of_parts: bool


class Found(NamedTuple):
    """The findings for one quantity: every explanation within the tolerance, or else the nearest.

    ``remainder`` is the unexplained part, and the method and settings next to it. ``note`` says how a loss was read, or that the rows of the
    groups look shuffled; it is empty otherwise.
    """

    quantity: str
    matches: list[Candidate]
    nearest: Candidate | None
    remainder: tuple[str, str] | None
    tried: int
    note: str


def diagnose(
    groups: Sequence[Mapping[str, Any]],
    *,
    advantages: Any = None,
    token_losses: Any = None,
    dlogps: Any = None,
    gradient: Any = None,
    loss: float | Sequence[float] | None = None,
    tolerance: float = 1e-5,
    beta: float | None = None,
    max_length: float | None = None,
    correction: str | None = None,
    parts: Sequence[Sequence[int]] | None = None,
) -> list[Found]:
    """Finds the convention that gives a trainer's numbers on a batch.

    Args:
        groups: the batch, a dictionary per prompt as in :func:`credit`, each with its ``logps``. The responses to one prompt stand together:
            TRL shuffles rows before its loss.
        advantages: of every token, a list of groups, each a list of rows of length ``T_i``.
        token_losses: of every token before the reduction, the KL term in it, of the same shape.
        dlogps: the derivative of the loss by every log-probability, of the same shape, as :func:`loss` returns it.
        gradient: another name of ``dlogps``.
        loss: of the batch; or a number per group, which are shares that add up. The same number for every group is the batch's.
        tolerance: the largest difference that counts as equal, relative to the largest of their numbers.
        beta: the KL coefficient, if known; a loss alone cannot show it.
        max_length: the constant length of Dr. GRPO, if known.
        correction: the settings of the correction of the sampler's mismatch, if known, as in ``"correction=token_truncate correction_high=2"``;
            searched with its bounds where the groups have ``sampler_logps``.
        parts: the micro-batch of each response, from 0, a list for each group, if the loss is the mean of that of several micro-batches.

    Returns:
        One result per given quantity, in this order: advantages, token_losses, gradient, loss.

    Example:
        >>> import grpo_lambda
        >>> rows = [[-0.5, -0.2, -0.1], [-1.0, -0.3], [-0.4]]
        >>> group = {"rewards": [1, 0, 1], "old_logps": rows, "logps": rows}
        >>> advantages = [[[1 / 3] * 3, [-2 / 3] * 2, [1 / 3]]]
        >>> "TRL scale_rewards=none" in grpo_lambda.diagnose([group], advantages=advantages)[0].matches[0].labels
        True
    """
    if dlogps is not None and gradient is not None:
        raise ValueError("dlogps and gradient: two names of one quantity; give one")
    gradient = dlogps if gradient is None else gradient
    # An array or a tensor.
    given: Any = loss.tolist() if loss is not None and hasattr(loss, "tolist") else loss
    reported = _native.diagnose(listed(groups, "diagnose([group], loss=..)"), advantages, token_losses, gradient, given, tolerance, beta, max_length, correction, parts)
    return [
        Found(**{**found, "matches": [Candidate(**c) for c in found["matches"]], "nearest": _candidate(found["nearest"])})
        for found in reported
    ]


def _candidate(entry: dict[str, Any] | None) -> Candidate | None:
    return None if entry is None else Candidate(**entry)
