# shellcheck shell=bash disable=SC2034,SC2154
# Two sites: a host behind each gateway, and two routers between the gateways whose link can get a
# smaller MTU. The kernel's settings are those of a new namespace, except for forwarding. Sourced,
# with $convoy set. Needs root.
#
#   host a --- gateway a --- near === far --- gateway b --- host b
#   10.1.0.10  .1   192.0.2.1  .254         .254  198.51.100.1   .1  10.2.0.10
#   fd00:1::10 ::1  2001:db8:1::1  ::fe     ::fe  2001:db8:2::1  ::1  fd00:2::10
# shellcheck source=tests/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_root
work_dir
ha=convoy-host-a ga=convoy-gate-a near=convoy-near far=convoy-far gb=convoy-gate-b hb=convoy-host-b
# capture: captures the packets between the routers; end_capture_of COUNT: once there are so many
# ESP packets.
capture() { start_capture outside $near far; }
end_capture_of() {
  wait_until "fewer than $1 packets of the tunnel are captured" captured "$1"
  end_capture outside
}
captured() { [ "$(tshark -r "$work/outside.pcap" -Y esp 2>/dev/null | wc -l)" -ge "$1" ]; }
# sites: everything except the gateways' own configuration: addresses, and routes between them.
sites() {
  local ns side v4 v6
  add_namespace $ha $ga $near $far $gb $hb
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
  forward $near; forward $far
}
# routed GATEWAY NUMBER: whether it has the routes to the other site, which it adds last when it
# starts.
routed() {
  local address
  for address in "10.$2.0.10" "fd00:$2::10"; do ip -n "$1" route get "$address" | contains 'dev convoy0' || return 1; done
}
# between BYTES: sets the MTU of the link between the routers.
between() { ip -n $near link set far mtu "$1"; ip -n $far link set near mtu "$1"; }
# serve: serves each host's file over HTTP.
serve() {
  local ns
  for ns in $ha $hb; do
    mkdir -p "$work/$ns"
    head -c 5000000 /dev/urandom >"$work/$ns/file"
    serve_files "$ns" "$work/$ns" 8000
  done
}
# fetch HOST PEER_HOST ADDRESS: fetches the peer's file over TCP and compares it.
fetch() {
  rm -f "$work/copy"
  in_ns "$1" curl -s -m $PATIENCE -o "$work/copy" "http://$3:8000/file" || fail "no 5,000,000 bytes from $3 to $1: $(stat -c %s "$work/copy" 2>/dev/null || echo 0) came"
  [ "$(sha256sum <"$work/copy")" = "$(sha256sum <"$work/$2/file")" ] || fail "what $1 has from $3 is not what was sent"
}
# fetch_all: in both directions, over IPv4 and IPv6.
fetch_all() { fetch $ha $hb 10.2.0.10; fetch $hb $ha 10.1.0.10; fetch $ha $hb '[fd00:2::10]'; fetch $hb $ha '[fd00:1::10]'; }
