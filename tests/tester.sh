#!/usr/bin/env bash
# convoy bench throughput between network namespaces, over IPv4 and IPv6: through two convoys, with
# UDP sockets and as hosts behind them; with every kind of end through a router that limits the
# packets per second; and without a route. Needs root.
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/../demo/sites.sh"
# rate LEAST NAME NEAR FAR OPTIONS...: writes the report to a file; 72 bytes are the shortest packet
# with IPv6. Measures up to four times if it finds fewer than LEAST packets/s, because packets are
# lost while a virtual machine's host pauses a core.
rate() {
  local least=$1 name=$2 near=$3 far=$4 round; shift 4
  for round in 1 2 3 4; do
    "$lab" bench throughput --near "$near" --far "$far" --lengths 72 --trials 1 --exceed 0.9 --quick --json "$@" \
      >"$work/$name.json" || fail "convoy bench throughput failed between $near and $far"
    python3 - "$work/$name.json" "$least" <<'ENOUGH' && return
import json, sys
found = json.load(open(sys.argv[1]))["rounds"][0][0]["pdr"]
sys.exit((found["packets_per_second"] or 0) < float(sys.argv[2]))
ENOUGH
    echo "$name: fewer than $least packets/s in attempt $round of 4"
  done
}
add_namespace tester-a tester-r tester-b
# Otherwise IPv6 waits for a second or two after an interface is up.
for ns in tester-a tester-r tester-b $a $b; do in_ns $ns sysctl -qw net.ipv6.conf.default.accept_dad=0; done

# The sites' inner addresses, through the tunnel.
through="--trial 0.5 --resolution 0.2 --most 20000 --least 500"
rate 501 tunnel "udp:$a/10.1.0.1" "udp:$b/10.2.0.1" $through
rate 501 tunnel6 "udp:$a/fd00:1::1" "udp:$b/fd00:2::1" $through
# Hosts behind the gateways, which forward between a veth and the tunnel.
for site in "$a tester-a 1" "$b tester-b 2"; do
  read -r gate host own <<<"$site"
  cable "$gate" lan0 "10.$own.9.1/24 fd00:$own:9::1/64" "$host" eth0 "10.$own.0.10/32 fd00:$own::10/128 10.$own.9.2/24 fd00:$own:9::2/64"
  forward "$gate"
  ip -n "$host" route add default via 10.$own.9.1; ip -n "$host" route add default via fd00:$own:9::1
  ip -n "$gate" route add 10.$own.0.10/32 via 10.$own.9.2; ip -n "$gate" route add fd00:$own::10/128 via fd00:$own:9::2
done
rate 501 gateways_af_packet af_packet:tester-a/eth0=10.1.0.10 af_packet:tester-b/eth0=10.2.0.10 $through
rate 501 gateways_af_packet6 af_packet:tester-a/eth0=fd00:1::10 af_packet:tester-b/eth0=fd00:2::10 $through
rate 501 gateways_af_xdp af_xdp:tester-a/eth0=10.1.0.10 af_xdp:tester-b/eth0=10.2.0.10 $through
rate 501 gateways_af_xdp6 af_xdp:tester-a/eth0=fd00:1::10 af_xdp:tester-b/eth0=fd00:2::10 $through
for host in tester-a tester-b; do ip -n $host link del eth0; done

# A router between two namespaces, with networks behind them for the interfaces that the tester
# creates.
for site in "a 1 2" "b 2 1"; do
  read -r name own other <<<"$site"
  ns=tester-$name
  cable $ns eth0 "10.$own.0.10/24 fd00:$own::10/64" tester-r to-$name "10.$own.0.1/24 fd00:$own::1/64"
  ip -n $ns route add 10.$other.0.0/16 via 10.$own.0.1; ip -n $ns route add fd00:$other::/32 via fd00:$own::1
  ip -n tester-r route add 10.$own.9.0/24 via 10.$own.0.10; ip -n tester-r route add fd00:$own:9::/64 via fd00:$own::10
  forward $ns
done
forward tester-r
ip netns exec tester-r nft add table inet tester
ip netns exec tester-r nft add chain inet tester forward '{ type filter hook forward priority 0 ; }'
ip netns exec tester-r nft add rule inet tester forward udp dport 9000 limit rate over 1000/second burst 160 packets drop
# The tester sends what it missed while a host took its core away; the router forgives 0.16 s of it.
# By that, a trial of 0.8 s passes up to 1,200 packets/s.
known="--trial 0.8 --resolution 0.04 --most 4000 --least 250"
rate 900 router_udp udp:tester-a/10.1.0.10 udp:tester-b/10.2.0.10 $known
rate 900 router_udp6 udp:tester-a/fd00:1::10 udp:tester-b/fd00:2::10 $known
rate 900 router_tun tun:tester-a/t0=10.1.9.1/24 tun:tester-b/t0=10.2.9.1/24 $known
rate 900 router_tun6 tun:tester-a/t0=fd00:1:9::1/64 tun:tester-b/t0=fd00:2:9::1/64 $known
rate 900 router_af_packet af_packet:tester-a/eth0=10.1.0.10 af_packet:tester-b/eth0=10.2.0.10 $known
rate 900 router_af_packet6 af_packet:tester-a/eth0=fd00:1::10 af_packet:tester-b/eth0=fd00:2::10 $known
rate 900 router_af_xdp af_xdp:tester-a/eth0=10.1.0.10 af_xdp:tester-b/eth0=10.2.0.10 $known
rate 900 router_af_xdp6 af_xdp:tester-a/eth0=fd00:1::10 af_xdp:tester-b/eth0=fd00:2::10 $known
# Without a route, everything is lost.
ip -n tester-r route del 10.2.9.0/24
rate 0 nowhere "tun:tester-a/t0=10.1.9.1/24" "tun:tester-b/t0=10.2.9.1/24" --trial 0.5 --most 2000 --least 1000
python3 - "$work" <<'CHECK' || fail "the tester found something else"
import json, pathlib, sys
found = {path.stem: json.loads(path.read_text())["rounds"][0][0]["pdr"]["packets_per_second"] for path in pathlib.Path(sys.argv[1]).glob("*.json")}
assert len(found) == 15 and found.pop("nowhere") is None, found
print("packets/s, each way:", ", ".join(f"{name} {rate or 0:.0f}" for name, rate in sorted(found.items())))
for name, rate in found.items():
    least, most = (900, 1300) if name.startswith("router") else (501, 20000)
    assert rate and least <= rate <= most, f"{name}: {rate}, not from {least} to {most}"
CHECK
