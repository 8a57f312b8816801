#!/usr/bin/env bash
# Makes demo/traffic.pcap: two hosts in network namespaces exchange traffic of real programs, and
# tcpdump captures it. Needs root; can be run from any folder.
#
#   10.1.0.10, fd00:1::10  client  --veth--  server  10.2.0.10, fd00:2::10
#
# web (curl and Python's http.server), DNS (dig and dnsmasq), file transfer (rsync), voice-like
# packets (iperf3, UDP, 172 bytes 50 times a second each way, as G.711 in RTP), ping. IPv4 and IPv6.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
apt-get install -y -qq iproute2 ethtool tcpdump curl python3 dnsmasq-base bind9-dnsutils rsync iperf3 iputils-ping >/dev/null
source "$here/../tests/lib.sh"
work_dir
client=convoy-tc server=convoy-ts
add_namespace $client $server
cable $client c0 "" $server s0 ""
for side in "$client c0 1" "$server s0 2"; do
  read -r ns dev net <<<"$side"
  # An MTU of 1400 leaves room for ESP in UDP. Offloads are off, so that packets are captured as
  # they travel.
  ip netns exec "$ns" ethtool -K "$dev" tso off gso off gro off tx off rx off >/dev/null
  ip -n "$ns" link set "$dev" mtu 1400
  up_with "$ns" "$dev" "10.$net.0.10/24 fd00:$net::10/64"
done
ip -n $client route add 10.2.0.0/24 dev c0
ip -n $server route add 10.1.0.0/24 dev s0
ip -n $client route add fd00:2::/64 dev c0
ip -n $server route add fd00:1::/64 dev s0

mkdir "$work/site" "$work/copy"
seq 1 2500 >"$work/site/index.html"
head -c 120000 /usr/lib/x86_64-linux-gnu/libc.so.6 >"$work/site/file.bin" 2>/dev/null ||
  head -c 120000 "$(command -v bash)" >"$work/site/file.bin"
for i in $(seq 8); do head -c $((i * 700)) "$work/site/file.bin" >"$work/site/part$i.bin"; done
cat >"$work/rsyncd.conf" <<CONF
use chroot = no
uid = root
[site]
path = $work/site
read only = yes
CONF

serve() { start "$2.log" "$@"; }
serve $server python3 -m http.server --directory "$work/site" --bind :: 80
serve $server dnsmasq -k -p 53 --no-resolv --no-hosts --pid-file="$work/dns.pid" \
  --address=/example.test/10.2.0.10 --address=/example.test/fd00:2::10
serve $server rsync --daemon --no-detach --config="$work/rsyncd.conf"
serve $server iperf3 -s
sleep 1
serve $client tcpdump -q -U -i c0 -w "$work/all.pcap" 'ip or (ip6 and not multicast and not (icmp6 and ip6[40] >= 130))'
tcpdump_pid=$started
sleep 1

in_ns $client iperf3 -c 10.2.0.10 -u -l 172 -b 68800 -t 6 --bidir >/dev/null 2>&1 & voice=$!
for name in www mail voice ftp ns; do
  in_ns $client dig +short +tries=1 @10.2.0.10 "$name.example.test" A >/dev/null
  in_ns $client dig +short +tries=1 @fd00:2::10 "$name.example.test" AAAA >/dev/null
done
in_ns $client curl -s http://10.2.0.10/index.html -o /dev/null
for i in $(seq 8); do in_ns $client curl -s "http://[fd00:2::10]/part$i.bin" -o /dev/null; done
in_ns $client rsync -q rsync://10.2.0.10/site/file.bin "$work/copy/"
cmp "$work/site/file.bin" "$work/copy/file.bin"
in_ns $client ping -q -c 5 -i 0.2 10.2.0.10 >/dev/null
in_ns $client ping -q -c 5 -i 0.2 -s 1200 fd00:2::10 >/dev/null
wait $voice
sleep 1
end_process "$tcpdump_pid"
mv "$work/all.pcap" "$here/traffic.pcap"
size=$(stat -c %s "$here/traffic.pcap")
echo "demo/traffic.pcap: $size bytes"
[ "$size" -lt 1048576 ]
