# shellcheck shell=bash disable=SC2034,SC2154
# Two gateways of a cluster, three members of etcd, and a peer, each in a network namespace; for the
# tests of clusters and for bench/cluster, which source this file as root.
#   host 10.1.0.100 --- lan ---+--- gateway g1 ---+--- wan --- peer 192.0.2.2, 10.2.X.Y
#                              +--- gateway g2 ---+
# The leader has 10.1.0.10 and 192.0.2.10. Both gateways and etcd are in 10.9.0.0/24, too.
# $convoy, the program, is set before. Optional variables: LEASE_S (1), TUNNELS (1), ETCD_OPTIONS,
# and those of configure.py.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/lib.sh
source "$here/../lib.sh"
need_root
umask 077
work_dir
etcds=() gateways=() endpoints=()
show_logs() {
  local log
  for log in "$work"/[gp]*.log; do [ ! -s "$log" ] || { echo "--- ${log##*/}"; tail -n 12 "$log"; }; done
}

# Namespaces and cables.
network() {
  local bridge g
  add_namespace cl-host cl-g1 cl-g2 cl-peer cl-store cl-switch
  for bridge in lan wan mgmt; do
    ip -n cl-switch link add $bridge type bridge
    ip -n cl-switch link set $bridge up
  done
  plug_in cl-host lan lan 10.1.0.100/24
  ip -n cl-host route add default via 10.1.0.10
  plug_in cl-peer wan wan 192.0.2.2/24
  plug_in cl-store mgmt mgmt 10.9.0.3/24
  for g in 1 2; do
    plug_in cl-g$g lan lan 10.1.0.1$g/24
    plug_in cl-g$g wan wan 192.0.2.1$g/24
    plug_in cl-g$g mgmt mgmt 10.9.0.1$g/24
    ip netns exec cl-g$g sysctl -qw net.ipv4.ip_forward=1
  done
}
plug_in() { # namespace device bridge address
  cable "$1" "$2" "$4" cl-switch "$1-$2" ""
  ip -n cl-switch link set "$1-$2" master "$3"
}
# A gateway's cable, at the switch's end, so that the gateway's interface has no carrier.
unplug() { ip -n cl-switch link set "cl-g$1-$2" down; } # gateway device
plug() { ip -n cl-switch link set "cl-g$1-$2" up; }

