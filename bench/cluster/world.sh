#!/usr/bin/env bash
# What happens to traffic when something fails in one cluster of two gateways and three members of
# etcd: has each EVENT happen ROUNDS times, with traffic both ways, and prints a line of JSON for
# each, which cluster.py evaluates. `rest` and `load` measure what the cluster costs. Needs root.
# usage: world.sh CONVOY TRAFFIC EVENT...
# Optional variables: TUNNELS (1), FLOWS (1, each through a tunnel of its own), RATE (10000
# packets/s each way), ROUNDS (1), LEASE_S (1), QUOTA of etcd's in bytes, LOGS (a folder for the
# logs), and those of tests/cluster/configure.py.
set -euo pipefail
convoy=$(realpath "$1") traffic=$(realpath "$2"); shift 2
cd "$(dirname "$0")/../.."
export TUNNELS=${TUNNELS:-1} LEASE_S=${LEASE_S:-1}
FLOWS=${FLOWS:-1} RATE=${RATE:-10000} ROUNDS=${ROUNDS:-1}
export PATIENCE=90
if [ -n "${QUOTA:-}" ]; then ETCD_OPTIONS="--quota-backend-bytes $QUOTA"; fi
source tests/cluster/lib.sh
save_logs() { [ -z "${LOGS:-}" ] || cp "$work"/*.log "$LOGS"; }
at_exit save_logs
starts=([1]=1 [2]=1) monitors=()
stride=$((FLOWS > 1 ? TUNNELS / FLOWS : 0))

# When each gateway got the service addresses.
watch_addresses() {
  local g
  for g in 1 2; do
    start "addresses-$g.log" cl-g$g stdbuf -oL ip -ts -o monitor address dev wan
    monitors[$g]=$started
  done
}
# The gateway's processes are all others of its namespace.
of() { ip netns pids "cl-g$1" | grep -vx "${monitors[$1]}" || true; }
other() { echo $((3 - $1)); }
one_leads() { leader && answers; }
restart() { # gateway
  wait_until "the processes of g$1 do not end" ended "$1"
  gateway "$1"
  starts[$1]=$((starts[$1] + 1))
  wait_until "g$1 does not come back" ready "$1" "${starts[$1]}"
}

# Events: each has the leader as its argument. Those that need it have something before, at the end
# of the measurement (`..._back`, while traffic goes on) and after it (`..._after`).
nothing() { :; }
stop() { kill "${gateways[$1]}"; }
stop_after() { restart "$1"; }
killed() { kill_and_wait "${gateways[$1]}"; }
killed_after() { restart "$1"; }
# shellcheck disable=SC2046
freeze() { frozen=$(of "$1"); stop_process $frozen; }
# shellcheck disable=SC2086
freeze_back() { kill -CONT $frozen; }
inside() { unplug "$1" lan; }
inside_back() { plug "$1" lan; }
outside() { unplug "$1" wan; }
outside_back() { plug "$1" wan; }
cut() { unplug "$1" mgmt; }
cut_back() { plug "$1" mgmt; }
etcd_leader() { kill_and_wait "${etcds[$store_leads]}"; }
etcd_leader_after() { etcd "$store_leads"; }
quorum() {
  lost=("$store_leads" $((store_leads % 3 + 1)))
  kill_and_wait "${etcds[${lost[0]}]}" "${etcds[${lost[1]}]}"
}
quorum_back() { etcd "${lost[0]}"; etcd "${lost[1]}"; }
both() { kill_and_wait "${gateways[1]}" "${gateways[2]}"; }
both_soon() {
  restart 1
  restart 2
}
drain() { "$convoy" drain --control "$work/g$1.sock" >"$work/drain.log" 2>&1 & }
drain_after() { "$convoy" drain --undo --control "$work/g$1.sock" >>"$work/drain.log" 2>&1; }
# Fills the store up to its quota, and makes room again.
full() {
  head -c 1000000 /dev/zero | tr '\0' x >"$work/block"
  for n in $(seq 64); do etcdctl put "block/$n" <"$work/block" >/dev/null 2>&1 || break; done
}
full_back() {
  local revision endpoint
  etcdctl del --prefix block/ >/dev/null
  revision=$(etcdctl endpoint status -w json | grep -o '"revision":[0-9]*' | head -1 | grep -o '[0-9]*')
  etcdctl compact "$revision" >/dev/null
  for endpoint in "${endpoints[@]}"; do etcdctl --endpoints "$endpoint" defrag >/dev/null; done
  etcdctl alarm disarm >/dev/null
}
# Seconds until an event's end, and from there to the end of the traffic.
# shellcheck disable=SC2034
declare -A lasts=([freeze]=10 [inside]=6 [outside]=6 [cut]=6 [quorum]=6 [full]=8) \
  then=([freeze]=4 [inside]=3 [outside]=3 [cut]=2 [quorum]=7 [full]=8 [both]=9)

has() { declare -F "$1" >/dev/null; }
refusals() {
  "$convoy" show stats --json --control "$work/peer.sock" | python3 -c '
import json, sys
faults = ("replayed", "integrity_failed", "unknown_spi")
print(sum(count for why, count in json.load(sys.stdin)["drops"].items() if why in faults))'
}
# A figure of etcd's, over its members that run.
figure() { # name
  local n
  for n in 1 2 3; do
    ip netns exec cl-store curl -s --max-time 2 --cacert "$work/ca.pem" --cert "$work/member.pem" \
      --key "$work/member.key" "https://10.9.0.3:237$n/metrics" || true
  done | awk -v name="$1" '$1 == name { if ($2 > most) most = $2 } END { printf "%d", most }'
}
# CPU time in ns, and memory in kB, of a process.
cpu() { cat "/proc/$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'; }
memory() { awk '/VmRSS/ { sum += $2 } END { print sum + 0 }' "/proc/$1/status"; }
agent_of() { local p; for p in $(of "$1"); do if grep -q convoy-cluster "/proc/$p/comm"; then echo "$p"; fi; done; }

begin_traffic() {
  : >"$work/host.json"; : >"$work/peer.json"; : >"$work/tcp.json"
  ip netns exec cl-peer "$traffic" udp 10.2.0.1 10.1.0.100 "$FLOWS" "$stride" "$RATE" >"$work/peer.json" & senders=($!)
  ip netns exec cl-host "$traffic" udp 10.1.0.100 10.2.0.1 "$FLOWS" "$stride" "$RATE" >"$work/host.json" & senders+=($!)
  ip netns exec cl-peer "$traffic" tcp receive 10.2.0.1 >"$work/tcp.json" & senders+=($!)
  sleep 0.2
  ip netns exec cl-host "$traffic" tcp send 10.1.0.100 10.2.0.1 10000000 & tcp_sender=$!
}
end_traffic() {
  kill -INT "${senders[@]}"
  wait "${senders[@]}" || true
  kill -INT $tcp_sender 2>/dev/null || true
  wait $tcp_sender 2>/dev/null || true
}

measure() { # event round
  local event=$1 leads before at back end
  wait_until "no gateway leads before $event" one_leads
  leads=$(leader)
  store_leads=$(store_leader)
  before=$(refusals)
  begin_traffic
  sleep "${LEAD_IN:-2}"
  at=$EPOCHREALTIME
  "$event" "$leads"
  end=$EPOCHREALTIME
  if has "${event}_soon"; then "${event}_soon" "$leads"; fi
  sleep "${lasts[$event]:-0}"
  back=$EPOCHREALTIME
  if has "${event}_back"; then "${event}_back" "$leads"; fi
  sleep "${then[$event]:-6}"
  end_traffic
  printf '{"event": "%s", "round": %d, "tunnels": %d, "flows": %d, "lease_s": %s, "at": %s, "done": %s, "back": %s, "led": %d, ' \
    "$event" "$2" "$TUNNELS" "$FLOWS" "$LEASE_S" "$at" "$end" "$back" "$leads"
  printf '"refused": %d, "led_again": %s, "host": %s, "peer": %s, "tcp": %s}\n' \
    "$(($(refusals) - before))" "$(addresses "$at")" "$(cat "$work/host.json")" "$(cat "$work/peer.json")" \
    "$(tail -n 1 "$work/tcp.json")"
  if has "${event}_after"; then "${event}_after" "$leads"; fi
}
# The gateways that got the service address after a time, and when.
addresses() { # since
  python3 - "$1" "$work" <<'PY'
import datetime, json, re, sys
since, folder, found = float(sys.argv[1]), sys.argv[2], []
for gateway in (1, 2):
    last = None
    for line in open(f"{folder}/addresses-{gateway}.log"):
        if "192.0.2.10/" not in line:
            continue
        # The times of messages that are not shown precede it.
        time = datetime.datetime.fromisoformat(re.findall(r"\[([^]]+)\]", line)[-1]).timestamp()
        if "Deleted" in line:
            last = "deleted"
        else:
            if last != "held" and time > since:
                found.append([gateway, time])
            last = "held"
print(json.dumps(found))
PY
}
# What the cluster costs at rest and under load.
cost() { # what seconds
  local leads process stands puts proposals cpus=() pids=() g n
  leads=$(leader); stands=$(other "$leads")
  for g in "$leads" "$stands"; do pids+=("${gateways[$g]}" "$(agent_of "$g")"); done
  for n in 1 2 3; do pids+=("${etcds[$n]}"); done
  puts=$(figure etcd_debugging_mvcc_put_total)
  proposals=$(figure etcd_server_proposals_committed_total)
  for process in "${pids[@]}"; do cpus+=("$(cpu "$process")"); done
  local began=$EPOCHREALTIME
  sleep "$2"
  local ended_at=$EPOCHREALTIME list=
  for n in "${!pids[@]}"; do list+=", [$(($(cpu "${pids[$n]}") - cpus[n])), $(memory "${pids[$n]}")]"; done
  printf '{"cost": "%s", "tunnels": %d, "flows": %d, "rate": %d, "lease_s": %s, "seconds": %s, "puts": %d, "proposals": %d, "processes": [%s]}\n' \
    "$1" "$TUNNELS" "$FLOWS" "$RATE" "$LEASE_S" "$(echo "$ended_at - $began" | awk '{ print $1 - $3 }')" \
    "$(($(figure etcd_debugging_mvcc_put_total) - puts))" "$(($(figure etcd_server_proposals_committed_total) - proposals))" "${list#, }"
}

cluster
watch_addresses
for event; do
  case $event in
    drain) "$convoy" drain --help >/dev/null 2>&1 || continue ;;&
    rest) sleep 2; cost rest 8 ;;
    load) begin_traffic; sleep 2; cost load 8; end_traffic ;;
    *) for round in $(seq "$ROUNDS"); do measure "$event" "$round"; done ;;
  esac
done
end_capture outside
dropped=$(awk '/dropped by kernel/ { print $1 }' "$work/outside.log")
printf '{"capture": %s, "dropped": %d, "tunnels": %d, "flows": %d, "lease_s": %s}\n' \
  "$(python3 tests/cluster/doubles.py "$work/outside.pcap" 192.0.2.10 --json)" "$dropped" "$TUNNELS" "$FLOWS" "$LEASE_S"
for g in 1 2; do grep -E 'leads|WARN|ERROR|warn|error' "$work/g$g.log" | sed "s/^/g$g: /" >&2 || true; done
