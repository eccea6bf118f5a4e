r"""TRL's ``GRPOConfig`` as the settings of ``llm-train``, and back.

::

    python -m grpo_lambda.convert_config grpo_config.json > run.toml
    python -m grpo_lambda.convert_config run.toml > grpo_config.json

``grpo_config.json`` is ``json.dump(config.to_dict(), file)``, or a file with the fields that you set: the others have TRL's defaults. Every field that
would change a number and has no setting in ``llm-train`` is refused by name. What both trainers leave to something else (the model, the data, the
reward functions) is listed in a comment. :func:`to_run` and :func:`to_trl` do the same in Python.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from . import _native
from ._trl_config import command, translated


class Field(NamedTuple):
    """A field of ``GRPOConfig`` and its setting, which mean the same. ``default`` is TRL 1.16's."""

    theirs: str
    ours: str
    default: Any


#: Fields that are a setting as they stand.
SAME = (
    Field("num_generations", "rl.group_size", 8),
    Field("num_iterations", "rl.inner_updates", 1),
    Field("max_completion_length", "rl.max_new_tokens", 512),
    Field("temperature", "rl.temperature", 1.0),
    Field("learning_rate", "rl.lr", 1e-6),
    Field("weight_decay", "adam.weight_decay", 0.0),
    Field("adam_beta1", "adam.beta1", 0.9),
    Field("adam_beta2", "adam.beta2", 0.999),
    Field("adam_epsilon", "adam.epsilon", 1e-8),
    Field("seed", "seed", 42),
)

#: Fields that shape the loss, which :func:`grpo_lambda._trl_config.translated` reads, with TRL 1.16's defaults.
LOSS = {
    "loss_type": "dapo",
    "epsilon": 0.2,
    "epsilon_high": None,
    "delta": None,
    "beta": 0.0,
    "scale_rewards": "group",
    "importance_sampling_level": "token",
    "multi_objective_aggregation": "sum_then_normalize",
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
    "use_bias_correction_kl": True,
    "sapo_temperature_neg": 1.05,
    "sapo_temperature_pos": 1.0,
    "vespo_k_pos": 2.0,
    "vespo_lambda_pos": 3.0,
    "vespo_k_neg": 3.0,
    "vespo_lambda_neg": 2.0,
    "mask_truncated_completions": False,
    "use_vllm": False,
    "vllm_importance_sampling_correction": True,
    "vllm_importance_sampling_mode": "sequence_mask",
    "vllm_importance_sampling_clip_max": 3.0,
    "vllm_importance_sampling_clip_min": None,
}

#: The part of a GRPOConfig that shapes the loss.
Loss = make_dataclass("Loss", [(name, Any, default) for name, default in (LOSS | {"max_completion_length": 512}).items()])

#: Fields that are combined below, with their defaults.
COMBINED = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": None,
    "generation_batch_size": None,
    "max_steps": -1,
    "num_train_epochs": 3.0,
    "lr_scheduler_type": "linear",
    "warmup_steps": 0,
    "max_grad_norm": 1.0,
    "eval_strategy": "no",
    "eval_steps": None,
    "save_steps": 500,
    "save_total_limit": None,
    "vllm_server_base_url": None,
    "vllm_importance_sampling_cap": None,
}

#: Values of fields that have no setting: any other would change a number.
ONLY = {
    "top_p": (1.0,),
    "top_k": (0, None, -1),
    "min_p": (None, 0.0),
    "repetition_penalty": (1.0,),
    "generation_kwargs": (None, {}),
    "chat_template_kwargs": (None, {}),
    "sync_ref_model": (False,),
    "router_aux_loss_coef": (None,),
    "cast_lm_head_to_fp32": (False,),
    "optim": ("adamw_torch", "adamw_torch_fused"),
    "optim_args": (None,),
    "optim_target_modules": (None,),
    "lr_scheduler_kwargs": (None, {}),
    "label_smoothing_factor": (0, 0.0),
    "neftune_noise_alpha": (None,),
    "fp16": (False,),
    "shuffle_dataset": (True,),
    "model_init_kwargs": (None, {}),
    "max_tool_calling_iterations": (None,),
    "vllm_structured_outputs_regex": (None,),
    "num_generations_eval": (None,),
    "auto_find_batch_size": (False,),
    "reward_weights": (None,),
    "ignore_data_skip": (False,),
    "deepspeed": (None,),
    "fsdp": (None, "", []),
}

