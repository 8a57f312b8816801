#!/usr/bin/env bash
# Two gateways of a cluster with three members of etcd, and a gateway as their peer: one is stopped,
# is killed, reloaded, stands still and comes back, is cut off from the store, and the store's
# leader is killed. Each time a gateway goes on with the same SAs, no sequence number is seen twice
# on the wire, and the peer refuses no packet as a replay. Needs root.
# usage: cluster.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
# Longer than a machine takes a core away, so that only what is tested has the lead move.
LEASE_S=${LEASE_S:-4}
source tests/cluster/lib.sh
cluster

stop() { end_process "${gateways[1]}"; moves 2; }
under "g1 is stopped" stop
gateway 1
wait_until "g1 does not come back" ready 1 2
stands_by 1 || fail "a gateway that comes back takes over"

killed() { kill_and_wait "${gateways[2]}"; moves 1; }
under "g2 is killed" killed
wait_until "the killed gateway's processes do not end" ended 2
gateway 2
wait_until "g2 does not come back" ready 2 2

wait_until "show cluster does not tell who leads" said 2 \
  "len(cluster['members']) == 2 and cluster['groups'][0]['leader'] == 'g1'"
said 1 "cluster['groups'][0]['is_led'] and cluster['groups'][0]['sas'] == 1" || fail "show cluster"
! "$convoy" explain 10.1.0.100 10.2.0.1 --control "$work/g2.sock" >"$work/explained" ||
  fail "a gateway that stands by explains a packet as sent: $(cat "$work/explained")"
grep -q '^! .*this gateway does not lead the group .* of its cluster: g1 leads it' "$work/explained" ||
  fail "explain does not say who leads: $(cat "$work/explained")"

# A tunnel more, and then the first one with other selectors and the same keys.
reload() { "$convoy" reload --control "$work/g1.sock"; }
reloaded() {
  cp "$work/g1.toml" "$work/g1.before"
  python3 tests/cluster/configure.py --tunnel 2 >>"$work/g1.toml"
  reload >"$work/reload.log"
  sed -i 's|"10.1.0.0/24"|"10.1.0.0/25"|' "$work/g1.toml"
  reload >>"$work/reload.log"
  mv "$work/g1.before" "$work/g1.toml"
  reload >>"$work/reload.log"
}
under "g1 is reloaded three times" reloaded
for line in "1 added, 0 removed, 1 unchanged" "2 added, 2 removed, 0 unchanged" "1 added, 2 removed, 0 unchanged"; do
  grep -q "$line" "$work/reload.log" || fail "no reload of '$line': $(cat "$work/reload.log")"
done
wait_until "the tunnel is not up after a reload" answers

# shellcheck disable=SC2046
frozen() { stop_process $(of 1); moves 2; }
under "all of g1 stands still" frozen
sleep $((4 * LEASE_S))
# shellcheck disable=SC2046
kill -CONT $(of 1)
wait_until "g1 does not stand by" stands_by 1
wait_until "the tunnel is not up" answers

cut() { unplug 2 mgmt; moves 1; }
under "g2 is cut off from the store" cut
plug 2 mgmt
wait_until "g2 keeps the address" stands_by 2

without_leader() { kill_and_wait "${etcds[$(store_leader)]}"; sleep $((4 * LEASE_S)); }
under "the store's leader is killed" without_leader
wait_until "the tunnel is not up after the store's leader was killed" answers

no_doubles
none_refused
