#!/usr/bin/env bash
# The same tunnel with every outer packet: ESP in UDP and native ESP, IPv4 and IPv6. Needs root.
# usage: outer.sh CONVOY PORT OUTER
set -euo pipefail
convoy=$(realpath "$1") PORT=$2 OUTER=$3
source "$(dirname "$0")/../demo/sites.sh"
for host in 10.2.0.1 fd00:2::1; do
  for size in 0 56 1200; do
    pings "$work/ping.log" $a 3 -s $size $host || fail "pings of $size bytes to $host are not answered: $(cat "$work/ping.log")"
  done
done
serve_files $b "$work" 8000 10.2.0.1
head -c 3000000 /dev/urandom >"$work/file"
ip netns exec $a curl -s -m $PATIENCE -o "$work/copy" http://10.2.0.1:8000/file
cmp "$work/file" "$work/copy"
if [ -n "${UDP_PORT:-}" ]; then
  ip netns exec $a ss -Hlun "sport = :$UDP_PORT" | contains . || fail "nothing listens on UDP port $UDP_PORT"
fi
echo "outer $PORT over IPv$OUTER: 18 pings answered, 3,000,000 bytes over HTTP the same"
