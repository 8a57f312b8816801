#!/usr/bin/env bash
# Peers with static keys that roam: site 2 is known to site 1 by its keys alone. Answers follow its
# packets when its address and port change, in UDP through a NAT and native. Packets that are
# replayed, forged, or authentic but late move no peer. Needs root.
# usage: roaming.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
peer() { # of site 1's outbound SA: address and port
  "$convoy" show sa --json --control "$work/site-1.sock" | python3 -c 'import json, sys
for sa in json.load(sys.stdin):
    if sa["direction"] == "outbound":
        print(sa["remote"], sa["remote_port"])'
}
drops() { # reason
  "$convoy" show stats --json --control "$work/site-1.sock" | python3 -c 'import json, sys
print(json.load(sys.stdin)["drops"].get(sys.argv[1], 0))' "$1"
}
from() { pings "$work/ping.log" $1 5 "$2"; }

PORT=udp
source "$here/../demo/sites.sh"
stop_gateways
sed -i 's/^remote = .*/roaming = true/' "$work/site-1.toml"
sed -i 's/^encap = .*/&\nnat_keepalive = "always"/' "$work/site-2.toml"
for host in 22 23 66; do ip -n $b addr add "192.0.2.$host/24" dev vb; done
begin_gateways
[ "$(peer)" = "unknown 4500" ] || fail "a peer is known before its first packet: $(peer)"
! from $a 10.2.0.1 || fail "a peer is reached whose address is not known"
[ "$(drops outbound_no_peer)" -ge 5 ] || fail "packets without a peer are not counted"
# nat ADDRESS PORT: what site 2 sends seems to come from there, as after a NAT's reboot.
nat() {
  ip netns exec $b nft -f - <<NFT
    table ip nat
    delete table ip nat
    table ip nat {
      chain out {
        type filter hook output priority raw
        udp sport 4500 ip daddr 192.0.2.1 notrack
      }
      chain away {
        type filter hook postrouting priority srcnat
        udp sport 4500 ip daddr 192.0.2.1 ip saddr set $1 udp sport set $2
      }
      chain back {
        type filter hook prerouting priority -400
        ip daddr $1 udp dport $2 notrack ip daddr set 192.0.2.2 udp dport set 4500
      }
    }
NFT
}
for place in "192.0.2.22 41000" "192.0.2.22 42000" "192.0.2.23 43000"; do
  read -r address port <<<"$place"
  nat "$address" "$port"
  from $b 10.1.0.1 || fail "site 2 is not answered at $place: $(cat "$work/ping.log")"
  [ "$(peer)" = "$place" ] || fail "site 2 is at $place, and site 1 takes it to be at $(peer)"
  from $a 10.2.0.1 || fail "site 2 is not reached at $place: $(cat "$work/ping.log")"
done
wait_for_line 'tunnel site-2: the peer has moved from 192.0.2.22:42000 to 192.0.2.23:43000' "$work/a.log" "the log does not say where site 2 has gone"

# The NAT boots again while neither side has anything to send: what keeps the flow open tells site
# 1.
nat 192.0.2.22 44000
follows() { [ "$(peer)" = "192.0.2.22 44000" ]; }
wait_until "an idle site behind a NAT that has booted again is not followed" follows
from $a 10.2.0.1 || fail "an idle site behind a NAT that has booted again is not reached: $(cat "$work/ping.log")"
nat 192.0.2.23 43000
from $b 10.1.0.1 || fail "site 2 is not answered at its last place: $(cat "$work/ping.log")"

# An attacker at 192.0.2.66 has recorded some packets: of three the first was lost on its way.
start_capture seen $a va udp src port 43000
start_capture lost $b vb udp src port 43000
ip netns exec $a nft 'add table ip lossy; add chain ip lossy in { type filter hook prerouting priority raw; }; add rule ip lossy in udp sport 43000 drop'
ip netns exec $b ping -c 1 -W 1 10.1.0.1 >/dev/null && fail "a ping was to be lost"
ip netns exec $a nft delete table ip lossy
from $b 10.1.0.1 || fail "pings fail: $(cat "$work/ping.log")"
end_capture seen lost
before=$(drops replayed) forged=$(drops integrity_failed)
received() { "$convoy" show sa --json --control "$work/site-1.sock" | python3 -c 'import json, sys
print(*[sa["packets"] for sa in json.load(sys.stdin) if sa["direction"] == "inbound"])'; }
good=$(received)
ip netns exec $b python3 - "$work/lost.pcap" <<'ATTACK'
import socket, struct, sys
data, at, sealed = open(sys.argv[1], "rb").read(), 24, []
while at + 16 <= len(data):
    length = struct.unpack_from("<I", data, at + 8)[0]
    sealed.append(data[at + 16 + 14 + 20 + 8 : at + 16 + length])
    at += 16 + length
lost, newest = sealed[0], sealed[-1]
number = struct.unpack_from("!I", newest, 4)[0]
forged = newest[:4] + struct.pack("!I", number + 1000) + newest[8:]
attacker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attacker.bind(("192.0.2.66", 6666))
for packet in newest, forged, lost:
    attacker.sendto(packet, ("192.0.2.1", 4500))
ATTACK
is_accepted() { [ "$(received)" -gt "$good" ]; }
wait_until "the late packet was not accepted" is_accepted
[ "$(received)" = $((good + 1)) ] || fail "the late packet was not accepted: $(received) after $good"
[ "$(drops replayed)" = $((before + 1)) ] && [ "$(drops integrity_failed)" = $((forged + 1)) ] ||
  fail "the replayed and the forged packet were not dropped as such"
[ "$(peer)" = "192.0.2.23 43000" ] || fail "an attacker has moved site 2 to $(peer)"
from $a 10.2.0.1 || fail "site 2 is not reached after the attack: $(cat "$work/ping.log")"
ip netns exec $b nft delete table ip nat
stop_gateways
clean

# Native: site 2 has another address itself, which site 1 knew before.
PORT=raw
source "$here/../demo/sites.sh"
stop_gateways
sed -i 's/^encap = .*/&\nroaming = true/' "$work/site-1.toml"
ip -n $b addr add 192.0.2.22/24 dev vb
begin_gateways
from $a 10.2.0.1 || fail "site 2 is not where the configuration says: $(cat "$work/ping.log")"
end_well "${gateways[1]}" "the gateway of site 2"
sed -i 's/192\.0\.2\.2"/192.0.2.22"/' "$work/site-2.toml"
begin_gateway 2
from $b 10.1.0.1 || fail "site 2 is not answered at its new address: $(cat "$work/ping.log")"
[ "$(peer)" = "192.0.2.22 None" ] || fail "site 2 is at 192.0.2.22, and site 1 takes it to be at $(peer)"
from $a 10.2.0.1 || fail "site 2 is not reached at its new address: $(cat "$work/ping.log")"
echo "roaming: three places behind a NAT and a native one followed; a replayed, a forged and a late packet moved no peer"
