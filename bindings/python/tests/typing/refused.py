import grpo_lambda

grpo_lambda.credit("grpo_lamda", [])
grpo_lambda.explain("grop")
grpo_lambda.diagnose([], loss="x")
grpo_lambda.credit_padded("grpo", [1, 0], [[0.0]], [[1]], group_size=2).advantages.append(0)
grpo_lambda.credit("grpo", []).advantages.shape
