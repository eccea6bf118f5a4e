"""TRL's ``GRPOConfig`` and ``RLOOConfig`` in the words of this library, without TRL: its loss as a method with settings, and another method under it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from . import _native
from ._diagnose import conventions

#: Kinds of loss that are the clipped surrogate of PPO under different reductions.
_CLIPPED = ("grpo", "bnpo", "dapo", "dr_grpo")

#: Fields of one kind of loss, by the settings that they are.
_OF_ONE_LOSS = {
    "sapo": {"sapo_temperature_pos": "tau_positive", "sapo_temperature_neg": "tau_negative"},
    "vespo": {
        "vespo_k_pos": "k_positive",
        "vespo_lambda_pos": "lambda_positive",
        "vespo_k_neg": "k_negative",
        "vespo_lambda_neg": "lambda_negative",
    },
}

#: Fields of TRL's own loss that no method here has.
_NOWHERE = {
    "entropy_coef": "an entropy bonus is a trainer's term and no method's: it does not pass through log-probabilities",
    "use_adaptive_entropy": "an entropy bonus is a trainer's term and no method's: it does not pass through log-probabilities",
}


#: The settings of ``gdpo`` that are TRL's ``normalize_then_sum``.
_OF_PARTS = {"whiten_over": "responses", "std_preset": "trl"}


@dataclass(frozen=True)
class Translation:
    """TRL's own loss as a method here.

    ``method`` is empty where none computes it, which ``differs`` explains. ``per_micro_batch`` is true for a token mean over each micro-batch.
    """

    words: str
    method: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    per_micro_batch: bool = False
    differs: str = ""

    def sentence(self) -> str:
        """The loss that an unchanged ``GRPOConfig`` trains with, in a sentence."""
        if not self.method:
            return f"TRL's own loss, unchanged ({self.words}); no method here is equal: {self.differs}"
        return f"TRL's own loss, unchanged: {self.words} is `{command(self.method, self.settings)}`{self.of_parts} here"

    @property
    def of_parts(self) -> str:
        """What a command cannot say: that the mean is over each micro-batch."""
        return " of each micro-batch" if self.per_micro_batch else ""


@dataclass(frozen=True)
class Asked:
    """A method under a ``GRPOConfig``: all its settings, and a sentence for the user."""

    method: str
    settings: dict[str, Any]
    per_micro_batch: bool
    sentence: str


@dataclass(frozen=True)
class _Carried:
    """A field of ``GRPOConfig`` as a setting. It is ``written`` if it has another value than TRL's default."""

    field: str
    key: str
    value: Any
    written: bool


def command(method: str, settings: Mapping[str, Any]) -> str:
    """Method and settings as a command takes them, those at their defaults left out."""
    defaults, chosen = dict(_native.settings(method)), dict(_native.settings(method, **settings))
    return " ".join([method, *(f"{key}={value}" for key, value in chosen.items() if value != defaults[key])])


def _default(args: Any, name: str) -> Any:
    """TRL's default of a field; ``None`` if this version lacks it."""
    known = {f.name: f for f in fields(args)} if hasattr(args, "__dataclass_fields__") else {}
    found = known[name].default if name in known else getattr(type(args), name, None)
    return None if found is MISSING else found


def _written(args: Any, name: str) -> bool:
    """True if a field has another value than TRL's default."""
    return hasattr(args, name) and getattr(args, name) != _default(args, name)


def _row(loss_type: str) -> dict[str, Any]:
    """The settings of a kind of loss in the table of conventions, with its method."""
    for c in conventions():
        if c.framework == "TRL" and c.about == "objective" and c.words.split(",")[0].split(" ")[0] == f"loss_type={loss_type}":
            return {"method": c.method, **c.settings}
    raise ValueError(f"loss_type = {loss_type}: TRL has no such loss that this version knows; see docs/conventions.md")


def _reduction(loss_type: str) -> str:
    """The reduction of a kind of loss. That of ``bnpo`` is a token mean over each micro-batch."""
    row = {"method": "grpo", "reduction": "token_mean"} if loss_type == "bnpo" else _row(loss_type)
    return dict(_native.settings(row.pop("method"), **row))["reduction"]


