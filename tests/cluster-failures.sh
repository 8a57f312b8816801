#!/usr/bin/env bash
# What a cluster of two gateways outlives beside what cluster.sh has: cut cables inside and outside,
# an etcd without a majority, both gateways killed at once, and `convoy drain`. Each time packets
# pass again, no sequence number is seen twice on the wire, and the peer refuses nothing. Needs
# root.
# usage: cluster-failures.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source tests/cluster/lib.sh
cluster
starts=([1]=1 [2]=1)
begin_again() { # gateway
  wait_until "the processes of g$1 do not end" ended "$1"
  gateway "$1"
  starts[$1]=$((starts[$1] + 1))
  wait_until "g$1 does not come back" ready "$1" "${starts[$1]}"
}
# Not one of some pings is answered.
silent() { ! ip netns exec cl-host ping -q -c 5 -i 0.2 -W 1 10.2.0.1 >/dev/null; }

# A program that has no `convoy drain` does not look at carriers either: traffic then waits for the
# cable.
drains() { "$convoy" drain --help >/dev/null 2>&1; }
cable_cut() { # gateway device
  unplug "$1" "$2"
  if drains; then moves $((3 - $1)); else sleep 2; fi
}
cable_mended() { # gateway device
  plug "$1" "$2"
  wait_until "the tunnel is not up after the cable $2 was cut" answers
}
under "the inside cable of g1 is cut" cable_cut 1 lan
cable_mended 1 lan
wait_until "not exactly one gateway leads" leader
now=$(leader)
under "the outside cable of g$now is cut" cable_cut "$now" wan
cable_mended "$now" wan

# Nobody may go on without a majority, and one that comes back is enough.
majority() {
  kill_and_wait "${etcds[1]}" "${etcds[2]}"
  wait_until "packets pass although no gateway can renew a lease" silent
  silent || fail "packets pass again without a majority"
}
under "two of etcd's three members are killed" majority
etcd 1
wait_until "the tunnel is not up although etcd has a majority" answers
etcd 2

both() {
  kill_and_wait "${gateways[1]}" "${gateways[2]}"
  begin_again $((3 - now))
  begin_again "$now"
  wait_until "the tunnel is not up after both gateways were killed" answers
}
wait_until "not exactly one gateway leads" leader
now=$(leader)
under "both gateways are killed and started" both
wait_until "not exactly one gateway leads" leader
from=$(leader)
to=$((3 - from))

drain() { # gateway option...
  local g=$1; shift
  timeout "$PATIENCE" "$convoy" drain "$@" --control "$work/g$g.sock" >"$work/drain.log" 2>&1 ||
    fail "drain $*: $(cat "$work/drain.log")"
}
drained() {
  drain "$from"
  leads "$to" || fail "drain returns before another gateway leads"
  wait_until "the tunnel is not up" answers
}
if drains; then
  wait_until "g$from does not see g$to" sees_both "$from"
  under "g$from drains" drained
  stands_by "$from" || fail "a gateway that drains leads"
  kill_and_wait "${gateways[$to]}"
  drain "$from" --undo
  moves "$from"
  begin_again "$to"
  echo "the other one is killed, and g$from leads again"
fi

no_doubles
none_refused
