#!/usr/bin/env bash
# wheel.sh [TARGET..] - builds wheels for publication: CPython 3.10 and later, Linux with glibc 2.17 or later, which zig links against.
#
# Without targets: that of this machine. For the other of the two usual ones: rustup target add aarch64-unknown-linux-gnu, then
# wheel.sh aarch64-unknown-linux-gnu.
set -euo pipefail
cd "$(dirname "$0")"
[ $# -gt 0 ] || set -- "$(rustc -vV | sed -n 's/^host: //p')"
for target in "$@"; do
  if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    echo "wheel.sh: $target: its standard library is not installed; run rustup target add $target" >&2
    exit 2
  fi
done
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet 'maturin>=1.16,<2' ziglang
for target in "$@"; do
  PATH="$venv/bin:$PATH" maturin build --release --zig --target "$target" --compatibility manylinux2014 --out dist
done
