"""Any method of this library in TRL's ``GRPOTrainer`` or ``RLOOTrainer``, and the recorder of one of their steps.

>>> from grpo_lambda.trl import CreditTrainer as GRPOTrainer          # doctest: +SKIP
>>> trainer = GRPOTrainer(model, rewards, args, train_dataset=dataset)                          # doctest: +SKIP
>>> trainer = GRPOTrainer(model, rewards, args, train_dataset=dataset, method="grpo_lambda")    # doctest: +SKIP

The first line changes nothing: without ``method`` the loss is TRL's own. With one, the trainer extends three methods of ``GRPOTrainer``,
each through ``super()``: it keeps the gathered rewards, fixes credit for the whole generation batch of all processes, and replaces TRL's
loss. It records the results of a fourth, which computes log-probabilities.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import trl
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from . import _native, _trl_config
from ._credit import credit_from_rows, credit_padded
from ._grade import grade_batch
from ._methods import MethodName, methods
from ._record import Step, per_token_columns, record
from .torch import array, loss

__all__ = ["CreditTrainer", "RLOOCreditTrainer", "Step", "answer_reward", "record"]

#: The first version of TRL that works, and the first minor that was not tested.
_OLDEST, _UNTESTED = (1, 0), (1, 17)


def _check_version(version: str) -> None:
    """Refuses a version of TRL that is too old, and warns of one that is too new, in one line."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    wanted = f"{_OLDEST[0]}.{_OLDEST[1]} to {_UNTESTED[0]}.{_UNTESTED[1] - 1}"
    if found < _OLDEST:
        right = f"trl>={_OLDEST[0]}.{_OLDEST[1]},<{_UNTESTED[0]}.{_UNTESTED[1]}"
        raise ImportError(f"TRL {version} is too old: grpo_lambda.trl works with {wanted}; pip install '{right}'")
    if found >= _UNTESTED:
        warnings.warn(f"TRL {version} is newer than grpo_lambda.trl was tested with, {wanted}", stacklevel=2)


_check_version(trl.__version__)

#: Extra inputs that TRL's trainer can give besides rewards and log-probabilities.
_PROVIDED = ["tokens", "entropies", "reward_parts"]

#: The keys under which credit travels with the rows of a batch.
_WEIGHTS, _ELIGIBLE = "credit_weights", "credit_eligible"

#: TRL's metrics of a loss, which are those of the method where it replaces the loss.
_OF_THE_LOSS = re.compile("clip_ratio/|vespo/|cispo_clip_ratio$|kl$")


def answer_reward(
    column: str = "answer",
    *,
    extract: str = "boxed",
    rules: str = "strict",
    max_completion_length: int | None = None,
    weight_of_unreadable: float | None = None,
) -> Callable:
    r"""A reward function that grades the completion against a column of the data set: 1 for a right answer, 0 for a wrong one or none.

    Args:
        column: the column with the right answer, a text, a number, or a list of texts each of which is right.
        extract: where the answer stands in the completion, as for :func:`grpo_lambda.grade`.
        rules: the spellings that count as equal, as for :func:`grpo_lambda.grade`. The strict rules are those for training.
        max_completion_length: that of the trainer's configuration. A completion with so many tokens counts as cut off: with
            ``extract="free"`` only a marked answer in it is read.
        weight_of_unreadable: the reward of an answer that the grader cannot read; with ``None``, the completion is left out of its group.

    Example:
        >>> answer_reward("answer")(completions=[r"so \boxed{3}"], answer=["3"])                 # doctest: +SKIP
        [1.0]
    """

    def reward(completions: Sequence, **columns: Any) -> list[float | None]:
        if column not in columns:
            given = ("prompts", "completions", "completion_ids")  # by TRL, besides the columns
            known = ", ".join(sorted(key for key, value in columns.items() if isinstance(value, list) and key not in given))
            raise ValueError(f"column = `{column}`: the data set has no such column; it has {known}")
        answers = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        golds = [gold if isinstance(gold, (str, list)) else str(gold) for gold in columns[column]]
        # What a chat's last message or a plain prompt asks.
        asked = [p if isinstance(p, str) else str(p[-1]["content"]) for p in columns.get("prompts") or []]
        problems = asked if len(asked) == len(answers) else None
        cut_off = None if max_completion_length is None else [len(ids) >= max_completion_length for ids in columns["completion_ids"]]
        verdicts = grade_batch(golds, answers, extract=extract, rules=rules, problems=problems, cut_off=cut_off)
        rewards = (verdict.reward for verdict in verdicts)
        return [weight_of_unreadable if reward is None else reward for reward in rewards]

    reward.__name__ = f"{column}_reward"
    return reward


