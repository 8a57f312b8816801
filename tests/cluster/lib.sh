# Two gateways of a cluster, three members of etcd, a host inside and a peer outside, each in a
# network namespace. Sourced by tests, with $convoy set. Needs root.
[ "$(id -u)" = 0 ] || { echo "network namespaces need root" >&2; exit 1; }
#   host 10.1.0.100 --- lan ---+--- gateway g1 ---+--- wan --- peer 192.0.2.2, 10.2.0.1
#                              +--- gateway g2 ---+
#   The leader has 10.1.0.10 and 192.0.2.10. Both gateways and etcd are in 10.9.0.0/24, too.
spaces=(cl-host cl-g1 cl-g2 cl-peer cl-store cl-switch)
umask 077
work=$(mktemp -d)
running=()
remove() {
  local ns
  for ns in "${spaces[@]}"; do
    [ -e "/run/netns/$ns" ] || continue
    ip netns pids "$ns" | xargs -r kill -9 2>/dev/null || true
    ip netns del "$ns" 2>/dev/null || true
  done
}
clean() {
  kill -CONT "${running[@]}" 2>/dev/null || true
  remove
  rm -rf "$work"
}
trap clean EXIT
fail() {
  echo "FAILED: $1" >&2
  for log in "$work"/[gp]*.log "$work"/*/log; do [ ! -s "$log" ] || { echo "--- $log"; tail -n 12 "$log"; } >&2; done
  exit 1
}
wait_for() { # what command...
  local what=$1; shift
  for _ in $(seq 200); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
  fail "$what"
}
start() { local log=$1; shift; ip netns exec "$@" >>"$work/$log" 2>&1 & running+=($!); }

remove
for ns in "${spaces[@]}"; do ip netns add "$ns"; ip -n "$ns" link set lo up; done
for bridge in lan wan mgmt; do ip -n cl-switch link add $bridge type bridge; ip -n cl-switch link set $bridge up; done
cable() { # namespace device bridge address
  ip link add "$2" netns "$1" type veth peer name "$1-$2" netns cl-switch
  ip -n cl-switch link set "$1-$2" master "$3" up
  ip -n "$1" link set "$2" up
  ip -n "$1" addr add "$4" dev "$2"
}
cable cl-host lan lan 10.1.0.100/24
ip -n cl-host route add default via 10.1.0.10
cable cl-peer wan wan 192.0.2.2/24
cable cl-store mgmt mgmt 10.9.0.3/24
for g in 1 2; do
  cable cl-g$g lan lan 10.1.0.1$g/24
  cable cl-g$g wan wan 192.0.2.1$g/24
  cable cl-g$g mgmt mgmt 10.9.0.1$g/24
  ip netns exec cl-g$g sysctl -qw net.ipv4.ip_forward=1
done

# The store, with TLS and client certificates. Its shortest lease is one and a half elections.
tls() { # name subject-alternative
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$1.key" -subj "/CN=$1" -out "$work/$1.csr" 2>/dev/null
  openssl x509 -req -in "$work/$1.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 2 -out "$work/$1.pem" \
    -extfile <(echo "subjectAltName=$2") 2>/dev/null
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/ca.key" -subj /CN=store -days 2 -out "$work/ca.pem" 2>/dev/null
tls etcd IP:10.9.0.3
tls member DNS:member
chmod 600 "$work"/*.key
peers=() endpoints=()
for n in 1 2 3; do peers+=("e$n=http://127.0.0.1:238$n") endpoints+=("\"https://10.9.0.3:237$n\""); done
etcd() { # number
  start "etcd-$1.log" cl-store etcd --name "e$1" --data-dir "$work/etcd-$1" --listen-client-urls "https://10.9.0.3:237$1" \
    --advertise-client-urls "https://10.9.0.3:237$1" --listen-peer-urls "http://127.0.0.1:238$1" \
    --initial-advertise-peer-urls "http://127.0.0.1:238$1" --initial-cluster "$(IFS=,; echo "${peers[*]}")" \
    --initial-cluster-state new --election-timeout 600 --heartbeat-interval 60 --unsafe-no-fsync \
    --client-cert-auth --trusted-ca-file "$work/ca.pem" --cert-file "$work/etcd.pem" --key-file "$work/etcd.key"
  etcds[$1]=${running[-1]}
}
etcds=()
for n in 1 2 3; do etcd $n; done
etcdctl() {
  ip netns exec cl-store env ETCDCTL_API=3 etcdctl --endpoints "https://10.9.0.3:2371,https://10.9.0.3:2372,https://10.9.0.3:2373" \
    --cacert "$work/ca.pem" --cert "$work/member.pem" --key "$work/member.key" "$@"
}
wait_for "etcd has no leader" etcdctl put ready yes


key() { head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
key 32 >"$work/cluster.key"
# configure GATEWAY [MORE]: everything but tunnels, which are in $work/tunnels.toml; MORE is of
# [gateway].
configure() {
  cat - "$work/tunnels.toml" >"$work/g$1.toml" <<CONF
[gateway]
control = "$work/g$1.sock"
user = "root"
${2:-}
[cluster]
name = "test"
member = "g$1"
endpoints = [$(IFS=,; echo "${endpoints[*]}")]
ca = "$work/ca.pem"
certificate = "$work/member.pem"
key = "$work/member.key"
secret = "$work/cluster.key"
addresses = ["10.1.0.10/24 dev lan", "192.0.2.10/24 dev wan"]
priority = $((100 - $1))
lease_s = 1
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
[[port]]
name = "outside"
kind = "udp"
address = ["0.0.0.0"]
CONF
}
gateways=()
gateway() { # number
  start "g$1.log" cl-g$1 "$convoy" run -c "$work/g$1.toml"
  gateways[$1]=${running[-1]}
}
# All processes of a gateway: itself, its helper and its agent.
of() { ip netns pids "cl-g$1"; }
leads() { ip -n "cl-g$1" addr show dev wan | grep -q '192\.0\.2\.10/'; }
answers() { ip netns exec cl-host ping -q -c 1 -W 1 10.2.0.1; }
ready() { [ "$(grep -c ' ready$' "$work/g$1.log")" = "$2" ]; } # gateway starts
ended() { [ -z "$(of "$1")" ]; }
capture() { # outside, in $work/outside.pcap
  ip netns exec cl-peer tcpdump -Z root -U --immediate-mode -B 65536 -i wan -w "$work/outside.pcap" udp port 4500 >"$work/capture.log" 2>&1 & running+=($!)
  wait_for "nothing is captured" grep -q listening "$work/capture.log"
}
# both: starts both gateways; the first one leads.
both() {
  gateway 1
  wait_for "the first gateway does not lead" leads 1
  gateway 2
  wait_for "the second gateway is not ready" ready 2 1
  ! leads 2 || fail "both lead"
}

# under COMMAND...: pings all the while, 50 a second; prints how many were lost.
under() {
  local log="$work/pings.log"
  : >"$log"
  ip netns exec cl-host ping -D -i 0.02 10.2.0.1 >"$log" 2>&1 & local pings=$!
  sleep 0.5
  "$@"
  sleep 0.5
  # `ip netns exec` becomes ping, so the signal reaches it.
  kill -INT $pings; wait $pings 2>/dev/null || true
  python3 - "$log" <<'PY'
import re, sys
times = [float(line[1:18]) for line in open(sys.argv[1]) if line.startswith("[") and "bytes from" in line]
gap = max(b - a for a, b in zip(times, times[1:]))
lost = re.search(r"(\d+) packets transmitted, (\d+) received", open(sys.argv[1]).read())
print(f"{int(lost[1]) - int(lost[2])} of {lost[1]} pings lost, at most {gap:.2f} s without an answer")
PY
}
moves() { wait_for "gateway $1 does not lead" leads "$1"; wait_for "the tunnel is not up again" answers; }
