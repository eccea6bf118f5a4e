"""The gradient and the loss that a TRL trainer's configuration says, next to those that were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _native, _trl_config
from ._credit import credit_from_rows, credit_padded, loss

#: Extra inputs that a recorded step holds.
_RECORDED = ("tokens", "ref_logps", "sampler_logps")


class Configured(NamedTuple):
    """The loss that a trainer's configuration says.

    ``words`` are the configuration's, ``command`` is the method here, empty where none computes it or its extra inputs are not recorded, which
    ``reason`` says. ``gradient`` and ``loss`` are the differences from what was recorded: the largest, relative to the largest recorded
    derivative, and relative to the terms of the loss. ``clipped`` is the share of tokens whose ratio is clipped, which ``clips`` says of a method
    that can. ``of_parts`` is true if the loss is the mean of that of several micro-batches, which the command cannot say.
    """

    words: str
    command: str = ""
    reason: str = ""
    gradient: float = float("inf")
    loss: float = float("inf")
    clipped: float = 0.0
    of_parts: bool = False
    clips: bool = True

    @property
    def here(self) -> str:
        """The method here, in words."""
        return f"`{self.command}`{' of each micro-batch' if self.of_parts else ''} here"

    def agrees(self, tolerance: float) -> bool:
        """True if gradient and loss differ by at most the tolerance."""
        return max(self.gradient, self.loss) <= tolerance


def configured(
    trainer: Any, rows: Mapping[int, Mapping[str, Any]], rewards: Sequence[float | None], size: int, value: float
) -> Configured:
    """Compares a recorded pass over a generation batch with the loss that the trainer is configured with.

    Args:
        trainer: a ``GRPOTrainer`` or ``CreditTrainer``.
        rows: each response by its place: ``logps``, ``old_logps``, ``gradient``, ``tokens``, the ``part`` that it was trained in, and
            ``ref_logps`` and ``sampler_logps`` where there are any.
        rewards: a number per response.
        size: responses to a prompt.
        value: the recorded loss of the batch.
    """
    method, settings = getattr(trainer, "method", None), dict(getattr(trainer, "settings", {}))
    if method is not None:
        words, per_micro_batch = f"method={method}", trainer._per_micro_batch
    else:
        found = _trl_config.translated(trainer.args)
        words = f"TRL {found.words}"
        if not found.method:
            return Configured(words, reason=f"{found.differs} (so no method here is {words})")
        method, settings, per_micro_batch = found.method, found.settings, found.per_micro_batch
    command = _trl_config.command(method, settings)
    unknown = [kind for kind in _native.extra_inputs(method, **settings) if kind not in _RECORDED]
    if unknown:
        return Configured(words, reason=f"`{command}` reads {', '.join(unknown)}, which a recorded step has not")
    keys = dict(_native.settings(method))
    parts = max(row["part"] for row in rows.values()) + 1
    reported = Configured(words, command, of_parts=per_micro_batch and parts > 1, clips="epsilon_low" in keys or "cap" in keys)
    try:
        return _compared(reported, method, settings, per_micro_batch, rows, rewards, size, value)
    except ValueError as error:
        return Configured(words, reason=f"`{command}` cannot read this step: {error}")


def _compared(
    reported: Configured,
    method: Any,
    settings: dict[str, Any],
    per_micro_batch: bool,
    rows: Mapping[int, Mapping[str, Any]],
    rewards: Sequence[float | None],
    size: int,
    value: float,
) -> Configured:
    width = max(len(row["logps"]) for row in rows.values())

    def padded(key: str) -> Any:
        out = np.zeros((len(rows), width))
        for place, row in rows.items():
            out[place, : len(row[key])] = row[key]
        return out

    mask = np.arange(width) < np.array([[len(rows[place]["logps"])] for place in range(len(rows))])
    optional = {key: padded(key) for key in ("ref_logps", "sampler_logps") if key in rows[0]}
    old, logps, theirs = padded("old_logps"), padded("logps"), padded("gradient")
    extra_inputs = {"sampler_logps": optional["sampler_logps"]} if "sampler_logps" in optional else None
    fixed = credit_padded(
        method,
        list(rewards),
        old,
        mask,
        group_size=size,
        ref_logps=optional.get("ref_logps"),
        tokens=padded("tokens").astype(np.int64),
        extra_inputs=extra_inputs,
        **settings,
    )
    weights = np.array(fixed.weights)
    if per_micro_batch:
        part_of = np.array([rows[place]["part"] for place in range(len(rows))])
        for part in range(part_of.max() + 1):
            weights[part_of == part] /= max(weights[part_of == part].sum(), 1e-300) * (part_of.max() + 1)
    fixed = credit_from_rows(
        method,
        advantages=fixed.advantages,
        weights=weights,
        old_logps=old,
        mask=mask,
        eligible=fixed.eligible,
        **optional,
        **settings,
    )
    ours = loss(fixed, logps)
    terms = max(float((np.abs(fixed.advantages) * np.abs(weights)).sum()), abs(value), 1e-300)
    return reported._replace(
        gradient=float(np.abs(ours.dlogps - theirs).max() / max(np.abs(theirs).max(), 1e-300)),
        loss=abs(ours.loss - value) / terms,
        clipped=ours.metrics["clip_fraction_low"] + ours.metrics["clip_fraction_high"],
    )
