#!/usr/bin/env bash
# stages.sh STAGE OUT [--rehearse] - what is to be learnt on a machine with a CUDA card, in stages of less than ten minutes.
#
#   pretrained  SmolLM2-135M: proof on its weights, the experiment       OUT/gpu_pretrained_proof.csv, OUT/gpu_pretrained_runs.csv,
#           of paper/protocols/pretrained.toml, GSM8K, a step's speed   OUT/gpu_pretrained_speed.csv; the first stage on a card
#   quick   every kernel at small sizes, the tests that need a card   OUT/gpu_quick.csv, OUT/gpu_bench.csv,
#           where they are packed, two steps with the memory watched  OUT/gpu_memory.csv
#   memory  the small sizes under compute-sanitizer, where it is      OUT/gpu_sanitizer.csv
#   check   every kernel against its contract, times and rates        OUT/gpu_check.csv
#   bench   the training step on random weights of published shapes   OUT/gpu_bench.csv
#   profile what bounds some kernels, where Nsight Compute is         OUT/gpu_profile.csv
#   steps   20 steps of RL in bf16: nothing is clipped on-policy      OUT/gpu_steps.csv
#   torch   the same step in PyTorch, and the ratios                  OUT/gpu_torch.csv, OUT/gpu_ratios.csv
#   learn   GRPO against variants of GRPO-lambda, several seeds       OUT/gpu_learn_seed-N.csv a seed, OUT/gpu_learn.csv of all
#   thirty  4 minutes of quick and memory, 9 of check and bench, 4 of profile, 6 of steps, torch and one seed of learn
#   all     one after the other, for machines without a limit
#
# A stage that is called again does what is left: a benchmark, a seed, that is done is not done again while OUT holds its file; a seed
# that was stopped goes on from its last checkpoint while OUT/work is there. Exit code 3: out of time with work left, call it again.
#
# CARRY=DIR     folder of build.sh, with llm-train.xz and run.sh (target/cuda/carry), and with TESTS=1 gpu-tests.xz
# LLM=COMMAND   another way to run llm-train
# BUDGET=540    seconds of a stage
# SEEDS="0 1"   seeds of learn (0 1 2 3 4 5; thirty: 0)
# METHODS=...   methods of learn, as llm-train compare takes them
# COMMIT=...    the commit, where there is no git
# PYTHON=...    the python3 that has torch
# PRETRAINED=DIR  of pretrained: SmolLM2-135M-Instruct.Q4_1.gguf in pieces (split -b 33M MODEL.gguf DIR/smollm2.gguf.) with SHA256 of the whole, and
#               wheels of numpy, gguf, ml_dtypes, safetensors and tokenizers where the card's Python lacks them
# GSM8K=FILE    of pretrained: rows with worked answers
#
# --rehearse    every stage on a machine without a card: kernels on the PTX machine of the tests, benchmarks of true size counted by a dry
#               run, training in miniature on the CPU, tools of CUDA left out of their commands. Its numbers mean nothing; its files say so.
#               At the end every file is shown.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
stage=${1:-} out=${2:-} mode=${3:-}
usage() { sed -n '2,36p' "$0" >&2; exit 2; }
[ -n "$stage" ] && [ -n "$out" ] || usage
case $mode in '') rehearse= ;; --rehearse) rehearse=1 ;; *) usage ;; esac

mkdir -p "$out/work"
out=$(cd "$out" && pwd)
cd "$root"
python=${PYTHON:-python3}
started=$SECONDS
budget=${BUDGET:-540}
commit=${COMMIT:-$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)}
carry=${CARRY:-target/cuda/carry}
failures=0

if [ -n "$rehearse" ]; then
  card="REHEARSAL on a CPU: no measurement"
  llm=${LLM:-target/debug/llm-train}
  device=dry
else
  card=$(nvidia-smi -i 0 --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | sed 's/, /, driver /') || card="unknown card"
  llm=${LLM:-bash $carry/run.sh}
  device=cuda
fi

left() { echo $((budget - (SECONDS - started))); }
say() { echo "[$((SECONDS - started)) s] $*" >&2; }
out_of_time() { say "out of time; the same command goes on"; exit 3; }
in_time() { [ "$(left)" -gt 20 ] || out_of_time; }
head_of() { echo "$card, commit $commit: $*"; }
failed() { say "$*; the stage goes on without it"; failures=$((failures + 1)); }

