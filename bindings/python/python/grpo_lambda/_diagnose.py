"""Search for the framework convention that produced a trainer's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _native


class Candidate(NamedTuple):
    """One explanation of a trainer's numbers.

    ``command`` is the method with its settings here, ``labels`` the equal conventions of frameworks, ``error`` the largest difference
    relative to the largest of their numbers. ``factor`` is theirs over ours if the whole batch was scaled.
    """

    what: str
    command: str
    labels: list[str]
    error: float
    factor: float
    beta: float


class Found(NamedTuple):
    """The findings for one quantity: every explanation within the tolerance, or else the nearest.

    ``remainder`` is the unexplained part, and the method and settings beside it.
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
    """Finds the convention behind a trainer's numbers on ``groups``, which carry their ``logps``.

    ``advantages``, ``token_losses`` (of every token, before the reduction) and ``gradient`` (of the loss by every log-probability) are nested
    like the groups: a list of groups, each a list of rows. ``beta`` and ``max_length`` are the KL coefficient and the constant length of
    Dr. GRPO, if known. Returns one result per given quantity.
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
