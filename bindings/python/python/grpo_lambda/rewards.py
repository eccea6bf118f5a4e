r"""The grader in the interfaces of verl and lighteval; :func:`grpo_lambda.trl.answer_reward` is the one of TRL.

verl reads a reward function by its path and name::

    reward.custom_reward_function.path=pkg://grpo_lambda.rewards
    reward.custom_reward_function.name=compute_score

lighteval takes a metric in the field ``metrics`` of a task: ``metrics=[grpo_lambda.rewards.lighteval_metric()]``.

>>> from grpo_lambda.rewards import compute_score
>>> compute_score("gsm8k", r"so it is \boxed{0.5}", "1/2")
1.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._grade import grade, grade_batch


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str | Sequence[str],
    extra_info: dict[str, Any] | None = None,
    *,
    extract: str = "auto",
    rules: str = "strict",
    weight_of_unreadable: float = 0.0,
) -> float:
    """The reward of one response, with the signature that verl calls: 1 for the right answer, 0 for a wrong one or none.

    ``extract`` and ``rules`` are those of :func:`grpo_lambda.grade`; the strict rules, here the default of every ``extract``, are those for training.
    An answer that the grader cannot read earns ``weight_of_unreadable``, since verl needs a number. Of ``extra_info`` the text ``problem`` or
    ``question`` counts, as the problem of :func:`grpo_lambda.grade`; ``data_source`` changes nothing.
    """
    del data_source
    known = extra_info or {}
    problem = next((known[key] for key in ("problem", "question") if isinstance(known.get(key), str)), None)
    reward = grade(ground_truth, solution_str, extract=extract, rules=rules, problem=problem).reward
    return weight_of_unreadable if reward is None else reward


def lighteval_metric(name: str = "grade", *, extract: str = "free", rules: str | None = None):
    """A ``SampleLevelMetric`` of lighteval: the mean over the samples of a response that is right, 1 or 0, with all its references accepted.

    The default is the lenient mode for evaluation. An answer that cannot be read counts as wrong. Needs ``lighteval``.
    """
    import numpy as np
    from lighteval.metrics.metrics_sample import SampleLevelComputation
    from lighteval.metrics.utils.metric_utils import SampleLevelMetric
    from lighteval.tasks.requests import SamplingMethod

    class Graded(SampleLevelComputation):
        """The share of responses whose answer is one of the references."""

        def compute(self, doc, model_response, **_: Any) -> float:
            responses = model_response.final_text
            golds = doc.get_golds()
            verdicts = grade_batch([golds] * len(responses), responses, extract=extract, rules=rules)
            return float(np.mean([verdict.reward or 0.0 for verdict in verdicts]))

    return SampleLevelMetric(
        metric_name=name,
        sample_level_fn=Graded(),
        category=SamplingMethod.GENERATIVE,
        corpus_level_fn=np.mean,
        higher_is_better=True,
    )
