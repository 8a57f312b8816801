#!/usr/bin/env bash
# Two gateways of a cluster with three members of etcd, and a gateway as their peer: one is stopped,
# drained, killed, stands still and comes back, is cut off from the store or from the inside, and
# the store loses its leader and its majority. Each time a gateway goes on with the same SAs, no
# sequence number is seen twice on the wire, and the peer refuses no packet as a replay. Needs root.
# usage: cluster.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source tests/cluster/lib.sh

to_peer=$(key 20) from_peer=$(key 20)
cat >"$work/tunnels.toml" <<CONF
[[tunnel]]
name = "peer"
local = "192.0.2.10"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.2.0.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = 0x1001
spi_out = 0x1002
key_in = "$from_peer"
key_out = "$to_peer"
CONF
# The peer: a gateway that is in no cluster.
cat >"$work/peer.toml" <<CONF
[gateway]
control = "$work/peer.sock"
state = ""
user = "root"
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.2.0.1/24"]
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.2"]
[[tunnel]]
name = "cluster"
local = "192.0.2.2"
remote = "192.0.2.10"
local_ts = ["10.2.0.0/24"]
remote_ts = ["10.1.0.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = 0x1002
spi_out = 0x1001
key_in = "$to_peer"
key_out = "$from_peer"
CONF
start peer.log cl-peer "$convoy" run -c "$work/peer.toml"

refused() { # what the peer refused of the cluster's packets
  "$convoy" show stats --json --control "$work/peer.sock" | python3 -c '
import json, sys
print({reason: count for reason, count in dict(json.load(sys.stdin)["drops"]).items() if reason in ("replayed", "integrity_failed", "unknown_spi")} or "")'
}
for g in 1 2; do configure $g; done
capture
both
wait_for "the tunnel is not up" answers
said() { "$convoy" show cluster --json --control "$work/g$1.sock" | python3 -c "import json, sys; cluster = json.load(sys.stdin); sys.exit(not ($2))"; }
wait_for "show cluster does not tell who leads" said 2 "len(cluster['members']) == 2 and cluster['groups'][0]['leader'] == 'g1'"
said 1 "cluster['groups'][0]['is_led'] and cluster['groups'][0]['sas'] == 1 and cluster['is_store_reached']" || fail "show cluster of the leader"

stop() { kill "${gateways[1]}"; moves 2; }
echo "g1 is stopped: $(under stop)"
gateway 1
wait_for "g1 does not come back" ready 1 2
! leads 1 || fail "a gateway that comes back takes over"

killed() { kill -9 "${gateways[2]}"; moves 1; }
echo "g2 is killed: $(under killed)"
wait "${gateways[2]}" 2>/dev/null || true
wait_for "the killed gateway's processes do not end" ended 2
gateway 2
wait_for "g2 does not come back" ready 2 2

drained() { "$convoy" drain --control "$work/g1.sock" >"$work/drain.log"; moves 2; }
echo "g1 is drained: $(under drained)"
grep -q "group tunnels: g2" "$work/drain.log" || fail "drain does not tell who leads: $(cat "$work/drain.log")"
"$convoy" drain --undo --control "$work/g1.sock" >/dev/null

inside_cut() { ip -n cl-switch link set cl-g2-lan down; moves 1; }
echo "g2 is cut off from the inside: $(under inside_cut)"
ip -n cl-switch link set cl-g2-lan up
wait_for "g2 does not serve again" said 2 "not cluster['is_draining']"

# A reload under traffic: a tunnel more, and then with other selectors and the same keys.
reloaded() {
  sed 's/name = "peer"/name = "second"/; s/10\.2\.0\.0/10.3.0.0/; s/0x100/0x200/; s/"'"$to_peer"'"/"'"$(key 20)"'"/; s/"'"$from_peer"'"/"'"$(key 20)"'"/' \
    "$work/tunnels.toml" >>"$work/g1.toml"
  "$convoy" reload --control "$work/g1.sock" >"$work/reload.log"
  sed -i 's/10\.2\.0\.0\/24/10.2.0.0\/25/' "$work/g1.toml"
  "$convoy" reload --control "$work/g1.sock" >>"$work/reload.log"
}
echo "g1 is reloaded twice: $(under reloaded)"
grep -q "1 added, 0 removed, 1 unchanged" "$work/reload.log" || fail "the first reload: $(cat "$work/reload.log")"
grep -q "1 added, 1 removed, 1 unchanged" "$work/reload.log" || fail "the second reload: $(cat "$work/reload.log")"
wait_for "the tunnel is not up after a reload" answers

frozen() { kill -STOP $(of 1); moves 2; }
echo "all of g1 stands still: $(under frozen)"
sleep 4
kill -CONT $(of 1)
wait_for "g1 does not stand by" sh -c "! ip -n cl-g1 addr show dev wan | grep -q '192\.0\.2\.10/'"
wait_for "the tunnel is not up" answers

cut() { ip -n cl-g2 link set mgmt down; moves 1; }
echo "g2 is cut off from the store: $(under cut)"
ip -n cl-g2 link set mgmt up
wait_for "g2 keeps the address" sh -c "! ip -n cl-g2 addr show dev wan | grep -q '192\.0\.2\.10/'"

# Without a majority nobody knows who leads: everything stops, and goes on when it is back.
silent() { ! answers; }
no_quorum() {
  kill -STOP "${etcds[1]}" "${etcds[2]}"
  wait_for "a gateway goes on without a majority of the store" silent
  kill -CONT "${etcds[1]}" "${etcds[2]}"
  wait_for "the tunnel is not up when the store is back" answers
}
echo "the store has no majority for some seconds: $(under no_quorum)"

leader() { etcdctl endpoint status 2>/dev/null | awk -F'[:,]' '/true/ { print substr($3, 4); exit }'; }
without_leader() { local n; n=$(leader); kill -9 "${etcds[$n]}"; sleep 4; }
echo "the store's leader is killed: $(under without_leader)"
wait_for "the tunnel is not up after the store's leader was killed" answers

both_killed() { kill -9 "${gateways[@]}"; sleep 0.5; gateway 1; gateway 2; wait_for "the tunnel is not up after both were killed" answers; }
echo "both gateways are killed and started again: $(under both_killed)"

python3 tests/cluster/doubles.py "$work/outside.pcap" 192.0.2.10 0x1002 || fail "sequence numbers came twice"
[ -z "$(refused)" ] || fail "the peer refused packets: $(refused)"
