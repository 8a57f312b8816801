#!/usr/bin/env bash
# Static keys over restarts, with a clock that begins at the same instant each time: a gateway is
# stopped, and killed, during traffic, and continues behind the numbers in its state file. The peer
# accepts every packet, no IV is used twice, and packets recorded before the restart are not
# accepted again. The peer's log reports a state file that was restored from a copy, and a damaged
# state file prevents the start. Needs root.
# usage: restart.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/../demo/sites.sh"
drops() { # site
  "$convoy" show stats --json --control "$work/site-$1.sock" | python3 -c 'import json, sys; print(dict(json.load(sys.stdin)["drops"]))'
}
faketime=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1) || fail "libfaketime is missing; scripts/install.sh test brings it"

start_capture outside $a va udp port 4500
gateway=${gateways[0]}
restart() { # signal
  if [ "$1" = KILL ]; then kill_and_wait "$gateway"; else end_process "$gateway"; fi
  rm -f "$work/site-1.sock"
  start a.log $a env LD_PRELOAD="$faketime" FAKETIME="@2026-06-01 00:00:00" FAKETIME_DONT_FAKE_MONOTONIC=1 \
    "$convoy" run -c "$work/site-1.toml"
  gateway=$started
  wait_until "the gateway did not start again after SIG$1" test -S "$work/site-1.sock"
  # The routes are added a little later than the socket.
  wait_until "there is no route to the peer's network after SIG$1" has_route
}
has_route() { [[ $(ip -n $a route get 10.2.0.1 2>&1) == *convoy0* ]]; }
number() { "$convoy" show sa --json --control "$work/site-1.sock" | grep -o '"sequence": [0-9]*' | grep -o '[0-9]*' | sort -n | tail -1; }
numbers=()
for signal in TERM KILL KILL TERM; do
  ip netns exec $a ping -i 0.02 -c 60 -W 1 10.2.0.1 >"$work/ping.log" 2>&1 & traffic=$!
  sleep 0.6
  restart $signal
  wait $traffic || true
  # With pauses: packets that are sent together reach the capture as one.
  ip netns exec $a ping -i 0.02 -c 20 -w "$PATIENCE" 10.2.0.1 >"$work/ping.log" || true
  none_lost "$work/ping.log" 20 || fail "pings after SIG$signal were lost; the peer dropped $(drops 2)"
  numbers+=("$(number)")
  [ -e "$work/old.state" ] || cp "$work/site-1.state" "$work/old.state"
done
[[ $(drops 2) != *replayed* ]] || fail "the peer dropped packets as replayed: $(drops 2)"

# Sends the gateway packets once more that the peer had sent before the last restart.
[[ $(drops 1) != *replayed* ]] || fail "replayed packets before there were any: $(drops 1)"
restart TERM
ip netns exec $b python3 - "$work/outside.pcap" <<'REPLAY'
import socket, struct, sys
data, at, last = open(sys.argv[1], "rb").read(), 24, None
while at + 16 <= len(data):
    length = struct.unpack_from("<I", data, at + 8)[0]
    packet = data[at + 16 + 14:at + 16 + length]
    if packet[12:16] == socket.inet_aton("192.0.2.2") and struct.unpack_from("!I", packet, 28)[0] == 0x1001:
        last = packet
    at += 16 + length
# Without UDP checksum, since the captured one was left to an offload.
last = last[:26] + bytes(2) + last[28:]
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).sendto(last, ("192.0.2.1", 0))
REPLAY
is_replayed() { [[ $(drops 1) == *replayed* ]]; }
wait_until "a packet from before the restart passed again" is_replayed

end_capture outside
python3 - "$work/outside.pcap" <<'IVS' || fail "IVs or sequence numbers came twice"
import socket, struct, sys
data, at, seen = open(sys.argv[1], "rb").read(), 24, []
while at + 16 <= len(data):
    length = struct.unpack_from("<I", data, at + 8)[0]
    packet = data[at + 16 + 14:at + 16 + length]
    spi, number = struct.unpack_from("!II", packet, 28)
    if packet[12:16] == socket.inet_aton("192.0.2.1") and spi == 0x1002:
        seen.append((number, packet[36:44]))
    at += 16 + length
numbers, ivs = ({item[part] for item in seen} for part in (0, 1))
print(f"{len(seen)} packets captured, {len(seen) - len(numbers)} sequence numbers and {len(seen) - len(ivs)} IVs came twice")
assert len(seen) >= 80 and len(numbers) == len(ivs) == len(seen)
IVS

# With a state file restored from a copy, the peer accepts nothing and says why.
end_well "$gateway" "the gateway"
cp "$work/old.state" "$work/site-1.state"
rm -f "$work/site-1.sock"
run_gateway a.log $a "$work/site-1.toml"
gateway=$started
! grep -q replayed "$work/b.log" || fail "the peer tells of replayed packets before there are any"
for _ in $(seq $PATIENCE); do
  ! ip netns exec $a ping -c 5 -i 0.2 -W 1 10.2.0.1 >/dev/null 2>&1 || fail "pings with a restored state file are answered"
  ! grep -q replayed "$work/b.log" || break
done
grep 'its sequence numbers lie behind .* install new keys at both ends.*reason="replayed"' "$work/b.log" || fail "the peer does not tell of a restored state file"

end_well "$gateway" "the gateway"
python3 -c 'import os, sys; os.pwrite(os.open(sys.argv[1], os.O_WRONLY), bytes(os.path.getsize(sys.argv[1])), 0)' "$work/site-1.state"
if ip netns exec $a timeout "$PATIENCE" "$convoy" run -c "$work/site-1.toml" >"$work/damaged.log" 2>&1; then fail "a damaged state file was taken"; fi
grep -q 'is damaged.*new keys at both ends' "$work/damaged.log" || fail "it does not say what to do: $(cat "$work/damaged.log")"
echo "static keys over restarts: all pings answered after each, none replayed; sequence numbers after TERM, KILL, KILL, TERM: ${numbers[*]}"
