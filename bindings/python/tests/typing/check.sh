#!/usr/bin/env bash
# Checks the stubs with mypy and pyright, in a fresh environment; the package needs not be built.
set -euo pipefail
cd "$(dirname "$0")"
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet mypy pyright numpy
# The sources stand for the installed package.
(cd ../../python && pwd) >"$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/sources.pth"
"$venv/bin/mypy" --strict --cache-dir "$venv/cache" accepted.py
"$venv/bin/pyright" --pythonpath "$venv/bin/python" accepted.py
refused() { # NAME COMMAND.. : the command finds the five errors of refused.py
  local found
  found=$("${@:2}" refused.py | grep -c 'refused.py:[0-9:]* .*error' || true)
  [ "$found" = 5 ] || { echo "$1 refuses $found of the 5 lines of refused.py" >&2; exit 1; }
}
refused mypy "$venv/bin/mypy" --cache-dir "$venv/cache"
refused pyright "$venv/bin/pyright" --pythonpath "$venv/bin/python"
