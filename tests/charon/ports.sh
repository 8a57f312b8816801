#!/usr/bin/env bash
# Two convoys, each with charon, with every kind of outside port, by which IKE comes and goes as
# well: IPv4 and IPv6 outside, native ESP and ESP in UDP, rekeying, IKE messages longer than the
# MTU, one worker and two. A bridge between the gateways is where packets are captured. Needs root,
# and for `dpdk` and `card` a convoy with those.
# usage: ports.sh CONVOY PLUGIN KIND
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
kind=$3 A=convoy-$kind-a B=convoy-$kind-b M=convoy-$kind-m
[ "$kind" != card ] || IN_LAB=1
source "$here/lib.sh"
declare -A gateway charon
v4=(192.0.2.1 192.0.2.2) v6=(2001:db8::1 2001:db8::2)
inside4=(10.1.0.1 10.2.0.1) inside6=(fd00:1::1 fd00:2::1)
# What may pass between the gateways: ESP, IKE, later fragments of IKE; the discovery of neighbours,
# routers and groups.
esp='ip proto 50 or ip6 proto 50'
# In these expressions, `and` and `or` are of one rank.
in_udp='udp port 4500 and ((ip and udp[8:4] != 0) or (ip6 and ip6[48:4] != 0))'
ike='udp port 500 or udp port 4500'
fragments='ip[6:2] & 0x3fff != 0 or ip6[6] = 44'
discovery='arp or (icmp6 and ip6[40] >= 133 and ip6[40] <= 137) or ip6[6] = 0'

