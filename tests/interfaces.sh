#!/usr/bin/env bash
# A policy-based and a route-based tunnel in one gateway: which packets each takes, what a reload
# does to a tunnel with an interface, an interface of the operator's, and nothing in clear when the
# gateway is killed. Needs root.
# usage: interfaces.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/../demo/sites.sh"
reload() { "$convoy" reload --control "$work/site-1.sock" >"$work/reload.log" 2>&1; }
packets() { # tunnel
  "$convoy" show sa --json --control "$work/site-1.sock" | python3 -c '
import json, sys
print(sum(sa["packets"] for sa in json.load(sys.stdin) if sa["tunnel"] == sys.argv[1] and sa["direction"] == "outbound"))' "$1"
}
answered() { # destination [argument...]
  pings "$work/ping" $a 5 "${@:2}" "$1" || fail "not all pings to $1 were answered: $(tail -n 3 "$work/ping")"
}
link_is() { ip -n $a -o link show ipsec-b | contains "$1"; }
routed() { # site: a tunnel of everything, to the other site
  local keys=("${routed_keys[@]}") spis=(0x2001 0x2002) peer=$((3 - $1))
  [ "$1" = 1 ] || { keys=("${routed_keys[1]}" "${routed_keys[0]}") spis=(0x2002 0x2001); }
  cat <<CONF
[[tunnel]]
name = "routed"
interface = "ipsec-b"
local = "$(outer "$1")"
remote = "$(outer $peer)"
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = ${spis[0]}
spi_out = ${spis[1]}
key_in = "${keys[0]}"
key_out = "${keys[1]}"
CONF
}
interface() { printf '[[interface]]\nname = "ipsec-b"\naddress = ["169.254.1.%s/30"]\n' "$1"; }

stop_gateways
routed_keys=("$(key aes128gcm16)" "$(key aes128gcm16)")
for site in 1 2; do
  interface $site >>"$work/site-$site.toml"
  cp -p "$work/site-$site.toml" "$work/without-$site.toml"
  routed $site >>"$work/site-$site.toml"
done
# The second site's device is the operator's own.
ip -n $b tuntap add dev ipsec-b mode tun
# Packets without a tunnel would leave by this route, in clear; as docs/guide/interfaces.md says, a
# network that is routed to an interface needs a route of its own against that.
ip -n $a route add default via 192.0.2.2
ip -n $a route add blackhole 10.9.0.0/24 metric 4000
ip -n $b addr add 10.9.0.1/32 dev lo
start_capture outside $a va
begin_gateways
wait_until "the interface has no link" link_is LOWER_UP
ip -n $a route add 10.9.0.0/24 dev ipsec-b

answered 10.2.0.1 -I 10.1.0.1
[ "$(packets site-2)" = 5 ] || fail "the policy's packets went by $(packets site-2) and $(packets routed)"
# The kernel sends some IPv6 packets of its own by an interface that comes up.
before=$(packets routed)
answered 169.254.1.2
answered 10.9.0.1
[ "$(packets site-2)" = 5 ] && [ $(($(packets routed) - before)) -ge 10 ] || fail "routed packets went by $(packets site-2) and $(packets routed)"
"$convoy" explain 169.254.1.1 10.9.0.1 --control "$work/site-1.sock" >"$work/explained" || fail "explain fails: $(cat "$work/explained")"
grep -q '^  policy .*policy routed ' "$work/explained" || fail "explain does not follow the route: $(cat "$work/explained")"
echo "each tunnel has its packets: 5 by policy, 10 by route"

cp -p "$work/site-1.toml" "$work/with.toml"
cp -p "$work/without-1.toml" "$work/site-1.toml"
reload || fail "the reload without the tunnel failed: $(cat "$work/reload.log")"
wait_until "an interface without a tunnel keeps its link" link_is NO-CARRIER
pings "$work/ping" $a 2 -W 1 10.9.0.1 && fail "packets crossed without a tunnel"
answered 10.2.0.1 -I 10.1.0.1
cp -p "$work/with.toml" "$work/site-1.toml"
reload || fail "the reload with the tunnel failed: $(cat "$work/reload.log")"
wait_until "the interface stays without a link" link_is LOWER_UP
answered 10.9.0.1
sed -i 's/"ipsec-b"/"ipsec-c"/' "$work/site-1.toml"
! reload || fail "a reload took an interface that is not there"
grep -q 'no interface "ipsec-c" yet' "$work/reload.log" && grep -q 'a new interface needs a restart' "$work/reload.log" ||
  fail "the refusal does not say what to do: $(cat "$work/reload.log")"
cp -p "$work/with.toml" "$work/site-1.toml"
answered 10.9.0.1
echo "a reload takes the tunnel from its interface, which goes down, and brings it back; a new interface is refused"

kill_and_wait "${gateways[0]}"
for host in 10.2.0.1 10.9.0.1; do
  pings "$work/ping" $a 3 -W 1 $host && fail "$host answers without a gateway"
done
end_capture outside
clear=$(tcpdump -Z root -nr "$work/outside.pcap" 'net 10.0.0.0/8 or net 169.254.0.0/16 or net fd00::/8' 2>/dev/null)
[ -z "$clear" ] || fail "packets left in clear: $clear"
echo "nothing left in clear, also after the gateway was killed"

end_well "${gateways[1]}" "the second gateway"
without_carrier() { ip -n $b -o link show ipsec-b | contains NO-CARRIER; }
wait_until "the operator's device is gone, or has a link" without_carrier
echo "the operator's device stays"
