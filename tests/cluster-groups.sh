#!/usr/bin/env bash
# Two groups of tunnels spread over two gateways of a cluster: each gateway leads one; one is
# killed, and the other leads both; it comes back, and is given its group again. No number of a
# packet comes twice. Needs root.
# usage: cluster-groups.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source tests/cluster/lib.sh

network
store
CLUSTER='rebalance_s = 2' python3 tests/cluster/configure.py "$work" 0 1 "${endpoints[@]}"
# By their names, g1 ranks first for the group "east", and g2 for "west".
tunnel() { # name group local remote spi
  local out in; out=$(random_key); in=$(random_key)
  for g in 1 2; do
    cat >>"$work/g$g.toml" <<CONF
[[group]]
name = "$2"
addresses = ["10.1.0.${3##*.}/24 dev lan", "$3/24 dev wan"]
[[tunnel]]
name = "$1"
group = "$2"
local = "$3"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["$4/32"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = 0x1${5}
spi_out = 0x2${5}
key_in = "$in"
key_out = "$out"
CONF
  done
  cat >>"$work/peer.toml" <<CONF
[[tunnel]]
name = "$1"
local = "192.0.2.2"
remote = "$3"
local_ts = ["$4/32"]
remote_ts = ["10.1.0.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = 0x2${5}
spi_out = 0x1${5}
key_in = "$out"
key_out = "$in"
CONF
}
for g in 1 2; do sed -i "/^addresses = /d; s/^priority = .*/priority = 100/" "$work/g$g.toml"; done
tunnel one east 192.0.2.10 10.2.0.1 001
tunnel two west 192.0.2.20 10.2.0.2 002
peer
# The host sends to each network by the leader of its group.
ip -n cl-host route add 10.2.0.1/32 via 10.1.0.10
ip -n cl-host route add 10.2.0.2/32 via 10.1.0.20
for last in 10 20; do start_capture "outside-$last" cl-peer wan -s 64 src "192.0.2.$last" and udp port 4500; done
has() { [ -n "$(ip -n "cl-g$1" -o addr show dev wan to "192.0.2.$2")" ]; } # gateway address
spread() { has 1 10 && ! has 2 10 && has 2 20 && ! has 1 20; }
reaches() { ip netns exec cl-host ping -q -c 1 -W 1 "10.2.0.$1"; } # tunnel
gateway 1
wait_until "g1 does not lead both groups" has 1 20
gateway 2
wait_until "the groups are not spread" spread
for n in 1 2; do wait_until "tunnel $n is not up" reaches $n; done

# tested COMMAND...: pings through both tunnels all the while.
tested() {
  local n
  for n in 1 2; do ip netns exec cl-host ping -D -i 0.02 "10.2.0.$n" >"$work/pings-$n" 2>&1 & pings[n]=$!; done
  sleep 0.5
  "$@"
  for n in 1 2; do wait_until "tunnel $n is not up again" reaches $n; done
  sleep 0.5
  kill -INT "${pings[@]}"; wait "${pings[@]}" 2>/dev/null || true
  for n in 1 2; do
    echo "$(tail -n 2 "$work/pings-$n" | head -n 1) (tunnel $n)"
  done
}
pings=()
killed() { kill_and_wait "${gateways[2]}"; wait_until "g1 does not lead the group of g2" has 1 20; }
echo "g2 is killed:"; tested killed
wait_until "g2's processes do not end" ended 2
back() { gateway 2; wait_until "g2 is not given its group" spread; }
echo "g2 comes back, and is given its group:"; tested back
"$convoy" show cluster --control "$work/g1.sock"

end_capture outside-10 outside-20
for last in 10 20; do
  python3 tests/cluster/doubles.py "$work/outside-$last.pcap" "192.0.2.$last" --json >"$work/doubles"
  python3 -c "import json, sys; sys.exit(json.load(open('$work/doubles'))['twice'] != [])" ||
    fail "sequence numbers of 192.0.2.$last came twice: $(cat "$work/doubles")"
done
none_refused
