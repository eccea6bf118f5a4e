#!/usr/bin/env bash
# Damages the input of every reader and writes paper/data/fuzz.csv: `tests/fuzzer/run.sh 1000000` tries so many of each, SEED=N others.
# A reader may have its own number: `tests/fuzzer/run.sh 1000000 groups=5000000`. Readers that keep a file per input are slower by far.
set -euo pipefail
cd "$(dirname "$0")/../.."
times=${1:-100000}
shift || true
table=$(mktemp)
export GRPO_LAMBDA_FUZZ_TABLE=$table GRPO_LAMBDA_FUZZ_SEED=${SEED:-0}

# Package, where its tests are, the tests.
readers=(
  "grpo-lambda-sims --test=commands fuzz::mdp_files"
  "grpo-lambda-sims --test=commands fuzz::groups"
  "grpo-lambda-sims --test=commands fuzz::numbers_of_another_trainer"
  "grpo-lambda-engines --test=engines fuzz::answers_of_vllm"
  "grpo-lambda-llm --test=llm fuzz::configurations"
  "grpo-lambda-llm --test=llm fuzz::chat_templates"
  "grpo-lambda-llm --test=llm fuzz::parts_of_a_model"
  "grpo-lambda-llm --test=llm fuzz::data_sets"
  "grpo-lambda-llm --test=llm fuzz::manifests_and_logs"
)
for reader in "${readers[@]}"; do
  read -r package place name <<<"$reader"
  own=$times
  for word in "$@"; do
    [ "${word%%=*}" = "${name##*::}" ] && own=${word#*=}
  done
  GRPO_LAMBDA_FUZZ=$own cargo test --quiet -p "$package" "$place" "$name" -- --nocapture --test-threads=1
done
{
  echo "# tests/fuzzer/run.sh $times $*; the grader's own runs stand in llm/crates/grade/tests/pool/README.md" | sed 's/ ;/;/'
  echo "reader,inputs,first_input,refused,seconds,slowest_ms,slowest_input"
  cat "$table"
} > paper/data/fuzz.csv
rm "$table"