# Runs a command that prints a JSON line, and keeps the line. keep FILE COMMAND...
keep() {
  local file=$1
  shift
  if [ -s "$file" ]; then say "$(basename "$file") is there"; return; fi
  in_time
  say "$*"
  local status=0
  timeout "$(left)" "$@" >"$file.log" 2>"$file.err" || status=$?
  cat "$file.log" >&2
  if [ $status = 124 ]; then out_of_time; fi
  if [ $status != 0 ]; then
    tail -n 5 "$file.err" >&2
    failed "failed with $status"
    return
  fi
  grep '^{' "$file.log" | tail -n 1 >"$file.part"
  mv "$file.part" "$file"
}

# llm-train gpu-check on the PTX machine, as CSV: substitutes take the places of the driver, NVRTC and cuBLAS. rehearsed FILE HEAD
rehearsed() {
  local cuda=$out/work/cuda
  in_time
  { cargo build --quiet --features cuda --package llm-train && cargo run --quiet --package grpo-lambda-ptx --example libraries "$cuda"; } >&2 ||
    { failed "the machine cannot be built"; return; }
  LD_LIBRARY_PATH=$cuda GRPO_LAMBDA_CACHE=$out/work/cache timeout "$(left)" target/debug/llm-train gpu-check ${only:+--only "$only"} --csv "$1" --head "$2" >&2 ||
    failed "the PTX machine failed"
}

# Kernels at small sizes, with a command before llm-train, or none. small_check FILE HEAD [COMMAND...]
small_check() {
  local file=$1 head=$2
  shift 2
  if [ -n "$rehearse" ]; then rehearsed "$file" "$head"; else
    timeout "$(left)" "$@" $llm gpu-check ${only:+--only "$only"} --csv "$file" --head "$head" >&2
  fi
}

# A step of a published shape on random weights. shape NAME MODEL ARGUMENTS...
shape() {
  local name=$1 model=$2
  shift 2
  keep "$out/work/bench/$name.json" $llm bench "$model" --device $device --prompt-tokens 256 "$@"
}

collect_bench() { $python "$here/collect.py" "$out/gpu_bench.csv" --head "$(head_of "llm-train bench")" "$out"/work/bench/*.json; }

# The tests that need a card, where build.sh packed them with TESTS=1.
card_tests() {
  if [ -n "$rehearse" ]; then
    timeout "$(left)" cargo test --quiet --package grpo-lambda-gpu --test gpu keeps_the_contract >&2 || failed "the contract of devices failed"
  elif [ -e "$carry/gpu-tests.xz" ]; then
    timeout "$(left)" bash "$carry/run.sh" gpu-tests card --ignored >&2 || failed "the tests that need a card failed"
  else
    say "no $carry/gpu-tests.xz: the tests that need a card are left out; TESTS=1 llm/gpu/build.sh packs them"
  fi
}

quick() {
  small_check "$out/gpu_quick.csv" "$(head_of "llm-train gpu-check")"
  in_time
  card_tests
  mkdir -p "$out/work/bench"
  if [ ! -s "$out/work/bench/quick.json" ]; then watched shape quick qwen2.5-math-1.5b --steps 2 --warmup 1; fi
  collect_bench
}

# Runs a command and writes down the most that was in use of the card meanwhile, by its driver, asked five times a second.
watched() {
  local used=$out/work/used.mib watcher=
  echo 0 >"$used"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits -lms 200 >>"$used" &
    watcher=$!
    trap "kill $watcher 2>/dev/null || true" EXIT
  fi
  "$@"
  [ -z "$watcher" ] || kill "$watcher"
  { echo "# $(head_of "nvidia-smi while llm-train bench ran")"; echo "figure,MiB"; echo "most in use,$(sort -n "$used" | tail -n 1)"; } >"$out/gpu_memory.csv"
}

# compute-sanitizer, or in a rehearsal what it is asked to run.
sanitized() {
  local tool=$1
  shift
  if [ -n "$rehearse" ]; then "$@"; echo "========= ERROR SUMMARY: rehearsed without $tool" >&2; return; fi
  "$@" compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 9
}

# What a tool of compute-sanitizer says of the small sizes, of one kernel or of all. checked TOOL [KERNEL]
checked() {
  local name=$1${2:+-$2} only=${2:-} status=0
  sanitized "$1" small_check "$out/work/$name.csv" "$(head_of "$name")" 2>"$out/work/$name.log" || status=$?
  # The tool sums up in its last line.
  echo "$1,${2:-all},$status,\"$(grep '========= .*SUMMARY' "$out/work/$name.log" | tail -n 1 | sed 's/^=* *//; s/"//g')\"" >"$out/work/$name.row"
}

