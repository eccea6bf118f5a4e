#!/usr/bin/env bash
# The page in a headless browser against the command line and the native functions; and whether the committed page is the one that is built.
# SIM names a built `sim`, and NATIVE the built example `native` of this crate, which `cargo test-all` tests and builds; without them they are built.
# SHOTS=DIR also takes pictures of every view.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
cd "$root"

# Only what is missing: Debian's npm does not go with a node from elsewhere.
missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
[ -x "${CHROMIUM:-/usr/bin/chromium}" ] || missing+=(chromium)
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq && apt-get install -y -qq "${missing[@]}"
fi
if [ -z "${SIM:-}" ]; then
  cargo build --quiet -p grpo-lambda-sim
  SIM="$root/target/debug/sim"
fi
if [ -z "${NATIVE:-}" ]; then
  cargo test --quiet -p grpo-lambda-web --lib
  # NATIVE_PROFILE=release compares times; the values are the same.
  profile="${NATIVE_PROFILE:-dev}"
  cargo build --quiet -p grpo-lambda-web --example native --profile "$profile"
  NATIVE="$root/target/${profile/dev/debug}/examples/native"
fi

built="$root/target/web/explorer.html"
sims/web/build.sh "$built"
used="$(rustc --version), node $(node --version)"
recorded="$(cat "$here/toolchain.txt")"
if [ "$used" != "$recorded" ]; then
  echo "the committed page was built by $recorded; this is $used, so that its bytes are not compared"
elif cmp --quiet "$built" docs/explorer.html; then
  echo "docs/explorer.html is the page that is built"
else
  echo "docs/explorer.html is not the page that is built: run sims/web/build.sh and commit it" >&2
  exit 1
fi
node sims/web/tests/page.mjs "$built" "$SIM" "$NATIVE"
if [ -n "${SHOTS:-}" ]; then node sims/web/tests/shots.mjs "$built" "$SHOTS"; fi
