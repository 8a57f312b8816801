#!/usr/bin/env bash
# Runs docs/guide/nat.md: two sites with the same network, 192.168.1.0/24, whose gateways translate
# it to 10.101.1.0/24 and 10.102.1.0/24, one by nftables and one by iptables. Pings and files pass
# both ways by the translated addresses, over a narrow path as well. Then gateway a is behind a NAT,
# which restarts with another port. Needs root.
# usage: nat-overlap.sh CONVOY
#
#   host a ------- gateway a ------------ router ------------ gateway b ------- host b
#   192.168.1.10   .1   192.0.2.1 (10.0.0.2)  198.51.100.254  198.51.100.1   .1   192.168.1.10
set -euo pipefail
convoy=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
page=$here/../docs/guide/nat.md
source "$here/lib.sh"
need_root
work_dir
ha=convoy-nat-host-a ga=convoy-nat-gate-a router=convoy-nat-router gb=convoy-nat-gate-b hb=convoy-nat-host-b
# block NAME: the code block that the page marks with this name.
block() { marked "$page" "$1"; }
# swapped: a filter that makes the other gateway's version of a configuration.
swapped() {
  sed 's/192\.0\.2\.1"/LEFT"/; s/198\.51\.100\.1"/192.0.2.1"/; s/LEFT"/198.51.100.1"/
    s/10\.101\./10.LEFT./; s/10\.102\./10.101./; s/10\.LEFT\./10.102./; s/site-b/site-a/
    s/0x1001/LEFT/; s/0x1002/0x1001/; s/LEFT/0x1002/; s/^key_in/LEFT/; s/^key_out/key_in/; s/^LEFT/key_out/'
}
# on GATEWAY COMMAND...: with a separate /run and /var/lib/convoy, and convoy on the path.
on() {
  local ns=$1; shift
  unshare -m ip netns exec "$ns" sh -c "mount --make-rprivate /
    mount --bind $work/$ns/run /run; mount --bind $work/$ns/state /var/lib/convoy
    PATH=$work/bin:\$PATH; exec \"\$@\"" sh "$@"
}
run() { block "$2" >"$work/commands" && on "$1" sh -e "$work/commands"; } # gateway block
# gateway NAMESPACE: starts it with $work/NAMESPACE.toml; end_gateway NAMESPACE: stops it.
gateway() {
  : >"$work/$1-convoy.log"
  on "$1" convoy run -c "$work/$1.toml" >"$work/$1-convoy.log" 2>&1 &
  wait_for_line ' ready' "$work/$1-convoy.log" "the gateway $1 does not start"
}
end_gateway() {
  local pid
  for pid in $(ip netns pids "$1"); do [ "$(cat "/proc/$pid/comm")" != convoy ] || end_process "$pid"; done
}
# configured NAMESPACE BLOCK [FILTER]: its convoy.toml, which also passes `convoy check`.
configured() {
  (umask 077; block "$2" | ${3:-cat} >"$work/$1.toml")
  on "$1" convoy check -c "$work/$1.toml" >"$work/check.log" 2>&1 || fail "$1: convoy check: $(cat "$work/check.log")"
}
both_ping() { # when
  local ends ns address
  for ends in "$ha 10.102.1.10" "$hb 10.101.1.10" "$ha 10.102.1.1" "$hb 10.101.1.1" "$ga 10.102.1.10" "$gb 10.101.1.10"; do
    read -r ns address <<<"$ends"
    pings "$work/ping.log" $ns 3 "$address" || fail "$1, $ns does not reach $address: $(cat "$work/ping.log")"
  done
}
fetch() { # host peer_host address
  rm -f "$work/copy"
  in_ns "$1" curl -s -m $PATIENCE -o "$work/copy" "http://$3:8000/file" || fail "no file from $3 to $1"
  cmp -s "$work/copy" "$work/$2/file" || fail "what $1 has from $3 is not what was sent"
}
fetch_both() { fetch $ha $hb 10.102.1.10; fetch $hb $ha 10.101.1.10; }
nothing_in_clear() { # when
  end_capture outside
  ! tcpdump -nr "$work/outside.pcap" 'net 192.168.1.0/24 or net 10.101.1.0/24 or net 10.102.1.0/24' 2>/dev/null | contains . ||
    fail "$1, packets of the sites are outside in clear"
}

add_namespace $ha $ga $router $gb $hb
cable $ha eth0 192.168.1.10/24 $ga lan0 192.168.1.1/24
cable $hb eth0 192.168.1.10/24 $gb lan0 192.168.1.1/24
cable $ga wan0 192.0.2.1/24 $router site-a 192.0.2.254/24
cable $gb wan0 198.51.100.1/24 $router site-b 198.51.100.254/24
for side in "$ha 192.168.1.1" "$hb 192.168.1.1" "$ga 192.0.2.254" "$gb 198.51.100.254"; do
  read -r ns next <<<"$side"
  ip -n "$ns" route add default via "$next"
