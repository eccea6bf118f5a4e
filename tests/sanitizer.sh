#!/usr/bin/env bash
# Runs the tests of the decoder, whose arithmetic holds the `unsafe` of the CPU, under AddressSanitizer: what reads or writes next to its memory ends the
# run with the place. Needs a nightly toolchain (NIGHTLY names another than `nightly`). miri cannot run the vector instructions; where the toolchain has
# it, it runs the rest: the unit tests of the grader's arithmetic.
set -euo pipefail
cd "$(dirname "$0")/.."
nightly=${NIGHTLY:-nightly}
target=$(rustc -vV | sed -n 's/^host: //p')
if ! rustc "+$nightly" --version >/dev/null 2>&1; then
  echo "sanitizer.sh: no toolchain named $nightly: rustup toolchain install $nightly" >&2
  exit 1
fi
export CARGO_TARGET_DIR=target/sanitizer
RUSTFLAGS="-Zsanitizer=address" cargo "+$nightly" test -p grpo-lambda-decoder --target "$target" --lib --tests
if cargo "+$nightly" miri --version >/dev/null 2>&1; then
  MIRIFLAGS="-Zmiri-disable-isolation" cargo "+$nightly" miri test -p grpo-lambda-grade --lib
else
  echo "miri is not part of $nightly here and was left out"
fi