#: Beginnings of the names of fields that change no number of a run: logs, places, processes, memory.
HARMLESS = (
    "accelerator_",
    "activation_checkpointing",
    "average_tokens_across_devices",
    "batch_eval_metrics",
    "bf16",
    "cache_implementation",
    "data_seed",
    "dataloader_",
    "ddp_",
    "debug",
    "disable_dropout",
    "disable_tqdm",
    "do_",
    "ds3_gather",
    "enable_jit_checkpoint",
    "eval_",
    "fp16_full_eval",
    "fsdp_config",
    "full_determinism",
    "gradient_checkpointing",
    "greater_is_better",
    "hub_",
    "include_",
    "label_names",
    "length_column_name",
    "liger_kernel_config",
    "load_best_model_at_end",
    "local_rank",
    "log_",
    "logging_",
    "metric_for_best_model",
    "num_completions_to_print",
    "output_dir",
    "pad_to_multiple_of",
    "parallelism_config",
    "per_device_eval_batch_size",
    "prediction_loss_only",
    "project",
    "push_to_hub",
    "ref_model_",
    "remove_unused_columns",
    "report_to",
    "restore_callback_states_from_checkpoint",
    "resume_from_checkpoint",
    "run_name",
    "save_",
    "skip_memory_metrics",
    "tf32",
    "torch_",
    "trackio_",
    "train_sampling_strategy",
    "transformers_",
    "trust_remote_code",
    "use_cache",
    "use_cpu",
    "use_liger_kernel",
    "use_transformers_",
    "vllm_enable_sleep_mode",
    "vllm_gpu_memory_utilization",
    "vllm_group_port",
    "vllm_max_model_length",
    "vllm_mode",
    "vllm_model_impl",
    "vllm_server_",
    "vllm_tensor_parallel_size",
    # Read only where entropy_coef or use_adaptive_entropy is set, which are refused.
    "entropy_coef_",
    "entropy_target",
)

#: What a configuration does not hold, as a comment over the settings.
ELSEWHERE = """\
# Not in a GRPOConfig: model.checkpoint, task.data and the reward. TRL's reward functions are reward.command, or the weights of [reward].
# llm-train holds a tenth of the rows out and another tenth for validation; task.test=FILE trains on all rows of task.data.
# A warm-up begins one step later in TRL, whose first step has the rate 0. Rows and random numbers come in another order.
"""


def to_run(config: Mapping[str, Any], *, rows: int | None = None, processes: int = 1) -> dict[str, Any]:
    """The settings of ``llm-train`` for the fields of a ``GRPOConfig``.

    ``rows`` is the number of training rows, which ``max_steps=-1`` needs; ``processes`` is the number of processes of the TRL run. Raises
    :class:`ValueError` with the name of a field that has no setting.
    """
    known = {f.theirs: f.default for f in SAME} | LOSS | COMBINED
    _refuse_unknown(config, known)
    theirs = known | {name: value for name, value in config.items() if name in known}
    out = {f.ours: theirs[f.theirs] for f in SAME}
    out["rl.prompts_per_step"] = _prompts(theirs, processes)
    updates = _updates(theirs, out["rl.prompts_per_step"], rows)
    out["rl.steps"] = math.ceil(updates / theirs["num_iterations"])
    out |= _rates(theirs, updates)
    out["rl.grad_clip"] = theirs["max_grad_norm"] or "none"
    out["sft.steps"] = 0
    if theirs["eval_strategy"] == "steps" and theirs["eval_steps"]:
        out["eval.every"] = _whole("eval_steps", theirs["eval_steps"])
    if theirs["save_steps"] and theirs["save_steps"] >= 1:
        out["checkpoint.every"] = _whole("save_steps", theirs["save_steps"])
    if theirs["save_total_limit"]:
        out["checkpoint.keep"] = theirs["save_total_limit"]
    return out | _loss(theirs)


