"""The registry of methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from . import _native

#: The names of the registered methods; a test holds it to the registry.
MethodName = Literal[
    "grpo",
    "dr_grpo",
    "rloo",
    "grpo_lambda",
    "grpo_batch_std",
    "dapo",
    "bnpo",
    "bnpo_beta",
    "gspo",
    "gspo_token",
    "luspo",
    "gmpo",
    "cispo",
    "sapo",
    "vespo",
    "dppo",
    "dro",
    "topr",
    "fipo",
    "gpg",
    "opo",
    "maxrl",
    "grpo_lead",
    "grpo_passk",
    "remax",
    "gdpo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "w_reinforce",
    "high_entropy",
    "optimal_token_baseline",
    "prefix_rloo",
    "ridge_rloo",
    "systematic_rloo",
    "systematic_prefix_rloo",
    "systematic_visit",
    "tempo",
    "p_trace_reconstructed",
    "s_trace_reconstructed",
    "oar_p",
    "oar_g",
    "ppo",
    "vine_ppo",
    "spo_chain",
    "spo_tree",
    "tree_rl",
    "tree_rpo_reconstructed",
    "rlsd",
    "distillation",
    "shear",
    "prime",
]


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
    ``extra_inputs`` lists the inputs at the default settings besides rewards and log-probabilities; :func:`grpo_lambda.extra_inputs` lists those of
    other settings.
    """

    name: MethodName
    title: str
    about: str
    source: str
    provenance: str
    settings: tuple[Setting, ...]
    extra_inputs: tuple[str, ...]


def methods() -> list[Method]:
    """Every method, in the order of the tables of this library.

    Example:
        >>> import grpo_lambda
        >>> grpo_lambda.methods()[0].title
        'GRPO'
    """
    return [_method(entry) for entry in _native.methods()]


def _method(entry: dict[str, Any]) -> Method:
    settings = tuple(Setting(**{**s, "choices": tuple(s["choices"])}) for s in entry["settings"])
    return Method(**{**entry, "settings": settings, "extra_inputs": tuple(entry["extra_inputs"])})


def extra_inputs(method: MethodName, /, **settings: Any) -> list[str]:
    """The inputs under these settings besides rewards and log-probabilities.

    Args:
        method: the name of a method.
        settings: its settings; a name that is a keyword of Python takes a trailing underscore, as ``lambda_``.

    Example:
        >>> import grpo_lambda
        >>> grpo_lambda.extra_inputs("grpo", beta=0.04)
        ['ref_logps']
    """
    return _native.extra_inputs(method, **settings)


def explain(
    method: MethodName, /, *, groups: int = 16, group_size: int = 8, max_len: int = 1024, **settings: Any
) -> str:
    """The objective as equations with their numbers, and every setting.

    Args:
        method: the name of a method.
        groups: prompts of a batch.
        group_size: responses to each prompt, at least 2.
        max_len: tokens of the longest response.
        settings: settings of the method.

    Example:
        >>> import grpo_lambda
        >>> grpo_lambda.explain("rloo").splitlines()[0].startswith("RLOO")
        True
    """
    return _native.explain(method, groups, group_size, max_len, settings)