# is_host KIND: whether the port is a host of its own, whose interface has no address of the kernel.
is_host() { [ "$1" = dpdk ] || [ "$1" = card ]; }
cables() { # both gateways at a bridge
  local side ns dev peer host
  add_namespace "$A" "$B" "$M"
  ip netns exec "$M" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
  ip -n "$M" link add name middle type bridge mcast_snooping 0
  ip -n "$M" link set middle up
  for side in "$A va wire-a 1" "$B vb wire-b 2"; do
    read -r ns dev peer host <<<"$side"
    ip link add "$dev" netns "$ns" numrxqueues 2 numtxqueues 2 type veth peer name "$peer" netns "$M" numrxqueues 2 numtxqueues 2
    ip -n "$M" link set "$peer" master middle up
    ! is_host "$1" || ip netns exec "$ns" sysctl -qw "net.ipv6.conf.$dev.disable_ipv6=1"
    ip -n "$ns" link set "$dev" up
    # Each worker has a queue of the interface.
    [ "$1" != af_xdp ] || ip netns exec "$ns" ethtool -L "$dev" rx "$2" tx "$2" 2>/dev/null || true
    ! is_host "$1" || continue
    ip -n "$ns" addr add "192.0.2.$host/24" dev "$dev"
    ip -n "$ns" addr add "2001:db8::$host/64" dev "$dev" nodad
  done
}
# outside KIND DEVICE HOST WORKERS: the keys of a port outside.
outside() {
  local addresses="\"192.0.2.$3\", \"2001:db8::$3\""
  case $1 in
    udp | raw) printf 'kind = "udp"\naddress = [%s]\n' "$addresses" ;;
    dpdk) printf 'kind = "dpdk"\ndevice = "net_af_packet0,iface=%s,qpairs=%s"\naddress = ["192.0.2.%s/24", "2001:db8::%s/64"]\n' "$2" "$4" "$3" "$3" ;;
    card) printf 'kind = "card"\ninterface = "%s"\naddress = ["192.0.2.%s/24", "2001:db8::%s/64"]\n[[engine]]\nkind = "software"\n' "$2" "$3" "$3" ;;
    *) printf 'kind = "%s"\ninterface = "%s"\naddress = [%s]\n' "$1" "$2" "$addresses" ;;
  esac
  [ "$1" != raw ] || printf '[[port]]\nname = "right on IP"\nkind = "raw"\naddress = [%s]\n' "$addresses"
}
start_both() { # kind workers
  local side host device
  for side in a b; do
    host=1 device=va; [ $side = a ] || host=2 device=vb
    OUTSIDE=$(outside "$1" $device $host "$2") gateway_conf $side "\"192.0.2.$host\""
    sed -i "s/^\[gateway\]/&\nworkers = $2/" "$work/$side/gateway.toml"
    strongswan $side "$with_convoy"
    start_gateway $side; gateway[$side]=$gateway_pid
    start_charon $side; charon[$side]=$charon_pid
  done
  start_capture outside "$M" wire-a
  start echo.log "$B" python3 "$here/echo.py" serve; echo=$started
  wait_until "nothing echoes" grep -q ready "$work/echo.log"
}
stop_both() { end_capture outside; end_process "${gateway[a]}" "${gateway[b]}" "${charon[a]}" "${charon[b]}" "$echo"; }
# tunnel INITIATOR "OUTER ADDRESSES" FAMILY "CONNECTION OPTIONS": sets up the only tunnel.
tunnel() {
  local at sides=(10.1.0.0/24 10.2.0.0/24); read -r -a at <<<"$2"
  [ "$3" = 4 ] || sides=(fd00:1::/64 fd00:2::/64)
  LOCAL_TS=${sides[0]} REMOTE_TS=${sides[1]} connection a "${at[0]}" "${at[1]}" "mobike = no
  $4" "esp_proposals = aes128gcm16-esn-noesn"
  LOCAL_TS=${sides[1]} REMOTE_TS=${sides[0]} connection b "${at[1]}" "${at[0]}" "mobike = no
  $4" "esp_proposals = aes128gcm16-esn-noesn"
  load a; load b; up "$1"
}
no_sas() { [ "$(sas a)$(sas b)" = 00 ]; }
end_tunnel() { down a; wait_until "SAs that were ended are still there" no_sas; }
spis() { show sa "$1" | grep -o '"spi": [0-9]*' | sort | paste -sd,; }
# rekeyed SIDE BEFORE: whether it has two SAs that were not there before. Charon keeps the old
# inbound one for some seconds.
rekeyed() { [ "$(spis "$1" | tr ',' '\n' | grep -cvxF "$(tr ',' '\n' <<<"$2")")" = 2 ]; }
rekey() {
  local a b; a=$(spis a) b=$(spis b)
  ask "$1" --rekey --child net >"$work/rekey" 2>&1 || fail "$1 cannot rekey: $(cat "$work/rekey")"
  wait_until "a has not replaced its SAs $a by $(spis a)" rekeyed a "$a"
  wait_until "b has not replaced its SAs" rekeyed b "$b"
}
# as_asked ENCAP: every SA has this encapsulation and dropped nothing.
as_asked() {
  local side
  for side in a b; do
    show sa $side | python3 -c 'import json, sys
sas = json.load(sys.stdin)
sys.exit(not sas or any(sa["encap"] != sys.argv[1] or sum(sa["drops"].values()) for sa in sas))' "$1" || fail "not all SAs of $side are of $1, without drops: $(show sa $side)"
  done
}
# counted COUNTER...: of both kernels.
counted() { for ns in "$A" "$B"; do ip netns exec "$ns" nstat -asz "$@"; done | awk '!/^#/ { all += $2 } END { print all + 0 }'; }
captured() { tcpdump -r "$work/outside.pcap" "$1" 2>/dev/null | wc -l; }
pass() { # inner addresses, encapsulation
  ping_both "$1" "$2"
  ip netns exec "$A" python3 "$here/echo.py" ask "$1" "$2" >"$work/asked" 2>&1 || fail "UDP both ways: $(cat "$work/asked")"
  as_asked "$3"
}
# round KIND WORKERS: IPv4 and IPv6, native and in UDP, as far as the kind carries that.
round() {
  local outer inner encap family by before options count=0 long
  cables "$1" "$2"
  start_both "$1" "$2"
  for family in 4 6; do
    outer="${v4[*]}" inner=("${inside4[@]}") by=a
    [ $family = 4 ] || outer="${v6[*]}" inner=("${inside6[@]}") by=b
    for encap in none udp; do
      [ "$1 $encap" != "udp none" ] || continue
      options="encap = no"; [ $encap = none ] || options="encap = yes"
      before=$(counted UdpInDatagrams)
      tunnel $by "$outer" $family "$options"
      case $1 in af_* | dpdk | card) [ "$(counted UdpInDatagrams)" = "$before" ] || fail "IKE came by the kernel's sockets" ;; esac
      pass "${inner[@]}" $encap
      rekey a
      pass "${inner[@]}" $encap
      end_tunnel
      count=$((count + 1))
    done
    # A first message of some 1,800 bytes: IKE's own fragmentation (RFC 7383) begins after it. The
    # kernel reassembles IPv4 before net_af_packet, which has room for 2,000.
    long=$(for dh in ecp256 ecp384 ecp521 modp3072; do for prf in sha256 sha384 sha512; do for aes in aes128 aes192 aes256; do
      printf '%s-%s-%s,' $aes $prf $dh; done; done; done)
    tunnel $by "$outer" $family "encap = yes
  proposals = ${long%,}"
    pass "${inner[@]}" udp
    end_tunnel
  done
  stop_both
  [ "$(captured "not ($esp or $ike or $fragments or $discovery)")" = 0 ] || fail "something else passes between the gateways: $(tcpdump -nr "$work/outside.pcap" "not ($esp or $ike or $fragments or $discovery)" 2>/dev/null | head -5)"
  [ "$(captured "$fragments")" -ge 2 ] || fail "no IKE message was longer than the MTU"
  [ "$(captured "$in_udp")" -ge 50 ] || fail "only $(captured "$in_udp") packets of ESP in UDP were captured"
  [ "$1" = udp ] || [ "$(captured "$esp")" -ge 100 ] || fail "only $(captured "$esp") packets of native ESP were captured"
  [ "$(counted IcmpOutDestUnreachs Icmp6OutDestUnreachs)" = 0 ] || fail "a kernel has refused packets"
  printf '%-10s %s worker%s %s tunnels rekeyed, pings and UDP both ways; %s ESP, %s ESP in UDP, %s fragments of IKE, nothing else\n' \
    "$1" "$2" "$([ "$2" = 1 ] && echo ': ' || echo s:)" $count "$(captured "$esp")" "$(captured "$in_udp")" "$(captured "$fragments")"
}
round "$kind" 1
# A card has one queue.
[ "$kind" = card ] || round "$kind" 2