def _carried(args: Any, method: str = "") -> list[_Carried]:
    """The fields that methods have as settings."""
    if _is_rloo(args):
        return _carried_by_rloo(args, method)

    def same(name: str, key: str, value: Any) -> _Carried:
        return _Carried(name, key, value, _written(args, name))

    high = getattr(args, "epsilon_high", None)
    found = [
        same("loss_type", "reduction", _reduction(args.loss_type)),
        same("epsilon", "epsilon_low", args.epsilon),
        # Without epsilon_high TRL's epsilon is both bounds.
        same("epsilon", "epsilon_high", args.epsilon) if high is None else _Carried("epsilon_high", "epsilon_high", high, True),
        same("scale_rewards", "scale", args.scale_rewards),
        same("beta", "beta", args.beta),
    ]
    if args.beta != 0.0:
        of_response = getattr(args, "importance_sampling_level", "token") == "sequence"
        corrected = "response_ratio_k3" if of_response else "ratio_k3"
        kl = corrected if getattr(args, "use_bias_correction_kl", False) else "k3"
        found.append(_Carried("use_bias_correction_kl", "kl", kl, False))
    if getattr(args, "off_policy_mask_threshold", None) is not None:
        found.append(_Carried("off_policy_mask_threshold", "off_policy_mask", args.off_policy_mask_threshold, True))
    if getattr(args, "delta", None) is not None:
        found += [_Carried("delta", "clip", "two_sided", True), _Carried("delta", "clip_max", args.delta, True)]
    if high is not None:
        found.append(_Carried("epsilon_high", "cap", high, True))
    for own in _OF_ONE_LOSS.values():
        found += [same(name, key, getattr(args, name)) for name, key in own.items() if hasattr(args, name)]
    if _corrects(args):
        highest = getattr(args, "vllm_importance_sampling_clip_max", getattr(args, "vllm_importance_sampling_cap", None))
        lowest = getattr(args, "vllm_importance_sampling_clip_min", None)
        mode = "vllm_importance_sampling_mode"
        found.append(_Carried(mode, "correction", getattr(args, mode), True))
        found.append(_Carried(mode, "correction_high", 1e9 if highest is None else highest, True))
        found.append(_Carried(mode, "correction_low", 0.0 if lowest is None else lowest, True))
    return found


def _is_rloo(args: Any) -> bool:
    """True for an ``RLOOConfig``, which has no kinds of loss."""
    return not hasattr(args, "loss_type")


def _carried_by_rloo(args: Any, method: str) -> list[_Carried]:
    """The fields of an ``RLOOConfig`` that methods have as settings, and the form of its loss for ``rloo``."""
    low, high = getattr(args, "reward_clip_range", None) or (None, None)
    pairs = [
        ("epsilon", "epsilon_low", args.epsilon),
        # Without epsilon_high TRL's epsilon is both bounds.
        *([("epsilon", "epsilon_high", args.epsilon)] if args.epsilon_high is None else [("epsilon_high", "epsilon_high", args.epsilon_high)]),
        ("beta", "reward_beta", args.beta),
        ("normalize_advantages", "normalise", args.normalize_advantages),
        *([] if low is None else [("reward_clip_range", "reward_low", low), ("reward_clip_range", "reward_high", high)]),
    ]
    carried = [_Carried(name, key, value, value not in (False, 0.0) if name == "beta" else _written(args, name)) for name, key, value in pairs]
    form = {"ratio": "product", "clip": "ppo", "reduction": "response_mean"} if method == "rloo" else {}
    return carried + [_Carried("args", key, value, True) for key, value in form.items()]


def _corrects(args: Any) -> bool:
    return bool(args.use_vllm and getattr(args, "vllm_importance_sampling_correction", False))


def _equal_to_none(args: Any, sequence: bool) -> str:
    """The reason that no method here is TRL's own loss under this configuration; empty if one is."""
    for name, reason in _NOWHERE.items():
        if _written(args, name):
            return f"{name} = {getattr(args, name)}: {reason}"
    if getattr(args, "top_entropy_quantile", 1.0) < 1.0:
        return f"top_entropy_quantile = {args.top_entropy_quantile}: TRL counts the masked tokens in its mean, `high_entropy` does not"
    if _of_parts(args) and (sequence or args.loss_type not in _CLIPPED):
        return f"multi_objective_aggregation = {args.multi_objective_aggregation}: `gdpo` has PPO's clip and ratios of tokens"
    if args.loss_type == "cispo" and getattr(args, "epsilon_high", None) is None:
        return "without epsilon_high TRL caps every weight at epsilon, which the cap of `cispo` cannot be"
    if sequence and args.loss_type in ("cispo", "sapo"):
        return f"importance_sampling_level = sequence: `{args.loss_type}` has ratios of tokens"
    if args.loss_type == "vespo" and _corrects(args):
        return "TRL puts the sampler's correction into the ratio of the density, here it multiplies the loss"
    return ""


