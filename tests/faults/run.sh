#!/usr/bin/env bash
# Breaks runs in every way that docs/promises.md names, and counts what was lost: tests/faults/run.sh [--size quick|round|double] [CLASS..]
#
# LLM_TRAIN, SIM and MODEL_SERVER name the programs; without them the debug build is made. `--help` lists the classes and options.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v strace >/dev/null; then
  apt-get update -qq && apt-get install -y -qq strace
fi
if [ -z "${LLM_TRAIN:-}" ] || [ -z "${SIM:-}" ] || [ -z "${MODEL_SERVER:-}" ]; then
  (cd "$here/../.." && cargo build --quiet --bin llm-train --bin sim && cargo build --quiet -p grpo-lambda-engines --example model_server)
  target=${CARGO_TARGET_DIR:-$here/../../target}
  export LLM_TRAIN=${LLM_TRAIN:-$target/debug/llm-train} SIM=${SIM:-$target/debug/sim} MODEL_SERVER=${MODEL_SERVER:-$target/debug/examples/model_server}
fi
exec python3 "$here/main.py" "$@"
