"""Answers of mathematics against their references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import _native


class Verdict(NamedTuple):
    """A verdict of the grader.

    ``name`` is ``equal``, ``different``, ``no_answer`` or ``unreadable``. ``reward`` is 1 for the right answer, 0 for a wrong one or none,
    and ``None`` for an answer the grader cannot read: leave such a response out of its group's statistics, do not score it 0. ``reason`` is
    the verdict in words: the rules of an ``equal``, or the reason for no comparison. ``extracted`` is the answer found in the response.
    """

    name: str
    reward: float | None
    reason: str
    extracted: str | None


def grade(
    gold: str | Sequence[str],
    answer: str,
    *,
    extract: str = "auto",
    rules: str | None = None,
    problem: str | None = None,
    cut_off: bool = False,
) -> Verdict:
    r"""Compares a response with the reference: one text, or a list of texts each of which is right.

    ``extract`` finds the final answer in the response: ``auto`` (the last ``\boxed{}``; a text without one is the answer itself),
    ``boxed``, ``tag``, ``lenient-tag``, ``any`` (the first that is found, down to the last number), or ``free`` (prose as people write it,
    in the reference too). ``rules`` are those of ``llm-train grade --rules``: the spellings that count as equal. What stands in the text of
    ``problem`` and is more than a number is no answer: a response that restates the question earns nothing. Of a response that was ``cut_off``
    at a limit of length, ``free`` reads marked answers only.

    >>> import grpo_lambda
    >>> grpo_lambda.grade("1/2", r"so it is \boxed{0.5}").name
    'equal'
    >>> grpo_lambda.grade("21", "18 + 3 is a sum.", extract="free", problem="What is 18 + 3?").name
    'different'
    """
    return _verdicts([gold], [answer], extract, rules, [problem], [cut_off], one=True)[0]


def grade_batch(
    golds: Sequence[str | Sequence[str]],
    answers: Sequence[str],
    *,
    extract: str = "auto",
    rules: str | None = None,
    problems: Sequence[str | None] | None = None,
    cut_off: Sequence[bool] | None = None,
) -> list[Verdict]:
    """:func:`grade` of every pair, on all cores and without the interpreter's lock. ``problems`` and ``cut_off`` have one entry per answer."""
    for name, texts in (("golds", golds), ("answers", answers)):
        if isinstance(texts, str):
            raise ValueError(f"{name} = a text; must be a list of texts")
    known = None if problems is None else list(problems)
    ends = None if cut_off is None else [bool(cut) for cut in cut_off]
    return _verdicts(list(golds), list(answers), extract, rules, known, ends, one=False)


def _verdicts(
    golds: list[str | Sequence[str]],
    answers: list[str],
    extract: str,
    rules: str | None,
    problems: list[str | None] | None,
    cut_off: list[bool] | None,
    *,
    one: bool,
) -> list[Verdict]:
    try:
        return [Verdict(*reported) for reported in _native.grade_all(golds, answers, extract, rules, problems, cut_off)]
    except ValueError as error:
        if not one:
            raise
        text = str(error).replace("golds[0]", "gold", 1).replace("answers[0]", "answer", 1)
        raise ValueError(text) from None
