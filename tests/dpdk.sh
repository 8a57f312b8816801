#!/usr/bin/env bash
# Two gateways whose ports on both sides are DPDK Ethernet devices: net_af_packet on veths without
# kernel addresses, hosts behind them and routers between. Each gateway acts as a host on its links,
# for ARP, neighbour discovery and pings. tshark decrypts the captured packets. Needs root, and a
# convoy with DPDK.
# usage: dpdk.sh CONVOY ENCAP    where ENCAP is udp or none; WORKERS and OUTER (4 or 6) are optional
set -euo pipefail
convoy=$(realpath "$1") encap=$2 OUTER=${OUTER:-4}
here=$(dirname "$(realpath "$0")")
source "$here/hosts.sh"
source "$here/gateways.sh"
sites
serve
# A veth passes on packets that the host's kernel has left to hardware offloads: without checksums,
# and with unsegmented TCP.
for ns in $ha $hb; do in_ns $ns ethtool -K eth0 tx off >/dev/null; done
for ns in $ga $gb; do
  for device in lan0 wan0; do
    in_ns $ns sysctl -qw net.ipv6.conf.$device.disable_ipv6=1
    ip -n $ns addr flush dev $device
  done
done
site() { # namespace own_number peer_number outer router peer_outer
  local ends=("$4" "$6"); [ "$OUTER" = 4 ] || ends=("2001:db8:$2::1" "2001:db8:$3::1")
  configure "$1" "$2" "$3" "${ends[@]}" 46 <<PORTS
[[port]]
name = "inside"
kind = "dpdk"
device = "net_af_packet0,iface=lan0,qpairs=${WORKERS:-1}"
address = ["10.$2.0.1/24", "fd00:$2::1/64"]
[[port]]
name = "outside"
kind = "dpdk"
device = "net_af_packet1,iface=wan0,qpairs=${WORKERS:-1}"
address = ["$4/24", "2001:db8:$2::1/64"]
gateway = "$5"
gateway_v6 = "2001:db8:$2::fe"
PORTS
  "$convoy" check -c "$work/$1.toml"
}
site $ga 1 2 192.0.2.1 192.0.2.254 198.51.100.1
site $gb 2 1 198.51.100.1 198.51.100.254 192.0.2.1

# refused PATTERN REPLACEMENT MESSAGE: a gateway with this change must not start, and must report
# this.
refused() {
  (umask 077; sed "s|$1|$2|" "$work/$ga.toml" >"$work/refused.toml")
  ! in_ns $ga timeout "$PATIENCE" "$convoy" run -c "$work/refused.toml" >"$work/refused.log" 2>&1 || fail "it runs with $2"
  grep -qF -- "$3" "$work/refused.log" || fail "it does not say \"$3\""
}
refused net_af_packet1 net_af_packet0 "DPDK's device net_af_packet0 is already used by another port; each port needs a device of its own"
refused 'net_af_packet1,iface=wan0' net_no_such_driver0 'DPDK has no device "net_no_such_driver0'
grep -qE 'DPDK sees net_af_packet[0-9] \(driver net_af_packet\)|DPDK sees no Ethernet device' "$work/refused.log" || fail "it does not list DPDK's devices"
refused 'iface=wan0' 'iface=nowhere0' 'SIOCGIFINDEX):No such device'
refused '^workers = .*' 'workers = 3' "it has queue pairs for ${WORKERS:-1} of 3 workers; set workers lower"
refused '^workers = ' 'mtu = 9000\nworkers = ' 'device max frame size'
refused '^gateway = .*' 'gateway = "203.0.113.9"' 'the gateway 203.0.113.9 is in none of the networks of its addresses'
refused '^gateway_v6 = .*' 'gateway_v6 = "2001:db8:9::9"' 'the gateway 2001:db8:9::9 is in none of the networks of its addresses'

start_gateway $ga
start_gateway $gb
capture
for address in 10.2.0.10 fd00:2::10; do
  for size in 0 56 1200; do
    pings "$work/ping.log" $ha 5 -s $size $address || fail "pings of $size bytes to $address are not answered: $(tail -3 "$work/ping.log")"
  done
done
end_capture_of 60
outer=(192.0.2.1 198.51.100.1)
[ "$OUTER" = 4 ] || outer=(2001:db8:1::1 2001:db8:2::1)
decrypted=$(decrypted "${outer[@]}" 'icmp.type == 8 || icmpv6.type == 128')
plain=$(tshark -r "$work/outside.pcap" -Y '(ip.addr == 10.0.0.0/8 || ipv6.addr == fd00::/16) && !esp' 2>/dev/null | wc -l)
wrong=$(tshark -r "$work/outside.pcap" -o udp.check_checksum:TRUE -Y 'udp.checksum.status == "Bad"' 2>/dev/null | wc -l)
[ "$wrong" = 0 ] || fail "$wrong packets of the tunnel have a wrong UDP checksum"
[ "$decrypted" = 30 ] && [ "$plain" = 0 ] || fail "tshark decrypts $decrypted of 30 requests, and sees $plain packets without the keys"

