#!/usr/bin/env bash
# Builds the wheel for publication: CPython 3.10 and later, Linux with glibc 2.17 or later, which zig links against.
set -euo pipefail
cd "$(dirname "$0")"
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet 'maturin>=1.16,<2' ziglang
target=$(rustc -vV | sed -n 's/^host: //p')
PATH="$venv/bin:$PATH" maturin build --release --zig --target "$target" --compatibility manylinux2014 --out dist