class _Credit:
    """What both trainers add to TRL's."""

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        reward_processing_classes: Any = None,
        callbacks: Any = None,
        optimizers: tuple[Any, Any] = (None, None),
        *,
        method: MethodName | None = None,
        settings: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._of_sequences = isinstance(self, RLOOTrainer)
        config = (RLOOConfig if self._of_sequences else GRPOConfig)() if args is None else args
        self.convention = _trl_config.translated(config)
        self.method, self.settings, self._per_micro_batch = method, {}, False
        sentence = self.convention.sentence()
        if not isinstance(settings, (Mapping, type(None))):
            raise ValueError(f"settings = {settings!r}: must be a dictionary of the method's settings, as in {{'lambda': 0.95}}")
        if method is None and settings:
            raise ValueError(f"settings = {settings}: settings of no method; write method=.., or change the GRPOConfig")
        if method is not None:
            asked = _trl_config.asked(method, settings or {}, config)
            self.settings, self._per_micro_batch, sentence = asked.settings, asked.per_micro_batch, asked.sentence
            self._check(config, kwargs.get("rollout_func"))
            self._name_the_card()
        self._rewards_of_all: torch.Tensor | None = None
        self._heard: list[torch.Tensor] | None = None
        given = (model, reward_funcs, args, train_dataset, eval_dataset, processing_class)
        super().__init__(*given, reward_processing_classes, callbacks, optimizers, **kwargs)
        if method is not None:
            self._check_trainer()
        self.accelerator.print(f"grpo_lambda: {sentence}")

    def _check(self, config: Any, rollout_func: Any) -> None:
        """Refuses what can be seen before the model is loaded."""
        beta = "reward_beta" if self._of_sequences else "beta"
        if float(self.settings.get(beta, 0.0)) != config.beta:
            raise ValueError(f"{beta} = {self.settings[beta]}: must be {type(config).__name__}'s beta, {config.beta}")
        if getattr(config, "use_liger_kernel", False) and hasattr(GRPOTrainer, "compute_liger_loss"):
            raise ValueError("use_liger_kernel = True: it computes TRL's own loss; set it to False")
        provided = _PROVIDED + (["ref_logps"] if config.beta != 0.0 else []) + (["sampler_logps"] if config.use_vllm else [])
        _native.require(self.method, provided, self.settings)
        if self.method == "remax" and (config.use_vllm or self._of_sequences):
            if self._of_sequences:
                raise ValueError("method = `remax`: its greedy completions are generated by CreditTrainer; take that")
            raise ValueError("method = `remax`: its greedy completions are generated by transformers; set use_vllm=False")
        if self.method == "remax" and rollout_func is not None:
            raise ValueError("method = `remax`: a rollout_func is not asked to be greedy; leave rollout_func out, or take another method")

    def _check_trainer(self) -> None:
        """Refuses what only the built trainer knows."""
        if getattr(self, "aux_loss_enabled", False):
            raise ValueError("output_router_logits = True: a loss of the router besides the method's is not supported; set it to False")
        if self.num_generations_eval < 2 and self.args.eval_strategy != "no":
            raise ValueError(f"num_generations_eval = {self.num_generations_eval}; must be at least 2")

    def _name_the_card(self) -> None:
        """Lets the model card name the method and its paper."""
        (entry,) = (m for m in methods() if m.name == self.method)
        self._name, self._tag_names = entry.title, ["trl", "grpo-lambda", entry.name]
        found = re.search(r"arXiv (\d{4}\.\d{4,5})", entry.source)
        self._paper = {"title": f"{entry.title}, arXiv {found[1]}", "id": found[1]} if found else {}

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if not self._greedy:
            self._rewards_of_all = rewards
        return rewards

    def _generate_and_score_completions(self, inputs):
        self._heard = [] if self._of_sequences else None
        try:
            output = super()._generate_and_score_completions(inputs)
            if self.method is not None and self._of_sequences:
                per_token_columns(output, self._heard)
        finally:
            self._heard = None
        if self.method is None:
            return output
        rows, mask = len(output["completion_ids"]), _mask(output)
        columns = {"mask": mask, "tokens": output["completion_ids"]}
        for ours, theirs in (("ref_logps", "ref_per_token_logps"), ("sampler_logps", "sampling_per_token_logps")):
            if theirs in output:
                columns[ours] = output[theirs]
        columns |= self._log_probs_before(output)
        columns = {name: self._of_all(column) for name, column in columns.items()}
        truncated = self._of_all(self._truncated(output))
        fixed = self._fix(columns, truncated, self._reward_parts(inputs))
        width = mask.shape[1]
        here = slice(self.accelerator.process_index * rows, (self.accelerator.process_index + 1) * rows)

        def local(values):
            local = torch.as_tensor(values[here, :width])
            return local.to(mask.device, _widest(mask.device) if local.is_floating_point() else local.dtype)

        output["advantages"] = local(fixed["advantages"])
        output[_WEIGHTS] = local(fixed["weights"])
        if fixed["eligible"] is not None:
            output[_ELIGIBLE] = local(fixed["eligible"])
        self._log_advantages(fixed["advantages"], columns["mask"])
        return output

    def _log_probs_before(self, output: dict) -> dict[str, torch.Tensor]:
        """Log-probabilities of the policy that sampled, and entropies, if credit depends on them."""
        if not _native.credit_reads_tokens(self.method, self.settings):
            return {}
        if "pixel_values" in output:
            raise ValueError(f"method = `{self.method}`: its credit reads tokens, which is supported for text only; leave images out")
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        with torch.no_grad():
            logps, entropies = super()._get_per_token_logps_and_entropies(
                self.model,
                ids,
                attention,
                output["completion_ids"].size(1),
                batch_size=self.args.per_device_train_batch_size,
                compute_entropy=True,
            )[:2]
        return {"old_logps": output.get("old_per_token_logps", logps), "entropies": entropies}

    def _of_all(self, column: torch.Tensor) -> torch.Tensor:
        """The rows of all processes, padded on the right to one width."""
        if column.dim() > 1:
            column = self.accelerator.pad_across_processes(column, dim=1, pad_index=0)
        return self.accelerator.gather(column)

    def _truncated(self, output: dict) -> torch.Tensor:
        """True for each completion that was cut off before an end token."""
        last = output["completion_mask"].sum(dim=1).clamp(min=1) - 1
        # TRL 1.0 has one end token, and calls the padding otherwise.
        ends = set(getattr(self, "eos_token_ids", None) or [self.eos_token_id])
        ends.add(self._tokenizer.pad_token_id if hasattr(self, "_tokenizer") else self.pad_token_id)
        ends = torch.tensor(sorted(ends), device=last.device)
        tokens = output["completion_ids"].gather(1, last.unsqueeze(1).long())
        return ~torch.isin(tokens.squeeze(1), ends)

    def _total(self, rewards: torch.Tensor) -> list[float | None]:
        """The weighted sum of each row's rewards; ``None`` if no function gave one."""
        unknown = torch.isnan(rewards).all(dim=1)
        weighted = (rewards * self.reward_weights.to(rewards.device).unsqueeze(0)).nansum(dim=1)
        return [None if lost else float(r) for r, lost in zip(weighted, unknown)]

    def _reward_parts(self, inputs: list[dict[str, Any]]) -> list[list[float]] | None:
        """The parts of each row's reward, over all processes, if the method reads them: of each function, or of the greedy completion."""
        if "reward_parts" not in _native.extra_inputs(self.method, **self.settings):
            return None
        if self.method == "remax":
            return [[0.0 if reward is None else reward] for reward in self._greedy_rewards(inputs)]
        parts = self._rewards_of_all
        lost = torch.isnan(parts) & ~torch.isnan(parts).all(dim=1, keepdim=True)
        if lost.any():
            row, k = lost.nonzero()[0].tolist()
            raise ValueError(
                f"rewards[{row}] of {self.reward_func_names[k]} = None: `{self.method}` compares every part of the reward; return a number"
            )
        return torch.nan_to_num(parts, nan=0.0).tolist()

    def _greedy_rewards(self, inputs: list[dict[str, Any]]) -> list[float | None]:
        """The reward of the greedy completion to each row's prompt, over all processes."""
        mode = "train" if self.model.training else "eval"
        sampling, metrics = self.generation_config, copy.deepcopy(dict(self._metrics[mode]))
        seen = self.state.num_input_tokens_seen
        self.generation_config = copy.deepcopy(sampling)
        self.generation_config.update(do_sample=False, temperature=1.0, top_p=1.0, top_k=50, min_p=None)
        self._greedy = True
        try:
            prompts = [row["prompt"] for row in inputs]
            _, completion_ids, _, completions, *_ = self._generate(prompts)
            rewards = self._calculate_rewards(inputs, prompts, completions, completion_ids)
        finally:
            # The lengths and counts of these completions are not those of the samples.
            self.generation_config, self._greedy, self.state.num_input_tokens_seen = sampling, False, seen
            self._metrics[mode].clear()
            self._metrics[mode].update(metrics)
        return self._total(rewards)

    #: True while greedy completions are graded, whose rewards are no samples'.
    _greedy = False

    def _fix(
        self, columns: dict[str, torch.Tensor], truncated: torch.Tensor, parts: list[list[float]] | None
    ) -> dict[str, Any]:
        """Credit of the generation batch of all processes, as arrays."""
        rewards = self._total(self._rewards_of_all)
        mask = array(columns["mask"])
        if all(reward is None for reward in rewards):
            return {"advantages": mask * 0.0, "weights": mask * 0.0, "eligible": None}
        ref_logps = columns.get("ref_logps")
        # These stand in for log-probabilities that the credit does not depend on.
        old_logps = columns.get("old_logps", columns["mask"] * 0.0)
        extra_inputs: dict[str, Any] = {}
        if "entropies" in columns:
            extra_inputs["entropies"] = array(columns["entropies"])
        if "sampler_logps" in columns:
            extra_inputs["sampler_logps"] = array(_scored(columns["sampler_logps"], old_logps))
        if parts is not None:
            extra_inputs["reward_parts"] = parts
        fixed = credit_padded(
            self.method,
            rewards,
            array(old_logps),
            mask,
            group_size=self.num_generations if self.model.training else self.num_generations_eval,
            ref_logps=None if ref_logps is None else array(ref_logps),
            truncated=truncated.tolist(),
            tokens=columns["tokens"].cpu().numpy(),
            extra_inputs=extra_inputs,
            **self.settings,
        )
        return {"advantages": fixed.advantages, "weights": fixed.weights, "eligible": fixed.eligible}

    def _log_advantages(self, advantages: Any, mask: torch.Tensor) -> None:
        """Replaces TRL's advantages in the table of completions by each row's mean."""
        logged = self._logs["advantages"]
        means = (advantages.sum(axis=1) / array(mask).sum(axis=1).clip(min=1)).tolist()
        for _ in range(min(len(means), len(logged))):
            logged.pop()
        logged.extend(means)

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        found = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if self._heard is not None:
            self._heard.append(found[0])
        return found

    def _compute_loss(self, model, inputs):
        if self.method is None:
            return super()._compute_loss(model, inputs)
        # TRL computes its loss for the metrics that are not the loss's; only the log-probabilities of it are used here.
        mode = "train" if self.model.training else "eval"
        before = {name: len(values) for name, values in self._metrics[mode].items()}
        self._heard = []
        # RLOOTrainer multiplies one ratio of a response by one advantage.
        of_rows = {"advantages": inputs["advantages"].mean(dim=1)} if self._of_sequences else {}
        try:
            super()._compute_loss(model, {**inputs, **of_rows})
            (logps,) = self._heard
        finally:
            self._heard = None
        old, sampler = inputs.get("old_per_token_logps"), inputs.get("sampling_per_token_logps")
        old = logps.detach() if old is None else old
        sampler = None if sampler is None else _scored(sampler, old)
        ref_logps, eligible = inputs.get("ref_per_token_logps"), inputs.get(_ELIGIBLE)
        weights, scale = array(inputs[_WEIGHTS]), self._scale()
        if self._per_micro_batch:
            weights, scale = weights / max(weights.sum(), 1e-300), 1.0 / self._accumulated()
        fixed = credit_from_rows(
            self.method,
            advantages=array(inputs["advantages"]),
            weights=weights,
            old_logps=array(old),
            mask=array(_mask(inputs)),
            eligible=None if eligible is None else array(eligible),
            ref_logps=None if ref_logps is None else array(ref_logps),
            sampler_logps=None if sampler is None else array(sampler),
            **self.settings,
        )
        value, metrics = loss(fixed, logps)
        self._log_metrics(self._metrics[mode], before, metrics, fixed._clip_fractions(array(logps)))
        return value * scale

    def _accumulated(self) -> int:
        """The micro-batches of an optimiser step; evaluation accumulates none."""
        return self.current_gradient_accumulation_steps if self.model.training else 1

    def _scale(self) -> float:
        """The factor on a share of the generation batch's loss: gradients are averaged over processes and summed over an accumulation window."""
        parts = self.args.steps_per_generation if self.model.training else 1
        # The loss of RLOOTrainer is divided by the window's length later, by the Trainer.
        return self.accelerator.num_processes * parts / (1 if self._of_sequences else self._accumulated())

    def _log_metrics(self, log: dict[str, list], before: dict[str, int], metrics: dict[str, float], clipped: Any) -> None:
        """Puts the method's numbers in the place of those of TRL's loss."""
        for name in [name for name in log if _OF_THE_LOSS.match(name)]:
            del log[name][before.get(name, 0) :]
            if not log[name]:
                del log[name]
        tokens = metrics["tokens"]
        means = {
            "clip_ratio/low_mean": metrics["clip_fraction_low"],
            "clip_ratio/high_mean": metrics["clip_fraction_high"],
            "clip_ratio/region_mean": metrics["clip_fraction_low"] + metrics["clip_fraction_high"],
            "credit/ratio_mean": metrics["ratio_mean"],
        }
        if self.beta != 0.0 and not self._of_sequences:
            means["kl"] = metrics["kl"]
        device = self.accelerator.device
        sums = torch.tensor([tokens, *(x * tokens for x in means.values())], device=device, dtype=_widest(device))
        count, *sums = self.accelerator.reduce(sums, reduction="sum").tolist()
        for name, total in zip(means, sums):
            log[name].append(total / max(count, 1.0))
        largest = {
            "clip_ratio/high_max": clipped[:, 1].max(),
            "credit/ratio_max": metrics["ratio_max"],
            "credit/trace_ratio_max": metrics["trace_ratio_max"],
        }
        ends = torch.tensor([clipped[:, 0].min(), *(-x for x in largest.values())], device=device, dtype=_widest(device))
        low, *high = self.accelerator.gather(ends.float().unsqueeze(0)).amin(dim=0).tolist()
        log["clip_ratio/low_min"].append(low)
        for name, value in zip(largest, high):
            log[name].append(-value)


