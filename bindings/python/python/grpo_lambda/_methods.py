"""The registry of methods."""

from __future__ import annotations

from dataclasses import dataclass

from . import _native


@dataclass(frozen=True)
class Setting:
    """A setting of a method.

    ``takes`` describes its values in words; ``choices`` lists the words of a choice, ``range`` the ends of a number. ``default`` is a number,
    a text, a truth value, or ``None`` if the setting is off.
    """

    key: str
    default: float | str | bool | None
    takes: str
    choices: tuple[str, ...]
    range: tuple[float, float] | None
    about: str


@dataclass(frozen=True)
class Method:
    """A method of the registry.

    ``provenance`` is ``published`` (formulas and public code), ``paper only``, ``reconstructed`` (no source gives the formulas) or ``ours``.
    ``evidence`` lists the inputs at the default settings beside rewards and log-probabilities; :func:`grpo_lambda.evidence` lists those of
    other settings.
    """

    name: str
    title: str
    about: str
    source: str
    provenance: str
    settings: tuple[Setting, ...]
    evidence: tuple[str, ...]


def methods() -> list[Method]:
    """Every method, in the order of the tables of this library."""
    return [_method(entry) for entry in _native.methods()]


def _method(entry: dict) -> Method:
    settings = tuple(Setting(**{**s, "choices": tuple(s["choices"])}) for s in entry["settings"])
    return Method(**{**entry, "settings": settings, "evidence": tuple(entry["evidence"])})


def evidence(method: str, /, **settings) -> list[str]:
    """The inputs under these settings beside rewards and log-probabilities."""
    return _native.evidence(method, **settings)


def explain(method: str, /, *, groups: int = 16, group_size: int = 8, max_len: int = 1024, **settings) -> str:
    """The objective as equations with their numbers, for a batch of ``groups`` prompts with ``group_size`` responses each of up to
    ``max_len`` tokens, and every setting."""
    return _native.explain(method, groups, group_size, max_len, settings)
