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
#   host 10.1.0.100 --- lan ---+--- gateway g1 ---+--- wan --- peer 192.0.2.2, 10.2.0.1
#                              +--- gateway g2 ---+
#   The leader has 10.1.0.10 and 192.0.2.10. Both gateways and etcd are in 10.9.0.0/24, too.
spaces=(cc-host cc-g1 cc-g2 cc-peer cc-store cc-switch)
fail() {
  echo "FAILED: $1" >&2
  for log in "$folder"/{g1,g2}/convoy.log "$folder"/{g1,g2,peer}/log; do
    [ ! -s "$log" ] || { echo "--- $log"; tail -n "${TAIL:-12}" "$log"; } >&2
  done
  exit 1
}
start() { local log=$1; shift; ip netns exec "$@" >>"$folder/$log" 2>&1 & last=$!; processes+=("$last"); }

fresh "${spaces[@]}"
for ns in "${spaces[@]}"; do ip netns add "$ns"; ip -n "$ns" link set lo up; done
for bridge in lan wan mgmt; do ip -n cc-switch link add $bridge type bridge; ip -n cc-switch link set $bridge up; done
cable() { # namespace device bridge address
  ip link add "$2" netns "$1" type veth peer name "$1-$2" netns cc-switch
  ip -n cc-switch link set "$1-$2" master "$3" up
  ip -n "$1" link set "$2" up
  ip -n "$1" addr add "$4" dev "$2"
}
cable cc-host lan lan 10.1.0.100/24
ip -n cc-host route add default via 10.1.0.10
cable cc-peer wan wan 192.0.2.2/24
ip -n cc-peer addr add 10.2.0.1/24 dev lo
cable cc-store mgmt mgmt 10.9.0.3/24
for g in 1 2; do
  cable cc-g$g lan lan 10.1.0.1$g/24
  cable cc-g$g wan wan 192.0.2.1$g/24
  cable cc-g$g mgmt mgmt 10.9.0.1$g/24
  ip netns exec cc-g$g sysctl -qw net.ipv4.ip_forward=1
done

