"""The computations of the verl plug-in on arrays, without torch and verl."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from . import _native
from ._credit import Loss, credit_from_rows, credit_padded, loss
from ._methods import methods


#: Methods that discount rewards over tokens and compare nothing within a prompt.
_UNGROUPED = ("reinforce_pp", "ppo")

#: verl's default of ``actor.clip_ratio``.
_CLIP_RATIO = 0.2

#: Settings that verl's own configuration decides, with their places in it.
_NOT_CARRIED = {
    "beta": "write actor.use_kl_loss and actor.kl_loss_coef",
    "kl": "write actor.kl_loss_type",
    "reduction": "write actor.loss_agg_mode",
    "max_length": "write actor.loss_scale_factor",
    "correction": "write algorithm.rollout_correction",
    "mask_truncated": "verl does not say which responses were cut off",
}


def carried() -> list[str]:
    """The methods whose credit needs only what verl gives an estimator: rewards, masks and prompts."""
    plain = [m.name for m in methods() if not m.extra_inputs]
    # verl's estimators see no tokens and no log-probabilities. Whitening reads lengths, which the mask has.
    return [name for name in plain if not _native.credit_reads_tokens(name, None) or _whitens(name)]


def _keys(method: str) -> set[str]:
    return {key for key, _ in _native.settings(method)}


def _whitens(method: str) -> bool:
    return "whiten" in _keys(method)


def advantages(
    method: str,
    rewards: np.ndarray,
    mask: np.ndarray,
    index: Sequence[Hashable] | None,
    extra_inputs: dict[str, np.ndarray],
    settings: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray]:
    """Advantages and returns of shape ``(B, T)``, 0 where the mask is 0.

    ``rewards`` has shape ``(B, T)``; a response's reward is the sum of its row, as in verl. ``extra_inputs`` may hold ``old_logps`` besides the
    kinds of extra inputs. Returns are the advantages; if a method discounts, those before whitening, plus the values of its critic.
    """
    mask = np.asarray(mask, dtype=np.float64)
    total = rewards.sum(axis=1)
    _refuse_settings(settings)
    if method in _UNGROUPED:
        _refuse_dense(method, rewards, mask)
        index = [0] * len(mask)  # nothing is compared within a prompt
    if index is None:
        raise ValueError("index: missing; the method compares the responses of a prompt; give the prompt of each row")
    rows, slots = _rows_with_tokens(method, mask)

    def fixed(**changed: Any) -> np.ndarray:
        found = credit_padded(
            method,
            total[rows].tolist(),
            (extra_inputs.get("old_logps", np.zeros_like(mask)))[rows],
            slots[rows],
            group=[index[row] for row in rows],
            extra_inputs={kind: values[rows] for kind, values in extra_inputs.items() if kind != "old_logps"},
            **{**settings, **changed},
        )
        whole = np.zeros_like(mask)
        whole[rows] = found.advantages
        return whole * mask

    found = fixed()
    returns = fixed(whiten=False) if method in _UNGROUPED else found
    return found, (returns + extra_inputs["values"] * mask if "values" in extra_inputs else returns)


def _rows_with_tokens(method: str, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that take part, and their mask.

    A row without a token has a reward, which verl counts in its group. It gets one slot here, whose credit is dropped. Whitening and OPO's
    weights count tokens, and would count the slot too: for them the row is left out.
    """
    empty = mask.sum(axis=1) == 0
    if _whitens(method) or method == "opo":
        return np.flatnonzero(~empty), mask
    slots = mask.copy()
    slots[empty, 0] = 1
    return np.arange(len(mask)), slots


def _refuse_settings(settings: dict[str, Any]) -> None:
    for key, instead in _NOT_CARRIED.items():
        if key in settings:
            raise ValueError(f"{key} = {settings[key]}: not a setting in verl; {instead}")


def _refuse_dense(method: str, rewards: np.ndarray, mask: np.ndarray) -> None:
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1] > 0, axis=1)
    elsewhere = rewards.copy()
    elsewhere[np.arange(len(mask)), last] = 0
    for row, slot in np.argwhere(elsewhere != 0):
        raise ValueError(
            f"token_level_rewards[{row}][{slot}] = {rewards[row, slot]}; must be 0 before the last token: "
            f"{method} discounts the reward of the whole response (verl's use_kl_in_reward is not supported)"
        )


