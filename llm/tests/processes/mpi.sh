#!/usr/bin/env bash
# mpi.sh [RESULT] - what `mpirun llm-train` promises, with real processes of MPI; writes what it saw to RESULT (mpi.txt beside this script).
# Installs Open MPI and libclang where they are missing (Debian's packages, as root), and builds llm-train with the feature mpi.
# MODE=debug uses the development build. About two minutes, and the time of the build.
set -euo pipefail
cd "$(dirname "$0")/../../.."
result=$(realpath -m "${1:-llm/tests/processes/mpi.txt}")
mode=${MODE:-release}

if ! command -v mpirun >/dev/null || ! command -v mpicc >/dev/null || ! command -v clang >/dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends libopenmpi-dev openmpi-bin libclang-dev clang
fi
flags=(); [ "$mode" = release ] && flags=(--release)
# A folder of its own, so that builds with and without the feature do not undo each other.
target=${TARGET:-target/mpi}
cargo build "${flags[@]}" -p llm-train --bin llm-train --features mpi --target-dir "$target"
train=$PWD/$target/$mode/llm-train
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exec > >(tee "$work/result") 2>&1
writer=$!

# Open MPI refuses root and more processes than cores unless told; bound to one core each, two processes of one machine would starve.
launch=(mpirun --oversubscribe --bind-to none)
[ "$(id -u)" = 0 ] && launch+=(--allow-run-as-root)
settings=(shards=4 threads=1 model.hidden=32 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=48 task.kind=addition
  sft.steps=20 sft.batch=12 rl.steps="${STEPS:-30}" rl.prompts_per_step=4 rl.group_size=6 rl.max_new_tokens=24 rl.inner_updates=2
  reward.accuracy=0 reward.coin=1 method.name=grpo_lambda method.beta=0.04 eval.n=8 eval.every=10 checkpoint.every=5 checkpoint.keep=2 device=cpu)
last=$(printf 'step-%08d' $((20 + ${STEPS:-30})))
run() { # PROCESSES DIRECTORY
  "${launch[@]}" -n "$1" "$train" train --quiet --run "$2" "${settings[@]}" >"$work/out" 2>"$work/err" || { cat "$work/err"; return 1; }
}
sums() { # the log and the last checkpoint, without the manifest, which counts the bytes of timing.csv
  (cd "$1" && sha256sum metrics.jsonl samples.jsonl "checkpoints/$last"/{*.safetensors,optimiser.state,state.json,reference/*})
}
steps_of() { if [ -e "$1/metrics.jsonl" ]; then wc -l <"$1/metrics.jsonl"; else echo 0; fi; }
say() { printf '%s\n' "$*"; }
fail() { say "FAILED: $*"; exit 1; }

say "$("$train" --version)"; mpirun --version | head -1; say "shards=4; $(nproc) cores"
say
say "== the bits of one, two, three and four processes"
"$train" train --quiet --run "$work/alone" "${settings[@]}" >/dev/null 2>"$work/err" || { cat "$work/err"; exit 1; }
sums "$work/alone" | tee "$work/expected"
for n in 2 3 4; do
  run $n "$work/n$n"
  sums "$work/n$n" | cmp - "$work/expected" || fail "$n processes end in other bytes"
  say "$n processes: the same bytes"
done
[ "$(ls "$work/n2")" = "$(ls "$work/alone")" ] || fail "another run folder"

say
say "== a process that is killed ends all, named; the same command with another number goes on"
for pair in "2 2 3" "3 1 2" "4 3 1"; do
  read -r n which again <<<"$pair"
  dir=$work/killed$n$which
  STEPS_DONE=$((22 + n))
  "${launch[@]}" -n "$n" "$train" train --quiet --run "$dir" "${settings[@]}" >"$work/out" 2>"$work/err" & team=$!
  until [ -d "$dir/checkpoints" ] && [ "$(steps_of "$dir")" -ge "$STEPS_DONE" ]; do
    kill -0 $team 2>/dev/null || fail "the run was over before its process could be killed; set STEPS higher"
    sleep 0.05
  done
  kill -9 "$(pgrep -P "$team" llm-train | sed -n "${which}p")"
  since=$SECONDS; code=0; wait "$team" || code=$?
  [ "$code" != 0 ] || fail "a killed process did not end the run"
  grep -o 'process rank [0-9]* .*signal 9 (Killed)' "$work/err" | sed 's/ with PID [0-9]* on node [^ ]*//' || { cat "$work/err"; fail "nobody says which process died"; }
  pgrep -f "$dir" >/dev/null && fail "processes are left"
  say "  $n processes, killed number $which: all ended within $((SECONDS - since + 1)) s, exit code $code"
  if [ "$again" = 1 ]; then "$train" train --quiet --run "$dir" "${settings[@]}" >/dev/null 2>&1; else run "$again" "$dir"; fi
  sums "$dir" | cmp - "$work/expected" || fail "continued with $again processes, it ends in other bytes"
  say "  continued with $again: the same bytes"
done

say
say "== a process that hangs is given up by name"
for pair in "2 1" "4 2"; do
  read -r n rank <<<"$pair"
  dir=$work/hangs$n
  "${launch[@]}" -n "$n" "$train" train --quiet --patience 4 --run "$dir" "${settings[@]}" >"$work/out" 2>"$work/err" & team=$!
  until [ "$(steps_of "$dir")" -ge 23 ]; do sleep 0.05; done
  hung=$(pgrep -P "$team" llm-train | sed -n "$((rank + 1))p")
  kill -STOP "$hung"
  since=$SECONDS; code=0; wait "$team" || code=$?
  # The leader waits four seconds, a worker that waits for another three.
  grep -m1 "llm-train: error: process $rank has not answered" "$work/err" || { cat "$work/err"; fail "nobody says which process hangs"; }
  kill -0 "$hung" 2>/dev/null && { kill -9 "$hung"; say "  (mpirun left the stopped process)"; }
  say "  $n processes, stopped rank $rank: ended within $((SECONDS - since + 1)) s after it stopped, exit code $code"
done

say
say "== what is refused"
refused() { "$@" >/dev/null 2>"$work/err" && fail "$* was taken"; grep -m1 '^llm-train: error' "$work/err"; }
refused "${launch[@]}" -n 2 "$train" train --run "$work/no" "${settings[@]/shards=4/shards=1}"
refused env WORLD_SIZE=2 "$train" train --run "$work/no" "${settings[@]}"
[ ! -e "$work/no" ] || fail "a refused run left a folder"

say
say "all passed"
exec >/dev/null 2>&1
wait "$writer"
cp "$work/result" "$result"