done
for ns in $router $ga $gb; do forward $ns; done
mkdir -p "$work/bin" /var/lib/convoy; ln -s "$convoy" "$work/bin/convoy"
for ns in $ga $gb; do mkdir -p "$work/$ns/run" "$work/$ns/state"; done
for ns in $ha $hb; do
  mkdir "$work/$ns"; head -c 2000000 /dev/urandom >"$work/$ns/file"
  serve_files $ns "$work/$ns" 8000
done

configured $ga configuration; configured $gb configuration swapped
start_capture outside $router site-b
gateway $ga; gateway $gb
# Without the translation, nothing passes, and nothing leaves in clear.
! pings "$work/ping.log" $ha 3 -W 1 -i 0.2 10.102.1.10 || fail "pings pass without the translation"
on $ga convoy show stats --json | contains outbound_no_policy || fail "what is not translated is not counted as outbound_no_policy"
run $ga nft-a; run $gb iptables-b
start_capture inside $hb eth0 icmp
both_ping "translated"
end_capture inside
tcpdump -nr "$work/inside.pcap" 2>/dev/null | contains '10.101.1.10 > 192.168.1.10: ICMP echo request' ||
  fail "host b does not see host a as 10.101.1.10: $(tcpdump -nr "$work/inside.pcap" 2>/dev/null | head)"
fetch_both
run $ga look >"$work/look.log" 2>&1 || fail "the step \"look\": $(cat "$work/look.log")"
grep -q '10.101.1.0/24.*10.102.1.0/24' "$work/look.log" || fail "show policy does not have the translated networks: $(cat "$work/look.log")"
nothing_in_clear "translated"
echo "two sites with 192.168.1.0/24, by nftables and iptables: 18 of 18 pings, 2 files"

# A host is notified about a path that carries less, though its packets were translated.
ip -n $router link set site-b mtu 1300; ip -n $gb link set wan0 mtu 1300
too_long() { { in_ns $ha ping -c 1 -W 1 -M "do" -s 1300 10.102.1.10 2>&1 || true; } | contains -E 'mtu ?= ?12'; }
wait_until "host a gets no error about the path" too_long
fetch_both
echo "a path of 1,300 bytes: host a gets the error about its translated packet, 2 files"
end_gateway $ga; end_gateway $gb

# Gateway a is behind a NAT. Its rules stay.
ip -n $router addr flush dev site-a; ip -n $router addr add 10.0.0.1/24 dev site-a
ip -n $ga addr flush dev wan0; ip -n $ga addr add 10.0.0.2/24 dev wan0; ip -n $ga route replace default via 10.0.0.1
# nat PORT: the NAT, and the port that it gives the gateway; stateless, so that a new port is in use
# at once.
nat() {
  in_ns $router nft -f - <<END
table ip nat
delete table ip nat
table ip nat {
  chain out {
    type filter hook forward priority filter;
    ip saddr 10.0.0.2 udp sport 4500 ip saddr set 192.0.2.1 udp sport set $1
  }
  chain back {
    type filter hook prerouting priority raw;
    ip daddr 192.0.2.1 udp dport $1 ip daddr set 10.0.0.2 udp dport set 4500
  }
}
END
}
nat 40001
configured $ga behind-nat; configured $gb roaming
start_capture outside $router site-b
gateway $gb
! pings "$work/ping.log" $hb 3 -W 1 -i 0.2 10.101.1.10 || fail "gateway b reaches a peer that has sent nothing"
on $gb convoy show stats --json | contains outbound_no_peer || fail "packets without a peer are not counted as outbound_no_peer"
gateway $ga
peer() { on $gb convoy show sa --json | python3 -c 'import json, sys
for sa in json.load(sys.stdin):
    if sa["direction"] == "outbound":
        print(sa["remote"], sa["remote_port"])'; }
is_at() { [ "$(peer)" = "192.0.2.1 $1" ]; }
pings "$work/ping.log" $ha 3 10.102.1.10 || fail "host a does not reach host b from behind a NAT: $(cat "$work/ping.log")"
is_at 40001 || fail "gateway b has its peer at $(peer)"
both_ping "behind a NAT"
fetch_both
# The NAT restarts and gives the gateway another port; roaming.sh has what an idle one does.
nat 40002
pings "$work/ping.log" $ha 3 10.102.1.10 || fail "host a does not reach host b by the NAT's new port: $(cat "$work/ping.log")"
wait_until "gateway b does not follow the NAT" is_at 40002
both_ping "after the NAT has restarted"
nothing_in_clear "behind a NAT"
ok "docs/guide/nat.md as it stands: 60 of 60 pings, 6 files; the NAT gives another port and is followed"
