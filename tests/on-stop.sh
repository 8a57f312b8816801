#!/usr/bin/env bash
# Checks what leaves unencrypted when a gateway stops, and while none runs: a host behind gateway a
# continuously pings one behind gateway b, over IPv4 and IPv6, and the router beside gateway a
# watches. Needs root.
# usage: on-stop.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$(realpath "$0")")/hosts.sh"

declare -A process
ab=$(random_key) ba=$(random_key)
conf() { # name own peer local_ts remote_ts address spi_in spi_out key_in key_out
  (umask 077; cat >"$work/$1.toml" <<CONF
[gateway]
control = "$work/$1.sock"
state = "$work/$1.state"
${on_stop:-}
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = [$6]
[[port]]
name = "outside"
kind = "udp"
address = ["$2"]
[[tunnel]]
name = "site"
local = "$2"
remote = "$3"
local_ts = [$4]
remote_ts = [$5]
esp_proposal = "aes128gcm16"
[tunnel.manual]
spi_in = $7
spi_out = $8
key_in = "$9"
key_out = "${10}"
CONF
  )
}
nets_a='"10.1.0.0/24", "fd00:1::/64"' nets_b='"10.2.0.0/24", "fd00:2::/64"'
conf_a() { conf a 192.0.2.1 198.51.100.1 "$nets_a" "$nets_b${1:-}" '"10.1.0.1/32", "fd00:1::1/128"' 4097 4098 "$ba" "$ab"; }
start_gateway() { # namespace name
  run_gateway "$2.log" "$1" "$work/$2.toml"
  process[$2]=$started
  wait_until "the gateway $2 sets no routes" routed "$1" "$([ "$2" = a ] && echo 2 || echo 1)"
}
end_a() { end_well "${process[a]}" "the gateway"; }
# sent: the number of requests that the host has sent; more: waits for 40 more.
sent() { in_ns $ha nft list counter inet count sent | grep -o 'packets [0-9]*' | tr -dc 0-9; }
more() {
  local target=$(($(sent) + 40))
  has_sent() { [ "$(sent)" -ge $target ]; }
  wait_until "the host does not ping" has_sent
}
# seen: the number of the hosts' packets that the router has seen unencrypted since it began to
# count.
seen() { in_ns $near nft list chain inet watch prerouting | grep -o 'packets [0-9]*' | awk '{ sum += $2 } END { print sum }'; }
watch() {
  in_ns $near nft -f - <<'NFT'
table inet watch
delete table inet watch
table inet watch {
  chain prerouting {
    type filter hook prerouting priority raw; policy accept
    iifname "site-a" ip saddr 10.1.0.0/24 ip daddr 10.2.0.0/24 counter
    iifname "site-a" ip6 saddr fd00:1::/64 ip6 daddr fd00:2::/64 counter
  }
}
NFT
}
closed() { more; [ "$(seen)" = 0 ] || fail "$1: $(seen) packets crossed the router unencrypted"; ok "$1: none of the host's packets crossed the router unencrypted"; }
reach() { for address in 10.2.0.10 fd00:2::10; do wait_until "$1, $address is not reached" in_ns $ha ping -q -c 1 -W 1 $address; done; }

sites
in_ns $ha nft -f - <<'NFT'
table inet count {
  counter sent { }
  chain output {
    type filter hook output priority 0
    ip daddr 10.2.0.0/24 counter name sent
    ip6 daddr fd00:2::/64 counter name sent
  }
}
NFT
for ns in $ga $gb; do forward $ns; done
conf_a
conf b 198.51.100.1 192.0.2.1 "$nets_b" "$nets_a" '"10.2.0.1/32", "fd00:2::1/128"' 4098 4097 "$ab" "$ba"
start_gateway $gb b
start_gateway $ga a
reach "at first"
for address in 10.2.0.10 fd00:2::10; do
  ip netns exec $ha ping -q -i 0.05 $address >/dev/null 2>&1 &
done

watch
closed "while it runs"
for round in 1 2 3; do
  end_a
  more
  start_gateway $ga a
  reach "after restart $round"