def _refuse_unknown(config: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, value in config.items():
        if name in known or (name not in ONLY and name.startswith(HARMLESS)):
            continue
        if name not in ONLY:
            raise ValueError(f"{name} = {value!r}: is not known here and could change a number; leave it out")
        if value not in ONLY[name]:
            raise ValueError(f"{name} = {value!r}: llm-train has no such setting; it must be {ONLY[name][0]!r}")


def _prompts(theirs: Mapping[str, Any], processes: int) -> int:
    """Prompts of an optimiser step; a generation batch that is trained on in several steps is refused."""
    responses = theirs["per_device_train_batch_size"] * theirs["gradient_accumulation_steps"] * processes
    generated = theirs["generation_batch_size"]
    if generated is None:
        per_generation = theirs["steps_per_generation"] or theirs["gradient_accumulation_steps"]
        generated = theirs["per_device_train_batch_size"] * per_generation * processes
    if generated != responses:
        raise ValueError(
            f"steps_per_generation = {theirs['steps_per_generation']}: {generated} responses are sampled at once and an update takes {responses} of them; "
            "llm-train updates on all that it sampled, so make the two equal"
        )
    prompts, left = divmod(responses, theirs["num_generations"])
    if left or not prompts:
        raise ValueError(f"num_generations = {theirs['num_generations']}: the {responses} responses of an update must be a multiple of it")
    return prompts


def _updates(theirs: Mapping[str, Any], prompts: int, rows: int | None) -> int:
    """Optimiser steps of the run, as TRL counts them."""
    if theirs["max_steps"] > 0:
        return theirs["max_steps"]
    if rows is None:
        raise ValueError("max_steps = -1: the number of steps follows from that of the rows; give --rows N, or max_steps")
    # An epoch leaves the last prompts out where they fill no batch.
    an_epoch = rows // prompts * theirs["num_iterations"]
    if an_epoch == 0:
        raise ValueError(f"rows = {rows}: they fill no batch of {prompts} prompts; give max_steps, or smaller batches")
    return math.ceil(an_epoch * theirs["num_train_epochs"])


def _rates(theirs: Mapping[str, Any], updates: int) -> dict[str, Any]:
    shapes = {"linear": "linear", "cosine": "cosine", "constant": "constant", "constant_with_warmup": "constant"}
    name = str(theirs["lr_scheduler_type"]).removeprefix("SchedulerType.").lower()
    if name not in shapes:
        raise ValueError(f"lr_scheduler_type = {theirs['lr_scheduler_type']!r}: llm-train has {', '.join(dict.fromkeys(shapes.values()))}; take one of them")
    warmup = theirs["warmup_steps"] or 0
    # Below 1 it is a share of all steps. Plain "constant" has no warm-up in transformers.
    warmup = 0 if name == "constant" else math.ceil(warmup * updates) if 0 < warmup < 1 else _whole("warmup_steps", warmup)
    return {"rl.schedule": shapes[name], "rl.warmup": math.ceil(warmup / theirs["num_iterations"])}


def _whole(name: str, value: float) -> int:
    if value != int(value):
        raise ValueError(f"{name} = {value!r}: is a share of the steps; write their number")
    return int(value)


def _loss(theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The method with its settings, and the server that samples if there is one."""
    args = Loss(**{name: theirs[name] for name in (*LOSS, "max_completion_length")})
    if theirs["vllm_importance_sampling_cap"] is not None:  # the older name
        args.vllm_importance_sampling_clip_max = theirs["vllm_importance_sampling_cap"]
    found = translated(args)
    if not found.method:
        raise ValueError(f"{found.words}: no method of llm-train is this loss, since {found.differs}")
    if found.per_micro_batch and theirs["gradient_accumulation_steps"] > 1:
        raise ValueError(
            f"loss_type = bnpo: with gradient_accumulation_steps = {theirs['gradient_accumulation_steps']} it is a mean over each micro-batch; "
            "llm-train has that of the whole batch, which loss_type = dapo is in TRL"
        )
    settings = dict(found.settings)
    if theirs["mask_truncated_completions"]:
        settings["mask_truncated"] = True
    defaults, chosen = dict(_native.settings(found.method)), dict(_native.settings(found.method, **settings))
    out: dict[str, Any] = {"method.name": found.method}
    out |= {f"method.{key}": _typed(value) for key, value in chosen.items() if value != defaults[key] or key in ("reduction", "beta")}
    if theirs["use_vllm"]:
        out["rollout.engine"] = "vllm"
        out["rollout.url"] = theirs["vllm_server_base_url"] or "http://127.0.0.1:8000"
    return out


def to_trl(run: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields of a ``GRPOConfig`` for settings of ``llm-train`` by their whole names, and sentences on what a configuration cannot say.

    A gradient step has one micro-batch; split it by ``per_device_train_batch_size`` and ``gradient_accumulation_steps`` as your memory asks.
    """
    out: dict[str, Any] = {f.theirs: run[f.ours] for f in SAME if f.ours in run}
    updates, notes = run.get("rl.inner_updates", 1), []
    group = run.get("rl.group_size")
    if group is not None and "rl.prompts_per_step" in run:
        out |= {"per_device_train_batch_size": group * run["rl.prompts_per_step"], "gradient_accumulation_steps": 1}
    if "rl.steps" in run:
        out["max_steps"] = run["rl.steps"] * updates
    if "rl.schedule" in run:
        out["lr_scheduler_type"] = "constant_with_warmup" if run["rl.schedule"] == "constant" else run["rl.schedule"]
    if "rl.warmup" in run:
        out["warmup_steps"] = run["rl.warmup"] * updates
    if "rl.grad_clip" in run:
        out["max_grad_norm"] = 0.0 if run["rl.grad_clip"] == "none" else run["rl.grad_clip"]
    if run.get("eval.every"):
        out |= {"eval_strategy": "steps", "eval_steps": run["eval.every"]}
    if "checkpoint.every" in run:
        out["save_steps"] = run["checkpoint.every"]
    if "checkpoint.keep" in run:
        out["save_total_limit"] = run["checkpoint.keep"]
    if run.get("rollout.engine") == "vllm":
        out |= {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": run.get("rollout.url", "http://127.0.0.1:8000")}
    settings = {key.removeprefix("method."): value for key, value in run.items() if key.startswith("method.") and key != "method.name"}
    if settings.pop("mask_truncated", False) in (True, "true"):
        out["mask_truncated_completions"] = True
    if "method.name" in run:
        loss, note = _loss_of(run["method.name"], settings, out.get("max_completion_length", 512))
        out |= loss
        notes += [note] if note else []
    notes += _left(run)
    return out, notes


def _loss_of(method: str, settings: Mapping[str, Any], length: int) -> tuple[dict[str, Any], str]:
    """The fields of the loss whose translation is the method, or a sentence on how to train with it."""
    wanted = dict(_native.settings(method, **settings))
    for fields in _candidates(wanted):
        found = translated(Loss(**fields, max_completion_length=length))
        if found.method == method and not found.per_micro_batch and dict(_native.settings(method, **found.settings)) == wanted:
            return {name: value for name, value in fields.items() if value != LOSS[name]} | {"loss_type": fields["loss_type"]}, ""
    reported = command(method, settings)
    return {}, f"No loss_type of TRL is `{reported}`: train with grpo_lambda.trl.CreditTrainer(method={method!r}, settings={dict(settings)!r})."


def _candidates(wanted: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every loss of TRL at both levels of its ratios, with the numbers of a method's settings."""

    def number(key: str, default: Any) -> Any:
        return float(wanted[key]) if key in wanted and _is_number(wanted[key]) else default

    low, high = number("epsilon_low", 0.2), number("cap", number("epsilon_high", 0.2))
    base = {
        "epsilon": low,
        "epsilon_high": None if high == low and "cap" not in wanted else high,
        "beta": number("beta", 0.0),
        "scale_rewards": wanted.get("scale", "group"),
        "use_bias_correction_kl": wanted.get("kl", "k3") == "ratio_k3" or number("beta", 0.0) == 0.0,
        "delta": number("clip_max", None) if wanted.get("clip") == "two_sided" else None,
        "sapo_temperature_pos": number("tau_positive", 1.0),
        "sapo_temperature_neg": number("tau_negative", 1.05),
        "vespo_k_pos": number("k_positive", 2.0),
        "vespo_lambda_pos": number("lambda_positive", 3.0),
        "vespo_k_neg": number("k_negative", 3.0),
        "vespo_lambda_neg": number("lambda_negative", 2.0),
    }
    if base["scale_rewards"] not in ("group", "batch", "none"):
        return []
    kinds = ("dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo", "luspo", "vespo")
    return [base | {"loss_type": kind, "importance_sampling_level": level} for kind in kinds for level in ("token", "sequence")]


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _left(run: Mapping[str, Any]) -> list[str]:
    """Sentences on settings that have no field."""
    read = {f.ours for f in SAME} | {"rl.prompts_per_step", "rl.steps", "rl.schedule", "rl.warmup", "rl.grad_clip", "eval.every"}
    read |= {"checkpoint.every", "checkpoint.keep", "rollout.engine", "rollout.url", "sft.steps"}
    left = [key for key in run if key not in read and not key.startswith("method.")]
    notes = [f"Not in a GRPOConfig, give them otherwise: {', '.join(left)}."] if left else []
    if run.get("sft.steps"):
        notes.append("The supervised stage (sft.steps) is another trainer in TRL: SFTTrainer.")
    if run.get("rl.warmup"):
        notes.append("TRL's warm-up begins with the rate 0, one step later.")
    return notes


def toml(settings: Mapping[str, Any]) -> str:
    """Settings by their whole names as a TOML file of sections."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    lines = []
    for section in sorted(sections):
        lines += ([f"\n[{section}]"] if section else []) + [f"{name} = {json.dumps(_typed(value))}" for name, value in sections[section].items()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _typed(value: Any) -> Any:
    """A number or a truth value that a method gives as text."""
    if isinstance(value, str):
        if value in ("true", "false"):
            return value == "true"
        if _is_number(value) and math.isfinite(float(value)):
            return int(value) if value.lstrip("-").isdigit() else float(value)
    return value


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A TOML table's settings by their whole names."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        out |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return out


def main(arguments: list[str] | None = None) -> int:
    """The command ``python -m grpo_lambda.convert_config``; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python -m grpo_lambda.convert_config", description="Convert TRL's GRPOConfig into a run of llm-train, or back.")
    parser.add_argument("file", help="FILE.json, the fields of a GRPOConfig; or FILE.toml, settings of llm-train")
    parser.add_argument("--rows", type=int, help="training rows, where max_steps is -1")
    parser.add_argument("--processes", type=int, default=1, help="processes of the TRL run (default: 1)")
    asked = parser.parse_args(arguments)
    path = Path(asked.file)
    convert: dict[str, Callable[[], str]] = {
        ".json": lambda: ELSEWHERE + toml(to_run(_fields(path), rows=asked.rows, processes=asked.processes)),
        ".toml": lambda: _json(path),
    }
    try:
        if path.suffix not in convert:
            raise ValueError("the name must end in .json (a GRPOConfig) or .toml (a run)")
        sys.stdout.write(convert[path.suffix]())
    except (ValueError, OSError) as error:
        print(f"convert_config: error: {path}: {error}", file=sys.stderr)
        return 2
    return 0


def _fields(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    if not isinstance(found, dict):
        raise ValueError("must hold an object with the fields of a GRPOConfig")
    return found


def _json(path: Path) -> str:
    try:
        import tomllib
    except ImportError as error:  # Python 3.10
        raise ValueError("reading TOML needs Python 3.11") from error
    run = flat(tomllib.loads(path.read_text()))
    if not run:
        raise ValueError("holds no setting; write those of a run, as llm-train --print-config prints them")
    fields, notes = to_trl(run)
    for note in notes:
        print(f"convert_config: note: {note}", file=sys.stderr)
    return json.dumps(fields, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
