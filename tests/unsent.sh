#!/usr/bin/env bash
# Packets that the system refuses to send are counted for their SA, by reason, and the log says why:
# no route, a packet filter, a local address that was removed. Needs root.
# usage: unsent.sh CONVOY [udp|raw|af_packet|af_xdp]
set -euo pipefail
convoy=$(realpath "$1") PORT=${2:-udp}
source "$(dirname "$0")/../demo/sites.sh"
show_logs() { "$convoy" show sa --wide --control "$work/site-1.sock"; head -n 30 "$work/a.log"; }

# The number of packets of the outbound SA that were dropped for a reason, and in total; from `show`
# and from the metrics.
dropped() { # reason, or nothing for the sum
  "$convoy" show sa --json --control "$work/site-1.sock" | python3 -c '
import json, sys
reasons = sys.argv[1:]
(sa,) = [sa for sa in json.load(sys.stdin) if sa["direction"] == "outbound"]
print(sum(count for reason, count in sa["drops"].items() if reason in reasons or not reasons))' "$@"
}
metric() { # reason
  ip netns exec $a curl -sf http://127.0.0.1:9464/metrics | sed -n "s/^convoy_dropped_packets_total{reason=\"$1\"} //p"
}
is_counted() { [ "$(dropped "$1")" = $((earlier + packets)) ]; } # reason
is_logged() { grep -q "packets were dropped: $2.*tunnel=\"site-2\".*direction=\"outbound\".*reason=\"$1\"" <(sed 's/\x1b\[[0-9;]*m//g' "$work/a.log"); } # reason words

# Sends packets while the system refuses them all, many of them in one system call.
refused() { # reason, words of the log
  local before earlier
  before=$(dropped) earlier=$(dropped "$1")
  # The window does not mix 600-byte packets with other sizes, and 64 of them are sent at once.
  ip netns exec $a ping -q -s 600 -l 64 -c $packets -i 0.01 -W 1 10.2.0.1 >"$work/ping.log" 2>&1 && fail "$1: an echo was answered: $(tail -2 "$work/ping.log")"
  wait_until "$1: not $((earlier + packets)) packets of the SA are counted" is_counted "$1"
  [ "$(dropped)" = $((before + packets)) ] || fail "$1: another reason is counted for the SA too"
  [ "$(metric "$1")" -ge "$packets" ] || fail "$1: the metrics have $(metric "$1")"
  wait_until "$1: the log does not say why" is_logged "$1" "$2"
  ok "$1: $packets packets that were sealed and not sent are counted for their SA, and the log says why"
}
# The error that a socket gets if its bound address was removed.
errno_of_sending() {
  ip netns exec $a python3 -c '
import errno, socket, subprocess
device = "lo"
subprocess.run(["ip", "address", "add", "198.51.100.9/32", "dev", device], check=True)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind(("198.51.100.9", 0))
    subprocess.run(["ip", "address", "del", "198.51.100.9/32", "dev", device], check=True)
    try:
        sender.sendto(b"x", ("192.0.2.2", 9))
        print("sent")
    except OSError as error:
        print(errno.errorcode[error.errno])'
}
packets=128
works() { ip netns exec $a ping -q -c 3 -i 0.1 -W 2 10.2.0.1 >/dev/null; }
wait_until "no echo at the start" works
[ "$(dropped)" = 0 ] || fail "there are drops at the start"

ip -n $a route del 192.0.2.0/24 dev va
refused no_route "the system has no route to the peer"
ip -n $a route add 192.0.2.0/24 dev va src 192.0.2.1
wait_until "no echo with the route again" works

if [[ "$PORT" != af_* ]]; then # the kernel's filters see only packets that the kernel sends
  ip netns exec $a nft add table inet refuse
  ip netns exec $a nft add chain inet refuse out '{ type filter hook output priority 0; }'
  ip netns exec $a nft add rule inet refuse out ip daddr 192.0.2.2 drop
  refused send_forbidden "the kernel refused to send them"
  ip netns exec $a nft delete table inet refuse
  wait_until "no echo without the filter" works
fi
if [ "$PORT" = udp ]; then # from a raw socket, the kernel sends IPv4 with any source
  ip -n $a addr del 192.0.2.1/24 dev va
  ip -n $a route add 192.0.2.0/24 dev va
  # Kernels differ in the error that they return.
  if [ "$(errno_of_sending)" = ENETUNREACH ]; then
    refused no_route "the system has no route to the peer"
  else
    refused no_local_address "their source, the tunnel's local address, is no longer an address of this host"
  fi
  ip -n $a addr add 192.0.2.1/24 dev va
  wait_until "no echo with the address again" works
fi
"$convoy" show stats --control "$work/site-1.sock" | contains "dropped: no_route" || fail "show stats lacks the reason"
ok "$PORT: works again each time"
