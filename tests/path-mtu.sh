#!/usr/bin/env bash
# Path MTU discovery between hosts behind two gateways with routers between them, and forged ICMP.
# Needs root.
# usage: path-mtu.sh CONVOY PORT OUTER    where PORT is udp or raw, and OUTER 4 or 6
set -euo pipefail
convoy=$(realpath "$1") PORT=$2 OUTER=$3
here=$(dirname "$(realpath "$0")")
python=$here/../target/test-venv/bin/python
source "$here/hosts.sh"
source "$here/gateways.sh"
sites
serve
outer_a=192.0.2.1 outer_b=198.51.100.1
[ "$OUTER" = 4 ] || outer_a=2001:db8:1::1 outer_b=2001:db8:2::1
encap=udp; [ "$PORT" = udp ] || encap=none
gateway() { # namespace own_number peer_number outer peer_outer
  forward "$1"
  configure "$1" "$2" "$3" "$4" "$5" 46 <<PORTS
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.$2.0.1/32", "fd00:$2::1/128"]
[[port]]
name = "outside"
kind = "$PORT"
address = ["$4"]
PORTS
  start_gateway "$1"
  wait_until "the gateway $1 sets no routes" routed "$1" "$3"
}
gateway $ga 1 2 $outer_a $outer_b
gateway $gb 2 1 $outer_b $outer_a
path_mtu() { ask "$1" sa | $python -c 'import json, sys; print(*{sa["path_mtu"] for sa in json.load(sys.stdin)} - {None})'; } # namespace
drops() { ask "$1" stats | $python -c 'import json, sys; print(dict(json.load(sys.stdin)["drops"]).get(sys.argv[1], 0))' "$2"; } # namespace reason
expect_mtu() { # namespace bytes when
  [ "$(path_mtu "$1")" = "$2" ] || fail "$3, $1 says of its path that it carries $(path_mtu "$1") bytes, not $2"
}
for ns in $ga $gb; do
  for setting in rp_filter accept_local; do
    in_ns $ns sysctl -n net.ipv4.conf.{all,wan0,convoy0}.$setting | xargs echo "$ns: $setting of all, wan0, convoy0:"
  done
done

# A wide path with forged messages: without SPI, with another SPI, and with a sequence number that
# was not sent recently. The kernel believes each of them.
fetch_all
for ns in $ga $gb; do expect_mtu $ns 1500 "on a wide path"; done
forge() { # what
  # As from a router on the path: the far router sends to gateway a about its packets to gateway b.
  in_ns $far $python -W ignore "$here/forge.py" "$PORT" $outer_a $outer_b "$1" $spi_ab
}
for what in no-spi wrong-spi wrong-sequence; do
  forge $what
  fetch_all
  expect_mtu $ga 1500 "after a forged report ($what)"
done
believed=$(in_ns $ga ip route get $outer_b from $outer_a | grep -o 'mtu [0-9]*' || true)
# The kernel does not report these to IPv6 raw sockets.
[ -n "$believed" ] || [ "$PORT$OUTER" = raw6 ] || fail "the kernel of $ga believes none of it: what was forged is no test"
[ "$(drops $ga icmp_unbelieved)" -gt 0 ] || fail "what quotes a number that was never sent is not counted"
echo "three forged reports (${believed:-nothing}, says the kernel's cache): 12 files carried after them, path MTU 1500 as before"

# reported_mtus NAMESPACE: what the events say of paths, in the order in which it was learnt.
reported_mtus() { ask "$1" events | $python -c 'import json, sys; print(*[event["mtu"] for event in json.load(sys.stdin) if event["event"] == "path-mtu"])'; }
[ -z "$(reported_mtus $ga)" ] || fail "a path MTU was reported that was not learnt: $(reported_mtus $ga)"

# The path's MTU shrinks, and its routers report it.
between 1300
fetch_all
for ns in $ga $gb; do expect_mtu $ns 1300 "on a narrow path"; done
# reported FILE: the MTU that was reported to ping.
reported() { sed -n 's/.*(mtu = \([0-9]*\)).*/\1/p; s/.*Packet too big: mtu=\([0-9]*\).*/\1/p; s/.*message too long, mtu[=:] *\([0-9]*\).*/\1/p' "$1" | sort -u; }
# payload ADDRESS BYTES: the ping payload for an IP packet of this length.
payload() { case $1 in *:*) echo $(($2 - 48)) ;; *) echo $(($2 - 28)) ;; esac }
for ends in "$ha 10.2.0.10" "$hb 10.1.0.10" "$ha fd00:2::10" "$hb fd00:1::10"; do
  read -r host address <<<"$ends"
  # TCP has learned the MTU, and with it the host's kernel, so its cache is flushed.
  ip -n "$host" route flush cache; ip -n "$host" -6 route flush cache
  ! in_ns "$host" ping -c 2 -i 0.3 -W 2 -M "do" -s 1300 "$address" >"$work/ping.log" 2>&1 || fail "1,300 bytes and more come through"
  mtu=$(reported "$work/ping.log")
  [[ $mtu =~ ^[0-9]+$ ]] || fail "$host was notified of no MTU, or several: $(cat "$work/ping.log")"
  pings "$work/ping.log" $host 3 -M "do" -s "$(payload "$address" "$mtu")" "$address" ||
    fail "$host was notified of $mtu bytes, which do not come through: $(cat "$work/ping.log")"
  ! in_ns "$host" ping -c 1 -W 1 -M "do" -s "$(payload "$address" $((mtu + 1)))" "$address" >"$work/ping.log" 2>&1 ||
    fail "$host was notified of $mtu bytes, and more come through"
  echo "$host to $address: reported $mtu, which pass"
done

# The MTU of a gateway's own link shrinks further, which no router reports.
ip -n $ga link set wan0 mtu 1290; ip -n $near link set site-a mtu 1290
fetch_all
for ns in $ga $gb; do expect_mtu $ns 1290 "with a narrow link of a gateway's own"; done
for ns in $ga $gb; do [ "$(reported_mtus $ns)" = "1300 1290" ] || fail "the events of $ns: path MTUs of $(reported_mtus $ns) bytes"; done
echo "path MTU over $PORT, IPv$OUTER: 24 files of 5,000,000 bytes the same, 8 of them over narrow paths"
