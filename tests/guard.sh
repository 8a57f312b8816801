#!/usr/bin/env bash
# Packets that the kernel must not forward past a gateway's tunnels (RFC 4301 sections 5.1 and 5.2):
# those that a stranger on the way to the gateway forges as coming from a host behind the peer, and
# those to such hosts that the kernel's own routes would send unencrypted. Forwarding is on, and
# there is no firewall. Each kind is also shown to pass without the guard. Needs root.
# usage: guard.sh CONVOY KIND    where KIND is the inside port's: tun, af_packet or af_xdp
set -euo pipefail
convoy=$(realpath "$1") kind=$2 encap=udp
here=$(dirname "$(realpath "$0")")
source "$here/hosts.sh"
source "$here/gateways.sh"
sites
gateway() { # namespace own_number peer_number outer peer_outer
  local device='interface = "lan0"' address="\"10.$2.0.1\", \"fd00:$2::1\""
  [ "$kind" != tun ] || device='device = "convoy0"' address="\"10.$2.0.1/32\", \"fd00:$2::1/128\""
  configure "$1" "$2" "$3" "$4" "$5" 46 <<PORTS
${settings:-}
[[port]]
name = "inside"
kind = "$kind"
$device
address = [$address]
[[port]]
name = "outside"
kind = "udp"
address = ["$4"]
PORTS
}
for ns in $ga $gb; do
  forward $ns net.ipv4.conf.all.rp_filter=2
done
[ "$kind" != af_xdp ] || for ns in $ha $hb; do in_ns $ns ethtool -K eth0 tx off >/dev/null; done
# The stranger is the router beside gateway a, which also has a route to the hosts.
for network in 10.2.0.77/32 fd00:2::77/128; do ip -n $near addr add $network dev lo; done
ip -n $near route add 10.1.0.0/24 via 192.0.2.1
ip -n $near route add fd00:1::/64 via 2001:db8:1::1
in_ns $ha nft -f - <<'NFT'
table inet seen {
  chain input {
    type filter hook input priority 0
    ip saddr 10.2.0.77 counter
    ip6 saddr fd00:2::77 counter
  }
}
NFT
in_ns $near nft -f - <<'NFT'
table inet seen {
  chain prerouting {
    type filter hook prerouting priority raw
    iifname "site-a" ip daddr 10.2.0.0/24 counter drop
    iifname "site-a" ip6 daddr fd00:2::/64 counter drop
  }
}
NFT
seen() { in_ns "$1" nft list table inet seen | grep -o 'packets [0-9]*' | awk '{ sum += $2 } END { print sum }'; }
# forge: sends five datagrams of each family to host a that claim to come from a host behind gateway
# b, and prints how many arrived.
forge() {
  local before; before=$(seen $ha)
  in_ns $near python3 - <<'PY'
import socket
for family, source, to in (socket.AF_INET, "10.2.0.77", "10.1.0.10"), (socket.AF_INET6, "fd00:2::77", "fd00:1::10"):
    sender = socket.socket(family, socket.SOCK_DGRAM)
    sender.bind((source, 5))
    for _ in range(5):
        sender.sendto(b"forged", (to, 9))
PY
  # After the reply to a ping, everything sent before it has arrived as well.
  in_ns $near ping -q -c 1 -W 5 -I 192.0.2.254 10.1.0.10 >/dev/null || fail "host a is not reached from outside"
  in_ns $near ping -q -c 1 -W 5 -I 2001:db8:1::fe fd00:1::10 >/dev/null || fail "host a is not reached from outside by IPv6"
  echo $(($(seen $ha) - before))
}
# escape: pings hosts behind gateway b while a rule with a higher priority than the gateway's routes
# them past it, and prints how many left unencrypted.
escape() {
  local before; before=$(seen $near)
  ip -n $ga rule add pref 100 iif lan0 lookup main; ip -n $ga -6 rule add pref 100 iif lan0 lookup main
  for address in 10.2.0.10 fd00:2::10; do in_ns $ha ping -q -c 3 -i 0.2 -W 1 $address >/dev/null 2>&1 || true; done
  ip -n $ga rule del pref 100; ip -n $ga -6 rule del pref 100
  echo $(($(seen $near) - before))
}
reach() { for address in 10.2.0.10 fd00:2::10; do wait_until "$1, $address is not reached" in_ns $ha ping -q -c 1 -W 1 $address; done; }
table() { in_ns $ga nft list table inet convoy_4500 >"$work/table" 2>/dev/null; }
closed() {
  local forged escaped; forged=$(forge) escaped=$(escape)
  [ "$forged $escaped" = "0 0" ] || fail "$1: $forged of 10 forged packets arrived, and $escaped packets left unencrypted: $(cat "$work/table")"
  ok "$1: none of 10 forged packets arrived, and none left unencrypted"
}

