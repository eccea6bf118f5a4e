"""One step of a TRL trainer as the lines of ``sim estimate``, and the convention that gives its numbers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from trl import GRPOTrainer, RLOOTrainer

from ._configured import Configured, configured
from ._diagnose import Candidate, Found, diagnose
from .torch import array

#: The place of a row in the generation batch travels with it under this key: TRL shuffles the rows before its loss.
_ROW = "grpo_lambda_row"


#: The largest difference of a convention that is named as the nearest: it explains nine tenths of what was recorded.
NEAR = 0.1


class _Pass:
    """One pass over a generation batch: its rows by their places, and the loss."""

    def __init__(self, micro_batches: int) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self.loss, self.parts, self.expected = 0.0, 0, micro_batches

    @property
    def complete(self) -> bool:
        return 0 < self.expected == self.parts

    @property
    def has_gradient(self) -> bool:
        return any(x != 0.0 for row in self.rows.values() for x in row["gradient"])


class Step:
    """A recorded step.

    ``groups`` and ``theirs`` are the written lines, ``configured`` compares them with the loss that the trainer is configured with,
    ``found`` holds the search's results, and ``sentence`` sums up. They are empty until a generation batch has been trained on once.
    """

    def __init__(self) -> None:
        self.groups: list[dict[str, Any]] = []
        self.theirs: list[dict[str, Any]] = []
        self.found: list[Found] = []
        self.sentence = ""
        self.configured = Configured("")
        self._rewards: list[float | None] = []
        self._size = 0
        self._longest: int | None = None
        self._unboxed = 0
        self._start(0, 0.0)

    def __repr__(self) -> str:
        return f"<Step: {self.sentence or 'nothing recorded yet'}>"

    def _start(self, micro_batches: int, beta: float) -> None:
        """Forgets what was recorded; the batch to come has so many micro-batches."""
        self._pass, self._done, self._beta = _Pass(micro_batches), _Pass(micro_batches), beta

    @property
    def _open(self) -> bool:
        """Nothing is recorded yet, or a batch without a gradient, which every convention gives."""
        return not self._pass.expected or (self._done.complete and not self._done.has_gradient)


@contextmanager
def record(trainer: Any, path: str | Path | None = None, *, tolerance: float = 1e-5) -> Iterator[Step]:
    """Records one step of TRL's ``GRPOTrainer`` or ``RLOOTrainer``, or of a subclass, and prints whose convention its loss follows, to what precision.

    The loss of your configuration comes first: the sentence says whether the trainer computes it. Where it does not, or where no method here
    is that loss, the conventions are searched. The first generation batch that is trained on inside the block and has a gradient is recorded
    over all its micro-batches, in the last pass over it (``num_iterations``), with rows back next to those of their prompt; where the rewards
    of every group agree there is none, and the next batch is taken. Training is not changed. For one process.

    Args:
        trainer: the trainer; call its ``train()`` inside the block.
        path: where to write the batch as lines of ``sim estimate``; the trainer's numbers go next to it, as ``NAME.theirs.jsonl``, for
            ``sim estimate --against``. ``None`` writes nothing.
        tolerance: the largest relative difference that counts as equal.

    Yields:
        The :class:`Step`, filled when the block ends.

    Example:
        >>> with record(trainer, "step.jsonl") as step:       # doctest: +SKIP
        ...     trainer.train()
        step.jsonl: 8 responses in 2 groups: TRL loss_type=dapo, as configured (`grpo reduction=token_mean` here): gradient to 8e-08, ..
    """
    if not isinstance(trainer, (GRPOTrainer, RLOOTrainer)):
        raise TypeError(f"trainer = {trainer!r}: must be a GRPOTrainer or an RLOOTrainer of TRL, or a subclass")
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance = {tolerance}; must be a number from 0 on and below 1")
    if path is not None and not Path(path).parent.is_dir():
        raise FileNotFoundError(f"path = {str(path)!r}: there is no folder {Path(path).parent}; make it first")
    if trainer.accelerator.num_processes > 1:
        raise ValueError(f"num_processes = {trainer.accelerator.num_processes}: a step is recorded in one process; start one")
    step = Step()
    wrapped = ("_calculate_rewards", "_generate_and_score_completions", "_compute_loss", "_get_per_token_logps_and_entropies")
    before = {name: trainer.__dict__.get(name) for name in wrapped}
    _listen(trainer, step)
    try:
        yield step
    finally:
        for name, own in before.items():
            if own is None:
                trainer.__dict__.pop(name, None)
            else:
                trainer.__dict__[name] = own
    _finish(step, trainer, path, tolerance)
    print(step.sentence)


def _listen(trainer: Any, step: Step) -> None:
    """Wraps the trainer's methods on this object alone."""
    rewards_of, generate = trainer._calculate_rewards, trainer._generate_and_score_completions
    loss_of, score = trainer._compute_loss, trainer._get_per_token_logps_and_entropies
    heard: list[torch.Tensor] = []
    # TRL's first versions count a completion without any reward as one of reward 0.
    base = RLOOTrainer if isinstance(trainer, RLOOTrainer) else GRPOTrainer
    leaves_out = "unscorable_mask" in inspect.getsource(base._generate_and_score_completions)
    listening = [False]

    def calculate_rewards(*args: Any, **kwargs: Any) -> torch.Tensor:
        found = rewards_of(*args, **kwargs)
        # The greedy completions of ReMax are graded too.
        if step._open and not getattr(trainer, "_greedy", False):
            unknown = torch.isnan(found).all(dim=1) & leaves_out
            total = (found * trainer.reward_weights.to(found.device).unsqueeze(0)).nansum(dim=1)
            step._rewards = [None if lost else float(r) for r, lost in zip(total, unknown)]
            step._unboxed = sum("\\boxed" not in str(text) for text in (args[2] if len(args) > 2 else kwargs.get("completions", ())))
        return found

    def generate_and_score(inputs: Any) -> dict[str, Any]:
        taken = trainer.model.training and step._open
        heard.clear()
        listening[0] = taken
        try:
            output = generate(inputs)
        finally:
            listening[0] = False
        if taken:
            rows = len(output["completion_ids"])
            if base is RLOOTrainer:
                per_token_columns(output, heard)
            # RLOO's beta is a coefficient of the reward, which no term of the loss has.
            step._start(trainer.args.steps_per_generation, 0.0 if base is RLOOTrainer else float(trainer.beta))
            step._size, step._longest = trainer.num_generations, trainer.max_completion_length
            output[_ROW] = torch.arange(rows, device=output["completion_ids"].device)
        return output

    def per_token(*args: Any, **kwargs: Any) -> Any:
        found = score(*args, **kwargs)
        if listening[0]:
            heard.append(found[0])
        return found

    def compute_loss(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        if _ROW not in inputs:
            return loss_of(model, inputs)
        heard.clear()
        listening[0] = True
        try:
            loss = loss_of(model, inputs)
        finally:
            listening[0] = False
        if len(heard) != 1:
            raise ValueError(f"the trainer scored a micro-batch {len(heard)} times; record knows trainers that do it once")
        _take(step, trainer, inputs, heard[0], loss)
        return loss

    trainer._calculate_rewards, trainer._generate_and_score_completions = calculate_rewards, generate_and_score
    trainer._compute_loss, trainer._get_per_token_logps_and_entropies = compute_loss, per_token


def per_token_columns(output: dict[str, Any], heard: list[torch.Tensor]) -> None:
    """Puts the log-probabilities of tokens that ``RLOOTrainer`` scored, and kept no more of than a sum per response, into its batch."""
    for name, found in zip(("old_per_token_logps", "ref_per_token_logps"), heard):
        output.setdefault(name, found)


def _take(step: Step, trainer: Any, inputs: dict[str, Any], logps: torch.Tensor, loss: torch.Tensor) -> None:
    """Keeps the rows of a micro-batch with their gradient."""
    # A window of accumulation is a step of the optimiser; several may share a generation batch, whose loss is then their mean. The loss of
    # RLOOTrainer is divided by the window's length later, by the Trainer.
    share = 1 if isinstance(trainer, RLOOTrainer) else trainer.current_gradient_accumulation_steps
    share = share / trainer.args.steps_per_generation
    (gradient,) = torch.autograd.grad(loss, logps, retain_graph=True, allow_unused=True)
    gradient = torch.zeros_like(logps) if gradient is None else gradient
    mask = inputs["completion_mask"]
    mask = (mask if "tool_mask" not in inputs else mask * inputs["tool_mask"]).cpu().numpy() != 0
    old = inputs.get("old_per_token_logps")
    columns = {"logps": logps, "old_logps": logps if old is None else old, "gradient": gradient * share}
    for ours, theirs in (("ref_logps", "ref_per_token_logps"), ("sampler_logps", "sampling_per_token_logps")):
        if inputs.get(theirs) is not None:
            columns[ours] = inputs[theirs]
    advantages = inputs["advantages"]
    columns["advantages"] = advantages.unsqueeze(1).expand_as(logps) if advantages.dim() == 1 else advantages
    columns["tokens"] = inputs["completion_ids"]
    arrays = {name: array(column) for name, column in columns.items()}
    taken = step._pass
    for place, row in enumerate(inputs[_ROW].tolist()):
        taken.rows[row] = {name: values[place][mask[place]].tolist() for name, values in arrays.items()} | {"part": taken.parts}
    taken.loss += loss.item() * share
    taken.parts += 1
    if taken.complete:
        step._done, step._pass = taken, _Pass(taken.expected)


def _finish(step: Step, trainer: Any, path: str | Path | None, tolerance: float) -> None:
    """Sorts the rows into groups, writes them, compares and searches."""
    done = step._done
    if not done.complete:
        seen, all_of_them = step._pass.parts, step._pass.expected
        raise ValueError(
            f"no generation batch was trained on inside the block ({seen} micro-batches of {all_of_them or 'one'}); call trainer.train() in it"
        )
    responses = f"{len(done.rows)} responses"
    if not done.has_gradient:
        step.sentence = f"{responses}: {_no_gradient(step)}"
    step.configured = configured(trainer, done.rows, step._rewards, step._size, done.loss)
    empty = sum(not row["logps"] for row in done.rows.values())
    ungraded = 0
    for first in range(0, len(step._rewards), step._size):
        rows = [done.rows[row] for row in range(first, first + step._size)]
        rewards = step._rewards[first : first + step._size]
        ungraded += all(reward is None for reward in rewards)
        keys = [key for key in ("logps", "old_logps", "ref_logps", "sampler_logps") if key in rows[0]]
        step.groups.append({"rewards": rewards, **{key: [row[key] for row in rows] for key in keys}})
        theirs = {"advantages": [row["advantages"] for row in rows], "dlogps": [row["gradient"] for row in rows], "loss": done.loss}
        step.theirs.append(theirs | ({"parts": [row["part"] for row in rows]} if done.parts > 1 else {}))
    written = ""
    if path is not None:
        path = Path(path)
        neighbour = path.with_name(f"{path.stem}.theirs{path.suffix}")
        for file, lines in ((path, step.groups), (neighbour, step.theirs)):
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        written = f"{path}: "
    if not ungraded and done.has_gradient:
        step.found = diagnose(
            step.groups,
            advantages=[line["advantages"] for line in step.theirs],
            gradient=[line["dlogps"] for line in step.theirs],
            loss=done.loss,
            tolerance=tolerance,
            beta=step._beta or None,
            max_length=step._longest,
            parts=[line["parts"] for line in step.theirs] if done.parts > 1 else None,
        )
    left = f", {empty} without a token" if empty else ""
    left += f"; {ungraded} of the prompts without any reward: no other convention was searched" if ungraded else ""
    step.sentence = step.sentence or f"{written}{responses} in {len(step.groups)} groups{left}: {_sentence(step, tolerance)}"


def _no_gradient(step: Step) -> str:
    """Why a step without a gradient shows nothing, and what would."""
    same = "in every step the rewards of each group agree, and the gradient is 0, which every convention gives"
    if any(reward not in (None, 0.0) for reward in step._rewards):
        return f"{same}: record more steps"
    boxed = f", and {step._unboxed} of {len(step._rewards)} completions have no \\boxed{{}}" if step._unboxed else ""
    return (
        f"{same}. Every reward is 0{boxed}: look at completions and at what the reward reads before more steps "
        "(grpo_lambda.trl.answer_reward reads prose with extract='free')"
    )


def _sentence(step: Step, tolerance: float) -> str:
    """Whether the trainer computes the loss of its configuration, else whose; and what this batch cannot show."""
    reported = step.configured
    if reported.agrees(tolerance):
        precise = [f"gradient to {reported.gradient:.0e}", f"loss to {reported.loss:.0e}"]
        precise = [_of_advantages(step.found[0]), *precise] if step.found and step.found[0].matches else precise
        return f"{reported.words}, as configured ({reported.here}): {', '.join(precise)}{_unseen(step)}"
    if reported.command:
        before = f"NOT {reported.words}, as configured ({reported.here}): gradient {reported.gradient:.0e} and loss {reported.loss:.0e} away"
    else:
        before = reported.reason
    searched = _searched(step) if step.found and (reported.command or step.found[1].matches) else ""
    return f"{before}{'; ' + searched if searched else ''}{_unseen(step)}"


def _unseen(step: Step) -> str:
    """The parts of a loss that make no difference on this batch."""
    out = ""
    if step.found:
        others = {match.command for match in step.found[1].matches if abs(match.factor - 1) < 1e-6} - {step.configured.command}
        they = "one other convention gives" if len(others) == 1 else f"{len(others)} other conventions give"
        out = f"; {they} this gradient on this batch" if others else ""
    ratios_are_1 = all(row["logps"] == row["old_logps"] for row in step._done.rows.values())
    if ratios_are_1:
        return f"{out}; every ratio is 1, where clip and level of the ratios make no difference: record with num_iterations=2"
    reported = step.configured
    return f"{out}; no ratio reaches the clip, which is not seen" if reported.command and reported.clips and reported.clipped == 0 else out


def _searched(step: Step) -> str:
    """The convention of the gradient and the precision of each quantity, or what is nearest."""
    advantages, gradient, loss = step.found
    reported = {(m.command, label) for m in loss.matches for label in m.labels}
    if gradient.matches:
        best = _preferred(gradient.matches, reported)
        names = [label for label in best.labels if label.startswith("TRL")] or best.labels or ["no framework's"]
        names.sort(key=lambda label: (best.command, label) not in reported)
        factor = "" if abs(best.factor - 1) < 1e-6 else f", times {best.factor:.6g}"
        given = "" if advantages.matches else " with these advantages"
        whose = f"the gradient by log-probabilities is{given} that of {names[0]}{factor} ({_command(best)} here)"
        precise = [f"gradient to {best.error:.0e}"]
    else:
        whose, precise = f"no convention of {gradient.tried} gives this gradient", []
        if gradient.nearest is not None and gradient.nearest.error <= NEAR:
            whose += f"; the nearest is {_command(gradient.nearest)}, {gradient.nearest.error:.0e} away"
    if advantages.matches:
        precise.insert(0, _of_advantages(advantages))
    else:
        whose = f"its {_of_advantages(advantages)}; {whose}"
    if loss.matches:
        precise.append(f"loss to {loss.matches[0].error:.0e}")
    return f"{whose}: {', '.join(precise)}"


def _command(best: Candidate) -> str:
    """The method here, in words."""
    return f"`{best.command}`{' of each micro-batch' if best.of_parts else ''}"


def _of_advantages(found: Found) -> str:
    """The convention of the advantages, by the words of TRL that are about them."""
    if not found.matches:
        near = f" (the nearest is `{found.nearest.command}`, {found.nearest.error:.0e} away)" if found.nearest is not None and found.nearest.error <= NEAR else ""
        return f"advantages are of no known convention{near}{': ' + found.note if found.note else ''}"
    best = found.matches[0]
    names = [label for label in best.labels if label.startswith(("TRL scale_rewards", "TRL RLOOTrainer"))] or best.labels or [f"`{best.command}`"]
    return f"advantages of {names[0]} to {best.error:.0e}"


def _preferred(matches: list[Candidate], reported: set[tuple[str, str]]) -> Candidate:
    """One of the explanations of the gradient that coincide: without a factor, that the loss has too, that TRL has a name for."""

    def rank(c: Candidate) -> tuple[bool, bool, bool]:
        shared = any((c.command, label) in reported for label in c.labels)
        return (abs(c.factor - 1) > 1e-6, not shared, not any(label.startswith("TRL") for label in c.labels))

    return min(matches, key=rank)
