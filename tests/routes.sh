#!/usr/bin/env bash
# The host's routes: a full tunnel together with a default route, and the routes that remain after
# every kind of exit. There is a router between the gateways, so that everything that leaves a site
# uses its default route. Needs root.
# usage: routes.sh CONVOY
#
#   10.1.0.1 [a] 192.0.2.1 -- .254 [r] .254 -- 198.51.100.2 [b] 203.0.113.1, 2001:db8:f::1: the
#   world
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/lib.sh"
need_root
work_dir
declare -A process
a=convoy-routes-a r=convoy-routes-r b=convoy-routes-b
show_logs() { tail -n 20 "$work"/*.log; show; }
in_a() { ip netns exec $a "$@"; }
# The kernel lists link-local routes in the order in which it has made them, and sometimes makes one
# again.
show() { for of in "-4 rule" "-6 rule" "-4 route show table all" "-6 route show table all"; do echo "--- $of"; ip -n $a $of | sort; done; }

add_namespace $a $r $b
for ns in $a $r $b; do
  forward $ns
  in_ns $ns sysctl -qw net.ipv6.conf.default.accept_dad=0
done
a_link=va b_link=vb
cable $a $a_link "192.0.2.1/24 2001:db8:a::1/64" $r ra "192.0.2.254/24 2001:db8:a::254/64"
cable $b $b_link "198.51.100.2/24 2001:db8:b::2/64" $r rb "198.51.100.254/24 2001:db8:b::254/64"
up_with $b lo "203.0.113.1/32 2001:db8:f::1/128"
# A host that is far away from both sites.
up_with $r lo "172.31.0.1/32 2001:db8:e::1/128"
for at in "$a 192.0.2.254 2001:db8:a::254" "$b 198.51.100.254 2001:db8:b::254"; do
  read -r ns v4 v6 <<<"$at"
  ip -n "$ns" route add default via "$v4"; ip -n "$ns" -6 route add default via "$v6"
done
ip -n $r route add 203.0.113.1 via 198.51.100.2; ip -n $r -6 route add 2001:db8:f::1 via 2001:db8:b::2
# Other routes of a host: a backup, an alternative path, and a management network inside a network
# behind the tunnel.
ip -n $a route add default via 192.0.2.253 metric 500
ip -n $a route add 10.99.0.0/24 via 192.0.2.254
cable $a lan "10.1.0.1/24 fd00:1::1/64" $r far-lan ""
cable $a management 10.50.0.1/24 $r far-management ""
# Once before `show`, because the routes of `lan` are listed last afterwards.
bounce() { ip -n $a link set lan down; "$@"; ip -n $a link set lan up; ip -n $a addr replace fd00:1::1/64 dev lan nodad; }
bounce true
sleep 0.5
before=$(show)

ab=$(random_key) ba=$(random_key)
conf() { # site local remote local_ts remote_ts address spi_in spi_out key_in key_out
  (umask 077; cat <<CONF
[gateway]
control = "$work/$1.sock"
state = "$work/$1.state"
on_stop = "${on_stop:-open}"
workers = 2
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = [$6]
[[port]]
name = "outside"
kind = "udp"
address = [${11:-\"$2\"}]
[[tunnel]]
name = "site"
local = "$2"
remote = "$3"
local_ts = [$4]
remote_ts = [$5]
esp_proposal = "aes128gcm16"
replay_window = 0 # as a is started again and again
[tunnel.manual]
spi_in = $7
spi_out = $8
key_in = "$9"
key_out = "${10}"
CONF
  )
}
site_a() { # remote_ts
  conf a 192.0.2.1 198.51.100.2 '"10.1.0.0/24", "fd00:1::/64"' "$1" '"10.1.0.1/32", "fd00:1::1/128"' 4097 4098 "$ba" "$ab" \
    '"192.0.2.1", "2001:db8:a::1"'
}
all='"0.0.0.0/0", "::/0"'
umask 077
site_a "$all" >"$work/a.toml"
conf b 198.51.100.2 192.0.2.1 "$all" '"10.1.0.0/24", "fd00:1::/64"' '"10.2.0.1/32", "fd00:2::1/128"' 4098 4097 "$ab" "$ba" >"$work/b.toml"

start_gateway() { # site
  local ready; ready=$(grep -c ' ready' "$work/$1.log" 2>/dev/null || true)
  ip netns exec "${!1}" "$convoy" run -c "$work/$1.toml" >>"$work/$1.log" 2>&1 & started=$!
  process[$1]=$started
  is_ready() { [ "$(grep -c ' ready' "$work/$1.log" || true)" != "${ready:-0}" ] || ! is_running "$started"; }
  wait_until "the gateway $1 is not ready" is_ready "$1"
  is_running "$started" || fail "the gateway $1 ended"
}
stop_a() { end_well "${process[a]}" "the gateway"; }
reaches() { in_a ping -q -c 2 -i 0.2 -W 3 "$@" >"$work/ping"; }
unchanged() { diff <(echo "$before") <(show) >"$work/diff" || { cat "$work/diff" >&2; fail "$1: the host's routes are not as before"; }; }
# clear WHAT COMMAND...: runs the command; no packet to the world may leave unencrypted meanwhile.
no_clear() { # what seconds
  : >"$work/tcpdump"
  in_a timeout "$2" tcpdump -Z root -U --immediate-mode -B 65536 -n -i $a_link "host 203.0.113.1 or host 2001:db8:f::1" >"$work/clear" 2>"$work/tcpdump" & local capture=$!
  wait_for_line 'listening on' "$work/tcpdump" "tcpdump does not start"
  in_a ping -q -c 3 -i 0.2 -W 1 203.0.113.1 >/dev/null 2>&1 || true
  in_a ping -q -c 3 -i 0.2 -W 1 2001:db8:f::1 >/dev/null 2>&1 || true
  in_a ping -q -c 1 -W 1 -I 10.1.0.1 203.0.113.1 >/dev/null 2>&1 || true
  wait $capture || true
  ! grep -q IP "$work/clear" || { cat "$work/clear" >&2; fail "$1: packets left in clear"; }
}

reaches 203.0.113.1 || fail "the world is not reached without a gateway"
start_gateway b
start_gateway a

# A full tunnel.
reaches 203.0.113.1 || fail "nothing passes a full tunnel"
reaches 2001:db8:f::1 || fail "no IPv6 passes a full tunnel"
no_clear "full tunnel" 4
sa=$(in_a "$convoy" show sa --json --control "$work/a.sock")
[ "$(grep -c '"packets": [1-9]' <<<"$sa")" = 2 ] || fail "the tunnel's SAs have no packets: $sa"
in_a ip route get 198.51.100.2 | contains "via 192.0.2.254 dev $a_link" || fail "the peer is reached through its own tunnel"
ip netns exec $r ping -q -c 2 -i 0.2 -W 3 -I 172.31.0.1 192.0.2.1 >/dev/null || fail "the outer address does not answer the world"
ip netns exec $r ping -q -c 2 -i 0.2 -W 3 -I 2001:db8:e::1 2001:db8:a::1 >/dev/null || fail "the outer IPv6 address does not answer the world"
in_a ip route get 10.99.0.5 | contains "via 192.0.2.254" || fail "a route of the host's is hidden"
in_a ip route get 10.50.0.5 | contains "dev management" || fail "a network of the host's is hidden"
[ "$(ip -n $a route show table main | sort; ip -n $a -6 route show table main | grep -v convoy0 | sort)" = "$(sed -n '/^--- -4 route/,/^--- -6 route/p' <<<"$before" | grep -v '^---\|table ' ; sed -n '/^--- -6 route/,$p' <<<"$before" | grep -v '^---\|table ')" ] || fail "the main table has changed"
ok "a full tunnel, IPv4 and IPv6: all passes it, nothing in clear, the host's own routes and its outer address as before"
ip -n $a rule | grep -v 'lookup \(local\|main\|default\) *$' | sed 's/^/    /'
ip -n $a route show table 4501 | sed 's/^/    /'

# The interface goes down and up.
ip -n $a link set convoy0 down
no_clear "the interface is down" 5
ip -n $a link set convoy0 up
wait_until "nothing passes after the interface went down and up" reaches 203.0.113.1
wait_until "no IPv6 passes after the interface went down and up" reaches 2001:db8:f::1
ok "the interface down: all is dropped; up again: all passes"
# Some network managers delete rules that they do not know.
ip -n $a rule del priority 4503
has_rule() { ip -n $a rule | contains ^4503:; }
wait_until "a rule that was removed is not set again" reaches 203.0.113.1 -I 10.1.0.1
wait_until "a rule that was removed is not set again" has_rule
ok "a rule that something else removed is there again"
# And routes: blackholes and exceptions among them.
routes_of_ours() { for family in -4 -6; do ip -n $a $family route show table 4501; done; }
routes=$(routes_of_ours)
for family in -4 -6; do ip -n $a $family route flush table 4501; done
are_back() { [ "$(routes_of_ours)" = "$routes" ]; }
wait_until "routes that were removed are not set again" are_back
reaches 203.0.113.1 || fail "nothing passes after routes were removed and set again"
ok "routes that something else removed are there again"

stop_a
unchanged "SIGTERM"
ok "SIGTERM: routes and rules are as before"

# Starts that fail: at a port, and at the very end.
take_udp_port $a 192.0.2.1 4500
in_a "$convoy" run -c "$work/a.toml" >"$work/wrong.log" 2>&1 && fail "a gateway whose UDP port is taken runs"
grep -q 'listen on UDP 192.0.2.1:4500 (another program, perhaps charon, uses it' "$work/wrong.log" || fail "the reason is not reported"
kill_and_wait "$started"
unchanged "a UDP port that is taken"
sed 's/^workers = 2/metrics = "203.0.113.77:9464"/' "$work/a.toml" >"$work/wrong.toml"
in_a "$convoy" run -c "$work/wrong.toml" >"$work/wrong.log" 2>&1 && fail "a gateway with a wrong metrics address runs"
unchanged "a wrong metrics address"
[ ! -e "$work/a.sock" ] || fail "a start that failed leaves its socket"
ip -n $a route add 10.77.0.0/24 dev lan table 4500
in_a "$convoy" run -c "$work/a.toml" >"$work/wrong.log" 2>&1 && fail "a gateway shares a routing table"
grep -q 'routing table 4500 has routes of another program; choose another table with route_table' "$work/wrong.log" || fail "the reason is not reported"
ip -n $a route del 10.77.0.0/24 dev lan table 4500
unchanged "a routing table of others"
ok "starts that fail leave all as before"

# After a kill, traffic stays blocked, and the next start takes the routes over.
start_gateway a
reaches 203.0.113.1 || fail "nothing passes"
kill_and_wait "${process[a]}"
wait_until "the helper outlives the gateway" no_gateway_in $a
no_clear "kill -9" 5
[ "$(ip -n $a route show table 4501 proto 145 type blackhole; ip -n $a -6 route show table 4501 proto 145 type blackhole)" != "" ] || fail "no blackhole stays"
start_gateway a
reaches 203.0.113.1 || fail "a gateway after a killed one carries nothing"
stop_a
unchanged "SIGTERM after kill -9"
ok "kill -9: all is dropped, nothing in clear; the next start takes the routes over, and its stop leaves all as before"

# unblock: manually, as in docs/operation/restarts.md, for this configuration.
unblock() {
  sed -n '/^<!-- unblock -->$/,/^```$/p' "$(dirname "$0")/../docs/operation/restarts.md" | grep '^convoy ' >"$work/unblock"
  [ -s "$work/unblock" ] || fail "docs/operation/restarts.md has no command"
  sed -i "s|^convoy \(.*\)|$convoy \1 -c $work/a.toml|" "$work/unblock"
  in_a sh -e "$work/unblock" >/dev/null
}
start_gateway a
kill_and_wait "${process[a]}"
wait_until "the helper outlives the gateway" no_gateway_in $a
unblock
unchanged "docs/operation/restarts.md's command"
ok "docs/operation/restarts.md's command removes what a killed gateway left"

# By default, a stopped gateway leaves traffic blocked, even if the next start fails.
on_stop=block site_a "$all" >"$work/a.toml"
start_gateway a
reaches 203.0.113.1 || fail "nothing passes"
stop_a
no_clear "SIGTERM" 5
sed 's/^workers = 2/metrics = "203.0.113.77:9464"/' "$work/a.toml" >"$work/wrong.toml"
in_a "$convoy" run -c "$work/wrong.toml" >"$work/wrong.log" 2>&1 && fail "a gateway with a wrong metrics address runs"
no_clear "SIGTERM, and a start that failed" 5
start_gateway a
reaches 203.0.113.1 || fail "a gateway after a stopped one carries nothing"
stop_a
unblock
unchanged "unblock after SIGTERM"
ok "SIGTERM with on_stop = \"block\": a full tunnel drops all, nothing in clear; unblock leaves all as before"

# A network behind the tunnel that contains this side's, and a tunnel that a reload adds.
site_a '"10.0.0.0/8"' >"$work/a.toml"
start_gateway a
in_a ip route get 10.1.0.5 | contains "dev lan" || fail "the LAN is routed into the tunnel"
in_a ip route get 10.50.0.5 | contains "dev management" || fail "the management network is routed into the tunnel"
in_a ip route get 10.3.0.5 | contains "dev convoy0 table 4500 src 10.1.0.1" || fail "10.3.0.5 is not routed into the tunnel"
stays() { ! in_a ip route get 10.1.0.5 | contains convoy0 || fail "the LAN is routed into the tunnel while its link is down"; }
bounce stays
site_a "$all" >"$work/a.toml"
kill -HUP "${process[a]}"
wait_until "a network that comes by a reload is not routed" reaches 203.0.113.1
not_in_table() { ! ip -n $a route show table 4500 | contains convoy0; }
wait_until "a network that went is still routed" not_in_table
stop_a
unchanged "SIGTERM after a reload"
ok "a network that contains this side's leaves them here; a reload sets and removes routes"
