#!/usr/bin/env bash
# stages.sh STAGE OUT [--rehearse] - what is to be learnt on a machine with a CUDA card, in stages of less than ten minutes.
#
#   quick   every kernel at small sizes, then two steps of the preset OUT/gpu_quick.csv, OUT/gpu_bench.csv
#   memory  the small sizes under compute-sanitizer, where it is      OUT/gpu_sanitizer.csv
#   check   every kernel against its contract, times and rates        OUT/gpu_check.csv
#   bench   the training step on random weights of published shapes   OUT/gpu_bench.csv
#   profile what bounds some kernels, where Nsight Compute is         OUT/gpu_profile.csv
#   learn   GRPO against readings of GRPO-lambda, several seeds       OUT/gpu_learn_seed-N.csv a seed, OUT/gpu_learn.csv of all
#   torch   the same step in PyTorch, and the ratios                  OUT/gpu_torch.csv, OUT/gpu_ratios.csv
#   thirty  quick, memory, check, bench, profile, learn and torch, each as long as its share of thirty minutes
#   all     one after the other, for machines without a limit
#
# A stage that is called again does what is left: a benchmark, a seed, that is done is not done again while OUT holds its file; a seed
# that was stopped goes on from its last checkpoint while OUT/work is there. Exit code 3: out of time with work left, call it again.
#
# CARRY=DIR     folder of build.sh, with llm-train.xz and run.sh (target/cuda/carry)
# LLM=COMMAND   another way to run llm-train
# BUDGET=540    seconds of a stage
# SEEDS="0 1"   seeds of learn (0 1 2 3 4 5)
# METHODS=...   methods of learn, as llm-train compare takes them
# COMMIT=...    the commit, where there is no git
# PYTHON=...    the python3 that has torch
#
# --rehearse runs every stage from end to end on a machine without a card, in miniature: the kernels on the emulator of the tests, the
# rest on the CPU. Its numbers mean nothing; its files say so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
stage=${1:-} out=${2:-} mode=${3:-}
usage() { sed -n '2,14p' "$0" >&2; exit 2; }
[ -n "$stage" ] && [ -n "$out" ] || usage
case $mode in '') rehearse= ;; --rehearse) rehearse=1 ;; *) usage ;; esac

mkdir -p "$out/work"
out=$(cd "$out" && pwd)
cd "$root"
python=${PYTHON:-python3}
started=$SECONDS
budget=${BUDGET:-540}
commit=${COMMIT:-$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)}

if [ -n "$rehearse" ]; then
  card="REHEARSAL on a CPU: no measurement"
  llm=${LLM:-target/debug/llm-train}
else
  card=$(nvidia-smi -i 0 --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | sed 's/, /, driver /') || card="unknown card"
  llm=${LLM:-bash ${CARRY:-target/cuda/carry}/run.sh}
fi

left() { echo $((budget - (SECONDS - started))); }
say() { echo "[$((SECONDS - started)) s] $*" >&2; }
out_of_time() { say "out of time; the same command goes on"; exit 3; }
head_of() { echo "$card, commit $commit: $*"; }

# Runs a command that prints a JSON line, and keeps the line. keep FILE COMMAND...
keep() {
  local file=$1
  shift
  if [ -s "$file" ]; then say "$(basename "$file") is there"; return; fi
  [ "$(left)" -gt 20 ] || out_of_time
  say "$*"
  local status=0
  timeout "$(left)" "$@" >"$file.log" 2>"$file.err" || status=$?
  cat "$file.log" >&2
  if [ $status = 124 ]; then out_of_time; fi
  if [ $status != 0 ]; then
    tail -n 5 "$file.err" >&2
    say "failed with $status; the stage goes on without it"
    failures=$((failures + 1))
    return
  fi
  grep '^{' "$file.log" | tail -n 1 >"$file.part"
  mv "$file.part" "$file"
}

failures=0

check() {
  local file=$out/gpu_check.csv
  if [ -n "$rehearse" ]; then
    local csv=$out/work/check
    GPU_CHECK_CSV=$csv cargo test --quiet --package grpo-lambda-gpu --test gpu the_emulator_passes >&2
    { echo "# $(head_of "cargo test --test gpu the_emulator_passes")"; sed 1d "$csv.f32"; sed 1,2d "$csv.bf16"; } >"$file"
  else
    timeout "$budget" $llm gpu-check --csv "$file" --head "$(head_of "llm-train gpu-check")"
  fi
}