class CreditTrainer(_Credit, GRPOTrainer):
    """TRL's ``GRPOTrainer`` with a method of this library in place of its loss.

    Without ``method`` nothing is changed: the loss is TRL's own, under your ``GRPOConfig``. With one, that method's credit and loss are
    trained on, and everything that the method leaves open is the configuration's: reduction (``loss_type``), clip (``epsilon``,
    ``epsilon_high``, ``delta``), ``scale_rewards``, KL, the correction of vLLM. One printed sentence says what was changed. A field that
    contradicts the method is refused before the model is loaded.

    The loss of an optimiser step is the method's loss of the whole generation batch of all processes, however it is cut into micro-batches.
    If a generation batch serves several optimiser steps, each takes its share times their number, as TRL scales. A completion without a
    token counts with its reward and has weight 0. The logged ``clip_ratio/*`` and ``kl`` are those of the method.

    Args:
        model: a model or its name, as for ``GRPOTrainer``; so are all arguments but the last two.
        reward_funcs: one reward function or several.
        args: the ``GRPOConfig``.
        train_dataset: the data, with a column ``prompt``.
        eval_dataset: data for evaluation.
        processing_class: the tokenizer.
        reward_processing_classes: tokenizers of reward models.
        callbacks: callbacks of the ``Trainer``.
        optimizers: optimiser and schedule.
        method: the name of a method of ``grpo_lambda.methods()``; ``None`` for TRL's own loss.
        settings: settings of the method, as in ``{"lambda": 0.95}``. They come before the configuration's.

    Attributes:
        method: the method; ``None`` for TRL's own loss.
        settings: all its settings that are not defaults, the configuration's among them.
        convention: TRL's own loss under the configuration, as a method with settings: ``convention.method``, ``convention.settings``.

    Example:
        >>> trainer = CreditTrainer(model, answer_reward("answer"), args, train_dataset=dataset,   # doctest: +SKIP
        ...                         method="grpo_lambda", settings={"lambda": 0.95})
    """


