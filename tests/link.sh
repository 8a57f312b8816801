#!/usr/bin/env bash
# Two gateways at Ethernet interfaces on both sides, with hosts behind them and routers between: a
# change of neighbour, a network that a reload adds, packets that the kernel keeps, and decryption
# with tshark. The kernels beside af_xdp do not forward; those beside af_packet do, and must still
# not see any of the gateway's packets. Needs root.
# usage: link.sh CONVOY PORT OUTER ENCAP    where PORT is af_xdp or af_packet, OUTER 4 or 6, and ENCAP udp or none; WORKERS is optional
set -euo pipefail
convoy=$(realpath "$1") PORT=$2 OUTER=$3 encap=$4
here=$(dirname "$(realpath "$0")")
source "$here/hosts.sh"
source "$here/gateways.sh"
sites
serve
outer_a=192.0.2.1 outer_b=198.51.100.1
[ "$OUTER" = 4 ] || outer_a=2001:db8:1::1 outer_b=2001:db8:2::1
# A veth passes on packets that the host's kernel has left to hardware offloads: without checksums,
# and with unsegmented TCP. af_packet handles both itself.
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
  start_gateway "$1"
}
gateway $ga 1 2 $outer_a $outer_b
gateway $gb 2 1 $outer_b $outer_a

none_refused() { # of what is captured, by the kernels
  local refused; refused=$(tshark -r "$work/outside.pcap" -Y 'icmp.type == 3 || icmpv6.type == 1' 2>/dev/null | wc -l)
  [ "$refused" = 0 ] || fail "the kernels have refused $refused packets of the tunnel"
}
# Packets are captured between the routers. What af_packet leaves to offloads is segmented and gets
# its checksums before that.
for ns in $ga $gb; do in_ns $ns ethtool -K wan0 tx off >/dev/null; done
capture
for address in 10.2.0.10 fd00:2::10; do
  for size in 0 56 1200; do
    pings "$work/ping.log" $ha 5 -s $size $address || fail "pings of $size bytes to $address are not answered: $(tail -3 "$work/ping.log")"
  done
done
# Frames with a tag of VLAN 0, which only carries a priority, as telephones send them: 802.1Q and
# 802.1ad. If there were more tags, the kernel would forward the packets as well.
gate=$(in_ns $ga cat /sys/class/net/lan0/address)
echos() { in_ns $hb nstat -asz IcmpInEchos Icmp6InEchos | awk '/InEchos/ { all += $2 } END { print all }'; }
before=$(echos)
in_ns $ha python3 "$here/tagged.py" eth0 "$gate" 5 10.1.0.10 10.2.0.10 fd00:1::10 fd00:2::10
arrived() { [ $(($(echos) - before)) = 20 ]; }
wait_until "not all of 20 pings in frames of VLAN 0 arrived" arrived
end_capture_of 100
for ns in $ga $gb; do in_ns $ns ethtool -K wan0 tx on >/dev/null; done
decrypted=$(decrypted $outer_a $outer_b 'icmp.type == 8 || icmpv6.type == 128')
plain=$(tshark -r "$work/outside.pcap" -Y '(ip.addr == 10.0.0.0/8 || ipv6.addr == fd00::/16) && !esp' 2>/dev/null | wc -l)
wrong=$(tshark -r "$work/outside.pcap" -o udp.check_checksum:TRUE -Y 'udp.checksum.status == "Bad"' 2>/dev/null | wc -l)
[ "$wrong" = 0 ] || fail "$wrong packets of the tunnel have a wrong UDP checksum"
[ "$decrypted" = 50 ] && [ "$plain" = 0 ] || fail "tshark decrypts $decrypted of 50 requests, and sees $plain packets without the keys"

none_refused

# An error about a packet that is too long for the tunnel comes from the gateway's inside address.
for host in "$ha 10.2.0.10 10.1.0.1" "$ha fd00:2::10 fd00:1::1" "$hb 10.1.0.10 10.2.0.1" "$hb fd00:1::10 fd00:2::1"; do
  read -r ns address from <<<"$host"
  ! in_ns "$ns" ping -c 1 -W 5 -M "do" -s 1440 "$address" >"$work/ping.log" 2>&1 || fail "a packet that is too long for the tunnel is answered by $address"
  grep -Eqi "^From $from:? .*(frag needed|too big)" "$work/ping.log" || fail "no error of $from about a packet that is too long: $(cat "$work/ping.log")"
done

# Full-size TCP, whose segments are reduced to what fits the tunnel (the inside gateway does path
# MTU discovery).
capture
fetch_all

