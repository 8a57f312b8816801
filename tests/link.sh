#!/usr/bin/env bash
# Two gateways at Ethernet interfaces on both sides: hosts behind them, routers between, another
# neighbour on the way, a network that a reload adds, what stays with the kernel, and what tshark
# decrypts of it. The kernels beside af_xdp forward nothing; those beside af_packet do, and must
# still get none of the gateway's packets. Needs root.
# usage: link.sh CONVOY PORT OUTER ENCAP    where PORT is af_xdp or af_packet, OUTER 4 or 6, and ENCAP udp or none; WORKERS as wished
set -euo pipefail
convoy=$(realpath "$1") PORT=$2 OUTER=$3 encap=$4
here=$(dirname "$(realpath "$0")")
source "$here/hosts.sh"
source "$here/gateways.sh"
sites
serve
outer_a=192.0.2.1 outer_b=198.51.100.1
[ "$OUTER" = 4 ] || outer_a=2001:db8:1::1 outer_b=2001:db8:2::1
# A veth hands over what a host's kernel has left for its hardware to do, checksums and the cutting
# of TCP, which af_packet does itself.
forwarding=1
if [ "$PORT" = af_xdp ]; then
  forwarding=0
  for ns in $ha $hb; do in_ns $ns ethtool -K eth0 tx off >/dev/null; done
fi
for ns in $ga $gb; do in_ns $ns sysctl -qw net.ipv4.ip_forward=$forwarding net.ipv6.conf.all.forwarding=$forwarding; done
gateway() { # namespace own_number peer_number outer peer_outer
  configure "$1" "$2" "$3" "$4" "$5" 46 <<PORTS
[[port]]
name = "inside"
kind = "$PORT"
interface = "lan0"
address = ["10.$2.0.1", "fd00:$2::1"]
[[port]]
name = "outside"
kind = "$PORT"
interface = "wan0"
address = ["$4"]
PORTS
  # Each worker has a queue of each interface.
  [ "$PORT" != af_xdp ] || for device in lan0 wan0; do in_ns "$1" ethtool -L $device rx "${WORKERS:-1}" tx "${WORKERS:-1}" 2>/dev/null || true; done
  start "$1"
}
gateway $ga 1 2 $outer_a $outer_b
gateway $gb 2 1 $outer_b $outer_a

none_refused() { # of what is captured, by the kernels
  local refused; refused=$(tshark -r "$work/outside.pcap" -Y 'icmp.type == 3 || icmpv6.type == 1' 2>/dev/null | wc -l)
  [ "$refused" = 0 ] || fail "the kernels have refused $refused packets of the tunnel"
}
# Between the routers everybody can look; what af_packet leaves to be cut and summed is done before
# it gets there.
for ns in $ga $gb; do in_ns $ns ethtool -K wan0 tx off >/dev/null; done
capture
for address in 10.2.0.10 fd00:2::10; do
  for size in 0 56 1200; do
    IN="ip netns exec $ha" pings "$work/ping.log" 5 -s $size $address || fail "pings of $size bytes to $address are not answered: $(tail -3 "$work/ping.log")"
  done
done
# In frames of VLAN 0, which have a priority alone, as telephones send them: 802.1Q and 802.1ad.
# With more tags the kernel would forward them, too.
gate=$(in_ns $ga cat /sys/class/net/lan0/address)
echos() { in_ns $hb nstat -asz IcmpInEchos Icmp6InEchos | awk '/InEchos/ { all += $2 } END { print all }'; }
before=$(echos)
in_ns $ha python3 "$here/tagged.py" eth0 "$gate" 5 10.1.0.10 10.2.0.10 fd00:1::10 fd00:2::10
arrived() { [ $(($(echos) - before)) = 20 ]; }
wait_for "of 20 pings in frames of VLAN 0 $(($(echos) - before)) arrived" arrived
end_capture 100
for ns in $ga $gb; do in_ns $ns ethtool -K wan0 tx on >/dev/null; done
decrypted=$(decrypted $outer_a $outer_b 'icmp.type == 8 || icmpv6.type == 128')
plain=$(tshark -r "$work/outside.pcap" -Y '(ip.addr == 10.0.0.0/8 || ipv6.addr == fd00::/16) && !esp' 2>/dev/null | wc -l)
wrong=$(tshark -r "$work/outside.pcap" -o udp.check_checksum:TRUE -Y 'udp.checksum.status == "Bad"' 2>/dev/null | wc -l)
[ "$wrong" = 0 ] || fail "$wrong packets of the tunnel have a wrong UDP checksum"
[ "$decrypted" = 50 ] && [ "$plain" = 0 ] || fail "tshark decrypts $decrypted of 50 requests, and sees $plain packets without the keys"

none_refused

# Full-size TCP, whose segments are cut to what the tunnel leaves (path MTU discovery by the gateway
# inside).
capture
fetch_all