memory() {
  local file=$out/gpu_sanitizer.csv kernel kernels
  if [ -z "$rehearse" ] && ! command -v compute-sanitizer >/dev/null; then say "no compute-sanitizer here: nothing is checked"; return; fi
  in_time
  kernels=$(sed -n 's/^KERNEL([0-9]*, \([a-z_]*\)).*/\1/p' llm/crates/gpu/src/kernels/*.cu)
  [ -z "$rehearse" ] || kernels=rms_norm
  rm -f "$out"/work/*.row
  # Nothing is timed, so several run next to each other. racecheck of all kernels in one process takes many minutes.
  checked memcheck &
  checked synccheck &
  for kernel in $kernels; do
    [ "$(jobs -rp | wc -l)" -lt 8 ] || wait -n || true
    checked racecheck "$kernel" &
  done
  wait
  { echo "# $(head_of "compute-sanitizer, llm-train gpu-check")"; echo "tool,kernel,exit,verdict"; sort "$out"/work/*.row; } >"$file"
  cat "$file" >&2
}

profile() {
  local file=$out/gpu_profile.csv
  if [ -z "$rehearse" ] && ! command -v ncu >/dev/null; then say "no Nsight Compute here: nothing is profiled"; return; fi
  local metrics=gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed,launch__registers_per_thread,sm__warps_active.avg.pct_of_peak_sustained_active
  in_time
  echo "# $(head_of "ncu, llm-train bench")" >"$file"
  [ -z "$rehearse" ] || { say "rehearsed without ncu"; return; }
  # Where counters need rights that are not given, ncu says so and the stage goes on.
  timeout "$(left)" ncu --target-processes all --csv --clock-control none --metrics "$metrics" $llm bench qwen2.5-math-1.5b --device cuda --steps 1 --warmup 0 \
    --completion 8 2>"$out/work/ncu.err" | grep '^"' >>"$file" || { tail -n 2 "$out/work/ncu.err" >&2; failed "ncu failed"; }
}

bench() {
  mkdir -p "$out/work/bench"
  # Table 2 of the paper: 8 x 8 responses, 256 + 256 tokens, KL to a frozen reference. Then twice as many, both ways with the layers, longer
  # responses, 3B with its optimiser in both memories, and 7B as an adapter.
  local step=(--steps 3 --warmup 1) model=qwen2.5-math-1.5b
  shape $model $model "${step[@]}" --completion 256 memory.recompute_layers=true
  shape $model-kept $model "${step[@]}" --completion 256 memory.recompute_layers=false
  shape $model-128 $model "${step[@]}" --completion 256 --prompts 16
  shape $model-1024 $model "${step[@]}" --completion 1024
  shape qwen2.5-3b qwen2.5-3b "${step[@]}" --completion 256
  shape qwen2.5-3b-host qwen2.5-3b "${step[@]}" --completion 256 memory.optimiser=host
  shape qwen2.5-7b-lora r1-distill-qwen-7b --preset paper-r1-qwen-7b --lora "${step[@]}" --completion 768
  collect_bench
}

# Settings of a run of gpu-learn that a CPU can take.
miniature=(model.hidden=16 model.layers=1 model.heads=2 model.kv_heads=1 model.intermediate=32 'task.levels=[1]' task.max_operand=3
  sft.batch=4 sft.warmup=1 rl.prompts_per_step=2 rl.group_size=4 rl.warmup=1 rl.max_new_tokens=16)

steps() {
  local run=$out/work/steps status=0 settings=(device=cuda dtype=bf16 sft.steps=200 rl.steps=20 eval.n=100)
  if [ -n "$rehearse" ]; then settings=(device=cpu sft.steps=4 rl.steps=3 eval.n=4 "${miniature[@]}"); fi
  settings+=(eval.every=0 checkpoint.every=1000 method.name=grpo_lambda method.clamp=none)
  in_time
  timeout -s INT -k 15 "$(left)" $llm train --preset gpu-learn --run "$run" "${settings[@]}" >&2 || status=$?
  case $status in 0) ;; 124 | 130 | 137) out_of_time ;; *) failed "training failed with $status"; return ;; esac
  $python "$here/learn.py" steps "$run" "$out/gpu_steps.csv" --head "$(head_of "llm-train train --preset gpu-learn ${settings[*]}")" ||
    failed "something is clipped on-policy"
}

learn() {
  local methods=${METHODS:-grpo,grpo_lambda:style=recent,update=trace,grpo_lambda:style=both,update=trace,grpo_lambda:style=recent,update=trace,clamp=none}
  local preset=gpu-learn settings=(device=cuda dtype=bf16)
  if [ -n "$rehearse" ]; then
    settings=("${miniature[@]}" sft.steps=4 rl.steps=2 eval.n=4 eval.every=1 checkpoint.every=2)
  fi
  for seed in ${SEEDS:-0 1 2 3 4 5}; do
    local run=$out/work/learn/seed-$seed file=$out/gpu_learn_seed-$seed.csv
    if [ -s "$file" ]; then say "seed $seed is there"; continue; fi
    in_time
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
  local work=$out/work/torch args=(--shape qwen2.5-math-1.5b --prompts 8 --recompute) ours=$out/work/bench/qwen2.5-math-1.5b.json
  mkdir -p "$work"
  if [ -n "$rehearse" ]; then
    export OMP_NUM_THREADS=1
    args=(--shape tiny --device cpu --prompt-tokens 8 --completion 8 --steps 1 --warmup 1)
    ours=$out/work/tiny.json
    local run=$out/work/bench-model
    [ -d "$run" ] || $llm train --preset tiny --run "$run" model.hidden=32 model.layers=2 model.intermediate=64 model.heads=2 sft.steps=2 rl.steps=0 eval.n=4 >&2
    keep "$ours" $llm bench "$run" --device cpu --steps 1 --warmup 0 --prompts 2 --group 8 --completion 8 --prompt-tokens 8
    if ! $python -c 'import torch' 2>/dev/null; then
      say "no torch here: the peer is not rehearsed; PYTHON names a python3 that has it"
      return
    fi
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

# The checkpoint from its pieces, in OUT/work/smollm2; in a rehearsal without pieces a model in miniature.
pretrained_model() {
  local model=$out/work/smollm2 gguf=$out/work/smollm2.gguf site=$out/work/site
  [ ! -e "$model/config.json" ] || return 0
  if [ -z "${PRETRAINED:-}" ]; then
    [ -n "$rehearse" ] || { say "PRETRAINED names no folder with the model's pieces"; return 1; }
    $llm train --preset tiny --run "$out/work/bench-model" model.hidden=32 model.layers=2 model.intermediate=64 model.heads=2 sft.steps=2 rl.steps=0 eval.n=4 >&2
    $llm export --model "$out/work/bench-model" --out "$model" >&2
    return
  fi
  cat "$PRETRAINED"/smollm2.gguf.* >"$gguf"
  [ "$(sha256sum <"$gguf" | cut -d' ' -f1)" = "$(cut -d' ' -f1 "$PRETRAINED/SHA256")" ] || { say "$PRETRAINED: the pieces are not the whole of SHA256"; return 1; }
  mkdir -p "$site"
  for wheel in "$PRETRAINED"/*.whl; do [ ! -e "$wheel" ] || $python -m zipfile -e "$wheel" "$site"; done
  # By its path alone, because its folder has files of the names of packages.
  PYTHONPATH=$site:${PYTHONPATH:-} $python -c 'import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name="__main__")' \
    bindings/python/python/grpo_lambda/gguf.py "$gguf" "$model" >&2
}

# One supervised step and the answers to 98 held-out problems, on the CPU in f32 and on the card in f32 and bf16: loss, gradient, accuracy, equal answers.
pretrained_proof() {
  local kind run all=() settings=(sft.steps=1 sft.batch=16 sft.lr=1e-12 rl.max_new_tokens=40 "$@")
  for kind in cpu-f32 cuda-f32 cuda-bf16; do
    run=$out/work/proof/$kind
    all+=("$run")
    [ ! -e "$run/summary.json" ] || continue
    in_time
    local where=(device="${kind%-*}" dtype="${kind#*-}")
    [ -z "$rehearse" ] || where=(device=cpu)
    local status=0
    timeout -s INT -k 15 "$(left)" $llm sft --preset smollm2 --run "$run" "model.checkpoint=$out/work/smollm2" "${settings[@]}" "${where[@]}" >&2 || status=$?
    case $status in 0) ;; 124 | 130 | 137) out_of_time ;; *) failed "the proof on $kind failed with $status"; return ;; esac
    rm -rf "$run/checkpoints"
  done
  $python "$here/learn.py" proof "$out/gpu_pretrained_proof.csv" "${all[@]}" --head "$(head_of "llm-train sft --preset smollm2 ${settings[*]}")" || failed "the card disagrees with the CPU"
}

# Parts of at most BUDGET seconds: the same command goes on. llm/gpu/README.md has the seconds of each, counted before.
pretrained() {
  local protocol=paper/protocols/pretrained.toml also=(device=cuda dtype=bf16) small=() method run status
  local speed=(--prompts 8 --group 8 --prompt-tokens 64 --completion 64 --steps 5 --warmup 2)
  if [ -n "$rehearse" ]; then
    also=(device=cpu) small=(--small) speed=(--prompts 1 --group 2 --prompt-tokens 8 --completion 8 --steps 1 --warmup 1)
    [ -n "${PRETRAINED:-}" ] || also+=(task.template=line)
  fi
  pretrained_model
  pretrained_proof "${also[@]:1}"
  in_time
  status=0
  timeout -k 15 "$(left)" $python llm/scripts/pretrained.py run $protocol "$out/work/pretrained" --program "$llm" --checkpoint "$out/work/smollm2" \
    --also "${also[*]}" "${small[@]}" >&2 || status=$?
  $python llm/scripts/pretrained.py rows $protocol "$out/work/pretrained" "$out/gpu_pretrained_runs.csv" "${small[@]}" >&2
  case $status in 0) ;; 124 | 137) out_of_time ;; *) failed "the runs failed with $status" ;; esac
  mkdir -p "$out/work/speed"
  keep "$out/work/speed/ours.json" $llm bench "$out/work/smollm2" --device $device "${speed[@]}"
  if $python -c 'import torch' 2>/dev/null; then
    keep "$out/work/speed/torch.json" $python "$here/torch_step.py" --shape "$([ -n "$rehearse" ] && echo tiny || echo smollm2)" --device "$([ -n "$rehearse" ] && echo cpu || echo cuda)" "${speed[@]}"
  else
    say "no torch here: PYTHON names a python3 that has it"
  fi
  $python "$here/collect.py" "$out/gpu_pretrained_speed.csv" --head "$(head_of "bench and torch_step.py ${speed[*]}")" "$out"/work/speed/*.json
  if [ -z "${GSM8K:-}" ]; then say "no GSM8K: its runs are left out"; return; fi
  for method in grpo grpo_lambda; do
    run=$out/work/gsm8k-$method
    [ ! -e "$run/end.json" ] || continue
    in_time
    local settings=("task.data=$GSM8K" rl.max_new_tokens=512 rl.steps=100 eval.every=25 checkpoint.every=10 "method.name=$method" "${also[@]}")
    [ -z "$rehearse" ] || settings+=(rl.max_new_tokens=8 rl.steps=1 rl.prompts_per_step=1 eval.n=4)
    status=0
    timeout -s INT -k 15 "$(left)" $llm train --preset smollm2 --run "$run" "model.checkpoint=$out/work/smollm2" "${settings[@]}" >&2 || status=$?
    case $status in 0) cp "$run/metrics.csv" "$out/gpu_pretrained_gsm8k_$method.csv" ;; 124 | 130 | 137) out_of_time ;; *) failed "GSM8K with $method failed with $status" ;; esac
  done
}

# Stages with their seconds. A stage that is out of time or fails does not keep the others from their share. each NAME:SECONDS...
each() {
  local one begun
  for one in "$@"; do
    begun=$SECONDS
    BUDGET=${one#*:} "$0" "${one%:*}" "$out" ${mode:+"$mode"} || failed "stage ${one%:*} ended with $?"
    say "stage ${one%:*} took $((SECONDS - begun)) s of ${one#*:}"
  done
}

# Every file with its length and its first lines.
show() {
  local file
  for file in "$out"/*.csv; do
    echo "== $(basename "$file"): $(wc -l <"$file") lines"
    head -n 4 "$file" | cut -c 1-160
  done
}

case $stage in
  pretrained | quick | memory | check | bench | profile | steps | torch | learn) "$stage" ;;
  thirty)
    export SEEDS=${SEEDS:-0}
    each quick:90 memory:150 check:240 bench:300 profile:240 steps:60 torch:100 learn:180
    [ -z "$rehearse" ] || show
    ;;
  all)
    forever=${BUDGET:-1000000}
    each quick:"$forever" memory:"$forever" check:"$forever" bench:"$forever" profile:"$forever" steps:"$forever" torch:"$forever" learn:"$forever"
    ;;
  *) usage ;;
esac
[ "$failures" = 0 ] || { say "$failures of the stage's parts failed"; exit 1; }
say "$stage: done"
