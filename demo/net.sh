#!/usr/bin/env bash
# Two gateways in network namespaces: ping, iperf3, and a capture of the outside that tshark decrypts. Needs root.
# usage: net.sh CONVOY
#
#   host 10.1.0.1 [site-a] 192.0.2.1 --veth-- 192.0.2.2 [site-b] 10.2.0.1 host
set -euo pipefail
convoy=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo "net.sh: network namespaces need root" >&2; exit 1; }
work=$(mktemp -d)
a=convoy-a b=convoy-b
running=()
clean() {
  kill "${running[@]}" 2>/dev/null && wait "${running[@]}" 2>/dev/null || true
  ip netns del $a 2>/dev/null || true
  ip netns del $b 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
start() { local log=$1; shift; ip netns exec "$@" >"$work/$log" 2>&1 & running+=($!); }

ip netns add $a
ip netns add $b
ip link add va netns $a type veth peer name vb netns $b
for side in "$a va 1" "$b vb 2"; do
  read -r ns dev host <<<"$side"
  ip -n "$ns" link set lo up
  ip -n "$ns" link set "$dev" up
  ip -n "$ns" addr add "192.0.2.$host/24" dev "$dev"
done

key() { head -c 20 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
key_ab=$(key) key_ba=$(key)
conf() { # site peer spi_in spi_out key_in key_out
  (umask 077; cat >"$work/site-$1.toml" <<CONF
[gateway]
control = "$work/site-$1.sock"
metrics = "127.0.0.1:9464"
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.$1.0.1/24", "fd00:$1::1/64"]
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.$1"]
[[tunnel]]
name = "site-$2"
local = "192.0.2.$1"
remote = "192.0.2.$2"
local_ts = ["10.$1.0.0/24", "fd00:$1::/64"]
remote_ts = ["10.$2.0.0/24", "fd00:$2::/64"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = $3
spi_out = $4
key_in = "$5"
key_out = "$6"
CONF
  )
}
conf 1 2 0x1001 0x1002 "$key_ba" "$key_ab"
conf 2 1 0x1002 0x1001 "$key_ab" "$key_ba"
"$convoy" check -c "$work/site-1.toml"
start a.log $a "$convoy" run -c "$work/site-1.toml"
start b.log $b "$convoy" run -c "$work/site-2.toml"
for _ in $(seq 50); do [ -S "$work/site-1.sock" ] && [ -S "$work/site-2.sock" ] && break; sleep 0.1; done
[ -S "$work/site-1.sock" ] && [ -S "$work/site-2.sock" ] || { cat "$work"/?.log >&2; exit 1; }

start capture.log $a tcpdump -Z root -U --immediate-mode -i va -w "$work/outside.pcap" udp port 4500
start iperf.log $b iperf3 -s
sleep 2
echo "--- ping through the tunnel, IPv4 and IPv6"
ip netns exec $a ping -c 5 -i 0.2 -W 2 10.2.0.1 | tail -2
ip netns exec $a ping -c 5 -i 0.2 -W 2 fd00:2::1 | tail -2
sleep 0.5
kill "${running[2]}"; wait "${running[2]}" 2>/dev/null || true
echo "--- TCP through the tunnel"
ip netns exec $a iperf3 -c 10.2.0.1 -t 4 -f m | grep -E 'sender|receiver'
ip netns exec $a iperf3 -c 10.2.0.1 -t 4 -f m -R | grep -E 'sender|receiver'

echo "--- the outside, decrypted by tshark"
sa() { printf 'uat:esp_sa:"IPv4","%s","%s","%s","AES-GCM with 16 octet ICV [RFC4106]","0x%s","NULL",""' "$@"; }
decrypted=$(tshark -r "$work/outside.pcap" -o esp.enable_encryption_decode:TRUE \
  -o "$(sa 192.0.2.1 192.0.2.2 0x00001002 "$key_ab")" -o "$(sa 192.0.2.2 192.0.2.1 0x00001001 "$key_ba")" \
  -Y 'icmp || icmpv6' -T fields -e _ws.col.Info 2>/dev/null)
echo "$decrypted" | sed -n "1,4p"
requests=$(grep -c '(ping) request' <<<"$decrypted" || true)
plain=$(tshark -r "$work/outside.pcap" -Y 'icmp || icmpv6' 2>/dev/null | wc -l)
echo "$requests echo requests decrypted; $plain of them to be seen without the keys"
rights=$(pgrep -f "$convoy run -c $work/site-1.toml" | while read -r pid; do cat /proc/"$pid"/task/*/status; done | grep CapEff)
privileged=$(grep -cv 'CapEff:[[:space:]]*0*$' <<<"$rights" || true)
echo "--- $(wc -l <<<"$rights") threads of a gateway, $privileged of them with privileges"
echo "--- metrics"
ip netns exec $a curl -s http://127.0.0.1:9464/metrics | tee "$work/metrics" | grep -E '^convoy_(engine_packets|port_sent_packets)'
"$convoy" show sa --control "$work/site-1.sock"
"$convoy" show engine --control "$work/site-1.sock"
"$convoy" show stats --control "$work/site-1.sock"
kill "${running[0]}" "${running[1]}"
wait "${running[0]}" && wait "${running[1]}" || { cat "$work"/?.log >&2; echo "a gateway did not stop well" >&2; exit 1; }
[ "$privileged" = 0 ] || { echo "privileges were kept" >&2; exit 1; }
grep -q '^# EOF' "$work/metrics" || { echo "the metrics are not whole" >&2; exit 1; }
[ "$requests" -ge 10 ] && [ "$plain" = 0 ] || { echo "tshark did not find what was sent" >&2; exit 1; }
echo "done: both gateways drained and stopped"