class RLOOCreditTrainer(_Credit, RLOOTrainer):
    """TRL's ``RLOOTrainer`` with a method of this library in place of its loss, as :class:`CreditTrainer` is its ``GRPOTrainer``.

    Under ``method="rloo"`` it is TRL's own loss: PPO's clip of the product of a response's ratios (``ratio=product``), ``beta`` in the reward
    (``reward_beta``), ``normalize_advantages`` (``normalise``), ``reward_clip_range`` (``reward_low``, ``reward_high``). Another method takes of the
    ``RLOOConfig`` what it has as a setting; what it lacks is refused.

    Args:
        method: the name of a method; ``None`` for TRL's own loss.
        settings: settings of the method; they come before the configuration's.

    Example:
        >>> trainer = RLOOCreditTrainer(model, answer_reward("answer"), RLOOConfig(), train_dataset=dataset)   # doctest: +SKIP
    """


def _mask(rows: dict) -> torch.Tensor:
    """The slots of the completions that are tokens of the policy."""
    mask = rows["completion_mask"]
    return mask if "tool_mask" not in rows else mask * rows["tool_mask"]


def _scored(sampler_logps: torch.Tensor, old_logps: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of the sampler; a token that vLLM could not score (NaN) has no mismatch."""
    return torch.where(torch.isnan(sampler_logps), old_logps.to(sampler_logps.dtype), sampler_logps)


def _widest(device: torch.device) -> torch.dtype:
    """Double precision, which Apple's GPUs lack."""
    return torch.float32 if device.type == "mps" else torch.float64
