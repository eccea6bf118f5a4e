#!/usr/bin/env bash
# Opens what `llm-train records` writes with the tools it is for, and writes what they found to read.json next to this file.
#
#   llm/tests/records/read.sh VENV TRANSFORMERS [LLM_TRAIN]
#
# VENV holds inspect-ai, trackio, wandb, pandas, pyarrow and huggingface_hub; TRANSFORMERS is one with transformers and torch, which may be the same;
# LLM_TRAIN is the program.
set -euo pipefail
venv=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
transformers=$(realpath "$2")
program=$(realpath "${3:-$here/../../../target/debug/llm-train}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$program" train --run run task.kind=addition threads=1 model.hidden=32 model.layers=2 sft.steps=20 rl.steps=4 rl.prompts_per_step=4 \
  rl.max_new_tokens=8 eval.n=20 eval.every=2 > train.out
"$program" eval --model run --benchmarks tiny:addition --limit 20 --samples 2 --temperature 1 --max-new-tokens 8 > eval.out
for format in metrics trl hf; do "$program" records run --format $format --out $format > /dev/null; done
"$program" records run/eval --format inspect --out inspect > /dev/null
export TRACKIO_DIR="$work/trackio" HF_HUB_OFFLINE=1
"$venv/bin/python" "$here/read.py" "$work" "$program" "$transformers/bin/python" > found.json
mv found.json "$here/read.json"
cat "$here/read.json"
