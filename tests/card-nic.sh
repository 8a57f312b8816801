#!/usr/bin/env bash
# The card as a network interface of the kernel, without a gateway: two hosts, each with
# `convoy nic` between a TAP interface and a cable. ping, TCP, tcpdump and two charons use the
# interfaces; what the policies protect is plain there and ESP on the cable, where tshark decrypts
# it. Needs root and a convoy with the card.
# usage: card-nic.sh CONVOY
#
#   10.1.0.1 [A] grip0 192.0.2.1 (card) va -- vb (card) 192.0.2.2 grip0 [B] 10.2.0.1
set -euo pipefail
convoy=$(realpath "$1") plugin=
here=$(dirname "$(realpath "$0")")
A=convoy-nic-a B=convoy-nic-b
# shellcheck source=tests/charon/lib.sh
source "$here/charon/lib.sh"
show_logs() { tail -n 20 "$work"/[ab]/log "$work"/nic-?.log; }
key_ab=$("$convoy" genkey aes128gcm16) key_ba=$("$convoy" genkey aes128gcm16)
inner_ab=$("$convoy" genkey aes128gcm16) inner_ba=$("$convoy" genkey aes128gcm16)

add_namespace "$A" "$B"
cable "$A" va "" "$B" vb ""
for side in "$A va" "$B vb"; do
  read -r ns dev <<<"$side"
  in_ns "$ns" sysctl -qw "net.ipv6.conf.$dev.disable_ipv6=1"
done

