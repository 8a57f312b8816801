# Two sites: a host behind each gateway, and two routers between the gateways whose link can get a
# smaller MTU. The kernel's settings are those of a new namespace, except for forwarding. Sourced,
# with $convoy set. Needs root.
#
#   host a --- gateway a --- near === far --- gateway b --- host b
#   10.1.0.10  .1   192.0.2.1  .254         .254  198.51.100.1   .1  10.2.0.10
#   fd00:1::10 ::1  2001:db8:1::1  ::fe     ::fe  2001:db8:2::1  ::1  fd00:2::10
[ "$(id -u)" = 0 ] || { echo "network namespaces need root" >&2; exit 1; }
ha=convoy-host-a ga=convoy-gate-a near=convoy-near far=convoy-far gb=convoy-gate-b hb=convoy-host-b
spaces=($ha $ga $near $far $gb $hb)
work=$(mktemp -d)
running=()
source "$(dirname "${BASH_SOURCE[0]}")/pings.sh"
# remove: deletes the namespaces with their processes, including those that a killed run has left.
remove() {
  local ns
  for ns in "${spaces[@]}"; do
    [ -e "/run/netns/$ns" ] || continue
    ip netns pids "$ns" | xargs -r kill -9 2>/dev/null || true
    ip netns del "$ns" 2>/dev/null || true
  done
}
clean() {
  kill "${running[@]}" 2>/dev/null || true
  remove
  rm -rf "$work"
}
trap clean EXIT
fail() {
  echo "FAILED: $1" >&2
  for log in "$work"/*.log; do [ ! -s "$log" ] || { echo "--- $log"; tail -8 "$log"; } >&2; done
  exit 1
}
in_ns() { ip netns exec "$@"; }
# wait_for WHAT COMMAND...: waits up to 30 s.
wait_for() {
  local what=$1; shift
  for _ in $(seq 300); do if "$@" >/dev/null 2>&1; then return; fi; sleep 0.1; done
  fail "$what"
}
# capture: captures the packets between the routers in $work/outside.pcap; end_capture COUNT: waits
# until it contains so many ESP packets, and stops it. A slot of the capture buffer is as large as
# the longest packet, so the default buffer holds at most 32 of them, and loses packets whenever
# tcpdump waits 20 ms for a core.
capture() {
  # in_ns runs a shell, and the signal would end that instead of tcpdump.
  ip netns exec $near tcpdump -Z root -U --immediate-mode -B 65536 -i far -w "$work/outside.pcap" >"$work/capture.log" 2>&1 & capture=$!
  running+=("$capture")
  wait_for "nothing is captured" grep -q listening "$work/capture.log"
}
end_capture() {
  for _ in $(seq 300); do ! captured "$1" || break; sleep 0.1; done
  # tcpdump reports lost packets when it ends.
  kill "$capture"; wait "$capture" 2>/dev/null || true
  captured "$1" || fail "fewer than $1 packets of the tunnel are captured: $(grep packets "$work/capture.log" | paste -sd,)"
}
captured() { [ "$(tshark -r "$work/outside.pcap" -Y esp 2>/dev/null | wc -l)" -ge "$1" ]; }
cable() { # namespace device addresses namespace device addresses
  local end ns device addresses address
  ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
  for end in "$1 $2 $3" "$4 $5 $6"; do
    read -r ns device addresses <<<"$end"
    for address in $addresses; do
      case $address in *:*) ip -n "$ns" addr add "$address" dev "$device" nodad ;; *) ip -n "$ns" addr add "$address" dev "$device" ;; esac
    done
    ip -n "$ns" link set "$device" up
  done
}
# sites: everything except the gateways' own configuration: addresses, and routes between them.
sites() {
  local ns side
  remove
  for ns in "${spaces[@]}"; do ip netns add "$ns"; ip -n "$ns" link set lo up; done
  cable $ha eth0 "10.1.0.10/24 fd00:1::10/64" $ga lan0 "10.1.0.1/24 fd00:1::1/64"
  cable $hb eth0 "10.2.0.10/24 fd00:2::10/64" $gb lan0 "10.2.0.1/24 fd00:2::1/64"
  cable $ga wan0 "192.0.2.1/24 2001:db8:1::1/64" $near site-a "192.0.2.254/24 2001:db8:1::fe/64"
  cable $gb wan0 "198.51.100.1/24 2001:db8:2::1/64" $far site-b "198.51.100.254/24 2001:db8:2::fe/64"
  cable $near far "203.0.113.1/30 2001:db8:ff::1/64" $far near "203.0.113.2/30 2001:db8:ff::2/64"
  for side in "$ha 10.1.0.1 fd00:1::1" "$hb 10.2.0.1 fd00:2::1" "$ga 192.0.2.254 2001:db8:1::fe" "$gb 198.51.100.254 2001:db8:2::fe" \
    "$near 203.0.113.2 2001:db8:ff::2" "$far 203.0.113.1 2001:db8:ff::1"; do
    read -r ns v4 v6 <<<"$side"
    ip -n "$ns" route add default via "$v4"; ip -n "$ns" route add default via "$v6"
  done
  for ns in $near $far; do in_ns $ns sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; done
}
# routed GATEWAY NUMBER: whether it has the routes to the other site, which it adds last when it
# starts.
routed() {
  local address
  for address in "10.$2.0.10" "fd00:$2::10"; do ip -n "$1" route get "$address" | grep -q 'dev convoy0' || return 1; done
}
# between BYTES: sets the MTU of the link between the routers.
between() { ip -n $near link set far mtu "$1"; ip -n $far link set near mtu "$1"; }
# serve: serves each host's file over HTTP.
serve() {
  local ns
  for ns in $ha $hb; do
    mkdir -p "$work/$ns"
    head -c 5000000 /dev/urandom >"$work/$ns/file"
    in_ns "$ns" python3 -m http.server 8000 --directory "$work/$ns" --bind :: >"$work/$ns.log" 2>&1 & running+=($!)
    wait_for "no HTTP server in $ns" in_ns "$ns" curl -s -o /dev/null "http://[::1]:8000/file"
  done
}
# fetch HOST PEER_HOST ADDRESS: fetches the peer's file over TCP and compares it.
fetch() {
  rm -f "$work/copy"
  in_ns "$1" curl -s -m 60 -o "$work/copy" "http://$3:8000/file" || fail "no 5,000,000 bytes from $3 to $1: $(stat -c %s "$work/copy" 2>/dev/null || echo 0) came"
  [ "$(sha256sum <"$work/copy")" = "$(sha256sum <"$work/$2/file")" ] || fail "what $1 has from $3 is not what was sent"
}
# fetch_all: in both directions, over IPv4 and IPv6.
fetch_all() { fetch $ha $hb 10.2.0.10; fetch $hb $ha 10.1.0.10; fetch $ha $hb '[fd00:2::10]'; fetch $hb $ha '[fd00:1::10]'; }
