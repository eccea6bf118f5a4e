#!/usr/bin/env bash
# Feeds random groups to TRL, verl, rlax and this package, and writes paper/data/conformance.csv and docs/agreement.md.
# VENV names an environment to keep and reuse; without it, one is made and removed (6 GB: torch brings its libraries for cards).
# Arguments go to compare.py: `run.sh --batches 10 --seed 7 verl`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
if [ -z "${VENV:-}" ]; then
  VENV=$(mktemp -d)
  trap 'rm -rf "$VENV"' EXIT
fi
"${PYTHON:-python3}" -m venv "$VENV"
"$VENV/bin/pip" install --quiet -r "$here/requirements.txt" numpy 'maturin>=1.16,<2'
(cd "$here/.." && PATH="$VENV/bin:$PATH" maturin build --quiet --profile dev --out "$VENV/dist")
"$VENV/bin/pip" install --quiet --no-deps --force-reinstall "$VENV"/dist/*.whl
# Offline, and without a card.
export HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES="" TRL_EXPERIMENTAL_SILENCE=1 JAX_PLATFORMS=cpu
cd "$here"
"$VENV/bin/python" compare.py --csv "$root/paper/data/conformance.csv" --page "$root/docs/agreement.md" "$@"
