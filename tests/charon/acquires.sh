#!/usr/bin/env bash
# 100,000 flows match a trap policy whose peer does not answer, while another tunnel is used: charon
# gets few requests, memory stays bounded, and the other tunnel loses nothing. Needs root.
# usage: acquires.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2") A=convoy-acquire-a B=convoy-acquire-b
source "$(dirname "$0")/lib.sh"

resident() { awk '/VmRSS/ { print $2 }' "/proc/$1/status"; } # process, in KiB
stat_of() { show stats a | python3 -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."):
    value = value.get(name, 0)
print(value)' "$1"; }

namespaces
gateway_conf a '"192.0.2.1"' '[[tunnel]]
name = "away"
local = "192.0.2.1"
remote = "192.0.2.99"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.99.0.0/16"]
esp_proposal = "aes128gcm16"'
gateway_conf b '"192.0.2.2"'
for side in a b; do
  strongswan $side "$with_convoy"
  start_gateway $side; [ $side = b ] || gateway=$gateway_pid
  start_charon $side
done
connection a 192.0.2.1 192.0.2.2 "encap = yes" "esp_proposals = aes128gcm16"
connection b 192.0.2.2 192.0.2.1 "encap = yes" "esp_proposals = aes128gcm16"
cat >>"$work/a/swanctl.conf" <<'CONF'
connections { away { version = 2
  local_addrs = 192.0.2.1
  remote_addrs = 192.0.2.99
  local { auth = psk
    id = a.example }
  remote { auth = psk
    id = absent.example }
  children { away { local_ts = 10.1.0.0/24
    remote_ts = 10.99.0.0/16
    esp_proposals = aes128gcm16
    start_action = trap } } } }
CONF
load a; load b; up a
# The queue holds the whole flood, in case the gateway has no core for a while.
ip -n $A link set convoy0 txqueuelen 100000
before=$(resident "$gateway")
began=$SECONDS
ip netns exec $A python3 - <<'FLOOD' & flood=$!
import socket, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.bind(("10.1.0.1", 0))
for flow in range(100_000):
    if flow % 20 == 0:
        time.sleep(0.002)
    out.sendto(b"flow", (f"10.99.{flow >> 8 & 255}.{flow & 255}", 1 + flow // 65_536))
FLOOD
ip netns exec $A ping -i 0.2 -c 40 -w "$PATIENCE" -I 10.1.0.1 10.2.0.1 >"$work/ping" 2>&1 || true
wait "$flood" || fail "the flood ended early"
after=$(resident "$gateway") acquires=$(stat_of charon.acquires) lost=$(stat_of drops.outbound_no_sa)
none_lost "$work/ping" 40 || fail "pings of the other tunnel: $(tail -3 "$work/ping")"
[ $((after - before)) -lt 65536 ] || fail "the gateway grew from $before to $after KiB"
[ "$lost" -gt 50000 ] || fail "only $lost packets without an SA were counted"
# At most once a second.
[ "$acquires" -ge 1 ] && [ "$acquires" -le $((SECONDS - began + 2)) ] || fail "charon was asked $acquires times"
down a
echo "100,000 flows to a trap: charon asked $acquires times, $lost packets dropped and counted, 40 of 40 pings in the other tunnel, memory $before -> $after KiB"
