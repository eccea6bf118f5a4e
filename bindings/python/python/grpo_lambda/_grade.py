"""Answers of mathematics against their references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import _native


class Verdict(NamedTuple):
    """What the grader found.

    ``name`` is ``equal``, ``different``, ``no_answer`` or ``unreadable``. ``reward`` is 1 for the right answer, 0 for a wrong one and for
    giving none, and ``None`` for an answer the grader cannot read: leave such a response out of its group's statistics, do not score it 0.
    ``reason`` says why nothing could be compared.
    """

    name: str
    reward: float | None
    reason: str


def grade(gold: str | Sequence[str], answer: str, *, extract: str = "auto") -> Verdict:
    r"""Compares a response with the reference: one text, or a list of texts each of which is right.

    ``extract`` says where in the response the final answer stands: ``auto`` (the last ``\boxed{}``; a text without one is the answer
    itself), ``boxed``, ``tag``, ``lenient-tag``, or ``any`` (the first that is found, down to the last number).

    >>> import grpo_lambda
    >>> grpo_lambda.grade("1/2", r"so it is \boxed{0.5}").name
    'equal'
    """
    return _verdicts([gold], [answer], extract, one=True)[0]


def grade_batch(
    golds: Sequence[str | Sequence[str]], answers: Sequence[str], *, extract: str = "auto"
) -> list[Verdict]:
    """:func:`grade` of every pair, without the interpreter's lock."""
    return _verdicts(list(golds), list(answers), extract, one=False)


def _verdicts(golds: list, answers: list, extract: str, *, one: bool) -> list[Verdict]:
    try:
        return [Verdict(*told) for told in _native.grade_all(golds, answers, extract)]
    except ValueError as error:
        if not one:
            raise
        text = str(error).replace("golds[0]", "gold", 1).replace("answers[0]", "answer", 1)
        raise ValueError(text) from None
