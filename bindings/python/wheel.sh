#!/usr/bin/env bash
# wheel.sh [--all | TARGET..] - builds wheels for publication, each for CPython 3.10 and later, from Linux, and their checksums, in dist.
# Without targets: that of this machine. --all: every one below that can be built here; a line names each that cannot, and why.
#
# A target's standard library comes first: rustup target add TARGET.
#   {x86_64,aarch64}-unknown-linux-gnu    glibc 2.17 or later        zig links
#   {x86_64,aarch64}-unknown-linux-musl   musl 1.2 or later          zig links
#   {x86_64,aarch64}-apple-darwin         macOS 10.12 or 11 on arm   zig links, without Apple's SDK
#   x86_64-pc-windows-gnu                 Windows                    mingw-w64 links (Debian: gcc-mingw-w64-x86-64)
set -euo pipefail
cd "$(dirname "$0")"
# Why a target cannot be built here; empty if it can.
missing() {
  if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$1" ]; then
    echo "its standard library is not installed; run rustup target add $1"
  elif [[ $1 = *-windows-gnu ]] && ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
    echo "x86_64-w64-mingw32-gcc is missing; install mingw-w64"
  fi
}

[ $# -gt 0 ] || set -- "$(rustc -vV | sed -n 's/^host: //p')"
if [ "$1" = --all ]; then
  set --
  for target in {x86_64,aarch64}-{unknown-linux-gnu,unknown-linux-musl,apple-darwin} x86_64-pc-windows-gnu; do
    why=$(missing "$target")
    [ -n "$why" ] && echo "wheel.sh: $target: not built: $why" >&2 || set -- "$@" "$target"
  done
fi
for target in "$@"; do
  why=$(missing "$target")
  if [ -n "$why" ]; then
    echo "wheel.sh: $target: $why" >&2
    exit 2
  fi
done
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet 'maturin>=1.16,<2' ziglang

# maturin 1.16 lists the module under its dotted name, which no symbol has: the linker gets the list with its last part alone.
mingw() {
  local gcc=x86_64-w64-mingw32-gcc
  mkdir -p "$venv/mingw"
  printf '#!/bin/sh\nfor a; do case $a in *.def) sed -i "s/PyInit_.*\\\\./PyInit_/" "$a";; esac; done\nexec %s "$@"\n' \
    "$(command -v "$gcc")" >"$venv/mingw/$gcc"
  chmod +x "$venv/mingw/$gcc"
  export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$venv/mingw/$gcc
}

for target in "$@"; do
  case $target in
    *-linux-gnu) options=(--zig --compatibility manylinux2014) ;;
    *-linux-musl) options=(--zig --compatibility musllinux_1_2) ;;
    *-apple-darwin) options=(--zig) ;;
    *-windows-gnu) options=(); mingw ;;
    *) echo "wheel.sh: $target: not one of the targets that this script builds; see its head" >&2; exit 2 ;;
  esac
  PATH="$venv/bin:$PATH" maturin build --release --target "$target" ${options[@]+"${options[@]}"} --out dist
done
(cd dist && sha256sum -- *.whl >SHA256SUMS)