def _of_parts(args: Any) -> bool:
    """True if every reward is compared by itself."""
    return getattr(args, "multi_objective_aggregation", "sum_then_normalize") == "normalize_then_sum"


def translated(args: Any) -> Translation:
    """TRL's own loss under ``args`` as a method here. ``args`` is a ``GRPOConfig`` or ``RLOOConfig``, or anything with its fields."""
    if _is_rloo(args):
        written = [name for name in ("beta", "normalize_advantages", "reward_clip_range") if _written(args, name)]
        words = ", ".join(["RLOOTrainer", *(f"{name}={getattr(args, name)}" for name in written)])
        return Translation(words, "rloo", _own("rloo", _carried(args, "rloo")))
    sequence = getattr(args, "importance_sampling_level", "token") == "sequence"
    words = f"loss_type={args.loss_type}" + (", importance_sampling_level=sequence" if sequence else "")
    words += f", scale_rewards={args.scale_rewards}" if _written(args, "scale_rewards") else ""
    differs = _equal_to_none(args, sequence)
    if differs:
        return Translation(words, differs=differs)
    row = _row(args.loss_type)
    method = row.pop("method")
    if sequence and args.loss_type in _CLIPPED:
        method, row = "gspo", {}
    elif _of_parts(args):
        method, row = "gdpo", dict(_OF_PARTS)
    elif args.loss_type in ("bnpo", "luspo") and not sequence:
        method, row = "grpo", {}
    # The parts of GDPO are always scaled.
    unscaled = ("grpo_batch_std", "gdpo")
    settings = {**row, **_own(method, [c for c in _carried(args) if c.key != "scale" or method not in unscaled])}
    if method == "gdpo":
        _weigh(settings, args)
    if args.loss_type == "dr_grpo":
        settings["max_length"] = args.max_completion_length
    return Translation(words, method, settings, per_micro_batch=args.loss_type == "bnpo")


def _own(method: str, carried: list[_Carried]) -> dict[str, Any]:
    """The settings that a method has."""
    keys = dict(_native.settings(method))
    # The bounds of an interval are idle under a cap.
    idle = ("epsilon_low", "epsilon_high") if method == "cispo" else ()
    return {c.key: c.value for c in carried if c.key in keys and c.key not in idle}


def asked(method: str, settings: Mapping[str, Any], args: Any) -> Asked:
    """The method ``method`` under ``args``: what it leaves open is the configuration's, what makes it that method stays.

    A setting is open where the method has the default of ``grpo``. A field of another value than TRL's default was meant, and is taken or
    refused; a field at its default gives way to the method's own value, which the sentence says.
    """
    theirs, chosen = translated(args), {key.removesuffix("_"): value for key, value in settings.items()}
    own, plain = dict(_native.settings(method)), dict(_native.settings("grpo"))
    _refuse_other_losses(method, args)
    given, kept = dict(_native.settings(method, **chosen)), []
    for c in _carried(args, method):
        if c.key not in own or (method == "cispo" and c.key in ("epsilon_low", "epsilon_high")):
            if c.written and c.key not in ("cap", "epsilon_low", "epsilon_high") and c.field not in _fields_of_one_loss():
                raise ValueError(f"{c.field} = {getattr(args, c.field)}: `{method}` has no setting {c.key}; {_out(args, c.field)}")
            continue
        value = dict(_native.settings(method, **{c.key: c.value}))[c.key]
        if c.key in chosen:
            if c.written and given[c.key] != value:
                raise ValueError(
                    f"{c.field} = {getattr(args, c.field)} is {c.key}={value}, and settings have {c.key}={given[c.key]}; write one of them"
                )
        elif value == own[c.key]:
            pass
        elif own[c.key] == plain.get(c.key, own[c.key]) or (c.written and c.field != "loss_type"):
            chosen[c.key] = c.value
        elif c.written:
            raise ValueError(
                f"{c.field} = {getattr(args, c.field)} is {c.key}={value}, and `{method}` has {c.key}={own[c.key]}; "
                f"leave {c.field} out, or write settings={{'{c.key}': '{value}'}}"
            )
        else:
            kept.append(f"{c.key}={own[c.key]}")
    given = dict(_native.settings(method, **chosen))
    if given.get("reduction") == "constant" and "max_length" not in chosen:
        chosen["max_length"] = args.max_completion_length
    if method == "high_entropy" and getattr(args, "top_entropy_quantile", 1.0) < 1.0:
        chosen.setdefault("top_fraction", args.top_entropy_quantile)
    if method == "gdpo":
        chosen = {**(_OF_PARTS if _of_parts(args) else {}), **chosen}
        _weigh(chosen, args)
    per_micro_batch = getattr(args, "loss_type", "") == "bnpo" and given.get("reduction") == "token_mean"
    of_parts = " of each micro-batch" if per_micro_batch else ""
    return Asked(method, chosen, per_micro_batch, _sentence(method, chosen, theirs, kept, of_parts))