# Full-size TCP, whose segments are reduced to what fits the tunnel (the inside gateway does path
# MTU discovery).
fetch_all

# A gateway answers on its links as a host does.
for address in 192.0.2.1 2001:db8:1::1; do
  in_ns $near ping -c 2 -i 0.2 -W 5 $address >/dev/null || fail "the port of $ga does not answer at $address"
done
for address in 10.1.0.1 fd00:1::1; do
  in_ns $ha ping -c 2 -i 0.2 -W 5 $address >/dev/null || fail "the port of $ga does not answer at $address"
done
for address in 192.0.2.9 2001:db8:1::9; do
  ! in_ns $near ping -c 1 -W 1 $address >/dev/null || fail "something answers at $address"
done
for ns in $ga $gb; do
  for port in inside outside; do
    sent=$(of_port $ns $port sent_packets) received=$(of_port $ns $port received_packets)
    [ "$sent" -ge 15 ] && [ "$received" -ge 15 ] || fail "$ns sent $sent and received $received packets at the port $port"
    for reason in malformed unreadable no_frame no_buffer; do
      [ "$(of_port $ns $port $reason)" = 0 ] || fail "$ns has dropped packets at the port $port: $reason"
    done
    echo "$ns $port: $sent packets sent, $received received"
  done
done
# Frames that are neither ARP nor for the gateway's addresses are dropped and counted.
before=$(of_port $ga outside other_address)
ip -n $near route add 192.0.2.77/32 via 192.0.2.1
in_ns $near ping -c 3 -i 0.2 -W 1 192.0.2.77 >/dev/null || true
all_counted() { [ $(($(of_port $ga outside other_address) - before)) = 3 ]; }
wait_until "3 packets to 192.0.2.77 are not counted" all_counted

# A host behind a peer that sends to hosts that do not exist must not block others: packets that
# wait for ARP are bounded in number, and given up.
scan() { # namespace prefix: 4 packets to each of 96 addresses, for which the device's ring has room
  in_ns "$1" python3 - "$2" <<'PYTHON'
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for count in range(4):
    for host in range(100, 196):
        sender.sendto(bytes(64), (f"{sys.argv[1]}.{host}", 9))
PYTHON
}
opened() { # packets that the gateway has decrypted
  ask $ga sa | python3 -c '
import json, sys
print(sum(sa["packets"] for sa in json.load(sys.stdin) if sa["direction"] == "inbound"))'
}
before=$(opened)
for _ in {1..8}; do
  until=$((SECONDS + 2)) wanted=$(($(opened) + 384))
  scan $hb 10.1.0
  until [ "$(opened)" -ge $wanted ] || [ $SECONDS -ge $until ]; do sleep 0.1; done
done
# Fewer than were sent where a gateway has lost its core for long and its device's ring overflowed.
scanned=$(($(opened) - before))
[ $scanned -ge 384 ] || fail "$ga has taken only $scanned of 3,072 packets"
answered=0
for _ in {1..30}; do ! pings "$work/ping.log" $ha 1 10.2.0.10 || answered=$((answered + 1)); sleep 0.2; done
[ $answered = 30 ] || fail "after packets to absent hosts, $answered of 30 pings were answered"
dropped() { local all=0 reason; for reason in arp_unanswered arp_displaced; do all=$((all + $(of_port $ga inside $reason))); done; echo $all; }
given_up() { # what came after the count is no more than what was sent
  local all; all=$(dropped)
  [ "$all" -ge $scanned ] && [ "$all" -le 3072 ]
}
wait_until "not all of $scanned packets to absent hosts were dropped" given_up
echo "$scanned packets to 96 absent hosts: $(of_port $ga inside arp_displaced) made room, $(of_port $ga inside arp_unanswered) were given up, 30 of 30 pings"

# They stop, and can start again at once.
for ns in $ga $gb; do end_gateway $ns; done
start_gateway $ga
start_gateway $gb
for address in 10.2.0.10 fd00:2::10; do wait_until "no answer of $address after a restart" in_ns $ha ping -c 1 -W 1 $address; done
echo "dpdk on both sides over IPv$OUTER, encap $encap, ${WORKERS:-1} workers: 30 requests decrypted by tshark, 20,000,000 bytes over HTTP the same, restarted"
