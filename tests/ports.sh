#!/usr/bin/env bash
# The cost of ports as ratios: CPU of an idle gateway, and system calls per packet of TCP and UDP
# through two gateways, counted by the kernel's tracepoints and compared with the gateways' own
# counters. Needs root.
# usage: ports.sh CONVOY PORT [held]
# With "held": the cost of packets that wait in the window for others (max_wait_us).
set -euo pipefail
convoy=$(realpath "$1") PORT=$2
traffics=(tcp udp "lone packets")
if [ "${3:-}" = held ]; then
  traffics=("held packets")
  EXTRA=$'[scheduler]\nmax_wait_us = 300'
fi
cd "$(dirname "$0")/.."
source demo/sites.sh
python3 tests/ports.py idle "${gateways[@]}" || fail "an idle gateway is not idle"

start iperf.log $b iperf3 -s
wait_for_port $b 5201 -t
for traffic in "${traffics[@]}"; do
  # Much less than two gateways carry in a test build, so that nothing is lost; 40 datagrams at a
  # time.
  case $traffic in
    tcp) arguments=() ;;
    udp) arguments=(-u -b 80M/40 -l 1000) ;;
    *) arguments=(-u -b 8M -l 1000) ;;
  esac
  python3 tests/ports.py count "$PORT" "$traffic" "$convoy" "$work" "${gateways[@]}" -- \
    ip netns exec $a iperf3 -c 10.2.0.1 -t 3 "${arguments[@]}" || fail "too many system calls"
done
