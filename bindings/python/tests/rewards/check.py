"""The grader called by the reward interfaces of TRL and verl and the metric interface of lighteval, each of them the real library.

    python check.py [trl] [verl] [lighteval]
"""

import sys

from grpo_lambda.rewards import compute_score, lighteval_metric

REFERENCES = ["1/2", "12", "x+1"]
RESPONSES = [r"Half of them, so \boxed{0.5}.", r"We get \boxed{13}.", r"It is \boxed{1+x}."]
REWARDS = [1.0, 0.0, 1.0]


def with_trl():
    from datasets import Dataset

    from grpo_lambda.trl import answer_reward

    data = Dataset.from_list([{"prompt": "?", "answer": reference} for reference in REFERENCES])
    # The columns as GRPOTrainer hands them to a reward function.
    columns = {name: list(data[name]) for name in data.column_names}
    prompts = columns.pop("prompt")
    assert answer_reward("answer")(prompts=prompts, completions=RESPONSES, **columns) == REWARDS


def with_verl():
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    named = {"path": "pkg://grpo_lambda.rewards", "name": "compute_score"}
    score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": named}}))
    calls = zip(REFERENCES, RESPONSES, strict=True)
    found = [score(data_source="any", solution_str=r, ground_truth=g, extra_info={}) for g, r in calls]
    assert found == REWARDS
    assert compute_score("any", "no box", "1", extract="boxed") == 0.0


def with_lighteval():
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    metric = lighteval_metric()
    samples = [
        metric.compute_sample(doc=Doc(query="?", choices=[gold], gold_index=0), model_response=ModelResponse(text=[text]))
        for gold, text in zip(REFERENCES, RESPONSES, strict=True)
    ]
    assert samples == [{"grade": reward} for reward in REWARDS]
    total = metric.get_corpus_aggregations()["grade"]
    assert abs(total([sample["grade"] for sample in samples]) - 2 / 3) < 1e-12


CHECKS = {"trl": with_trl, "verl": with_verl, "lighteval": with_lighteval}
for name in sys.argv[1:] or CHECKS:
    CHECKS[name]()
    print(f"{name}: {len(REFERENCES)} responses rewarded as they should be")
