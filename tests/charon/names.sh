#!/usr/bin/env bash
# A peer of charon's that is given by name, in swanctl.conf and in the gateway's configuration: it
# comes back with another address, which charon finds by DPD and the name, and the gateway leaves
# the new address out of the routes, with no restart. Another peer whose name does not exist keeps
# only its own connection down. A stock charon is the peer. Needs root.
# usage: names.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
A=convoy-name-a B=convoy-name-b
RETRIES=2
source "$here/lib.sh"
# `ip netns exec` has what is in this folder stand in /etc.
at_exit rm -rf /etc/netns/$A
mkdir -p /etc/netns/$A
echo 'nameserver 127.0.0.1' >/etc/netns/$A/resolv.conf
namespaces
ip -n $B addr add 10.2.0.1/24 dev lo
echo 'b.example 2 192.0.2.2' >"$work/records"
ip netns exec $A python3 "$here/../dns.py" "$work/records" >"$work/dns" 2>&1 &
wait_until "the name server does not start" grep -q listening "$work/dns"

REMOTE=b.example gateway_conf a '"192.0.2.1"'
sed -i 's|^remote_ts = .*|remote_ts = ["10.2.0.0/24", "192.0.2.0/27"]|' "$work/a/gateway.toml"
cat >>"$work/a/gateway.toml" <<'CONF'
[[tunnel]]
name = "dead"
remote = "dead.example"
remote_ts = ["10.9.0.0/24"]
CONF
start_gateway a
strongswan a "$with_convoy"; strongswan b "$stock"
connection a 192.0.2.1 b.example "encap = yes
  dpd_delay = 1s" "esp_proposals = aes128gcm16
    dpd_action = trap
    start_action = trap"
cat >>"$work/a/swanctl.conf" <<'CONF'
connections { dead { version = 2
  local_addrs = 192.0.2.1
  remote_addrs = dead.example
  local { auth = psk
    id = a.example }
  remote { auth = psk
    id = dead.example }
  children { dead { local_ts = 10.1.0.0/24
    remote_ts = 10.9.0.0/24
    start_action = trap } } } }
CONF
peer() { # address
  connection b "$1" 192.0.2.1 "encap = yes" "esp_proposals = aes128gcm16"
  start_charon b; load b
  peer_pid=$charon_pid
}
peer 192.0.2.2
start_charon a; load a
answered() { ip netns exec $A ping -q -c 1 -W 1 -I 10.1.0.1 10.2.0.1; }
is_known() { show name | python3 -c 'import json, sys
rows = {row["tunnel"]: row for row in json.load(sys.stdin)}
sys.exit(rows["net"]["address"] != sys.argv[1] or rows["dead"]["problem"] != "there is no such name")' "$1"; }
wait_until "the first packets set up no tunnel" answered
wait_until "the gateway does not know the peer's address" is_known 192.0.2.2
ip netns exec $A ping -c 1 -W 1 -I 10.1.0.1 10.9.0.1 >/dev/null && fail "the peer without an address answers"

kill_and_wait "$peer_pid"
ip netns pids $B | xargs -r kill -9 2>/dev/null || true
ip -n $B addr del 192.0.2.2/24 dev vb; ip -n $B addr add 192.0.2.22/24 dev vb
echo 'b.example 2 192.0.2.22' >"$work/records"
peer 192.0.2.22
wait_until "the gateway does not follow the name" is_known 192.0.2.22
grep -q 'INFO.*the peer has moved from 192.0.2.2 to 192.0.2.22: b.example has changed' "$work/a/convoy.log" || fail "the log does not tell that the peer has moved"
left_out() { [[ $(ip -n $A route show table 4500) == *"throw 192.0.2.22"* ]]; }
wait_until "the peer's new address is not left out of the routes" left_out
wait_until "the peer is not reached at its new address" answered
kill -0 "$gateway_pid" || fail "the gateway has ended"
show sa | contains '"remote": "192.0.2.22"' || fail "the SAs are elsewhere: $(show sa)"
echo "ok: charon and the gateway follow b.example from 192.0.2.2 to 192.0.2.22; dead.example keeps its own connection down"
