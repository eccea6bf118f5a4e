#!/usr/bin/env bash
# build.sh [FOLDER] - llm-train for CUDA cards, in one command; stripped and packed in FOLDER (target/cuda/carry) with run.sh next to it.
#
# To build: cargo and a C linker. Nothing of CUDA is needed, and none of it is linked: its libraries are opened when the program runs.
# To run on a card: an NVIDIA driver and the runtime libraries libcublas and libnvrtc of CUDA 13 (driver R580 or newer) or CUDA 12
# (R525 or newer). Any CUDA toolkit has them; without one, `pip install nvidia-cublas nvidia-cuda-nvrtc` does. The card must have compute
# capability 7.5 or newer (CUDA 12: 5.0), for bf16 8.0. A machine that lacks any of this runs the same program on its CPU.
# On a machine that builds and trains, `cargo build --release --features cuda --bin llm-train` is all there is to it.
#
# TARGET=DIR           where cargo builds; its own folder, so that builds with and without CUDA do not undo each other
# FEATURES=cuda,candle and with candle, for gpu-check --against candle
# TESTS=1              also the tests of the GPU code, as FOLDER/gpu-tests: run.sh gpu-tests card --ignored
set -euo pipefail
cd "$(dirname "$0")/../.."
features=${FEATURES:-cuda}
target=${TARGET:-target/cuda}
folder=${1:-$target/carry}

cargo build --release --package llm-train --features "$features" --bin llm-train --target-dir "$target"
mkdir -p "$folder"

pack() { # FILE NAME
  strip -o "$folder/$2" "$1"
  xz -9 -T0 --force "$folder/$2"
  echo "$folder/$2.xz: $(stat -c %s "$folder/$2.xz") bytes; $(stat -c %s "$1") before stripping and packing"
}
pack "$target/release/llm-train" llm-train

if [ -n "${TESTS:-}" ]; then
  built=$(cargo test --release --package grpo-lambda-gpu --features cuda --test gpu --target-dir "$target" --no-run 2>&1 | tee /dev/stderr)
  pack "$(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' <<<"$built" | tail -n 1)" gpu-tests
fi
cp llm/gpu/run.sh "$folder/"

echo "opened by the linker: $(readelf -d "$target/release/llm-train" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | paste -sd ' ')"
echo "glibc needed, at least: $(objdump -T "$target/release/llm-train" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)"
echo "carry $folder to the machine with the card; there: bash run.sh train device=cuda"