# The store, with TLS and client certificates. Its shortest lease is one and a half elections.
tls() { # name subject-alternative
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$1.key" \
    -subj "/CN=$1" -out "$work/$1.csr" 2>/dev/null
  openssl x509 -req -in "$work/$1.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial \
    -days 2 -out "$work/$1.pem" -extfile <(echo "subjectAltName=$2") 2>/dev/null
}
store() {
  local n
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/ca.key" \
    -subj /CN=store -days 2 -out "$work/ca.pem" 2>/dev/null
  tls etcd IP:10.9.0.3
  tls member DNS:member
  chmod 600 "$work"/*.key
  for n in 1 2 3; do endpoints+=("https://10.9.0.3:237$n"); done
  for n in 1 2 3; do etcd $n; done
  wait_until "etcd has no leader" etcdctl put ready yes
}
etcd() { # number
  local n peers=
  for n in 1 2 3; do peers+=",e$n=http://127.0.0.1:238$n"; done
  local election=(--election-timeout 600 --heartbeat-interval 60)
  [ "${LEASE_S:-1}" = 1 ] || election=()
  # shellcheck disable=SC2086
  start "etcd-$1.log" cl-store etcd --name "e$1" --data-dir "$work/etcd-$1" \
    --listen-client-urls "https://10.9.0.3:237$1" --advertise-client-urls "https://10.9.0.3:237$1" \
    --listen-peer-urls "http://127.0.0.1:238$1" --initial-advertise-peer-urls "http://127.0.0.1:238$1" \
    --initial-cluster "${peers#,}" --initial-cluster-state new "${election[@]}" --unsafe-no-fsync \
    --client-cert-auth --trusted-ca-file "$work/ca.pem" --cert-file "$work/etcd.pem" \
    --key-file "$work/etcd.key" ${ETCD_OPTIONS:-}
  etcds[$1]=$started
}
etcdctl() {
  ip netns exec cl-store env ETCDCTL_API=3 etcdctl --endpoints "$(IFS=,; echo "${endpoints[*]}")" \
    --cacert "$work/ca.pem" --cert "$work/member.pem" --key "$work/member.key" "$@"
}
# The number of etcd's leader.
store_leader() {
  etcdctl endpoint status 2>/dev/null | awk -F'[:,]' '/true/ { print substr($3, 4); exit }'
}

# The peer, a gateway that is in no cluster, and a capture of what comes to it from the cluster.
peer() {
  ip -n cl-peer route add local 10.2.0.0/16 dev lo
  start peer.log cl-peer "$convoy" run -c "$work/peer.toml"
}
capture() { start_capture outside cl-peer wan -s 64 src 192.0.2.10 and udp port 4500; }
# Ends the capture, and fails if a number is in it twice.
no_doubles() {
  end_capture outside
  python3 "$here/doubles.py" "$work/outside.pcap" 192.0.2.10 || fail "sequence numbers came twice"
}
# Its log goes on over restarts.
gateway() { # number
  ip netns exec "cl-g$1" "$convoy" run -c "$work/g$1.toml" >>"$work/g$1.log" 2>&1 & gateways[$1]=$!
}
# All processes of a gateway: itself, its helper and its agent.
of() { ip netns pids "cl-g$1"; }
leads() { [ -n "$(ip -n "cl-g$1" -o addr show dev wan to 192.0.2.10)" ]; }
stands_by() { ! leads "$1"; }
# The gateway that leads, if exactly one does. One that was killed may have the address for a while.
leader() {
  if leads 1; then stands_by 2 && echo 1; else leads 2 && echo 2; fi
}
ready() { [ "$(grep -c ' ready$' "$work/g$1.log")" = "$2" ]; } # gateway starts
# Whether something is true of what `convoy show cluster` prints, as an expression in Python.
said() { # gateway expression
  "$convoy" show cluster --json --control "$work/g$1.sock" |
    python3 -c "import json, sys; cluster = json.load(sys.stdin); sys.exit(not ($2))"
}
# Another gateway is ready before it is in the store, and is in the store before this one sees it.
sees_both() { said "$1" "len(cluster['members']) == 2"; } # gateway
ended() { [ -z "$(of "$1")" ]; }
answers() { ip netns exec cl-host ping -q -c 1 -W 1 10.2.0.1; }
moves() { # to-gateway
  wait_until "gateway $1 does not lead" leads "$1"
  wait_until "the tunnel is not up again" answers
}
# What the peer refused of the cluster's packets, or nothing.
refused() {
  "$convoy" show stats --json --control "$work/peer.sock" | python3 -c '
import json, sys
faults = ("replayed", "integrity_failed", "unknown_spi")
print({why: count for why, count in json.load(sys.stdin)["drops"].items() if why in faults} or "")'
}
none_refused() { [ -z "$(refused)" ] || fail "the peer refused packets: $(refused)"; }

# Everything, with g1 as the leader.
cluster() {
  network
  store
  python3 "$here/configure.py" "$work" "${TUNNELS:-1}" "${LEASE_S:-1}" "${endpoints[@]}"
  peer
  capture
  gateway 1
  wait_until "the first gateway does not lead" leads 1
  gateway 2
  wait_until "the tunnel is not up" answers
  wait_until "the second gateway is not ready" ready 2 1
  wait_until "not exactly one gateway leads" leader
}

# under WHAT COMMAND...: pings all the while, 50 a second; prints how many were lost.
under() {
  local what=$1 log="$work/pings.log" pings; shift
  ip netns exec cl-host ping -D -i 0.02 10.2.0.1 >"$log" 2>&1 & pings=$!
  sleep 0.5
  "$@"
  sleep 0.5
  local end=$EPOCHREALTIME
  # `ip netns exec` becomes ping, so the signal reaches it.
  kill -INT $pings; wait $pings 2>/dev/null || true
  python3 - "$what" "$log" "$end" <<'PY'
import re, sys
what, log, end = sys.argv[1], open(sys.argv[2]).read(), float(sys.argv[3])
times = [float(line[1:18]) for line in log.splitlines() if line.startswith("[") and "bytes from" in line]
gap = max(b - a for a, b in zip(times, [*times[1:], end])) if times else float("inf")
lost = re.search(r"(\d+) packets transmitted, (\d+) received", log)
print(f"{what}: {int(lost[1]) - int(lost[2])} of {lost[1]} pings lost, at most {gap:.2f} s without an answer")
PY
}