umask 077
tls() { # name subject-alternative
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$folder/$1.key" -subj "/CN=$1" -out "$folder/$1.csr" 2>/dev/null
  openssl x509 -req -in "$folder/$1.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -CAcreateserial -days 2 -out "$folder/$1.pem" \
    -extfile <(echo "subjectAltName=$2") 2>/dev/null
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$folder/ca.key" -subj /CN=store -days 2 -out "$folder/ca.pem" 2>/dev/null
tls etcd IP:10.9.0.3
tls member DNS:member
peers=() endpoints=()
for n in 1 2 3; do peers+=("e$n=http://127.0.0.1:238$n") endpoints+=("\"https://10.9.0.3:237$n\""); done
for n in 1 2 3; do
  start "etcd-$n.log" cc-store etcd --name "e$n" --data-dir "$folder/etcd-$n" --listen-client-urls "https://10.9.0.3:237$n" \
    --advertise-client-urls "https://10.9.0.3:237$n" --listen-peer-urls "http://127.0.0.1:238$n" \
    --initial-advertise-peer-urls "http://127.0.0.1:238$n" --initial-cluster "$(IFS=,; echo "${peers[*]}")" \
    --initial-cluster-state new --unsafe-no-fsync \
    --client-cert-auth --trusted-ca-file "$folder/ca.pem" --cert-file "$folder/etcd.pem" --key-file "$folder/etcd.key"
done
etcdctl() {
  ip netns exec cc-store env ETCDCTL_API=3 etcdctl --endpoints "https://10.9.0.3:2371,https://10.9.0.3:2372,https://10.9.0.3:2373" \
    --cacert "$folder/ca.pem" --cert "$folder/member.pem" --key "$folder/member.key" "$@"
}
wait_for "etcd has no leader" etcdctl put ready yes

head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$folder/cluster.key"
configure() { # gateway
  mkdir -p "$folder/$1"
  cat >"$folder/$1/gateway.toml" <<CONF
[gateway]
control = "$folder/$1/control.sock"
charon = "$folder/$1/charon.sock"
user = "root"
[cluster]
name = "test"
member = "$1"
endpoints = [$(IFS=,; echo "${endpoints[*]}")]
ca = "$folder/ca.pem"
certificate = "$folder/member.pem"
key = "$folder/member.key"
secret = "$folder/cluster.key"
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
  cat >"$folder/$1/swanctl.conf" <<CONF
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
  rm -f "$folder/$1/vici"
  mkdir -p "$folder/$1/run"
  STRONGSWAN_CONF=$folder/$1/strongswan.conf unshare -m ip netns exec "cc-$1" sh -c "mount --make-rprivate /
    mount --bind $folder/plugins $libraries
    mount --bind $folder/$1/run /run; exec /usr/lib/ipsec/charon" >>"$folder/$1/out" 2>&1 & charon_pid=$!
}
# What systemd does on a gateway: charon begins when `convoy cluster wait` ends, and again whenever
# it has ended; here only while $folder/SIDE/may-start is there.
keep_charon() { # side
  # In the namespace, whose processes end with the test.
  while ip netns exec "cc-$1" "$convoy" cluster wait --control "$folder/$1/control.sock"; do
    until [ -e "$folder/$1/may-start" ]; do sleep 0.1; done
    start_charon "$1"
    until [ -S "$folder/$1/vici" ] || ! kill -0 $charon_pid 2>/dev/null; do sleep 0.1; done
    ask "$1" --load-all --noprompt --file "$folder/$1/swanctl.conf" >"$folder/$1/load" 2>&1 || true
    wait $charon_pid || true
    echo ended >>"$folder/$1/ends"
  done
}

for g in g1 g2; do
  configure $g
  strongswan $g "$with_convoy"
  ike $g 192.0.2.10 192.0.2.2 10.1.0.0/24 10.2.0.0/24 west.example peer.example "start_action = start"
done
mkdir -p "$folder/peer"
strongswan peer "$stock"
# The peer does as charon's defaults say.
UNIQUE="unique = no" ike peer 192.0.2.2 192.0.2.10 10.2.0.0/24 10.1.0.0/24 peer.example west.example
start_charon peer; processes+=("$charon_pid")
wait_for "the peer's charon does not start" test -S "$folder/peer/vici"
load peer
ip netns exec cc-peer tcpdump -Z root -U --immediate-mode -B 65536 -i wan -w "$folder/outside.pcap" udp >"$folder/capture.log" 2>&1 &
processes+=("$!")
wait_for "nothing is captured" grep -q listening "$folder/capture.log"

declare -A gateways
gateway() { start "$1/convoy.log" "cc-$1" "$convoy" run -c "$folder/$1/gateway.toml"; gateways[$1]=$last; }
leads() { ip -n "cc-$1" addr show dev wan | grep -q '192\.0\.2\.10/'; }
answers() { ip netns exec cc-host ping -q -c 1 -W 1 10.2.0.1; }
ready() { [ "$(grep -c ' ready$' "$folder/$1/convoy.log")" -ge "$2" ]; } # gateway starts
# The SPIs of the SAs from the cluster to the peer, as the peer has them.
spis() { ask peer --list-sas --raw | grep -o 'spi-in=[0-9a-f]*' | sed 's/spi-in=/0x/' | sort; }
spied() { python3 tests/charon/cluster.py "$folder/outside.pcap" "$@"; }
mac() { ip -n "cc-$1" -br link show dev wan | awk '{ print $3 }'; }
refused() { grep -E "sequence number verification failed|ICV verification failed" "$folder/peer/log" || true; }
has_new() { [ "$(spis | wc -l)" -gt "$1" ]; }

touch "$folder/g1/may-start" "$folder/g2/may-start"
gateway g1
wait_for "the first gateway does not lead" leads g1
keep_charon g1 2>"$folder/g1/keeper" & processes+=("$!")
wait_for "the tunnel is not up" answers
gateway g2
wait_for "the second gateway is not ready" ready g2 1
keep_charon g2 2>"$folder/g2/keeper" & processes+=("$!")
! leads g2 || fail "both lead"
[ ! -e "$folder/g2/vici" ] || fail "a charon has begun beside a gateway that stands by"

# takeover WHAT FROM TO SIGNAL: pings all the while.
takeover() {
  local what=$1 from=$2 to=$3 signal=$4 log="$folder/pings.log" before old new
  old=$(spis) before=$(spis | wc -l)
  rm "$folder/$to/may-start"
  ip netns exec cc-host ping -D -i 0.05 10.2.0.1 >"$log" 2>&1 & local pings=$!
  processes+=("$pings")
  wait_for "no answer before $what" answers
  kill "-$signal" "${gateways[$from]}"
  wait "${gateways[$from]}" 2>/dev/null || true
  wait_for "$what: $to does not lead" leads "$to"
  wait_for "$what: the tunnel is not up again by the old SAs" answers
  [ "$(spis)" = "$old" ] || fail "$what: other SAs were negotiated"
  spied alone "$(mac "$to")" $newest || fail "$what: $to does not go on with the newest of the old SAs alone"
  touch "$folder/$to/may-start"
  wait_for "$what: no new SAs" has_new "$before"
  new=$(comm -13 <(echo "$old") <(spis))
  [ -n "$new" ] || fail "$what: the SAs are the old ones"
  wait_for "$what: $to does not use the new SAs" spied uses "$(mac "$to")" $new
  wait_for "$what: no answer by the new SAs" answers
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
wait_for "g1 does not come back" ready g1 2
! leads g1 || fail "a gateway that comes back takes over"
wait_for "the charon of a gateway that stands by does not end" test -s "$folder/g1/ends"
grep -q "another gateway of the cluster leads now" "$folder/g1/log" || fail "g1's charon does not say why it ends"

takeover "g2 is killed" g2 g1 KILL
# The old SAs end when the new ones have received packets and they have been idle for 10 s.
left() { "$convoy" show sa --json --control "$folder/g1/control.sock" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))'; }
for _ in $(seq 60); do [ "$(left)" != 2 ] || break; answers || true; sleep 1; done
[ "$(left)" = 2 ] || fail "g1 still has $(left) SAs"
spied twice 192.0.2.10 || fail "sequence numbers came twice"
[ -z "$(refused)" ] || fail "the peer refused packets: $(refused)"
