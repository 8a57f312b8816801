#!/usr/bin/env bash
# Several times the packets that two gateways can carry: ten times if the sender is fast enough, and
# at least three times. Goodput stays the same, memory does not grow, and afterwards pings are
# answered at once. A modelled engine limits the gateways, so that the sender has cores to spare.
# Needs root.
# usage: overload.sh CONVOY PORT
set -euo pipefail
convoy=$(realpath "$1") PORT=$2
cd "$(dirname "$0")/.."
IN_LAB=1 EXTRA='[[engine]]
kind = "model"
t_init_us = 1.0
t_block_ns = 20000.0
depth = 10'
source demo/sites.sh
cc -O2 -o "$work/blast" bench/peers/blast.c
python3 tests/overload.py "$work/blast" "$a" "$b" "${gateways[@]}" || fail "see above"
