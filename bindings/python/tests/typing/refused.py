import grpo_lambda

grpo_lambda.credit("grpo_lamda", [])
grpo_lambda.explain("grop")
grpo_lambda.diagnose([], loss="x")
