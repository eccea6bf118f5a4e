#!/usr/bin/env bash
# Builds the package and tests it in a fresh environment against the binary `sim` that SIM names; without SIM it builds one.
set -euo pipefail
cd "$(dirname "$0")"
if [ -z "${SIM:-}" ]; then
  (cd ../.. && cargo build --quiet --bin sim)
  SIM=$(cd ../.. && pwd)/${CARGO_TARGET_DIR:-target}/debug/sim
fi
export SIM
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet 'maturin>=1.16,<2' numpy pytest gguf ml_dtypes safetensors tokenizers
# Builds reuse compiled dependencies; the environment is fresh.
PATH="$venv/bin:$PATH" maturin build --quiet --profile dev --out "$venv/dist"
"$venv/bin/pip" install --quiet --no-deps "$venv"/dist/*.whl
"$venv/bin/python" -m pytest -q "$@"