done
closed "three restarts"
end_a
closed "stopped"
tail -n 2 "$work/a.log" | contains 'are dropped until the next start, or until `convoy unblock`' || fail "the log does not say what stays"

# A start that fails leaves the state unchanged.
take_udp_port $ga 192.0.2.1 4500
in_ns $ga "$convoy" run -c "$work/a.toml" >"$work/wrong.log" 2>&1 && fail "a gateway whose UDP port is taken runs"
kill_and_wait "$started"
closed "a start that failed"

start_gateway $ga a
kill_and_wait "${process[a]}"
wait_until "a process of the gateway stays" no_gateway_in $ga
closed "kill -9"
start_gateway $ga a
reach "after kill -9"
in_ns $ga pkill -9 -f "convoy helper --config $work/a.toml"
wait_until "a gateway whose helper was killed goes on" is_gone "${process[a]}"
! wait "${process[a]}" || fail "a gateway whose helper was killed ends well"
closed "the helper killed, and the gateway ended"

# Networks that were removed from the configuration are no longer blocked.
conf_a ', "10.77.0.0/24"'
start_gateway $ga a
end_a
blocked() { ip -n $ga route show table 4500 type blackhole | contains "^blackhole $1 "; }
not_blocked() { ! ip -n $ga route show table 4500 | contains -F "$1"; }
blocked 10.77.0.0/24 || fail "a network of a stopped gateway is not blocked"
conf_a
start_gateway $ga a
wait_until "a network that is no longer configured stays blocked" not_blocked 10.77.0.0/24
ok "the next start removes what is no longer configured"

! in_ns $ga "$convoy" unblock -c "$work/a.toml" >"$work/unblock.log" 2>&1 || fail "unblock opens what a running gateway closes"
grep -q "the gateway is running (process ${process[a]}); stop it first" "$work/unblock.log" || fail "unblock does not say why it refuses: $(cat "$work/unblock.log")"
! in_ns $ga "$convoy" unblock >"$work/unblock.log" 2>&1 || fail "unblock without a configuration opens what a running gateway closes"
grep -q "routing table 4500 has routes to the interface" "$work/unblock.log" || fail "unblock does not say why it refuses: $(cat "$work/unblock.log")"
closed "unblock while the gateway runs is refused"
end_a
closed "stopped again"
# The gateway's rules and routes, by the number of its routing protocol and of its table.
ours() {
  for of in "-4 rule" "-6 rule" "-4 route show table all" "-6 route show table all"; do
    ip -n $ga $of | grep -wE 'proto 145|(lookup|table) 45[0-9][0-9]' || true
  done | grep .
}
ours >/dev/null || fail "a stopped gateway has left no rules and routes"
in_ns $ga "$convoy" unblock -c "$work/a.toml" >"$work/unblock.log" || fail "unblock fails"
grep -q "^removed 2 routes, 2 routing rules and the nftables table convoy_4500; packets to these networks are no longer dropped: 10.2.0.0/24, fd00:2::/64" "$work/unblock.log" || fail "unblock does not say what it removed: $(cat "$work/unblock.log")"
more
[ "$(seen)" -gt 0 ] || fail "after unblock, the router still sees nothing: it would have seen nothing before"
! ours || fail "unblock leaves something: $(ours)"
in_ns $ga "$convoy" unblock -c "$work/a.toml" | contains '^nothing to remove' || fail "unblock removes what is not there"
ok "unblock opens the networks, and says which: $(cat "$work/unblock.log")"

# A reload to on_stop = "open".
start_gateway $ga a
reach "after unblock"
watch
on_stop='on_stop = "open"' conf_a
in_ns $ga "$convoy" reload --control "$work/a.sock" >"$work/reload.log" || fail "a reload fails"
closed "reloaded with on_stop = \"open\""
end_a
more
[ "$(seen)" -gt 0 ] || fail "stopped with on_stop = \"open\", the router sees nothing"
ok "on_stop = \"open\": $(seen) packets crossed the router unencrypted once the gateway was stopped"