gateway $gb 2 1 198.51.100.1 192.0.2.1; start_gateway $gb
settings="guard = false" gateway $ga 1 2 192.0.2.1 198.51.100.1; start_gateway $ga
reach "without the guard"
forged=$(forge) escaped=$(escape)
[ "$forged" = 10 ] || fail "without the guard, $forged of 10 forged packets arrive: the test would see none"
# An inside port on an Ethernet interface takes packets before the kernel routes them.
[ "$kind" != tun ] || [ "$escaped" -gt 0 ] || fail "without the guard, nothing leaves unencrypted: the test would see none"
! table || fail "guard = false sets a table"
ok "without the guard, $forged of 10 forged packets arrived, and $escaped packets left unencrypted"

gateway $ga 1 2 192.0.2.1 198.51.100.1
"$convoy" reload --control "$work/$ga.sock" >/dev/null
wait_until "a reload sets no guard" table
closed "guard by a reload"
reach "with the guard"
sed 's/^/    /' "$work/table"
# As at the start of /etc/nftables.conf on many hosts.
in_ns $ga nft flush ruleset
wait_until "the guard is not set again" table
closed "set again after \`nft flush ruleset\`"
in_ns $ga nft delete rule inet convoy_4500 forward handle "$(in_ns $ga nft -a list chain inet convoy_4500 forward | grep -o 'handle [0-9]*' | tail -1 | tr -dc 0-9)"
has_rule() { in_ns $ga nft list chain inet convoy_4500 forward | contains 'ip6 saddr @remote6'; }
wait_until "a rule is not set again" has_rule
closed "set again after a rule was deleted"
dropped() { "$convoy" show stats --json --control "$work/$ga.sock" | python3 -c 'import json, sys; row = json.load(sys.stdin)["guard"]; print(row["dropped_inbound"], row["dropped_outbound"])'; }
read -r inbound outbound <<<"$(dropped)"
# The counters of the table were lost when it was flushed.
[ "$inbound" = 20 ] || fail "show counts $inbound dropped forged packets, not 20"
[ "$kind" != tun ] || [ "$outbound" -ge 2 ] || fail "show counts $outbound dropped packets to the peer's network"
"$convoy" show stats --control "$work/$ga.sock" | contains 'guard: nftables table convoy_4500' || fail "show does not name the guard"
in_ns $ga "$convoy" check -c "$work/$ga.toml" | contains '^the guard (nftables table convoy_4500) drops unprotected packets from and to 10.2.0.0/24, fd00:2::/64 that' || fail "check does not tell of the guard"
wait_until "the log does not tell of dropped packets" grep -q 'the guard dropped unprotected packets: [1-9]' "$work/$ga-convoy.log"

# The table stays when the gateway ends, whatever the reason.
end_gateway $ga
closed "stopped"
in_ns $ga "$convoy" unblock -c "$work/$ga.toml" | contains 'the nftables table convoy_4500' || fail "unblock does not tell of the guard"
[ "$(forge)" = 10 ] || fail "after unblock, forged packets do not arrive"
! table || fail "unblock leaves the guard"
start_gateway $ga
reach "started again"
kill_and_wait "${process_of[$ga]}"
wait_until "a process of the gateway stays" no_gateway_in $ga
closed "kill -9"
settings='on_stop = "open"' gateway $ga 1 2 192.0.2.1 198.51.100.1
start_gateway $ga
end_gateway $ga
! table || fail "on_stop = \"open\" leaves the guard"
ok "removed by unblock, and by the end with on_stop = \"open\""
