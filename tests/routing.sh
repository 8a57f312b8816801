#!/usr/bin/env bash
# Tunnels with an interface of their own beside a router: FRR's BGP and BFD over two tunnels to two
# peers, ECMP over both, IPv4 and IPv6. A path is cut, a gateway killed, both paths cut; how long
# traffic stops, and that nothing leaves unprotected meanwhile. Needs root.
# usage: routing.sh CONVOY
#
#                 192.0.2.1 === 192.0.2.2 [B] 10.9.0.1
#   10.1.0.1 [A]                                        10.9.0.0/24, fd00:9::/64  [H] 10.9.0.10
#              198.51.100.1 === 198.51.100.2 [C] 10.9.0.2
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/lib.sh"
need_root
work_dir
frr=/usr/lib/frr
[ -x $frr/bgpd ] && [ -x $frr/bfdd ] || { echo "no FRR; run scripts/install.sh routing" >&2; exit 1; }
chmod 755 "$work" # FRR gives its privileges up
id=$$
declare -A gateways
A=cvr-a-$id B=cvr-b-$id C=cvr-c-$id H=cvr-h-$id
at_exit rm -rf "/run/frr/$id-"{a,b,c,h}
show_logs() { tail -n 5 "$work"/*.log; vty a "show bgp summary" "show bfd peers brief" "show ip route" "show ipv6 route"; }
space() { case $1 in a) echo $A ;; b) echo $B ;; c) echo $C ;; h) echo $H ;; esac; }

namespaces() {
  local ns side host
  add_namespace $A $B $C $H
  for ns in $A $B $C $H; do
    in_ns "$ns" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.fib_multipath_hash_policy=0 \
      net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
  done
  cable $A ab 192.0.2.1/24 $B ba 192.0.2.2/24
  cable $A ac 198.51.100.1/24 $C ca 198.51.100.2/24
  ip -n $H link add lan type bridge; ip -n $H link set lan up
  ip -n $H addr add 10.9.0.10/24 dev lan; ip -n $H addr add fd00:9::10/64 dev lan nodad
  for side in "$B 1" "$C 2"; do
    read -r ns host <<<"$side"
    cable "$ns" lan "10.9.0.$host/24 fd00:9::$host/64" $H "lan$host" ""
    ip -n $H link set "lan$host" master lan
  done
  # Traffic comes from several addresses, so that ECMP uses both paths.
  for host in $(seq 8); do ip -n $A addr add "10.1.0.$host/32" dev lo; ip -n $A addr add "fd00:1::$host/128" dev lo nodad; done
  # What has no better route would leave here, in clear.
  ip -n $A route add default via 192.0.2.2 metric 5000
  ip -n $A addr add 2001:db8::1/64 dev ab nodad; ip -n $B addr add 2001:db8::2/64 dev ba nodad
  ip -n $A -6 route add default via 2001:db8::2 metric 5000
}

# tunnel NAME OURS THEIRS SPI_IN SPI_OUT KEY_IN KEY_OUT LOCAL_TS REMOTE_TS
tunnel() {
  cat <<CONF
[[tunnel]]
name = "$1"
interface = "ipsec-$1"
local = "$2"
remote = "$3"
local_ts = [$8]
remote_ts = [$9]
esp_proposal = "aes128gcm16-esn"
[tunnel.manual]
spi_in = $4
spi_out = $5
key_in = "$6"
key_out = "$7"
CONF
}
# gateway SIDE "OUTSIDE ADDRESSES"; the rest from standard input
gateway() {
  (umask 077; { cat <<CONF
[gateway]
control = "$work/$1.sock"
state = "$work/$1.state"
[[port]]
name = "outside"
kind = "udp"
address = [$2]
CONF
    cat; } >"$work/$1.toml")
}
interface() { printf '[[interface]]\nname = "ipsec-%s"\naddress = ["%s", "%s"]\n' "$@"; }
configure() {
  local keys=("$(random_key)" "$(random_key)" "$(random_key)" "$(random_key)")
  local here='"10.1.0.0/24", "fd00:1::/64"' there='"10.9.0.0/24", "fd00:9::/64"' b='"169.254.1.0/30", "fd00:ab::/64"' c='"169.254.2.0/30", "fd00:ac::/64"'
  { interface b 169.254.1.1/30 fd00:ab::1/64; interface c 169.254.2.1/30 fd00:ac::1/64
    tunnel b 192.0.2.1 192.0.2.2 0x1001 0x1002 "${keys[0]}" "${keys[1]}" "$here, $b" "$there, $b"
    tunnel c 198.51.100.1 198.51.100.2 0x2001 0x2002 "${keys[2]}" "${keys[3]}" "$here, $c" "$there, $c"; } |
    gateway a '"192.0.2.1", "198.51.100.1"'
  { interface a 169.254.1.2/30 fd00:ab::2/64
    tunnel a 192.0.2.2 192.0.2.1 0x1002 0x1001 "${keys[1]}" "${keys[0]}" "$there, $b" "$here, $b"; } | gateway b '"192.0.2.2"'
  { interface a 169.254.2.2/30 fd00:ac::2/64
    tunnel a 198.51.100.2 198.51.100.1 0x2002 0x2001 "${keys[3]}" "${keys[2]}" "$there, $c" "$here, $c"; } | gateway c '"198.51.100.2"'
}
start_gateway() { # side
  ip netns exec "$(space "$1")" "$convoy" run -c "$work/$1.toml" >>"$work/$1.log" 2>&1 &
  gateways[$1]=$!
  wait_until "the gateway of $1 does not start" "$convoy" show stats --control "$work/$1.sock"
}

# bgp AS ROUTER_ID "NEIGHBOUR AS ..." "NETWORK ..."
bgp() {
  local pairs peer as family
  read -r -a pairs <<<"$3"
  echo "router bgp $1
 bgp router-id $2
 no bgp ebgp-requires-policy
 no bgp network import-check
 bgp bestpath as-path multipath-relax
 timers bgp 10 30"
  set -- "$1" "$2" "$3" $4
  for ((i = 0; i < ${#pairs[@]}; i += 2)); do
    peer=${pairs[i]} as=${pairs[i + 1]}
    printf ' neighbor %s remote-as %s\n neighbor %s bfd profile fast\n neighbor %s timers connect 1\n neighbor %s advertisement-interval 0\n' "$peer" "$as" "$peer" "$peer" "$peer"
  done
  for family in ipv4 ipv6; do
    echo " address-family $family unicast"
    for network in "${@:4}"; do [[ ($network = *:* && $family = ipv6) || ($network != *:* && $family = ipv4) ]] && echo "  network $network"; done
    echo "  maximum-paths 2"
    for ((i = 0; i < ${#pairs[@]}; i += 2)); do
      peer=${pairs[i]}
      if [[ ($peer = *:* && $family = ipv6) || ($peer != *:* && $family = ipv4) ]]; then echo "  neighbor $peer activate"; else echo "  no neighbor $peer activate"; fi
    done
    echo " exit-address-family"
  done
}
start_frr() { # side AS ROUTER_ID NEIGHBOURS NETWORKS
  local side=$1 name=$id-$1; shift
  # Each daemon reads its own lines alone.
  bgp "$@" >"$work/$side.bgpd"
  printf 'bfd\n profile fast\n  receive-interval 100\n  transmit-interval 100\n  detect-multiplier 3\n' >"$work/$side.bfdd"
  # The kernel removes a nexthop whose interface has lost its link from its groups, and FRR 8.4 does
  # not put it back.
  echo "no zebra nexthop kernel enable" >"$work/$side.zebra"
  # Each of these namespaces has an FRR of its own, which gives its root privileges up.
  install -d -o frr -g frr "/run/frr/$name"
  for daemon in zebra bfdd bgpd; do
    in_ns "$(space "$side")" $frr/$daemon -d -N "$name" -P 0 -f "$work/$side.$daemon" >>"$work/frr.log" 2>&1 ||
      fail "$daemon of $side does not start: $(cat "$work/frr.log")"
  done
}
vty() { local side=$1 words=() word; shift; for word in "$@"; do words+=(-c "$word"); done; vtysh -N "$id-$side" "${words[@]}" 2>&1; }

both_paths() { [ "$(ip -n "$(space a)" route show 10.9.0.0/24 | grep -c nexthop)" = 2 ] && [ "$(ip -n "$(space a)" -6 route show fd00:9::/64 | grep -c nexthop)" = 2 ]; }
one_path() { # the last path's name
  local family network
  for family in "-4 10.9.0.0/24" "-6 fd00:9::/64"; do
    read -r family network <<<"$family"
    [ "$(ip -n "$(space a)" "$family" route show "$network" | grep -o 'dev ipsec-.')" = "dev ipsec-$1" ] || return 1
  done
}
answers() { [ "$(ip -n "$(space h)" route show 10.1.0.0/24 | grep -c nexthop)" = 2 ] && [ "$(ip -n "$(space h)" -6 route show fd00:1::/64 | grep -c nexthop)" = 2 ]; }

begin_pings() {
  pings=()
  for host in $(seq 8); do
    ip netns exec $A ping -D -n -i 0.02 -I "10.1.0.$host" 10.9.0.10 >"$work/ping-4-$host" 2>&1 & pings+=("$!")
    ip netns exec $A ping -D -n -i 0.02 -I "fd00:1::$host" fd00:9::10 >"$work/ping-6-$host" 2>&1 & pings+=("$!")
  done
}
# Without BFD and monitors, a path that is cut stays in use for BGP's hold time, 30 s. This is less,
# and more than a machine adds that takes cores away.
MOST_MS=10000
# end_pings WHAT [MOST_MS]: prints the longest silence of any flow up to now, which may be as long
# as this.
end_pings() {
  local ended; ended=$(date +%s.%N)
  kill -INT "${pings[@]}" 2>/dev/null || true
  wait "${pings[@]}" 2>/dev/null || true
  python3 - "$1" "${2:-$MOST_MS}" "$ended" "$work"/ping-* <<'GAPS' || fail "$1: see above"
import re, sys
what, most, ended, *paths = sys.argv[1:]
longest = {"4": 0, "6": 0}
for path in paths:
    times = [float(at) for at in re.findall(r"^\[([\d.]+)\].*bytes from", open(path).read(), re.M)]
    family = path.rsplit("-", 2)[1]
    gap = max((b - a for a, b in zip(times, [*times[1:], float(ended)])), default=1e9)
    longest[family] = max(longest[family], gap)
print(f"{what:<34} longest silence {longest['4'] * 1000:.0f} ms (IPv4), {longest['6'] * 1000:.0f} ms (IPv6) of 16 flows")
sys.exit(max(longest.values()) * 1000 > float(most))
GAPS
}
cut() { # side, a path to it, silently
  in_ns $A nft "add table inet cut; add chain inet cut out { type filter hook postrouting priority 200; }; add rule inet cut out oifname a$1 drop;
    add chain inet cut in { type filter hook prerouting priority -400; }; add rule inet cut in iifname a$1 drop"
}
mend() { in_ns $A nft delete table inet cut; }

namespaces
configure
in_ns $A "$convoy" check -c "$work/a.toml" >"$work/check" || fail "check: $(cat "$work/check")"
for device in ab ac; do
  start_capture $device $A $device "net 10.0.0.0/8 or net 169.254.0.0/16 or net fd00::/8"
done
for side in a b c; do start_gateway $side; done
start_frr a 65001 10.1.0.1 "169.254.1.2 65002 169.254.2.2 65003 fd00:ab::2 65002 fd00:ac::2 65003" "10.1.0.0/24 fd00:1::/64"
start_frr b 65002 10.9.0.1 "169.254.1.1 65001 10.9.0.10 65009 fd00:ab::1 65001 fd00:9::10 65009" ""
start_frr c 65003 10.9.0.2 "169.254.2.1 65001 10.9.0.10 65009 fd00:ac::1 65001 fd00:9::10 65009" ""
start_frr h 65009 10.9.0.10 "10.9.0.1 65002 10.9.0.2 65003 fd00:9::1 65002 fd00:9::2 65003" "10.9.0.0/24 fd00:9::/64"
wait_until "A does not learn both paths" both_paths
wait_until "H does not learn both paths" answers
sleep 2

begin_pings; sleep 2
used() { "$convoy" show port --json --control "$work/a.sock" | python3 -c 'import json, sys
sent = {port["name"]: port["received_packets"] for port in json.load(sys.stdin)}
print(min(sent["ipsec-b"], sent["ipsec-c"]))'; }
[ "$(used)" -gt 100 ] || fail "ECMP does not use both tunnels: $("$convoy" show port --control "$work/a.sock")"
cut b
wait_until "the routes still have the path that was cut" one_path c
sleep 3
end_pings "a path is cut"
mend; wait_until "the path does not come back" both_paths; wait_until "H's path does not come back" answers; sleep 2

begin_pings; sleep 2
kill_and_wait "${gateways[c]}"
wait_until "the routes still have the path of the gateway that was killed" one_path b
sleep 3
end_pings "a peer's gateway is killed"
start_gateway c; wait_until "the path does not come back" both_paths; wait_until "H's path does not come back" answers; sleep 2

# Without BFD, by monitors: the link of an interface goes down with its path.
monitored() { # side
  python3 - "$work/$1.toml" <<'MONITORS'
import sys
text = open(sys.argv[1]).read()
monitor = "[tunnel.monitor]\necho = true\ninterval_ms = 100\nlost_after_ms = 300\n[tunnel.manual]"
open(sys.argv[1], "w").write(text.replace("[tunnel.manual]", monitor))
MONITORS
  "$convoy" reload --control "$work/$1.sock" >"$work/$1.reload" 2>&1 || fail "the reload of $1 fails: $(cat "$work/$1.reload")"
}
without_bfd() { # side AS NEIGHBOUR...
  local side=$1 as=$2 peer; shift 2
  for peer; do vty "$side" "configure" "router bgp $as" "no neighbor $peer bfd" >/dev/null; done
}
answered() { "$convoy" show tunnel --json --control "$work/$1.sock" | python3 -c 'import json, sys
sys.exit(any((row["monitor"] or {}).get("state") != "answered" for row in json.load(sys.stdin)))'; }
for side in a b c; do monitored $side; done
for side in a b c; do wait_until "the echoes of $side are not answered" answered $side; done
without_bfd a 65001 169.254.1.2 169.254.2.2 fd00:ab::2 fd00:ac::2
without_bfd b 65002 169.254.1.1 fd00:ab::1
without_bfd c 65003 169.254.2.1 fd00:ac::1
wait_until "the paths do not stay without BFD" both_paths; wait_until "H's paths do not stay without BFD" answers; sleep 2
begin_pings; sleep 2
cut b; began=$(date +%s%N)
wait_until "the routes still have the path that was cut, without BFD" one_path c
routes_ms=$((($(date +%s%N) - began) / 1000000)); sleep 3
# Linux reports interfaces that have lost their link once a second, and all gateways are on one.
end_pings "a path is cut, echoes without BFD"
echo "the routes of the gateway itself    leave the path within $routes_ms ms"
mend; wait_until "the path does not come back" both_paths; wait_until "H's path does not come back" answers; sleep 2

begin_pings; sleep 1
no_path() { ! { ip -n $A route show 10.9.0.0/24; ip -n $A -6 route show fd00:9::/64; } | contains ipsec; }
cut b; cut c
wait_until "the routes stay though both paths are cut" no_path
sleep 1; mend
wait_until "no path comes back" both_paths; wait_until "H's paths do not come back" answers; sleep 2
end_pings "both paths are cut and mended" 60000
end_capture ab ac
for device in ab ac; do
  clear=$(tcpdump -nr "$work/$device.pcap" 2>/dev/null | wc -l)
  [ "$clear" = 0 ] || fail "unprotected packets left by $device: $(tcpdump -nr "$work/$device.pcap" 2>/dev/null | head -3)"
done
dropped=$("$convoy" show stats --json --control "$work/a.sock" | python3 -c 'import json, sys; print(json.load(sys.stdin)["guard"]["dropped_outbound"])')
[ "$dropped" -gt 0 ] || fail "no packet tried to leave by the default route, so that nothing was shown"
echo "unprotected on the outside         none; the guard dropped $dropped that the default route would have taken"
