"""What vLLM and llm-train make of the same weights: greedy tokens, log-probabilities, and the train/inference mismatch of a training run.

compare.py LLM_TRAIN RUN URL VENV     called by real_vllm.sh; vLLM still has the weights of the run's last step
"""

import csv
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import urllib.request

program, run, url, _ = sys.argv[1:]


def post(path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=120))


def ours(*words, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([program, *words], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


# Prompts of the task, as ids that both are given.
prompts = [[1 + (7 * i + 3 * j) % 60 for j in range(4 + i % 5)] for i in range(24)]
checkpoint = run + "/checkpoints/step-00000004"
greedy = ours("generate", "--model", checkpoint, "--greedy", "--max-new-tokens", "12", "--prompts", "-", "--template", "no",
              lines=[{"ids": p} for p in prompts])
same, differences = 0, []
for prompt, mine in zip(prompts, greedy):
    theirs = post("/v1/completions", {
        "model": "small", "prompt": [prompt], "n": 1, "max_tokens": 12, "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0,
        "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logprobs": 0, "return_token_ids": True,
    })["choices"][0]
    same += theirs["token_ids"] == mine["ids"]
    row = prompt + theirs["token_ids"]
    scored = ours("score", "--model", checkpoint, lines=[{"ids": row}])[0]["logps"][len(prompt) - 1:]
    differences += [abs(a - b) for a, b in zip(scored, theirs["logprobs"]["token_logprobs"], strict=True)]

# The same through our own client: generate's tokens, and an evaluation's responses and verdicts.
through = ["--engine", "vllm", "--url", url]
asked = ours("generate", "--model", checkpoint, "--greedy", "--max-new-tokens", "12", "--prompts", "-", "--template", "no", *through,
             lines=[{"ids": p} for p in prompts])
same_asked = sum(a["ids"] == b["ids"] for a, b in zip(asked, greedy, strict=True))


def evaluated(name, *more):
    out = f"{run}/eval-{name}"
    words = ["eval", "--model", checkpoint, "--benchmarks", "tiny:addition", "--limit", "20", "--max-new-tokens", "8", "--out", out]
    subprocess.run([program, *words, *more], capture_output=True, text=True, check=True)
    lines = [line for path in pathlib.Path(out).glob("*/completions.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


evaluations = [evaluated("local"), evaluated("served", *through)]
same_evaluated = sum(a == b for a, b in zip(*evaluations, strict=True))

with open(run + "/metrics.csv") as file:
    rows = [row for row in csv.DictReader(line for line in file if not line.startswith("#")) if row["logp_error"]]
version = json.load(urllib.request.urlopen(url + "/version"))["version"]
import torch  # noqa: E402  (only for its version)

found = {
    "date": datetime.date.today().isoformat(),
    "llm_train": subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip(),
    "vllm": version,
    "torch": torch.__version__,
    "python": platform.python_version(),
    "device": "CPU, float32",
    "prompts": len(prompts),
    "greedy_responses_identical": same,
    "greedy_responses_of_generate_identical": same_asked,
    "completions_of_eval_identical": f"{same_evaluated} of {len(evaluations[0])}",
    "tokens_compared": len(differences),
    "largest_difference_of_log_probabilities": max(differences),
    "rl_steps_sampled_by_vllm": len(rows),
    "largest_factor_between_sampler_and_trainer": max(float(row["logp_error_max"]) for row in rows),
    "raw_mode_refused_by_name": True,
}
assert same_asked == len(prompts) and same_evaluated == len(evaluations[0]) == 20, found
assert same == len(prompts) and max(differences) < 1e-3, found
assert found["largest_factor_between_sampler_and_trainer"] < 1.001 and len(rows) == 4, found
print(json.dumps(found, indent=1))
