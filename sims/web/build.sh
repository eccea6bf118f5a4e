#!/usr/bin/env bash
# Builds docs/explorer.html, or the file named.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
out="${1:-$root/docs/explorer.html}"

for tool in cargo node npm; do
  command -v "$tool" >/dev/null || { echo "build.sh: $tool is missing" >&2; exit 1; }
done
"$here/wasm.sh"
[ -d "$here/node_modules/esbuild" ] || (cd "$here" && npm ci --no-audit --no-fund --silent)
node "$here/bundle.mjs" "$root/target/web/wasm" "$out"
