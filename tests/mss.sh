#!/usr/bin/env bash
# The MSS of TCP connections between hosts behind two gateways is lowered to what the tunnel
# carries, in both directions and by either gateway, so that hosts that get no ICMP still exchange
# files; and stays as it is with `mss_clamp = "off"`. Needs root.
# usage: mss.sh CONVOY PORT    where PORT is tun, af_packet or af_xdp: the inside port
set -euo pipefail
convoy=$(realpath "$1") PORT=$2
here=$(dirname "$(realpath "$0")")
source "$here/hosts.sh"
encap=udp
source "$here/gateways.sh"
sites
serve
# Checksums and segments as they are on a wire.
for ns in $ha $hb; do in_ns $ns ethtool -K eth0 tx off gso off tso off gro off >/dev/null; done
for ns in $ga $gb; do
  in_ns $ns ethtool -K lan0 tx off gso off tso off gro off >/dev/null
  [ "$PORT" != tun ] || forward $ns
done
inside() { # number
  case $PORT in
    tun) printf '[[port]]\nname = "inside"\nkind = "tun"\ndevice = "convoy0"\naddress = ["10.%s.0.1/32", "fd00:%s::1/128"]\n' "$1" "$1" ;;
    *) printf '[[port]]\nname = "inside"\nkind = "%s"\ninterface = "lan0"\naddress = ["10.%s.0.1", "fd00:%s::1"]\n' "$PORT" "$1" "$1" ;;
  esac
}
gateway() { # namespace number peer_number outer peer_outer mss_clamp
  { inside "$2"; printf '[[port]]\nname = "outside"\nkind = "udp"\naddress = ["%s"]\n' "$4"; } |
    configure "$1" "$2" "$3" "$4" "$5" 46
  sed -i "s/^\[gateway\]/&\nmss_clamp = $6/" "$work/$1.toml"
  start_gateway "$1"
}
gateways() { # mss_clamp of each
  gateway $ga 1 2 192.0.2.1 198.51.100.1 "$1"
  gateway $gb 2 1 198.51.100.1 192.0.2.1 "$2"
}
end_gateways() { end_gateway $ga; end_gateway $gb; }
# connect: a connection each way, over each family, whose first packets are captured at both hosts.
connect() {
  local to
  for ns in $ha $hb; do start_capture $ns $ns eth0 'tcp or ip6 proto 6'; done
  for to in "$ha 10.2.0.10" "$hb 10.1.0.10" "$ha [fd00:2::10]" "$hb [fd00:1::10]"; do
    in_ns "${to% *}" curl -s -m $PATIENCE -o /dev/null "http://${to#* }:8000/" || fail "no connection from $to"
  done
  end_capture $ha $hb
}
# announced HOST FAMILY SOURCE: the MSS of what the host got from SOURCE as connections began, and
# whether its checksum is right.
announced() {
  tshark -r "$work/$1.pcap" -o tcp.check_checksum:TRUE -Y "tcp.flags.syn == 1 && $2.src == $3" \
    -T fields -e tcp.options.mss_val -e tcp.checksum.status 2>/dev/null | sort -u | tr '\t\n' '  '
}
# expect MSS_4 MSS_6 WHEN: of SYN and SYN-ACK alike, at both hosts.
expect() {
  local found
  for end in "$ha ip 10.2.0.10 $1" "$hb ip 10.1.0.10 $1" "$ha ipv6 fd00:2::10 $2" "$hb ipv6 fd00:1::10 $2"; do
    read -r ns family source mss <<<"$end"
    found=$(announced "$ns" "$family" "$source")
    [ "$found" = "$mss 1 " ] || fail "$3, $source announces to $ns: $found, not $mss with a right checksum"
  done
}

# AES-GCM in UDP over IPv4 leaves 1438 of 1500 bytes.
gateways '"auto"' '"auto"'
connect
expect 1398 1378 "by default"
# No host gets an error about a packet that is too long.
for ns in $ha $hb; do
  in_ns $ns nft -f - <<'END'
table inet no_icmp {
  chain input {
    type filter hook input priority 0;
    icmp type destination-unreachable drop
    icmpv6 type packet-too-big drop
  }
}
END
done
fetch_all
end_gateways
# One gateway alone does it for both directions.
gateways '"auto"' '"off"'
connect
expect 1398 1378 "with one gateway"
end_gateways
gateways 1200 '"off"'
connect
expect 1200 1200 "with a number"
end_gateways
gateways '"off"' '"off"'
connect
expect 1460 1440 "without clamping"
end_gateways
# The rule that docs/guide/routing.md has for an interface of the kernel.
if [ "$PORT" = tun ]; then
  sed -n '/^<!-- mss-rule -->$/,/^```$/p' "$here/../docs/guide/routing.md" | sed '1,2d; $d' >"$work/rule"
  [ -s "$work/rule" ] || fail "the page has no rule"
  for ns in $ga $gb; do in_ns $ns nft -f "$work/rule"; done
  gateways '"off"' '"off"'
  connect
  expect 1398 1378 "by the page's rule alone"
  end_gateways
fi
echo "the MSS over $PORT: 1398 and 1378 in both directions, by both gateways and by one; 4 files without ICMP"
