#!/usr/bin/env bash
# convoy bench throughput between two network namespaces, over IPv4 and IPv6: by UDP sockets through two convoys, as hosts behind `tun` interfaces through the
# kernel's forwarding, and where there is no way. Needs root.
# usage: tester.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/../demo/sites.sh"
fail() { echo "$1" >&2; cat "$work"/*.log >&2 2>/dev/null || true; exit 1; }
# rate NEAR FAR OPTIONS...: the report; 72 bytes are the shortest packet of IPv6
rate() {
  local near=$1 far=$2; shift 2
  "$convoy" bench throughput --near "$near" --far "$far" --lengths 72 --trial 0.5 --trials 1 --exceed 0.9 --resolution 0.2 \
    --json "$@" || fail "convoy bench throughput failed"
}
# The sites' inner addresses, through the tunnel.
rate "udp:$a/10.1.0.1" "udp:$b/10.2.0.1" --most 20000 --least 500 --quick >"$work/tunnel.json"
rate "udp:$a/fd00:1::1" "udp:$b/fd00:2::1" --most 20000 --least 500 --quick >"$work/tunnel6.json"
# Two other namespaces, between which the kernel forwards; the tester's ends are hosts behind interfaces that it makes.
ip netns add tester-a; ip netns add tester-b
trap 'clean; ip netns del tester-a; ip netns del tester-b' EXIT
ip link add va netns tester-a type veth peer name vb netns tester-b
for site in a:va:1:2 b:vb:2:1; do
  IFS=: read -r name device own other <<<"$site"
  ns=tester-$name
  ip -n $ns addr add 192.0.2.$own/24 dev $device
  ip -n $ns addr add 2001:db8::$own/64 dev $device nodad
  ip -n $ns link set $device up; ip -n $ns link set lo up
  ip -n $ns route add 10.$other.9.0/24 via 192.0.2.$other
  ip -n $ns route add fd00:$other:9::/64 via 2001:db8::$other
  ip netns exec $ns sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
done
rate "tun:tester-a/t0=10.1.9.1/24" "tun:tester-b/t0=10.2.9.1/24" --most 20000 --least 500 --quick >"$work/hosts.json"
rate "tun:tester-a/t0=fd00:1:9::1/64" "tun:tester-b/t0=fd00:2:9::1/64" --most 20000 --least 500 --quick >"$work/hosts6.json"
# Where nothing is routed, everything is lost.
ip -n tester-a route del 10.2.9.0/24
rate "tun:tester-a/t0=10.1.9.1/24" "tun:tester-b/t0=10.2.9.1/24" --most 2000 --least 1000 --quick >"$work/nowhere.json"
python3 - "$work" <<'CHECK' || fail "the tester found something else"
import json, sys
def report(name):
    return json.load(open(f"{sys.argv[1]}/{name}.json"))["rounds"][0][0]
found = {name: report(name)["pdr"]["packets_per_second"] for name in ("tunnel", "tunnel6", "hosts", "hosts6", "nowhere")}
assert found.pop("nowhere") is None, "packets arrive where nothing is routed"
assert all(rate and rate > 500 for rate in found.values()), found
print(f"packets/s, each way: {found}")
CHECK
