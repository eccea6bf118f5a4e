#!/usr/bin/env bash
# run.sh [--list] - packs the published libraries as `cargo publish` would and prints the size of each package. Without --list it then tests a crate per
# library outside this tree, which depends on the packed files alone and runs the examples of the library's README, and runs the packed example.
set -euo pipefail
cd "$(dirname "$0")/../.."
libraries=(grpo-lambda grpo-lambda-conventions grpo-lambda-decoder grpo-lambda-grade grpo-lambda-mdp grpo-lambda-stats)
target=${CARGO_TARGET_DIR:-$PWD/target}
rm -rf "$target/package"
# Not compiled here: the crates below are.
cargo package --quiet --no-verify --allow-dirty "${libraries[@]/#/-p}"
for file in "$target"/package/*.crate; do
  printf '%8d bytes  %s\n' "$(stat -c %s "$file")" "$(basename "$file")"
done
[ "${1:-}" = --list ] && exit

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$target"/package/*.crate; do tar -xzf "$file" -C "$work"; done
version=$(basename "$work"/grpo-lambda-mdp-*); version=${version##*-}
patch="[patch.crates-io]"
for library in "${libraries[@]}"; do
  patch+=$'\n'"$library = { path = \"$work/$library-$version\" }"
  fresh=$work/fresh/$library
  mkdir -p "$fresh/src"
  readme=$work/$library-$version/README.md
  [ -e "$readme" ] || readme=$work/$library-$version/src/README.md
  printf '#![doc = include_str!("%s")]\n' "$readme" >"$fresh/src/lib.rs"
  printf '[package]\nname = "fresh-%s"\nversion = "0.0.0"\nedition = "2024"\n[dependencies]\ngrpo-lambda = "%s"\n' "$library" "$version" >"$fresh/Cargo.toml"
  [ "$library" = grpo-lambda ] || printf '%s = "%s"\n' "$library" "$version" >>"$fresh/Cargo.toml"
done
printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n%s\n' "$patch" >"$work/fresh/Cargo.toml"
export CARGO_TARGET_DIR=$target/fresh
(cd "$work/fresh" && cargo test --quiet --workspace --doc)
(cd "$work/grpo-lambda-$version" && cargo run --quiet --example own_method)