# The kernel neither forwards nor rejects packets that the gateway takes.
for ns in $ga $gb; do
  for counter in IpForwDatagrams Ip6OutForwDatagrams; do
    packets=$(in_ns $ns nstat -asz $counter | awk -v of=$counter '$1 == of { print $2 }')
    [ "$packets" = 0 ] || fail "the kernel of $ns has forwarded packets: $packets of $counter"
  done
done
# Segments that are sent together are captured as one.
end_capture_of 100
none_refused

# All packets but the first ones used the interface's port.
for ns in $ga $gb; do
  for port in inside outside; do
    sent=$(of_port $ns $port sent_packets) by_kernel=$(of_port $ns $port sent_by_kernel)
    [ "$by_kernel" -ge 1 ] && [ $((by_kernel * 100)) -le "$sent" ] || fail "$ns sent $by_kernel of $sent packets by the kernel at the port $port"
    echo "$ns $port: $sent packets sent, $by_kernel of them by the kernel; $(of_port $ns $port received_packets) received, $(of_port $ns $port receive_dropped) dropped"
  done
done

# After a reload that adds a network, its packets are taken from the kernel.
ip -n $hb addr add 10.12.0.10/24 dev eth0
ip -n $gb route add 10.12.0.0/24 dev lan0
! in_ns $ha ping -c 1 -W 1 10.12.0.10 >/dev/null || fail "10.12.0.10 answers before the reload"
sed -i 's|^remote_ts = \[|&"10.12.0.0/24", |' "$work/$ga.toml"
sed -i 's|^local_ts = \[|&"10.12.0.0/24", |' "$work/$gb.toml"
for ns in $ga $gb; do
  "$convoy" reload --control "$work/$ns.sock" | tee "$work/reload.log"
  ! grep -q restart "$work/reload.log" || fail "a reload leaves something to a restart"
done
wait_until "no answer of a network that a reload added" in_ns $ha ping -c 1 -W 1 10.12.0.10
pings "$work/ping.log" $ha 5 10.12.0.10 || fail "pings to 10.12.0.10 after the reload: $(tail -3 "$work/ping.log")"
sed -i 's|"10.12.0.0/24", ||' "$work/$ga.toml" "$work/$gb.toml"
for ns in $ga $gb; do "$convoy" reload --control "$work/$ns.sock" >/dev/null; done
! in_ns $ha ping -c 1 -W 1 10.12.0.10 >/dev/null || fail "10.12.0.10 answers after a reload without it"

# Packets of the tunnel that are cut on the way, or before it: of UDP the kernel gets the fragments,
# as only the first one has a port, and returns them whole by its socket.
[ "$OUTER" = 4 ] && between 600 || between 1280
wait_until "no packet that is cut on the way arrives" in_ns $ha ping -c 1 -W 1 -M dont -s 1300 10.2.0.10
pings "$work/ping.log" $ha 5 -M dont -s 1300 10.2.0.10 || fail "packets that are cut on the way: $(tail -3 "$work/ping.log")"
between 1500

# The kernel keeps the rest: its own addresses answer on either side.
for address in 192.0.2.1 2001:db8:1::1; do
  in_ns $near ping -c 2 -i 0.2 -W 5 $address >/dev/null || fail "the kernel of $ga does not answer at $address"
done
in_ns $ha ping -c 2 -i 0.2 -W 5 10.1.0.1 >/dev/null || fail "the kernel of $ga does not answer inside"

# Idle gateways sleep until a descriptor is readable.
processes=()
for ns in $ga $gb; do processes+=("${process_of[$ns]}"); done
# Each worker checks the time now and then, and the limit only allows that for one worker.
[ "${WORKERS:-1}" != 1 ] || python3 "$here/ports.py" idle "${processes[@]}" || fail "an idle gateway is not idle"

# Another router and another host appear at the same addresses: the kernel learns of it, and the
# gateway learns it from the kernel.
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
  wait_until "no answer of $address after the neighbours have changed" in_ns $ha ping -c 1 -W 1 $address
  pings "$work/ping.log" $ha 5 $address || fail "pings to $address after the neighbours have changed: $(tail -3 "$work/ping.log")"
done

# They stop, which returns the interfaces to the kernel; they can start again at once.
for ns in $ga $gb; do
  end_gateway $ns
  ! ip -n $ns -d link show | contains 'prog/xdp' || fail "an XDP program is left at $ns"
done
gateway $ga 1 2 $outer_a $outer_b
gateway $gb 2 1 $outer_b $outer_a
wait_until "no answer after a restart" in_ns $ha ping -c 1 -W 1 10.2.0.10
echo "$PORT over IPv$OUTER, encap $encap: 50 requests decrypted by tshark, 20 of them from frames of VLAN 0, 20,000,000 bytes over HTTP the same, other neighbours found, restarted"
