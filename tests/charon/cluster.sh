#!/usr/bin/env bash
# Two gateways of a cluster, each with a charon of its own, and strongSwan with its own ESP as their
# peer. One gateway is stopped, then the other one is killed: the next one goes on with the SAs that
# the first one's charon negotiated, before its own charon has sent anything; then that one
# negotiates new SAs, while pings go on. No sequence number is seen twice, and the peer refuses no
# packet as a replay. Needs root.
# usage: cluster.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
cd "$(dirname "$0")/../.."
source tests/charon/lib.sh
LEASE_S=3 # as it is without lease_s
source tests/cluster/lib.sh
show_logs() {
  local log
  for log in "$work"/{g1,g2}/convoy.log "$work"/{g1,g2,peer}/log; do [ ! -s "$log" ] || { echo "--- $log"; tail -n "${TAIL:-12}" "$log"; }; done
}

network
ip -n cl-peer addr add 10.2.0.1/24 dev lo
store
random_key 32 >"$work/cluster.key"
configure() { # gateway
  mkdir -p "$work/$1"
  cat >"$work/$1/gateway.toml" <<CONF
[gateway]
control = "$work/$1/control.sock"
state = "$work/$1/state"
charon = "$work/$1/charon.sock"
user = "root"
[cluster]
name = "test"
member = "$1"
endpoints = [$(printf '"%s",' "${endpoints[@]}")]
ca = "$work/ca.pem"
certificate = "$work/member.pem"
key = "$work/member.key"
secret = "$work/cluster.key"
addresses = ["10.1.0.10/24 dev lan", "192.0.2.10/24 dev wan"]
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
[[port]]
name = "outside"
kind = "udp"
address = ["0.0.0.0"]
[[tunnel]]
name = "peer"
local = "192.0.2.10"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.2.0.0/24"]
esp_proposal = "aes128-sha256"
CONF
}
# ike SIDE LOCAL REMOTE OWN_NET OTHER_NET ID OTHER_ID MORE: swanctl.conf.
ike() {
  cat >"$work/$1/swanctl.conf" <<CONF
connections { site { version = 2
  local_addrs = $2
  remote_addrs = $3
  proposals = aes128-sha256-modp2048
  encap = yes
  mobike = no
  keyingtries = 0
  ${UNIQUE:-unique = never}
  local { auth = psk
    id = $6 }
  remote { auth = psk
    id = $7 }
  children { net { local_ts = $4
    remote_ts = $5
    esp_proposals = aes128-sha256
    ${8:-} } } } }
secrets { ike-1 { secret = a secret of the test } }
CONF
}
start_charon() { # side
  local as=''
  rm -f "$work/$1/vici"
  mkdir -p "$work/$1/run"
  charon_is_privileged "$1" || { for_charon "$work/$1" "$work/$1/run"; as=$unprivileged; }
  STRONGSWAN_CONF=$work/$1/strongswan.conf unshare -m ip netns exec "cl-$1" sh -c "mount --make-rprivate /
    mount --bind $work/plugins $libraries
    mount --bind $work/$1/run /run; exec $as /usr/lib/ipsec/charon" >>"$work/$1/out" 2>&1 & charon_pid=$!
}
# What systemd does on a gateway: charon begins when `convoy cluster wait` ends, and again whenever
# it has ended; here only while $work/SIDE/may-start is there.
keep_charon() { # side
  # In the namespace, whose processes end with the test.
  while ip netns exec "cl-$1" "$convoy" cluster wait --control "$work/$1/control.sock"; do
    until [ -e "$work/$1/may-start" ]; do sleep 0.1; done
    start_charon "$1"
    until [ -S "$work/$1/vici" ] || ! kill -0 $charon_pid 2>/dev/null; do sleep 0.1; done
    ask "$1" --load-all --noprompt --file "$work/$1/swanctl.conf" >"$work/$1/load" 2>&1 || true
    wait $charon_pid || true
    echo ended >>"$work/$1/ends"
  done
}

for g in g1 g2; do
  configure $g
  strongswan $g "$with_convoy"
  ike $g 192.0.2.10 192.0.2.2 10.1.0.0/24 10.2.0.0/24 west.example peer.example "start_action = start"
done
mkdir -p "$work/peer"
strongswan peer "$stock"
# The peer does as charon's defaults say.
UNIQUE="unique = no" ike peer 192.0.2.2 192.0.2.10 10.2.0.0/24 10.1.0.0/24 peer.example west.example
start_charon peer
wait_until "the peer's charon does not start" test -S "$work/peer/vici"
load peer
start_capture outside cl-peer wan udp

