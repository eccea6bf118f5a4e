#!/usr/bin/env bash
# Runs the notebooks again, top to bottom and in place, and says which of them changed.
# Needs notebooks/requirements.txt; PYTHON=.venv/bin/python names an interpreter that has it.
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-python3}
case $python in */*) python=$(cd .. && realpath -s "$python") ;; esac

if ! "$python" -c 'import nbconvert, ipykernel, pandas, matplotlib' 2>/dev/null; then
  echo "check.sh: $python has not what notebooks/requirements.txt lists; name one that has: PYTHON=.venv/bin/python $0" >&2
  exit 2
fi
"$python" -B test_data.py
"$python" -m nbconvert --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False --log-level=WARN ./*.ipynb
git diff --stat -- ./*.ipynb