# The small sizes with a command before llm-train, or none. small_check FILE HEAD [COMMAND...]
small_check() {
  local file=$1 head=$2
  shift 2
  if [ -n "$rehearse" ]; then
    local csv=$out/work/small
    GPU_CHECK_CSV=$csv "$@" cargo test --quiet --package grpo-lambda-gpu --test gpu the_emulator_passes >&2
    { echo "# $head"; sed 1d "$csv.f32"; sed 1,2d "$csv.bf16"; } >"$file"
  else
    timeout "$(left)" "$@" $llm gpu-check --quick --csv "$file" --head "$head" >&2
  fi
}

quick() {
  small_check "$out/gpu_quick.csv" "$(head_of "llm-train gpu-check --quick")"
  local work=$out/work/bench
  mkdir -p "$work"
  [ -n "$rehearse" ] || keep "$work/quick.json" $llm bench --model-shape qwen2.5-math-1.5b --random-weights --device cuda --prompt-tokens 256 --steps 2 --warmup 1
  [ -n "$rehearse" ] || $python "$here/collect.py" "$out/gpu_bench.csv" --head "$(head_of "llm-train bench")" "$work"/*.json
}

memory() {
  local file=$out/gpu_sanitizer.csv tool status
  if ! command -v compute-sanitizer >/dev/null; then say "no compute-sanitizer here: nothing is checked"; return; fi
  { echo "# $(head_of "compute-sanitizer, llm-train gpu-check --quick")"; echo "tool,exit,verdict"; } >"$file"
  for tool in memcheck racecheck synccheck; do
    [ "$(left)" -gt 20 ] || out_of_time
    status=0
    small_check "$out/work/$tool.csv" "$(head_of "$tool")" compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9 \
      2>"$out/work/$tool.log" || status=$?
    # The tool sums up in its last line.
    echo "$tool,$status,\"$(grep '========= .*SUMMARY' "$out/work/$tool.log" | tail -n 1 | sed 's/^=* *//; s/"//g')\"" >>"$file"
  done
  cat "$file" >&2
}

profile() {
  local file=$out/gpu_profile.csv kernel
  if ! command -v ncu >/dev/null; then say "no Nsight Compute here: nothing is profiled"; return; fi
  local metrics=gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed,launch__registers_per_thread,sm__warps_active.avg.pct_of_peak_sustained_active
  echo "# $(head_of "ncu, llm-train gpu-check --only")" >"$file"
  for kernel in decode_attention decode_qkv attention rms_norm_weight gemm; do
    [ "$(left)" -gt 20 ] || out_of_time
    # The last launches are those of the large sizes. Where counters need rights that are not given, ncu says so and the stage goes on.
    timeout "$(left)" ncu --target-processes all --csv --metrics "$metrics" $llm gpu-check --only "$kernel" 2>"$out/work/ncu-$kernel.err" |
      grep '^"' | tail -n 40 >>"$file" || { tail -n 2 "$out/work/ncu-$kernel.err" >&2; failures=$((failures + 1)); }
  done
}