unset gateways
declare -A gateways
gateway() { ip netns exec "cl-$1" "$convoy" run -c "$work/$1/gateway.toml" >>"$work/$1/convoy.log" 2>&1 & gateways[$1]=$!; }
leads() { [ -n "$(ip -n "cl-$1" -o addr show dev wan to 192.0.2.10)" ]; }
answers() { ip netns exec cl-host ping -q -c 1 -W 1 10.2.0.1; }
ready() { [ "$(grep -c ' ready$' "$work/$1/convoy.log")" -ge "$2" ]; } # gateway starts
# The SPIs of the SAs from the cluster to the peer, as the peer has them.
spis() { ask peer --list-sas --raw | grep -o 'spi-in=[0-9a-f]*' | sed 's/spi-in=/0x/' | sort; }
spied() { python3 tests/charon/cluster.py "$work/outside.pcap" "$@"; }
mac() { ip -n "cl-$1" -br link show dev wan | awk '{ print $3 }'; }
refused() { grep -E "sequence number verification failed|ICV verification failed" "$work/peer/log" || true; }
has_new() { [ "$(spis | wc -l)" -gt "$1" ]; }

touch "$work/g1/may-start" "$work/g2/may-start"
gateway g1
wait_until "the first gateway does not lead" leads g1
keep_charon g1 2>"$work/g1/keeper" &
wait_until "the tunnel is not up" answers
gateway g2
wait_until "the second gateway is not ready" ready g2 1
keep_charon g2 2>"$work/g2/keeper" &
! leads g2 || fail "both lead"
[ ! -e "$work/g2/vici" ] || fail "a charon has begun beside a gateway that stands by"

# takeover WHAT FROM TO SIGNAL: pings all the while.
takeover() {
  local what=$1 from=$2 to=$3 signal=$4 log="$work/pings.log" before old new
  old=$(spis) before=$(spis | wc -l)
  rm "$work/$to/may-start"
  ip netns exec cl-host ping -D -i 0.05 10.2.0.1 >"$log" 2>&1 & local pings=$!
  wait_until "no answer before $what" answers
  if [ "$signal" = KILL ]; then kill_and_wait "${gateways[$from]}"; else end_process "${gateways[$from]}"; fi
  wait_until "$what: $to does not lead" leads "$to"
  wait_until "$what: the tunnel is not up again by the old SAs" answers
  [ "$(spis)" = "$old" ] || fail "$what: other SAs were negotiated"
  wait_until "$what: $to does not go on with the newest of the old SAs alone" spied alone "$(mac "$to")" $newest
  touch "$work/$to/may-start"
  wait_until "$what: no new SAs" has_new "$before"
  new=$(comm -13 <(echo "$old") <(spis))
  [ -n "$new" ] || fail "$what: the SAs are the old ones"
  wait_until "$what: $to does not use the new SAs" spied uses "$(mac "$to")" $new
  wait_until "$what: no answer by the new SAs" answers
  newest=$new
  kill -INT $pings; wait $pings 2>/dev/null || true
  python3 - "$log" "$what" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
times = [float(line[1:18]) for line in text.splitlines() if line.startswith("[") and "bytes from" in line]
gap = max(b - a for a, b in zip(times, times[1:]))
lost = re.search(r"(\d+) packets transmitted, (\d+) received", text)
print(f"{sys.argv[2]}: {int(lost[1]) - int(lost[2])} of {lost[1]} pings lost, at most {gap:.2f} s without an answer")
PY
}
newest=$(spis)
takeover "g1 is stopped" g1 g2 TERM
gateway g1
wait_until "g1 does not come back" ready g1 2
! leads g1 || fail "a gateway that comes back takes over"
wait_until "the charon of a gateway that stands by does not end" test -s "$work/g1/ends"
grep -q "another gateway of the cluster leads now" "$work/g1/log" || fail "g1's charon does not say why it ends"

takeover "g2 is killed" g2 g1 KILL
# The old SAs end when the new ones have received packets and they have been idle for 10 s.
left() { "$convoy" show sa --json --control "$work/g1/control.sock" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))'; }
for _ in $(seq 60); do [ "$(left)" != 2 ] || break; answers >/dev/null || true; sleep 1; done
[ "$(left)" = 2 ] || fail "g1 still has $(left) SAs"
spied twice 192.0.2.10 || fail "sequence numbers came twice"
[ -z "$(refused)" ] || fail "the peer refused packets: $(refused)"
