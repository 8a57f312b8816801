#!/usr/bin/env bash
# Two gateways in network namespaces: ping, iperf3, and a capture between them that tshark decrypts;
# then the same gateways with IP-TFS, and the packets outside for the same pings. Needs root.
# usage: net.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/sites.sh"

unanswered() { fail "not all pings were answered"; }
ping_both_families() {
  local host
  for host in 10.2.0.1 fd00:2::1; do
    # One by one: packets that are sent together reach the capture as one (UDP_SEGMENT), of which
    # tshark reads only the first.
    for _ in 1 2 3 4 5; do pings "$work/ping.log" $a 1 $host || unanswered; done
    tail -2 "$work/ping.log"
  done
}
# Sends bursts of pings of 64 bytes, and sets $outer to the number of packets outside.
burst() {
  start_capture burst $a va udp port 4500
  for _ in $(seq $bursts); do pings "$work/ping.log" $a $pings -s 36 10.2.0.1 || unanswered; done
  end_capture burst
  outer=$(tcpdump -r "$work/burst.pcap" 2>/dev/null | wc -l)
  echo "$1: $((bursts * pings)) pings of 64 bytes in bursts of $pings, all answered, in $outer ESP packets outside"
}
# More answers at once than 170 find no room in ping's socket.
bursts=10 pings=100

start_capture outside $a va udp port 4500
start iperf.log $b iperf3 -s
wait_for_port $b 5201 -t
echo "--- ping through the tunnel, IPv4 and IPv6"
ping_both_families
end_capture outside
echo "--- TCP through the tunnel"
tcp() { ip netns exec $a iperf3 -c 10.2.0.1 -t 4 -f m "$@" >"$work/iperf" 2>&1; }
for way in "" -R; do
  # Its server refuses a test while it ends the one before.
  # shellcheck disable=SC2086 # none or one word
  wait_until "iperf3 measures nothing" tcp $way
  grep -E 'sender|receiver' "$work/iperf"
done

echo "--- the outside, decrypted by tshark"
sa() { printf 'uat:esp_sa:"IPv4","%s","%s","%s","AES-GCM with 16 octet ICV [RFC4106]","0x%s","NULL",""' "$@"; }
decrypted=$(tshark -r "$work/outside.pcap" -o esp.enable_encryption_decode:TRUE \
  -o "$(sa 192.0.2.1 192.0.2.2 0x00001002 "${key_ab[0]}")" -o "$(sa 192.0.2.2 192.0.2.1 0x00001001 "${key_ba[0]}")" \
  -Y 'icmp || icmpv6' -T fields -e _ws.col.Info 2>/dev/null)
echo "$decrypted" | sed -n "1,4p"
requests=$(grep -c '(ping) request' <<<"$decrypted" || true)
plain=$(tshark -r "$work/outside.pcap" -Y 'icmp || icmpv6' 2>/dev/null | wc -l)
echo "$requests echo requests decrypted; $plain of them to be seen without the keys"
rights=$(cat "/proc/${gateways[0]}/task"/*/status | grep CapEff)
privileged=$(grep -cv 'CapEff:[[:space:]]*0*$' <<<"$rights" || true)
echo "--- $(wc -l <<<"$rights") threads of a gateway, $privileged of them with privileges"
echo "--- metrics"
ip netns exec $a curl -s http://127.0.0.1:9464/metrics | tee "$work/metrics" | grep -E '^convoy_(engine_packets|port_sent_packets)'
"$convoy" show sa --control "$work/site-1.sock"
"$convoy" show engine --control "$work/site-1.sock"
"$convoy" show stats --control "$work/site-1.sock"
echo "--- small packets, without and with IP-TFS"
# Each packet by itself, so that the capture can count them.
for side in "$a va" "$b vb"; do
  read -r ns dev <<<"$side"
  ip netns exec "$ns" ethtool -K "$dev" gso off gro off tso off tx-udp-segmentation off
done
burst "tunnel mode"
in_tunnel_mode=$outer
stop_gateways
[ "$privileged" = 0 ] || fail "privileges were kept"
grep -q '^# EOF' "$work/metrics" || fail "the metrics are not whole"
[ "$requests" -ge 10 ] && [ "$plain" = 0 ] || fail "tshark did not find what was sent"
[ "$in_tunnel_mode" -ge $((2 * bursts * pings)) ] || fail "in tunnel mode each packet has one outside"
MODE=iptfs configure
begin_gateways
burst "IP-TFS"
ping_both_families
stop_gateways
[ "$outer" -lt $((in_tunnel_mode / 2)) ] || fail "IP-TFS did not join packets"
echo "done: both gateways drained and stopped, in each mode"
