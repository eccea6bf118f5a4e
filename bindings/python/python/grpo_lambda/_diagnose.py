"""Which framework's convention produced a trainer's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _native


class Candidate(NamedTuple):
    """One explanation of a trainer's numbers.

    ``command`` is the method with the settings that compute it here, ``labels`` the conventions of frameworks that are the same, ``error`` the
    largest difference relative to the largest of their numbers. Where the whole batch was scaled, ``factor`` is what theirs is of ours.
    """

    what: str
    command: str
    labels: list[str]
    error: float
    factor: float
    beta: float


class Found(NamedTuple):
    """What was found for one quantity: every explanation within the tolerance, or the nearest where there is none.

    ``remainder`` says what is left unexplained, and beside which method and settings.
    """

    quantity: str
    matches: list[Candidate]
    nearest: Candidate | None
    remainder: tuple[str, str] | None
    tried: int


def diagnose(
    groups: Sequence[Mapping[str, Any]],
    *,
    advantages: Any = None,
    token_losses: Any = None,
    gradient: Any = None,
    loss: float | None = None,
    tolerance: float = 1e-5,
    beta: float | None = None,
    max_length: float | None = None,
) -> list[Found]:
    """Finds the convention behind what a trainer computed on ``groups``, which carry their ``logps``.

    ``advantages``, ``token_losses`` (of every token, before the reduction) and ``gradient`` (of the loss by every log-probability) are nested
    as the groups are: a list of groups, each a list of rows. ``beta`` and ``max_length`` are the KL coefficient and the constant length of
    Dr. GRPO, where they are known. One result per quantity that is given.
    """
    told = _native.diagnose(
        list(groups), advantages, token_losses, gradient, loss, tolerance, beta, max_length
    )
    return [
        Found(**{**found, "matches": [Candidate(**c) for c in found["matches"]], "nearest": _candidate(found["nearest"])})
        for found in told
    ]


def _candidate(entry: dict | None) -> Candidate | None:
    return None if entry is None else Candidate(**entry)
