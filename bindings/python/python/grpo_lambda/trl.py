"""Any method of this library in TRL's ``GRPOTrainer``.

>>> from grpo_lambda.trl import CreditTrainer, answer_reward          # doctest: +SKIP
>>> trainer = CreditTrainer(model, answer_reward("answer"), args, train_dataset=dataset,
...                         method="grpo_lambda", settings={"lambda": 0.95})                    # doctest: +SKIP

It extends three methods of ``GRPOTrainer``, each through ``super()``: it keeps the gathered rewards, fixes credit for the whole generation
batch of all processes, and replaces TRL's loss. It records the results of a fourth, which computes log-probabilities.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer

from . import _native
from ._credit import credit_from_rows, credit_padded
from ._grade import grade_batch
from ._torch import array, torch_loss

#: Fields of ``GRPOConfig`` that shape TRL's own loss, with their replacements.
_NOT_USED = {
    "loss_type": "choose a method, as in method='grpo'",
    "epsilon": "write settings={'epsilon_low': .., 'epsilon_high': ..}",
    "epsilon_high": "write settings={'epsilon_high': ..}",
    "delta": "write settings={'clip': 'two_sided', 'clip_max': ..}",
    "importance_sampling_level": "choose method='gspo' for ratios of sequences",
    "scale_rewards": "write settings={'scale': ..}",
    "multi_objective_aggregation": "rewards are weighted and summed",
    "mask_truncated_completions": "write settings={'mask_truncated': True}",
    "top_entropy_quantile": "choose method='high_entropy'",
    "off_policy_mask_threshold": "no method has it",
    "entropy_coef": "no method has an entropy bonus",
    "use_adaptive_entropy": "no method has an entropy bonus",
}

#: Evidence that TRL's trainer can give beside rewards and log-probabilities.
_PROVIDED = ["tokens", "entropies"]

#: The keys under which credit travels with the rows of a batch.
_WEIGHTS, _ELIGIBLE = "credit_weights", "credit_eligible"


def answer_reward(column: str = "answer", *, extract: str = "boxed", weight_of_unreadable: float | None = None) -> Callable:
    r"""A reward function that grades the completion against a column of the data set: 1 for a right answer, 0 for a wrong one or none.

    An answer that the grader cannot read gets ``weight_of_unreadable``; with ``None``, the completion is left out of its group. ``extract`` is
    that of :func:`grpo_lambda.grade`.
    """

    def reward(completions: Sequence, **columns: Any) -> list[float | None]:
        if column not in columns:
            known = ", ".join(sorted(key for key, value in columns.items() if isinstance(value, list)))
            raise ValueError(f"column = `{column}`: the data set has no such column; it has {known}")
        answers = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
        golds = [gold if isinstance(gold, (str, list)) else str(gold) for gold in columns[column]]
        rewards = (verdict.reward for verdict in grade_batch(golds, answers, extract=extract))
        return [weight_of_unreadable if reward is None else reward for reward in rewards]

    reward.__name__ = f"{column}_reward"
    return reward


class CreditTrainer(GRPOTrainer):
    """``GRPOTrainer`` with a method of this library, by name, under ``settings``.

    The loss of an optimiser step is the method's loss of the whole generation batch of all processes, however it is cut into micro-batches.
    If a generation batch serves several optimiser steps, each takes its share times their number, as TRL scales. ``GRPOConfig.beta`` is the
    method's ``beta``, and ``use_bias_correction_kl``, which TRL sets by default, is ``kl="ratio_k3"`` unless the settings name another.
    Fields of ``GRPOConfig`` that shape TRL's own loss are refused with their replacements.
    """

    def __init__(self, *args: Any, method: str, settings: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._method, self._settings = method, self._checked(method, dict(settings or {}))
        self._rewards_of_all: torch.Tensor | None = None
        self._heard: list[torch.Tensor] | None = None

    def _checked(self, method: str, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings completed from TRL's configuration."""
        defaults = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
        for field, instead in _NOT_USED.items():
            value = getattr(self.args, field)
            if value != defaults[field]:
                raise ValueError(f"{field} = {value}: it shapes TRL's own loss, which is not used; {instead}")
        if self.use_vllm and self.vllm_importance_sampling_correction:
            raise ValueError(
                "vllm_importance_sampling_correction = True: it shapes TRL's own loss, which is not used; set it to False, "
                "and write settings={'correction': ..}"
            )
        if self.aux_loss_enabled:
            raise ValueError("output_router_logits = True: a loss of the router beside the method's is not supported; set it to False")
        keys = dict(_native.settings(method))
        if self.beta != 0.0 or "beta" in settings:
            if float(settings.setdefault("beta", self.beta)) != self.beta:
                raise ValueError(f"beta = {settings['beta']}: must be GRPOConfig's beta, {self.beta}")
        if self.beta != 0.0 and "kl" in keys:
            settings.setdefault("kl", "ratio_k3" if self.args.use_bias_correction_kl else "k3")
        resolved = dict(_native.settings(method, **settings))
        if "max_length" in keys and "max_length" not in settings and resolved["reduction"] == "constant":
            settings["max_length"] = self.max_completion_length
        provided = _PROVIDED + (["ref_logps"] if self.beta != 0.0 else [])
        provided += ["sampler_logps"] if self.use_vllm else []
        _native.require(method, provided, settings)
        if self.num_generations_eval < 2 and self.args.eval_strategy != "no":
            raise ValueError(f"num_generations_eval = {self.num_generations_eval}; must be at least 2")
        return settings

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._rewards_of_all = rewards
        return rewards

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        rows, mask = len(output["completion_ids"]), _mask(output)
        columns = {"mask": mask, "tokens": output["completion_ids"]}
        for ours, theirs in (("ref_logps", "ref_per_token_logps"), ("sampler_logps", "sampling_per_token_logps")):
            if theirs in output:
                columns[ours] = output[theirs]
        columns |= self._log_probs_before(output)
        columns = {name: self._of_all(column) for name, column in columns.items()}
        truncated = self._of_all(self._truncated(output))
        fixed = self._fix(columns, truncated)
        width = mask.shape[1]
        here = slice(self.accelerator.process_index * rows, (self.accelerator.process_index + 1) * rows)

        def local(values):
            return torch.as_tensor(values[here, :width]).to(mask.device)

        output["advantages"] = local(fixed["advantages"])
        output[_WEIGHTS] = local(fixed["weights"])
        if fixed["eligible"] is not None:
            output[_ELIGIBLE] = local(fixed["eligible"])
        self._log_advantages(fixed["advantages"], columns["mask"])
        return output

    def _log_probs_before(self, output: dict) -> dict[str, torch.Tensor]:
        """Log-probabilities of the policy that sampled, and entropies, if credit depends on them."""
        if not _native.credit_reads_tokens(self._method, self._settings):
            return {}
        if "pixel_values" in output:
            raise ValueError(f"method = `{self._method}`: its credit reads tokens, which is supported for text only; leave images out")
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        with torch.no_grad():
            logps, entropies, _ = super()._get_per_token_logps_and_entropies(
                self.model,
                ids,
                attention,
                output["completion_ids"].size(1),
                batch_size=self.args.per_device_train_batch_size,
                compute_entropy=True,
            )
        return {"old_logps": output.get("old_per_token_logps", logps), "entropies": entropies}

    def _of_all(self, column: torch.Tensor) -> torch.Tensor:
        """The rows of all processes, padded on the right to one width."""
        if column.dim() > 1:
            column = self.accelerator.pad_across_processes(column, dim=1, pad_index=0)
        return self.accelerator.gather(column)

    def _truncated(self, output: dict) -> torch.Tensor:
        """True for each completion that was cut off before an end token."""
        last = output["completion_mask"].sum(dim=1).clamp(min=1) - 1
        ends = torch.tensor(sorted({*self.eos_token_ids, self._tokenizer.pad_token_id}), device=last.device)
        tokens = output["completion_ids"].gather(1, last.unsqueeze(1).long())
        return ~torch.isin(tokens.squeeze(1), ends)

    def _fix(self, columns: dict[str, torch.Tensor], truncated: torch.Tensor) -> dict[str, Any]:
        """Credit of the generation batch of all processes, as arrays."""
        weighted = self._rewards_of_all * self.reward_weights.to(self._rewards_of_all.device).unsqueeze(0)
        unknown = torch.isnan(self._rewards_of_all).all(dim=1)
        rewards = [None if lost else float(r) for r, lost in zip(weighted.nansum(dim=1), unknown)]
        mask = array(columns["mask"])
        if all(reward is None for reward in rewards):
            return {"advantages": mask * 0.0, "weights": mask * 0.0, "eligible": None}
        ref_logps = columns.get("ref_logps")
        evidence = {kind: array(columns[kind]) for kind in ("entropies", "sampler_logps") if kind in columns}
        fixed = credit_padded(
            self._method,
            rewards,
            # These stand in for log-probabilities that the credit does not depend on.
            array(columns["old_logps"]) if "old_logps" in columns else mask * 0.0,
            mask,
            group_size=self.num_generations if self.model.training else self.num_generations_eval,
            ref_logps=None if ref_logps is None else array(ref_logps),
            truncated=truncated.tolist(),
            tokens=columns["tokens"].cpu().numpy(),
            evidence=evidence,
            **self._settings,
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
        # TRL computes its loss for the metrics; only the log-probabilities behind it are used here.
        self._heard = []
        try:
            super()._compute_loss(model, inputs)
            (logps,) = self._heard
        finally:
            self._heard = None
        old = inputs.get("old_per_token_logps")
        ref_logps, eligible = inputs.get("ref_per_token_logps"), inputs.get(_ELIGIBLE)
        sampler_logps = inputs.get("sampling_per_token_logps")
        fixed = credit_from_rows(
            self._method,
            advantages=array(inputs["advantages"]),
            weights=array(inputs[_WEIGHTS]),
            old_logps=array(logps if old is None else old),
            mask=array(_mask(inputs)),
            eligible=None if eligible is None else array(eligible),
            ref_logps=None if ref_logps is None else array(ref_logps),
            sampler_logps=None if sampler_logps is None else array(sampler_logps),
            **self._settings,
        )
        value, metrics = torch_loss(fixed, logps)
        self._log_metrics(metrics)
        return value * self._scale()

    def _scale(self) -> float:
        """The factor on a share of the generation batch's loss: gradients are averaged over processes and summed over an accumulation window."""
        processes = self.accelerator.num_processes
        if not self.model.training:
            return float(processes)
        return processes * self.args.steps_per_generation / self.current_gradient_accumulation_steps

    def _log_metrics(self, metrics: dict[str, float]) -> None:
        mode = "train" if self.model.training else "eval"
        for name in ("ratio_mean", "ratio_max", "clip_fraction_low", "clip_fraction_high", "kl"):
            value = torch.tensor(metrics[name], device=self.accelerator.device)
            self._metrics[mode][f"credit/{name}"].append(self.accelerator.gather(value).mean().item())


def _mask(rows: dict) -> torch.Tensor:
    """The slots of the completions that are tokens of the policy."""
    mask = rows["completion_mask"]
    return mask if "tool_mask" not in rows else mask * rows["tool_mask"]
