#!/usr/bin/env bash
# Compares convoy's simulator with the same queue model in SimPy and SystemC: whether they agree,
# and how fast each one is.
# usage: run.sh ["CONVOY sim run"]    without it, the two baselines only
# PACKETS (500000), SLOW_PACKETS (50000, SimPy's), SETTINGS (100) and SEED (1) are taken from the
# environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=bench/simulator out=target/bench-simulator python=target/bench-venv/bin/python
: "${PACKETS:=500000}" "${SLOW_PACKETS:=50000}" "${SETTINGS:=100}" "${SEED:=1}"

scripts/install.sh bench
mkdir -p $out
g++ -O3 -march=native -std=c++17 -Wall -Wextra -o $out/systemc_model $here/systemc_model.cpp -lsystemc
$python $here/traces.py $out/uniform.txt --packets "$PACKETS" --sas 100 --shortest 0 --longest 1960 --seed "$SEED"
$python $here/agree.py --systemc $out/systemc_model --convoy "${1:-}" --settings "$SETTINGS" --seed "$SEED"
$python $here/compare.py $out/uniform.txt --packets "$PACKETS" --slow-packets "$SLOW_PACKETS" \
  --systemc $out/systemc_model --convoy "${1:-}"