# configure SIDE: without tunnels; protect SIDE adds them.
configure() {
  local host=1; [ "$1" = a ] || host=2
  (umask 077; printf '[nic]\ninterface = "v%s"\ndevice = "grip0"\naddress = ["192.0.2.%s/24"]\nchecksum = true\n' "$1" $host >"$work/nic-$1.toml")
}
protect() {
  local me=1 peer=2 t_in=$key_ba t_out=$key_ab n_in=$inner_ba n_out=$inner_ab
  [ "$1" = a ] || { me=2 peer=1 t_in=$key_ab t_out=$key_ba n_in=$inner_ab n_out=$inner_ba; }
  cat >>"$work/nic-$1.toml" <<CONF
[[bypass]]
local_ts = "192.0.2.${me}[udp]"
remote_ts = "192.0.2.${peer}[udp]"
[[tunnel]]
name = "host"
mode = "transport"
local = "192.0.2.$me"
remote = "192.0.2.$peer"
local_ts = ["192.0.2.$me"]
remote_ts = ["192.0.2.$peer"]
esp_proposal = "aes128gcm16"
encap = "none"
[tunnel.manual]
spi_in = $((0x1000 + me))
spi_out = $((0x1000 + peer))
key_in = "$t_in"
key_out = "$t_out"
[[tunnel]]
name = "nets"
local = "192.0.2.$me"
remote = "192.0.2.$peer"
local_ts = ["10.$me.0.0/24"]
remote_ts = ["10.$peer.0.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = $((0x2000 + me))
spi_out = $((0x2000 + peer))
key_in = "$n_in"
key_out = "$n_out"
CONF
}
start_nics() {
  local side ns
  for side in a b; do
    ns=$A; [ $side = a ] || ns=$B
    start "nic-$side.log" "$ns" "$lab" nic -c "$work/nic-$side.toml"
    nics+=("$started")
   
  done
  for side in a b; do wait_until "the interface of $side does not start" grep -q ' ready' "$work/nic-$side.log"; done
  ip -n "$A" addr add 10.1.0.1/24 dev lo 2>/dev/null || true
  ip -n "$B" addr add 10.2.0.1/24 dev lo 2>/dev/null || true
  ip -n "$A" route add 10.2.0.0/24 via 192.0.2.2 src 10.1.0.1
  ip -n "$B" route add 10.1.0.0/24 via 192.0.2.1 src 10.2.0.1
}
nics=()
stop_nics() {
  local one
  for one in "${nics[@]}"; do end_well "$one" "an interface"; done
  nics=()
}
# of SIDE WORD: a count of the last line that tells them.
of() { sed -n "s/.*$2 \([0-9]*\).*/\1/p" "$work/nic-$1.log" | tail -n 1; }
count() { tcpdump -nr "$work/$1.pcap" "$2" 2>/dev/null | wc -l; }
listens_at() { in_ns "$1" ss -Hltn src "$2" | contains .; }
tcp() { # namespace of the server, its address, bytes
  start served.log "$1" iperf3 -s -1 -B "$2" -p 5201; local server=$started
  local other=$A; [ "$1" = "$B" ] || other=$B
  wait_until "iperf3 does not listen" listens_at "$1" "$2:5201"
  ip netns exec "$other" iperf3 -c "$2" -p 5201 -n "$3" -l 4096 --json >"$work/iperf3" 2>&1 || fail "iperf3: $(tail -5 "$work/iperf3")"
  wait "$server" || fail "iperf3's server: $(cat "$work/served.log")"
  python3 - "$work/iperf3" "$3" <<'END' || fail "iperf3 has not sent all: $(tail -30 "$work/iperf3")"
import json, sys
end = json.load(open(sys.argv[1]))["end"]
sys.exit(end["sum_sent"]["bytes"] < int(sys.argv[2]) or not end["sum_received"]["bytes"])
END
}

echo "--- an interface like any other: ping, TCP, IPv6 of the link, and two charons with their own ESP"
configure a; configure b
start_nics
pings_from "$A" 5 -s 1400 192.0.2.2 || fail "not all pings were answered: $(cat "$work/ping")"
link_local=$(ip -n "$B" -6 -o addr show dev grip0 scope link | awk '{ sub("/.*", "", $4); print $4 }')
pings_from "$A" 3 "$link_local%grip0" || fail "not all pings by IPv6 were answered: $(cat "$work/ping")"
pings_from "$A" 2 -s 4000 192.0.2.2 || fail "not all fragmented pings were answered: $(cat "$work/ping")"
tcp "$B" 192.0.2.2 300000
strongswan a "$stock"; strongswan b "$stock"
start_charon a; charons=("$charon_pid"); start_charon b; charons+=("$charon_pid")
connection a 192.0.2.1 192.0.2.2 "encap = yes" "esp_proposals = aes128gcm16"
connection b 192.0.2.2 192.0.2.1 "encap = yes" "esp_proposals = aes128gcm16"
load a; load b
start_capture charon "$A" va
up a
ping_both
end_capture charon
[ "$(count charon 'udp port 4500')" -ge 36 ] || fail "charon's own ESP did not cross the interface"
[ "$(count charon icmp)" = 0 ] || fail "charon's tunnel carried nothing"
down a
end_process "${charons[@]}"
stop_nics
[ "$(of a encrypted)$(of a decrypted)$(of b encrypted)$(of b decrypted)" = 0000 ] || fail "a card without SAs has encrypted"

echo "--- with SAs: plain at the interface, ESP on the cable"
for side in a b; do protect $side; done
start_nics
start_capture wire "$A" va
start_capture tap "$A" grip0
for size in 0 56 1400; do
  pings_from "$A" 4 -s $size 192.0.2.2 || fail "transport mode: not all pings of $size bytes were answered: $(cat "$work/ping")"
  pings_from "$A" 4 -s $size -I 10.1.0.1 10.2.0.1 || fail "tunnel mode: not all pings of $size bytes were answered: $(cat "$work/ping")"
done
tcp "$B" 192.0.2.2 200000
tcp "$A" 10.1.0.1 200000
end_capture wire tap
outside='not arp and not ip6 and not ip proto 50 and not (udp port 4500 and udp[8:4] != 0)'
[ "$(count wire "$outside")" = 0 ] || fail "something crossed the cable in clear: $(tcpdump -nr "$work/wire.pcap" "$outside" 2>/dev/null | head -3)"
[ "$(count tap 'icmp[icmptype] == icmp-echo')" = 24 ] || fail "tcpdump at the interface does not see the pings"
[ "$(count tap 'ip proto 50 or udp port 4500')" = 0 ] || fail "tcpdump at the interface sees ESP"
sa() { printf 'uat:esp_sa:"IPv4","%s","%s","%s","AES-GCM with 16 octet ICV [RFC4106]","0x%s","NULL",""' "$@"; }
decrypted=$(tshark -r "$work/wire.pcap" -o esp.enable_encryption_decode:TRUE \
  -o "$(sa 192.0.2.1 192.0.2.2 0x00001002 "$key_ab")" -o "$(sa 192.0.2.2 192.0.2.1 0x00001001 "$key_ba")" \
  -o "$(sa 192.0.2.1 192.0.2.2 0x00002002 "$inner_ab")" -o "$(sa 192.0.2.2 192.0.2.1 0x00002001 "$inner_ba")" \
  -Y 'icmp' -T fields -e _ws.col.Info 2>/dev/null)
[ "$(grep -c '(ping) request' <<<"$decrypted")" = 24 ] || fail "tshark decrypts other pings: $decrypted"
esp=$(count wire 'ip proto 50') udp=$(count wire 'udp port 4500')

echo "--- what should be protected and is not, goes no further: neither by the card nor by the line's own interface"
mac=$(ip -n "$A" -o link show va | grep -o 'link/ether [0-9a-f:]*' | cut -d' ' -f2)
received() { ip netns exec "$A" nstat -asz IcmpInEchos | awk '/^Icmp/ { print $2 }'; }
before=$(received)
ip netns exec "$B" python3 - "$mac" <<'END'
import socket, sys
from struct import pack
def sum16(data):
    total = sum(data[at] << 8 | data[at + 1] for at in range(0, len(data), 2))
    return ~(total % 65535) & 0xFFFF
mac = bytes.fromhex(sys.argv[1].replace(":", "") + "020000000099")
body = pack(">BBHHH", 8, 0, 0, 77, 1)
body = body[:2] + pack(">H", sum16(body)) + body[4:]
ends = socket.inet_aton("10.2.0.1") + socket.inet_aton("10.1.0.1")
head = pack(">BBHHHBBH", 0x45, 0, 28, 0, 0, 64, 1, 0) + ends
head = head[:10] + pack(">H", sum16(head)) + head[12:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
    wire.bind(("vb", 0))
    wire.send(mac + b"\x08\0" + head + body)
END
# Behind it comes what shows that it was looked at.
pings_from "$B" 1 192.0.2.1 || fail "not all pings were answered"
[ "$(received)" = $((before + 1)) ] || fail "the kernel has received $(($(received) - before)) pings, not the protected one alone"
stop_nics
grep -q 'dropped, inbound_unprotected: 1$' "$work/nic-a.log" || fail "the packet in clear was not dropped: $(cat "$work/nic-a.log")"
for side in a b; do
  [ "$(of $side 'by software')" = 0 ] || fail "the software had to help: $(cat "$work/nic-$side.log")"
  [ "$(of $side encrypted)" -ge 100 ] && [ "$(of $side decrypted)" -ge 100 ] || fail "the card of $side: $(cat "$work/nic-$side.log")"
done
! ip -n "$A" link show grip0 >/dev/null 2>&1 || fail "the interface is still there"
echo "card-nic: $esp packets of ESP in transport mode and $udp of ESP in UDP in tunnel mode crossed, all by the cards; tshark decrypted 24 pings"
