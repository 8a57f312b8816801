#!/usr/bin/env bash
# The same tunnel with every outer packet: ESP in UDP and native ESP, IPv4 and IPv6. Needs root.
# usage: outer.sh CONVOY PORT OUTER
set -euo pipefail
convoy=$(realpath "$1") PORT=$2 OUTER=$3
source "$(dirname "$0")/../demo/sites.sh"
source "$(dirname "$0")/pings.sh"
for host in 10.2.0.1 fd00:2::1; do
  for size in 0 56 1200; do
    IN="ip netns exec $a" pings "$work/ping.log" 3 -s $size $host || { cat "$work/ping.log" "$work"/?.log >&2; exit 1; }
  done
done
ip netns exec $b python3 -m http.server 8000 --directory "$work" --bind 10.2.0.1 >/dev/null 2>&1 & running+=($!)
head -c 3000000 /dev/urandom >"$work/file"
for _ in $(seq 30); do ip netns exec $b curl -s -o /dev/null http://10.2.0.1:8000/ && break; sleep 0.1; done
ip netns exec $a curl -s -m 20 -o "$work/copy" http://10.2.0.1:8000/file
cmp "$work/file" "$work/copy"
if [ -n "${UDP_PORT:-}" ]; then
  ip netns exec $a ss -Hlun "sport = :$UDP_PORT" | grep -q . || { echo "nothing listens on UDP port $UDP_PORT" >&2; exit 1; }
fi
echo "outer $PORT over IPv$OUTER: 18 pings answered, 3,000,000 bytes over HTTP the same"
