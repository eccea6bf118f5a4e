"""Critic-free credit assignment for RL of language models: losses and gradients checked against exact ground truth.

A method is a pure function in two steps. :func:`credit` reads the rewards, lengths and extra inputs of a whole batch once and fixes the advantage
and the weight of every token. :func:`loss` then maps current log-probabilities to the loss to minimise and its derivative with respect to
each of them. Both compute in 64-bit floats, in the compiled code of the command line, and release the interpreter's lock.

>>> import grpo_lambda
>>> group = {"rewards": [1, 0], "old_logps": [[-0.5, -0.25], [-1.0]]}
>>> fixed = grpo_lambda.credit("grpo", [group])
>>> value, dlogps, metrics = grpo_lambda.loss(fixed, [group["old_logps"]])
>>> round(float(dlogps[0][0][0]), 6)
-0.176752

* :func:`credit` fixes advantages and weights of groups, :func:`credit_padded` of padded rows, the form of trainers;
  :func:`credit_from_rows` makes a micro-batch of rows whose credit is fixed.
* :func:`loss` gives the loss at current log-probabilities and its gradient; :func:`estimate` gives the lines of ``sim estimate``.
* :func:`methods` lists every method with its settings, :func:`explain` writes its equation, :func:`extra_inputs` says what it reads.
* :func:`diagnose` finds the convention that gives a trainer's numbers; :func:`conventions` lists them all.
* :func:`conformance` checks a method, also one that is written in Python; :class:`Mdp` gives exact ground truth on a small task.
* :func:`grade` compares a response with a reference, :func:`grade_batch` many of them; :mod:`.stats` has intervals and paired tests.

Wrong input raises :class:`ValueError` with the text of the command line: field, place, value and the values allowed.
"""

from . import stats
from ._conformance import Check, Report, conformance
from ._credit import Estimate, Loss, credit, credit_from_rows, credit_padded, estimate, loss
from ._diagnose import Candidate, Convention, Found, conventions, diagnose
from ._grade import Verdict, grade, grade_batch
from ._methods import Method, MethodName, Setting, extra_inputs, explain, methods
from ._native import Credit, Expected, Mdp, __version__

__all__ = [
    "Candidate",
    "Check",
    "Convention",
    "Credit",
    "Estimate",
    "Expected",
    "Found",
    "Loss",
    "Mdp",
    "Method",
    "MethodName",
    "Report",
    "Setting",
    "Verdict",
    "__version__",
    "conformance",
    "conventions",
    "credit",
    "credit_from_rows",
    "credit_padded",
    "diagnose",
    "estimate",
    "extra_inputs",
    "explain",
    "grade",
    "grade_batch",
    "loss",
    "methods",
    "stats",
]