bench() {
  local work=$out/work/bench
  mkdir -p "$work"
  if [ -n "$rehearse" ]; then
    local run=$out/work/bench-model
    [ -d "$run" ] || $llm train --preset tiny --run "$run" model.hidden=32 model.layers=2 model.intermediate=64 model.heads=2 sft.steps=2 rl.steps=0 eval.n=4 >&2
    keep "$work/tiny.json" $llm bench --model "$run" --steps 1 --warmup 0 --prompts 2 --group 8 --completion 8 --prompt-tokens 8
  else
    # Table 2 of the paper: 8 x 8 responses, 256 + 256 tokens, KL to a frozen reference. Then twice as many, both ways with the layers, longer
    # responses, 3B, and 7B as an adapter.
    local step=(--random-weights --device cuda --prompt-tokens 256 --steps 3 --warmup 1) model=qwen2.5-math-1.5b
    keep "$work/$model.json" $llm bench --model-shape $model "${step[@]}" --completion 256 memory.recompute_layers=true
    keep "$work/$model-kept.json" $llm bench --model-shape $model "${step[@]}" --completion 256 memory.recompute_layers=false
    keep "$work/$model-128.json" $llm bench --model-shape $model "${step[@]}" --completion 256 --prompts 16
    keep "$work/$model-1024.json" $llm bench --model-shape $model "${step[@]}" --completion 1024
    keep "$work/qwen2.5-3b.json" $llm bench --model-shape qwen2.5-3b "${step[@]}" --completion 256
    keep "$work/qwen2.5-7b-lora.json" $llm bench --model-shape r1-distill-qwen-7b --preset paper-r1-qwen-7b --lora "${step[@]}" --completion 768
  fi
  $python "$here/collect.py" "$out/gpu_bench.csv" --head "$(head_of "llm-train bench")" "$work"/*.json
}

learn() {
  local methods=${METHODS:-grpo,grpo_lambda:style=recent,update=trace,grpo_lambda:style=both,update=trace,grpo_lambda:style=recent,update=trace,clamp=none}
  local preset=gpu-learn settings=(device=cuda dtype=bf16)
  if [ -n "$rehearse" ]; then
    settings=(model.hidden=16 model.layers=1 model.heads=2 model.kv_heads=1 model.intermediate=32 'task.levels=[1]' task.max_operand=3
      sft.steps=4 sft.batch=4 sft.warmup=1 rl.steps=2 rl.prompts_per_step=2 rl.group_size=4 rl.warmup=1 rl.max_new_tokens=16 eval.n=4 eval.every=1 checkpoint.every=2)
  fi
  for seed in ${SEEDS:-0 1 2 3 4 5}; do
    local run=$out/work/learn/seed-$seed file=$out/gpu_learn_seed-$seed.csv
    if [ -s "$file" ]; then say "seed $seed is there"; continue; fi
    [ "$(left)" -gt 20 ] || out_of_time
    say "seed $seed"
    local status=0
    timeout -s INT -k 15 "$(left)" $llm compare --preset "$preset" --methods "$methods" --seeds 1 --run "$run" "${settings[@]}" "seed=$seed" >&2 || status=$?
    case $status in 0) ;; 124 | 130 | 137) out_of_time ;; *) exit $status ;; esac
    $python "$here/learn.py" seed "$run" "$seed" "$file" --head "$(head_of "llm-train compare --preset $preset --methods $methods --seeds 1 ${settings[*]} seed=$seed")"
  done
  $python "$here/learn.py" all "$out/gpu_learn.csv" "$out"/gpu_learn_seed-*.csv --head "$(head_of "llm/gpu/stages.sh learn")"
}

torch() {
  # Layers are computed again on both sides, as the preset has it.
  local work=$out/work/torch args=(--shape qwen2.5-math-1.5b --recompute) ours=$out/work/bench/qwen2.5-math-1.5b.json
  mkdir -p "$work"
  if [ -n "$rehearse" ]; then
    export OMP_NUM_THREADS=1
    args=(--shape tiny --device cpu --prompt-tokens 8 --completion 8 --steps 1 --warmup 1)
    ours=$out/work/bench/tiny.json
  fi
  keep "$work/plain.json" $python "$here/torch_step.py" "${args[@]}"
  if $python -c 'import transformers' 2>/dev/null; then
    keep "$work/transformers.json" $python "$here/torch_step.py" "${args[@]}" --impl transformers
  else
    say "no transformers here: the plain loop alone"
  fi
  $python "$here/collect.py" "$out/gpu_torch.csv" --head "$(head_of "torch_step.py ${args[*]}")" "$work"/*.json
  if [ -s "$ours" ]; then
    $python "$here/ratios.py" "$ours" "$work"/*.json --csv "$out/gpu_ratios.csv" --head "$(head_of "ratios.py")"
  else
    say "no $ours: stage bench first, for the ratios"
  fi
}

case $stage in
  quick | memory | check | bench | profile | learn | torch) "$stage" ;;
  thirty)
    # A stage that is out of time or fails does not keep the others from their share.
    for one in quick:180 memory:120 check:180 bench:300 profile:240 torch:240 learn:360; do
      BUDGET=${one#*:} "$0" "${one%:*}" "$out" ${mode:+"$mode"} || { say "stage ${one%:*} ended with $?"; failures=$((failures + 1)); }
    done
    ;;
  all) export BUDGET=${BUDGET:-1000000}; for one in quick memory check bench profile torch learn; do "$0" "$one" "$out" ${mode:+"$mode"}; done ;;
  *) usage ;;
esac
[ "$failures" = 0 ] || { say "$failures of the stage's parts failed"; exit 1; }
say "$stage: done"
