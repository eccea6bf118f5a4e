"""Lines that users write: mypy in strict mode and pyright accept it. They refuse the five lines of refused.py."""

import numpy as np

import grpo_lambda
from grpo_lambda import Mdp, stats

group = {"rewards": [1, 0], "old_logps": [[-0.5, -0.25], [-1.0]], "logps": [[-0.5, -0.25], [-1.0]]}
fixed: grpo_lambda.Credit = grpo_lambda.credit("grpo_lambda", [group], lambda_=0.9)
value, dlogps, metrics = grpo_lambda.loss(fixed)
number: float = value + metrics["tokens"]
padded = grpo_lambda.credit_padded("grpo", [1, 0], np.zeros((2, 3)), np.ones((2, 3)), group_size=2)
rows: np.ndarray = padded.advantages[[1, 0]] + grpo_lambda.loss(padded, np.zeros((2, 3))).dlogps
of_response: np.ndarray = fixed.weights[0][1] + dlogps[0][1]
for method in grpo_lambda.methods():
    grpo_lambda.explain(method.name)
mdp = Mdp(tokens="a EOS", eos="EOS", horizon=1)


def mine(groups: list[dict[str, object]], logps: list[list[np.ndarray]]) -> tuple[float, object]:
    return 0.0, logps


report: grpo_lambda.Report = grpo_lambda.conformance(mine)
cosine: float = mdp.expected(mine).cosine + mdp.expected("grpo").cosine
found = grpo_lambda.diagnose([group], loss=[0.1, 0.2])[0].note.upper()
interval = stats.wilson(3, 4)
text: str = grpo_lambda.__version__
