#!/usr/bin/env bash
# Builds the documentation site in target/site/html and checks its links: pages, report, atlas, course, explorer, API of Rust and Python.
# SITE_VENV names an environment with docs/site/requirements.txt and the wheel; without it one is made under target/site.
set -euo pipefail
cd "$(dirname "$0")/.."
site=$PWD/target/site
mkdir -p "$site"
if [ -z "${SITE_VENV:-}" ]; then
  SITE_VENV=$site/venv
  [ -e "$SITE_VENV/made" ] || { "${PYTHON:-python3}" -m venv "$SITE_VENV" && "$SITE_VENV/bin/pip" install -q -r docs/site/requirements.txt && touch "$SITE_VENV/made"; }
  "$SITE_VENV/bin/pip" install -q ./bindings/python
fi
python=$SITE_VENV/bin/python

"$python" docs/site/stage.py . "$site/pages"
cargo build --quiet -p grpo-lambda-sims -p llm-train
"$python" docs/site/commands.py target/debug/grpo-sim target/debug/llm-train > "$site/pages/docs/commands.md"
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml

cargo doc --quiet --no-deps -p grpo-lambda -p grpo-lambda-mdp -p grpo-lambda-stats -p grpo-lambda-conventions -p grpo-lambda-grade -p grpo-lambda-decoder
mkdir -p "$site/html/api"
cp -r target/doc "$site/html/api/rust"
"$python" -m pdoc --output-directory "$site/html/api/python" grpo_lambda
"$python" docs/site/check_links.py "$site/html"
echo "python3 -m http.server --directory $site/html"
