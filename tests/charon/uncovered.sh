#!/usr/bin/env bash
# A peer gets a virtual IP from a pool that only swanctl.conf knows. No [[tunnel]] covers it, so
# nothing routes replies into the gateway: they are blocked, the log says what to do, and once that
# is done they leave encrypted: by a [[tunnel]] with the network, or by one without networks that
# has the connection's name. A stock charon is the peer. Needs root.
# usage: uncovered.sh CONVOY PLUGIN
#
#   10.1.0.1 [A: convoy + charon with a pool] 192.0.2.1 --veth-- 192.0.2.2 [B: charon] 10.3.0.1, its
#   virtual IP
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
A=convoy-pool-a B=convoy-pool-b
source "$(dirname "$(readlink -f "$0")")/lib.sh"
namespaces
# Without the block, a reply would leave unencrypted by this route.
ip -n $A route add default via 192.0.2.2
gateway_conf a '"192.0.2.1"'
start_gateway a
strongswan a "$with_convoy"; strongswan b "$stock"
LOCAL_TS=10.1.0.0/24 REMOTE_TS=dynamic connection a 192.0.2.1 192.0.2.2 "encap = yes
  pools = rw" "esp_proposals = aes128gcm16"
echo 'pools { rw { addrs = 10.3.0.0/24 } }' >>"$work/a/swanctl.conf"
LOCAL_TS=dynamic REMOTE_TS=10.1.0.0/24 connection b 192.0.2.2 192.0.2.1 "encap = yes
  vips = 0.0.0.0" "esp_proposals = aes128gcm16"
start_charon a; load a; start_charon b; load b
ip netns exec $B tcpdump -n -U -l -i vb host 10.3.0.1 >"$work/plain" 2>"$work/tcpdump" &
wait_until "tcpdump does not start" grep -q listening "$work/tcpdump"

warning='charon.s child site/net has traffic selectors outside every \[\[tunnel\]\]: 10.1.0.0/24 === 10.3.0.1/32; packets to 10.3.0.1/32 are dropped.*remote_ts'
warned() { [ "$(grep -c "$warning" "$work/a/convoy.log")" = "$1" ]; }
blocked() { ip -n $A route show table 4500 | contains '^blackhole 10.3.0.1 '; }
none() { [ "$(sas)" = 0 ]; }
not_blocked() { ! blocked; }
opened() { show sa | python3 -c 'import json, sys; print(sum(sa["packets"] for sa in json.load(sys.stdin) if sa["direction"] == "inbound"))'; }
nothing_plain() { sleep 0.3; [ ! -s "$work/plain" ] || fail "$1: in clear outside: $(head -n 3 "$work/plain")"; }
unanswered() { ip netns exec $B ping -q -c 10 -i 0.05 -W 0.5 -I 10.3.0.1 10.1.0.1 >"$work/ping" && fail "$1: answers"; true; }

up b
wait_until "no warning" warned 1
wait_until "the virtual IP is not blocked" blocked
unanswered "outside every tunnel"
has_opened() { [ "$(opened)" = 10 ]; }
wait_until "not all of 10 packets were opened" has_opened
nothing_plain "answers"
ask b --terminate --ike site >/dev/null 2>&1 || true
wait_until "the SAs stay" none
blocked || fail "the network is open when the SA has gone"
ip netns exec $A ping -q -c 3 -i 0.1 -W 0.5 10.3.0.1 >/dev/null 2>&1 && fail "answers without an SA"
nothing_plain "without an SA"

cp "$work/a/gateway.toml" "$work/a/without.toml"
cat >>"$work/a/gateway.toml" <<'CONF'
[[tunnel]]
name = "pool"
local = "192.0.2.1"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.3.0.0/24"]
esp_proposal = "aes128gcm16"
CONF
kill -HUP $gateway_pid
wait_until "a tunnel that covers it does not unblock it" not_blocked
up b
pings_from $B 10 -I 10.3.0.1 10.1.0.1 || fail "not all answered within a tunnel: $(cat "$work/ping")"
nothing_plain "within a tunnel"
warned 1 || fail "a warning of what is covered"
cp "$work/a/without.toml" "$work/a/gateway.toml"
kill -HUP $gateway_pid
wait_until "without its tunnel again it is not blocked" blocked
unanswered "its tunnel was taken away"
nothing_plain "its tunnel was taken away"
warned 2 || fail "no warning when its tunnel was taken away"
# A tunnel without networks takes those of the connection that has its name.
printf '[[tunnel]]\nname = "site"\n' >>"$work/a/gateway.toml"
kill -HUP $gateway_pid
routed() { ip -n $A route show table 4500 | contains '^10.3.0.1 dev convoy0'; }
wait_until "what the connection brings is not routed" routed
pings_from $B 10 -I 10.3.0.1 10.1.0.1 || fail "not all answered within a tunnel without networks: $(cat "$work/ping")"
is_site() { show tunnel | python3 -c 'import json, sys; sys.exit(("site", "up") not in [(row["tunnel"], row["state"]) for row in json.load(sys.stdin)])'; }
wait_until "the tunnel without networks is not up" is_site
ask b --terminate --ike site >/dev/null 2>&1 || true
wait_until "the SAs stay" none
up b
pings_from $B 10 -I 10.3.0.1 10.1.0.1 || fail "not all answered after new SAs: $(cat "$work/ping")"
nothing_plain "within a tunnel without networks"
warned 2 || fail "a warning of what a tunnel takes"
echo "ok: a virtual IP outside every [[tunnel]]: warned, and no answer in clear; with a [[tunnel]], also without networks, 30 of 30 pings"
