#!/usr/bin/env bash
# Runs every fuzz target for so many seconds; a crash is an error and its input stays in fuzz/artifacts.
# usage: run.sh SECONDS [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1; shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(headers inbound outbound configuration control ike)
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz
# Sanitizers are not on the stable channel; this lets the same compiler use them.
export RUSTC_BOOTSTRAP=1
for target in "${targets[@]}"; do
  echo "=== $target, $seconds s"
  cargo fuzz run "$target" -- -max_total_time="$seconds" -max_len=4096 -print_final_stats=1 2>&1 |
    grep -E 'stat::|panicked|ERROR|Assertion|assertion' || true
  [ -z "$(ls "fuzz/artifacts/$target" 2>/dev/null)" ] || { echo "a crash: fuzz/artifacts/$target" >&2; exit 1; }
done