# What the gateway takes, the kernel neither forwards nor refuses.
for ns in $ga $gb; do
  for counter in IpForwDatagrams Ip6OutForwDatagrams; do
    packets=$(in_ns $ns nstat -asz $counter | awk -v of=$counter '$1 == of { print $2 }')
    [ "$packets" = 0 ] || fail "the kernel of $ns has forwarded packets: $packets of $counter"
  done
done
# Segments that leave together are captured as one.
end_capture 100
none_refused

# All of that but the first packets went by the interface.
for ns in $ga $gb; do
  for port in inside outside; do
    sent=$(of_port $ns $port sent_packets) by_kernel=$(of_port $ns $port sent_by_kernel)
    [ "$by_kernel" -ge 1 ] && [ $((by_kernel * 100)) -le "$sent" ] || fail "$ns sent $by_kernel of $sent packets by the kernel at the port $port"
    echo "$ns $port: $sent packets sent, $by_kernel of them by the kernel; $(of_port $ns $port received_packets) received, $(of_port $ns $port receive_dropped) dropped"
  done
done

# A network that a reload adds is taken from the kernel.
ip -n $hb addr add 10.12.0.10/24 dev eth0
ip -n $gb route add 10.12.0.0/24 dev lan0
! in_ns $ha ping -c 1 -W 1 10.12.0.10 >/dev/null || fail "10.12.0.10 answers before the reload"
sed -i 's|^remote_ts = \[|&"10.12.0.0/24", |' "$work/$ga.toml"
sed -i 's|^local_ts = \[|&"10.12.0.0/24", |' "$work/$gb.toml"
for ns in $ga $gb; do
  "$convoy" reload --control "$work/$ns.sock" | tee "$work/reload.log"
  ! grep -q restart "$work/reload.log" || fail "a reload leaves something to a restart"
done
wait_for "no answer of a network that a reload added" in_ns $ha ping -c 1 -W 1 10.12.0.10
IN="ip netns exec $ha" pings "$work/ping.log" 5 10.12.0.10 || fail "pings to 10.12.0.10 after the reload: $(tail -3 "$work/ping.log")"
sed -i 's|"10.12.0.0/24", ||' "$work/$ga.toml" "$work/$gb.toml"
for ns in $ga $gb; do "$convoy" reload --control "$work/$ns.sock" >/dev/null; done
! in_ns $ha ping -c 1 -W 1 10.12.0.10 >/dev/null || fail "10.12.0.10 answers after a reload without it"

# The kernel has the rest: its own addresses answer, on either side.
for address in 192.0.2.1 2001:db8:1::1; do
  in_ns $near ping -c 2 -i 0.2 -W 5 $address >/dev/null || fail "the kernel of $ga does not answer at $address"
done
in_ns $ha ping -c 2 -i 0.2 -W 5 10.1.0.1 >/dev/null || fail "the kernel of $ga does not answer inside"

# With nothing to do they sleep, by descriptors that become readable.
processes=()
for ns in $ga $gb; do processes+=("$(process_of $ns)"); done
# Each worker looks at the time now and then, which the limit allows to one.
[ "${WORKERS:-1}" != 1 ] || python3 "$here/ports.py" idle "${processes[@]}" || fail "an idle gateway is not idle"

# Another router, and another host, at the same addresses: the kernel hears of it, and the gateway
# of the kernel.
for end in "$near site-a 02:00:00:00:00:77" "$hb eth0 02:00:00:00:00:78"; do
  read -r ns device mac <<<"$end"
  ip -n "$ns" link set "$device" down
  ip -n "$ns" link set "$device" address "$mac"
  ip -n "$ns" link set "$device" up
done
ip -n $near addr replace 2001:db8:1::fe/64 dev site-a nodad
ip -n $hb addr replace fd00:2::10/64 dev eth0 nodad
ip -n $hb route replace default via 10.2.0.1; ip -n $hb route replace default via fd00:2::1
for address in 10.2.0.10 fd00:2::10; do
  wait_for "no answer of $address after the neighbours have changed" in_ns $ha ping -c 1 -W 1 $address
  IN="ip netns exec $ha" pings "$work/ping.log" 5 $address || fail "pings to $address after the neighbours have changed: $(tail -3 "$work/ping.log")"
done

# They end, and leave the interfaces to the kernel; they can begin again at once.
for ns in $ga $gb; do
  end $ns
  ! ip -n $ns -d link show | grep -q 'prog/xdp' || fail "an XDP program is left at $ns"
done
gateway $ga 1 2 $outer_a $outer_b
gateway $gb 2 1 $outer_b $outer_a
wait_for "no answer after a restart" in_ns $ha ping -c 1 -W 1 10.2.0.10
echo "$PORT over IPv$OUTER, encap $encap: 50 requests decrypted by tshark, 20 of them from frames of VLAN 0, 20,000,000 bytes over HTTP the same, other neighbours found, restarted"
