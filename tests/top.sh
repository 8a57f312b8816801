#!/usr/bin/env bash
# `convoy top` in tmux at 80x24 and 200x50, over a gateway with traffic: what it shows is held
# against `convoy show --json`. Needs root.
# usage: top.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
TUNNELS=4 WORKERS=2
source demo/sites.sh
end_tmux() { for socket in "$work"/tmux-*; do tmux -S "$socket" kill-server 2>/dev/null || true; done; }
at_exit end_tmux

for t in 0 1 2; do
  pings "$work/ping.log" $a 3 10.2.$t.1 || fail "no pings through tunnel $t"
done
# Three tunnels with rates far apart, and one without packets.
start ping-0.log $a ping -q -i 0.01 -s 1000 10.2.0.1
start ping-1.log $a ping -q -i 0.05 -s 500 10.2.1.1
start ping-2.log $a ping -q -i 0.2 -s 100 10.2.2.1
# Junk that is dropped at the first site: ESP with an SPI of no SA.
ip netns exec $b python3 - <<'JUNK'
import socket
junk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(7):
    junk.sendto(bytes.fromhex("0badcafe00000001") + bytes(64), ("192.0.2.1", 4500))
JUNK
gateway=${gateways[0]}
again="ip netns exec $a $convoy run -c $work/site-1.toml"
python3 tests/top.py "$convoy" "$work/site-1.sock" "$work" "$gateway" "$again" || fail "see above"
