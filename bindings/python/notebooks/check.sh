#!/usr/bin/env bash
# Runs the notebook from top to bottom, in place, and the course. PYTHON names an interpreter with this package and notebooks/requirements.txt of the repository.
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-python3}
if ! "$python" -c 'import nbconvert, ipykernel, grpo_lambda' 2>/dev/null; then
  echo "check.sh: $python lacks grpo_lambda or packages of notebooks/requirements.txt; name one with both: PYTHON=.venv/bin/python $0" >&2
  exit 2
fi
"$python" -m nbconvert --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False --log-level=WARN check_your_trainer.ipynb
git diff --stat -- check_your_trainer.ipynb
# The one with a real model, where trl and the model are there.
export SMOLLM2=${SMOLLM2:-$PWD/../../../smollm2}
if "$python" -c 'import trl' 2>/dev/null && [ -f "$SMOLLM2/config.json" ]; then
  "$python" -m nbconvert --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False --log-level=WARN real_model.ipynb
else
  echo "check.sh: real_model.ipynb is not run: it needs trl, and a checkpoint in \$SMOLLM2 (docs/real-model.md, section 1)" >&2
fi
# The course, which is made of its pages: it runs, and its stored output is theirs.
"$python" -m nbconvert --to notebook --execute --stdout --log-level=WARN ../../../docs/learn/course.ipynb >/dev/null
