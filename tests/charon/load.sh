#!/usr/bin/env bash
# Two convoys, each with charon, under load: measures losses while SAs are rekeyed, and while a
# gateway or a charon restarts. Then connects clients to charon's socket that are not charon. Needs
# root.
# usage: [RATE=PACKETS_A_SECOND] load.sh CONVOY PLUGIN [SECONDS [CASE...]]
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2") seconds=${3:-20} A=convoy-load-a B=convoy-load-b
source "$(dirname "$0")/lib.sh"
declare -A gateway charon
cc -O2 -pthread -o "$work/flood" "$(dirname "$0")/flood.c"
no_sas() { [ "$(sas a)$(sas b)" = 00 ]; }

# flood RATE SECONDS: starts a flood in both directions.
flood() {
  ip netns exec $A "$work/flood" 10.1.0.1 10.2.0.1 "$1" "$2" >"$work/flood-a" 2>&1 & flood_a=$!
  ip netns exec $B "$work/flood" 10.2.0.1 10.1.0.1 "$1" "$2" >"$work/flood-b" 2>&1 & flood_b=$!
}
# flooded: waits for its end; sets sent, lost and silence (ms).
flooded() {
  wait "$flood_a" || fail "flood: $(cat "$work/flood-a")"
  wait "$flood_b" || fail "flood: $(cat "$work/flood-b")"
  local a b
  read -r -a a <"$work/flood-a"; read -r -a b <"$work/flood-b"
  sent=$((a[0] + b[0])) lost=$((a[0] + b[0] - a[1] - b[1])) twice=$((a[2] + b[2])) late=$((a[3] + b[3]))
  silence=$((a[4] > b[4] ? a[4] : b[4])) refused=$((a[5] + b[5]))
}
lossless() { [ "$lost$twice" = 00 ] || fail "$1: of $sent packets $lost lost, $twice twice; drops: $(drops)"; }
drops() { for side in a b; do show stats $side | python3 -c 'import json, sys
stats = json.load(sys.stdin)
print(stats["drops"], {p["name"]: (p["receive_dropped"], p["send_dropped"]) for p in stats["ports"]})'; done
  for ns in $A $B; do ip -n $ns -s link show convoy0 | awk '/[RT]X:/ { getline; print "convoy0 dropped", $4 }'; done; }
start_one() { # side: its gateway
  start_gateway "$1"; gateway[$1]=$gateway_pid
  local ns=$A; [ "$1" = a ] || ns=$B
  # The kernel's queue to the gateway: a busy machine may not run it for a tenth of a second.
  ip -n $ns link set convoy0 txqueuelen 10000
}
tunnel() { # "CHILD OPTIONS OF A"
  connection a 192.0.2.1 192.0.2.2 "encap = yes" "esp_proposals = aes128gcm16
    $1"
  connection b 192.0.2.2 192.0.2.1 "encap = yes" "esp_proposals = aes128gcm16"
  load a; load b; up a
}

find_rate() { # sets rate: RATE, or half of the highest that passes, as others use the machine too
  local try best=0
  rate=${RATE:-}
  [ -z "$rate" ] || return 0
  tunnel ""
  for try in 1000 2500 5000 10000 20000 40000; do
    flood $try 2; flooded
    # What the sender itself could not send in time does not count as passed.
    [ "$lost" = 0 ] && [ "$sent" -ge $((try * 36 / 10)) ] || break
    best=$try
  done
  [ $best -gt 0 ] || fail "not even 1,000 packets/s pass: $lost of $sent lost; $(drops)"
  rate=$((best / 2))
  passed "rate without rekeying" "$best packets/s each way pass, none lost; $rate is used below"
  down a; wait_until "SAs that were ended are still there" no_sas
}
rekeyed() { grep -c "inbound CHILD_SA net{[0-9]*} established" "$work/a/log" || true; }
rekey_under_load() {
  tunnel $'rekey_time = 1s\n    life_time = 20s'
  local before count; before=$(rekeyed)
  flood "$rate" "$seconds"; flooded
  count=$(($(rekeyed) - before))
  lossless "rekeying"
  [ $count -ge $((seconds * 6 / 10)) ] || fail "only $count CHILD_SAs in $seconds s"
  passed "rekey under load" "$seconds s at $rate packets/s each way, $count times rekeyed: $sent packets, $lost lost, $twice twice, $late out of order, longest silence $silence ms"
  down a; wait_until "SAs that were ended are still there" no_sas
}
gateway_restart() { # killed and started again under charon
  tunnel ""
  flood 500 12
  sleep 3.5
  kill_and_wait "${gateway[a]}"
  local begin; begin=$(date +%s%N)
  start_one a
  wait_until "no SAs after the gateway's restart" has_pair
  local ms=$((($(date +%s%N) - begin) / 1000000))
  flooded
  [ "$silence" -lt 8000 ] || fail "no traffic for $silence ms after the gateway's restart"
  passed "gateway killed and restarted" "new SAs $ms ms after the kill, longest silence of either side $silence ms; of $sent packets $lost lost, $refused refused by the kernel"
  ping_both
  down a; wait_until "SAs that were ended are still there" no_sas
}
has_pair() { [ "$(sas a)" -ge 2 ]; }
charon_restart() { # killed and started again; then it makes SAs of its own
  tunnel ""
  flood "$rate" 6
  sleep 3
  kill_and_wait "${charon[a]}"
  sleep 0.5
  start_charon a; charon[a]=$charon_pid; load a
  flooded; lossless "charon's restart"
  [ "$(sas a)" = 2 ] || fail "$(sas a) SAs after charon's restart"
  up a; ping_both
  passed "charon killed and restarted" "6 s at $rate packets/s each way: $sent packets, $lost lost, longest silence $silence ms; then new SAs"
  down a
}
strangers() { # while traffic flows
  local what
  tunnel ""
  flood 500 8
  for what in noise version user; do
    said=$(python3 "$(dirname "$0")/stranger.py" "$work/a/charon.sock" $what 2>&1) || fail "a stranger: $said"
    passed "not charon: $what" "$said"
  done
  flooded; lossless "strangers"
  ask a --rekey --child net >/dev/null || fail "charon cannot rekey after strangers"
  ping_both
  down a
}
spi_exhaustion() {
  tunnel ""
  end_process "${charon[a]}"
  said=$(python3 "$(dirname "$0")/stranger.py" "$work/a/charon.sock" spis 2>&1) || fail "SPIs: $said"
  start_charon a; charon[a]=$charon_pid; load a
  up a; ping_both
  passed "spi exhaustion" "$said; the next charon has them back"
}

namespaces
for side in a b; do
  host=1; [ $side = a ] || host=2
  gateway_conf $side "\"192.0.2.$host\""
  strongswan $side "$with_convoy"
  start_one $side
  start_charon $side; charon[$side]=$charon_pid
done
cases=("${@:4}")
[ ${#cases[@]} -gt 0 ] || cases=(rekey_under_load gateway_restart charon_restart strangers spi_exhaustion)
find_rate
for name in "${cases[@]}"; do $name; done
