#!/usr/bin/env bash
# The laboratory as WebAssembly with the JavaScript that calls it, in target/web/.
set -euo pipefail
cd "$(dirname "$0")/../.."

rustup target list --installed | grep -qx wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown
# Panic messages name files: by paths that do not depend on who builds.
remap="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$(rustc --print sysroot)=rust"
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$remap" \
  cargo build -p grpo-lambda-web --profile web --target wasm32-unknown-unknown --lib
mkdir -p target/web
cargo run --quiet --manifest-path sims/web/bindgen/Cargo.toml --target-dir target/web/bindgen -- \
  target/wasm32-unknown-unknown/web/grpo_lambda_web.wasm target/web/wasm
ls -l target/web/wasm