def aggregation_weights(
    mask: np.ndarray,
    mode: str,
    dp_size: int = 1,
    batch_num_tokens: float | None = None,
    global_batch_size: float | None = None,
    loss_scale_factor: float | None = None,
) -> np.ndarray:
    """The weight of every token under verl's ``loss_agg_mode``, of shape ``(B, T)``.

    verl divides by counts of the whole batch if it has them, and by those of the micro-batch otherwise.
    """
    mask = np.asarray(mask, dtype=np.float64)
    tokens = mask.sum(axis=1)
    for name, value, modes in [
        ("batch_num_tokens", batch_num_tokens, ["token-mean"]),
        ("global_batch_size", global_batch_size, ["seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"]),
    ]:
        if mode in modes and value is None and dp_size > 1:
            raise ValueError(f"{name}: missing; loss_agg_mode={mode} needs it where dp_size is {dp_size}")
    rows = global_batch_size if global_batch_size is not None else max(float((tokens > 0).sum()), 1.0)
    if mode == "token-mean":
        weights = mask / (batch_num_tokens if batch_num_tokens is not None else max(mask.sum(), 1.0))
    elif mode == "token-sum":
        weights = mask
    elif mode == "seq-mean-token-sum":
        weights = mask / rows
    elif mode == "seq-mean-token-sum-norm":
        weights = mask / rows / (mask.shape[1] if loss_scale_factor is None else loss_scale_factor)
    elif mode == "seq-mean-token-mean":
        weights = mask / np.maximum(tokens, 1)[:, None] / rows
    else:
        known = "token-mean, token-sum, seq-mean-token-sum, seq-mean-token-sum-norm, seq-mean-token-mean"
        raise ValueError(f"loss_agg_mode = {mode}; must be one of {known}")
    return weights * dp_size


def clip_settings(
    method: str, settings: dict[str, Any], low: float, high: float, cap: float | None = None
) -> dict[str, Any]:
    """The settings with verl's clip range, if the method has one and the settings name none.

    The range bounds the ratio, for GMPO its logarithm and for DPPO a divergence; DPPO's ``cap`` is ``clip_ratio_c``.
    """
    clip = {f"{bound}_{end}": value for bound in ("epsilon", "log", "divergence") for end, value in (("low", low), ("high", high))}
    own = dict(_native.settings(method, **settings))
    if own.get("clip") == "none":
        return settings
    if own.get("clip_form") == "cap":
        if (low, high) != (_CLIP_RATIO, _CLIP_RATIO):
            warnings.warn(
                f"actor.clip_ratio_low = {low}, clip_ratio_high = {high}: `{method}` reads its cap instead; "
                "set clip_form=interval for verl's range",
                stacklevel=3,
            )
        return settings
    if own.get("clip") == "printed":
        clip.pop("epsilon_low")
    if "divergence_low" in own and cap is not None:
        clip["cap"] = cap
    return {**{key: value for key, value in clip.items() if key in own}, **settings}


def estimator_settings(method: str, settings: dict[str, Any], by_std: bool | None) -> dict[str, Any]:
    """The settings with verl's ``norm_adv_by_std_in_grpo``, if the method scales advantages and the settings do not say by what."""
    scales = by_std is False and "scale" not in settings and "scale" in _keys(method)
    return {**settings, "scale": "none"} if scales else settings


def warn_of_dual_clip(method: str, settings: dict[str, Any], cap: float | None) -> None:
    """Warns that verl's dual clip at ``actor.clip_ratio_c`` is not applied, unless the settings name the form of the clip."""
    if cap is None or "clip" in settings or dict(_native.settings(method, **settings)).get("clip") != "ppo":
        return
    warnings.warn(
        f"actor.clip_ratio_c = {cap}: verl's dual clip is not applied to `{method}`; set clip=two_sided clip_max={cap} to apply it, "
        "or clip=ppo to do without",
        stacklevel=3,
    )


def policy_loss(
    method: str,
    old_logps: np.ndarray,
    logps: np.ndarray,
    advantages: np.ndarray,
    mask: np.ndarray,
    weights: np.ndarray,
    settings: dict[str, Any],
) -> Loss[Any]:
    """The loss of a micro-batch with these advantages and token weights."""
    _refuse_settings(settings)
    fixed = credit_from_rows(
        method, advantages=advantages, weights=weights, old_logps=old_logps, mask=mask, **settings
    )
    return loss(fixed, logps)