def _out(args: Any, name: str) -> str:
    """How a field is left out: by its default, but for the beta of ``RLOOConfig``, which is 0.05 there."""
    return "set beta=0.0" if name == "beta" and _is_rloo(args) else f"leave {name} out"


def _sentence(method: str, settings: dict[str, Any], theirs: Translation, kept: list[str], of_parts: str) -> str:
    before = f"`{command(theirs.method, theirs.settings)}`{theirs.of_parts}" if theirs.method else "no method here"
    stays = f"; its own {', '.join(kept)} stays, which GRPOConfig leaves at another default" if kept else ""
    return f"TRL's {theirs.words} is {before}; you asked for `{command(method, settings)}`{of_parts}{stays}"


def _fields_of_one_loss() -> set[str]:
    return {name for own in _OF_ONE_LOSS.values() for name in own}


def _refuse_other_losses(method: str, args: Any) -> None:
    """Refuses fields that say another loss than the method's."""
    for name, reason in _NOWHERE.items():
        if _written(args, name):
            raise ValueError(f"{name} = {getattr(args, name)}: {reason}; leave it out, or leave method out for TRL's own loss")
    if _is_rloo(args):
        return
    # With ratios of tokens TRL's luspo is a sum over the tokens of a response, and else the usual loss.
    of_tokens = args.loss_type == "luspo" and getattr(args, "importance_sampling_level", "token") == "token"
    if _written(args, "loss_type") and args.loss_type not in (*_CLIPPED, method) and not of_tokens:
        raise ValueError(
            f"loss_type = {args.loss_type}: it is another loss than `{method}`; leave loss_type out, or write method='{args.loss_type}'"
        )
    if _written(args, "importance_sampling_level") and method not in ("gspo", "gspo_token", "luspo"):
        raise ValueError(
            f"importance_sampling_level = {args.importance_sampling_level}: `{method}` has ratios of tokens; "
            "leave it out, or write method='gspo'"
        )
    for loss, own in _OF_ONE_LOSS.items():
        for name in own:
            if method != loss and _written(args, name):
                raise ValueError(f"{name} = {getattr(args, name)}: `{method}` has no such setting; leave it out, or write method='{loss}'")
    if getattr(args, "top_entropy_quantile", 1.0) < 1.0 and method != "high_entropy":
        raise ValueError(
            f"top_entropy_quantile = {args.top_entropy_quantile}: `{method}` keeps all tokens; leave it out, or write method='high_entropy'"
        )
    if _written(args, "multi_objective_aggregation") and method != "gdpo":
        raise ValueError(
            f"multi_objective_aggregation = {args.multi_objective_aggregation}: `{method}` reads one reward; "
            "leave it out, or write method='gdpo'"
        )


def _weigh(settings: dict[str, Any], args: Any) -> None:
    """TRL's weights of the rewards as the settings of GDPO."""
    for k, weight in enumerate(getattr(args, "reward_weights", None) or [], start=1):
        if k <= 3:
            settings.setdefault(f"weight_{k}", weight)
        elif weight != 1.0:
            raise ValueError(f"reward_weights[{k - 1}] = {weight}: `gdpo` weighs the first three rewards; give the others weight 1")
