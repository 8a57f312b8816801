#!/usr/bin/env bash
# Two convoys, each with charon: cases that a stock peer in user space does not support. Needs root.
# usage: two.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2") A=convoy-two-a B=convoy-two-b
source "$(dirname "$0")/lib.sh"
declare -A gateway charon
v4=(192.0.2.1 192.0.2.2) v6=(2001:db8::1 2001:db8::2)
inside4=(10.1.0.1 10.2.0.1) inside6=(fd00:1::1 fd00:2::1)

# start_both WORKERS: gateways with both ESP in UDP and native ESP, and both charons.
start_both() {
  local side host
  for side in a b; do
    host=1; [ $side = a ] || host=2
    # A listens on all addresses, as it moves to another one later; B only on its own.
    local addresses="\"192.0.2.$host\", \"2001:db8::$host\"" listen='"0.0.0.0", "::"'
    [ $side = a ] || listen=$addresses
    LOCAL=192.0.2.$host gateway_conf $side "$listen" "$(printf '[[port]]\nname = "right on IP"\nkind = "raw"\naddress = [%s]' "$addresses")"
    sed -i "s/^\[gateway\]/&\nworkers = $1\nallow_weak = true/" "$work/$side/gateway.toml"
    strongswan $side "$with_convoy"
    start_gateway $side; gateway[$side]=$gateway_pid
    start_charon $side; charon[$side]=$charon_pid
  done
}
stop_both() { end_process "${gateway[a]}" "${gateway[b]}" "${charon[a]}" "${charon[b]}"; }
no_sas() { [ "$(sas a)$(sas b)" = 00 ]; }
# tunnel "OUTER ADDRESSES" "CONNECTION OPTIONS" "CHILD OPTIONS" [SELECTOR_OF_A SELECTOR_OF_B]: sets
# up the only tunnel.
tunnel() {
  local at; read -r -a at <<<"$1"
  LOCAL_TS=${4:-} REMOTE_TS=${5:-} connection a "${at[0]}" "${at[1]}" "$2" "$3"
  LOCAL_TS=${5:-} REMOTE_TS=${4:-} connection b "${at[1]}" "${at[0]}" "$2" "$3"
  load a; load b; up a
}
end_tunnel() { down a; wait_until "SAs that were ended are still there" no_sas; }
# shown KEY VALUE: until every SA of both sides has this value, and has dropped nothing.
shown() { wait_until "not all SAs have $1 = $2" is_shown "$@"; }
is_shown() {
  for side in a b; do
    show sa $side | python3 -c 'import json, sys
sas = json.load(sys.stdin)
sys.exit(not sas or any(str(sa[sys.argv[1]]) != sys.argv[2] or sum(sa["drops"].values()) for sa in sas))' "$1" "$2" || return 1
  done
}
says() { ask a --list-sas | contains "$1" || fail "charon does not say $1: $(ask a --list-sas)"; }

algorithms() { # of ESP in UDP, then of AH
  local proposal count=0
  for proposal in aes{128,192,256}gcm{8,12,16} aes{128,192,256}gmac aes{128,192,256}ctr-sha256 aes128-sha1 aes{192,256}-sha256 \
    aes256-sha384 aes256-sha512 aes128ctr-sha1 chacha20poly1305 3des-sha1 null-sha256 aes128-md5; do
    tunnel "${v4[*]}" "encap = yes" "esp_proposals = $proposal"
    ping_both; shown transform "$proposal"; shown packets 18
    end_tunnel; count=$((count + 1))
  done
  passed "esp, every algorithm" "$count of $count"
  count=0
  for proposal in sha1 sha256 sha384 sha512; do
    tunnel "${v4[*]}" "" "ah_proposals = $proposal"
    ping_both; shown transform "null-$proposal"; shown packets 18
    end_tunnel; count=$((count + 1))
  done
  passed "ah, every algorithm" "$count of $count"
}
long_sequence_numbers() {
  tunnel "${v4[*]}" "encap = yes" "esp_proposals = aes256gcm16-esn"
  says "AES_GCM_16-256/ESN"; ping_both; shown transform aes256gcm16; shown esn True; shown encap udp
  end_tunnel
  tunnel "${v4[*]}" "" "esp_proposals = aes128-sha256-esn"
  says "HMAC_SHA2_256_128/ESN"; ping_both; shown esn True; shown encap none
  end_tunnel
  passed "esn" "GCM in UDP, CBC with SHA-256 native"
}
# The number of the last event of a side.
last_event() { show events "$1" | python3 -c 'import json, sys; print(max([0] + [event["number"] for event in json.load(sys.stdin)]))'; }
# happened SIDE NUMBER EVENT...: expects these events of the tunnel behind the one of this number.
# With MAY_DROP=1 there may be drops as well.
happened() {
  local side=$1; shift
  wait_until "the events of $side behind $1 are not ${*:2}" are_events "$side" "$@"
}
are_events() { # side number event...
  show events "$1" >"$work/events"
  python3 - "$work/events" "${@:2}" <<EVENTS
import json, sys
events = [event for event in json.load(open(sys.argv[1]))
    if event["number"] > int(sys.argv[2]) and "tunnel" in event and event["event"] != "${MAY_DROP:+dropped}"]
if [event["event"] for event in events] != sys.argv[3:] or any((event["tunnel"], event.get("child", "site/net")) != ("net", "site/net") for event in events):
    sys.exit("\n".join(event["message"] for event in events))
EVENTS
}
events() { # a child comes up, is rekeyed by either side, and goes down
  local before_a before_b before side; before_a=$(last_event a) before_b=$(last_event b)
  tunnel "${v4[*]}" "encap = yes" "esp_proposals = aes128gcm16"
  for side in a b; do
    before=$(spis)
    ask $side --rekey --child net >/dev/null || fail "$side cannot rekey"
    # The old SAs go after a delay, so that the next rekeying is of the new ones.
    wait_until "the old SAs are still there" two_others
  done
  ping_both; end_tunnel
  happened a "$before_a" sa-up sa-rekeyed sa-rekeyed sa-down
  happened b "$before_b" sa-up sa-rekeyed sa-rekeyed sa-down
  for side in a b; do grep -q 'tunnel net (site/net) was rekeyed: peer 192\.0\.2\.[12]:4500, SPI out 0x' "$work/$side/convoy.log" || fail "the log of $side does not say so"; done
  passed "events" "up, rekeyed by either side, down: each once, at both"
}
two_each() { [ "$(sas a)$(sas b)" = 22 ]; }
spis() { show sa a | grep -o '"spi": [0-9]*' | sort; }
two_others() { two_each && [ "$(comm -12 <(spis) <(echo "$before") | wc -l)" = 0 ]; }
# Packets that A's port for native ESP has received, which does not include ESP in UDP.
on_ip() { show stats | python3 -c 'import json, sys; print(sum(p["received_packets"] for p in json.load(sys.stdin)["ports"] if p["kind"] == "raw"))'; }
native() {
  local before; before=$(on_ip)
  tunnel "${v4[*]}" "" "esp_proposals = aes128gcm16"
  ping_both; shown transform aes128gcm16
  [ $(($(on_ip) - before)) = 18 ] || fail "of 18 packets $(($(on_ip) - before)) came right on IP"
  end_tunnel
  passed "native esp" "18 of 18 packets by protocol 50"
}
# In transport mode pings are routed into the gateway, but the packets that it makes of them are
# not.
transport() {
  local encap before
  ip -n $A rule add to 192.0.2.2 ipproto icmp lookup 100; ip -n $A route add default dev convoy0 table 100
  ip -n $B rule add to 192.0.2.1 ipproto icmp lookup 100; ip -n $B route add default dev convoy0 table 100
  for encap in no yes; do
    before=$(on_ip)
    tunnel "${v4[*]}" "encap = $encap" $'esp_proposals = aes128gcm16\n    mode = transport' dynamic dynamic
    says TRANSPORT; ping_both "${v4[@]}"; shown packets 18; shown transform aes128gcm16; shown mode transport
    [ $encap = yes ] || [ $(($(on_ip) - before)) = 18 ] || fail "transport mode was not native"
    end_tunnel
  done
  for ns in $A $B; do ip -n $ns rule del lookup 100; done
  passed "transport mode" "native and in UDP"
}
ipv6() {
  local outer inside encap ends sides
  for outer in "${v4[*]}" "${v6[*]}"; do
    for inside in "${inside4[*]}" "${inside6[*]}"; do
      read -r -a ends <<<"$inside"
      for encap in no yes; do
        if [[ $inside = fd00* ]]; then sides=(fd00:1::/64 fd00:2::/64); else sides=(10.1.0.0/24 10.2.0.0/24); fi
        tunnel "$outer" "encap = $encap" "esp_proposals = aes128gcm16" "${sides[@]}"
        ping_both "${ends[@]}"; shown packets 18; shown mode tunnel; shown esn False
        end_tunnel
      done
    done
  done
  passed "ipv6" "4 in 4, 6 in 4, 4 in 6 and 6 in 6, each native and in UDP"
}
spis() { show sa | grep -o '"spi": [0-9]*' | sort; }
moved() { for side in a b; do [ "$(show sa $side | grep -c '"192\.0\.2\.11"')" = 2 ] || return 1; done; }
mobike() { # A's first address goes and another comes while it pings; until charon has moved the SAs, loss is meant
  local spis begin ms before; before=$(last_event b)
  # Otherwise charon would choose an IPv6 path.
  for ns in $A:va $B:vb; do ip -n "${ns%:*}" -6 addr flush dev "${ns#*:}"; done
  connection a %any "${v4[1]}" $'mobike = yes\n  encap = yes' "esp_proposals = aes128gcm16"
  connection b "${v4[1]}" %any $'mobike = yes\n  encap = yes' "esp_proposals = aes128gcm16"
  load a; load b; up a
  ping_both; spis=$(spis)
  ip netns exec $A ping -i 0.02 -w 30 -I 10.1.0.1 10.2.0.1 >"$work/mobike" & pings=$!
  sleep 1
  begin=$(date +%s%N)
  ip -n $A addr del 192.0.2.1/24 dev va
  ip -n $A addr add 192.0.2.11/24 dev va
  wait_until "the SAs do not move to A's new address" moved
  ms=$((($(date +%s%N) - begin) / 1000000))
  sleep 0.5; kill -INT $pings; wait $pings || true
  ping_both
  [ "$spis" = "$(spis)" ] || fail "other SAs than before the move"
  # A peer on the move cannot be reached for a while, which a router may report.
  MAY_DROP=1 happened b "$before" sa-up peer-moved
  grep -q '"old": "192.0.2.1:4500"' "$work/events" && grep -q '"new": "192.0.2.11:4500"' "$work/events" || fail "the move is not reported: $(cat "$work/events")"
  passed "mobike" "SAs moved $ms ms after the address; $(grep -oE '[0-9]+ packets transmitted, [0-9]+ received' "$work/mobike") of pings meanwhile"
  end_tunnel
  ip -n $A addr del 192.0.2.11/24 dev va; ip -n $A addr add 192.0.2.1/24 dev va
  ip -n $A addr add 2001:db8::1/64 dev va nodad; ip -n $B addr add 2001:db8::2/64 dev vb nodad
}
# One side sends echoes and the other pings, over the SAs that charon negotiates, which another of
# two workers than the first may have. Before, and when they have ended, the monitors are lost.
monitors() {
  local side
  stop_both
  for side in a b; do gateway_conf $side "\"${v4[$([ $side = a ] && echo 0 || echo 1)]}\""; done
  # Without networks, it takes those of charon's child of its name.
  sed -i '/^local_ts\|^remote_ts/d' "$work/a/gateway.toml"
  printf '[tunnel.monitor]\necho = true\ninterval_ms = 200\n' >>"$work/a/gateway.toml"
  printf '[tunnel.monitor]\nping = "10.1.0.1"\ninterval_ms = 200\n' >>"$work/b/gateway.toml"
  for side in a b; do
    sed -i "s/^\[gateway\]/&\nworkers = 2/" "$work/$side/gateway.toml"
    start_gateway $side; gateway[$side]=$gateway_pid
    start_charon $side; charon[$side]=$charon_pid
    wait_until "the monitor of $side says something without SAs" monitored $side down lost
  done
  tunnel "${v4[*]}" "encap = yes" "esp_proposals = aes128gcm16"
  for side in a b; do wait_until "the probes of $side are not answered" monitored $side up answered; done
  ask a --rekey --child net >/dev/null
  for side in a b; do wait_until "the probes of $side are not answered after a rekeying" monitored $side up answered; done
  end_tunnel
  for side in a b; do wait_until "the monitor of $side is not lost without SAs" monitored $side down lost; done
  passed "monitors" "echoes and pings over charon's SAs, answered, rekeyed, lost without SAs"
}
monitored() { # side, the state of its tunnel and of its monitor
  show tunnel "$1" | python3 -c 'import json, sys
[row] = [row for row in json.load(sys.stdin) if row["state"] != "removed"]
sys.exit([row["state"], (row["monitor"] or {}).get("state")] != sys.argv[1:])' "${@:2}"
}
two_workers() { # eight children, dealt to both
  stop_both; start_both 2
  local host child
  for side in a b; do
    connection $side "${v4[$([ $side = a ] && echo 0 || echo 1)]}" "${v4[$([ $side = a ] && echo 1 || echo 0)]}" "encap = yes" "esp_proposals = aes128gcm16"
    python3 - "$work/$side/swanctl.conf" $side <<'CHILDREN'
import re, sys
path, side = sys.argv[1:]
text = open(path).read()
mine, theirs = (1, 2) if side == "a" else (2, 1)
children = "".join(
    f"net{n} {{ local_ts = 10.{mine}.0.{n}/32\n remote_ts = 10.{theirs}.0.{n}/32\n esp_proposals = aes128gcm16 }}\n" for n in range(1, 9))
open(path, "w").write(text.replace("children {", "children { " + children, 1))
CHILDREN
    host=1; ns=$A; [ $side = a ] || { host=2 ns=$B; }
    for child in $(seq 2 8); do ip -n $ns addr add "10.$host.0.$child/32" dev lo; done
    load $side
  done
  for child in $(seq 8); do ask a --initiate --child net$child >"$work/a/up" 2>&1 || fail "child $child: $(tail -3 "$work/a/up")"; done
  for child in $(seq 8); do ping_both 10.1.0.$child 10.2.0.$child; done
  shown packets 18
  local by_worker
  by_worker=$(show sa | python3 -c 'import collections, json, sys
count = collections.Counter(sa["worker"] for sa in json.load(sys.stdin))
assert count == {0: 8, 1: 8}, count
print("packets of 8 SAs at each worker")') || fail "the SAs are not dealt to both workers"
  passed "two workers" "16 SAs, $by_worker, none dropped"
  end_tunnel
}

# link INTERFACE up|down, of A
link() { wait_until "$1 is not $2" link_is "$1" "$2"; }
link_is() { [ "$(ip -n $A -j link show "$1" | python3 -c 'import json, sys; print("up" if "LOWER_UP" in json.load(sys.stdin)[0]["flags"] else "down")')" = "$2" ]; }
routed() { # the state of the tunnel of ipsec-1 at A, and that of its monitor
  show tunnel a | python3 -c 'import json, sys
[row] = [row for row in json.load(sys.stdin) if row["tunnel"] == "routed"]
sys.exit([row["child"], row["state"], row["monitor"]["state"]] != ["site/net", *sys.argv[1:]])' "$@"
}
has_packets() { # tunnel packets
  show sa a | python3 -c 'import json, sys
sys.exit([sa["packets"] for sa in json.load(sys.stdin) if sa["tunnel"] == sys.argv[1]] != 2 * [int(sys.argv[2])])' "$@"
}
# Two children select everything, and if_id tells their interfaces apart.
interfaces() {
  local side host child
  stop_both
  for side in a b; do
    host=1; [ $side = a ] || host=2
    LOCAL=192.0.2.$host gateway_conf $side "\"192.0.2.$host\"" "$(for child in 1 2; do
      printf '[[interface]]\nname = "ipsec-%s"\nif_id = 4%s\naddress = ["169.254.%s.%s/30"]\n' $child $child $child $host; done)"
    sed -i "s/^\[gateway\]/&\nworkers = 2/" "$work/$side/gateway.toml"
    printf '[[tunnel]]\nname = "routed"\ninterface = "ipsec-1"\n[tunnel.monitor]\necho = true\ninterval_ms = 100\nlost_after_ms = 1000\n' >>"$work/$side/gateway.toml"
    start_gateway $side; gateway[$side]=$gateway_pid
    start_charon $side; charon[$side]=$charon_pid
    LOCAL_TS=0.0.0.0/0 REMOTE_TS=0.0.0.0/0 connection $side "192.0.2.$host" "192.0.2.$((3 - host))" "encap = yes" $'esp_proposals = aes128gcm16\n    if_id_in = 41\n    if_id_out = 41'
    # A responder takes the first child of a connection whose selectors fit, so each has its own.
    python3 - "$work/$side/swanctl.conf" <<'CONNECTIONS'
import sys
text = open(sys.argv[1]).read()
site = text[text.index("site {"):text.index("secrets {")].rstrip().removesuffix("}")
for number in ("42", "44"):
    other = site.replace("site {", f"site{number} {{").replace("net {", f"net{number} {{").replace(".example", f"{number}.example")
    text = text.replace("connections {", "connections { " + other.replace("= 41", f"= {number}"), 1)
open(sys.argv[1], "w").write(text)
CONNECTIONS
    load $side
  done
  link ipsec-1 down; link ipsec-2 down
  up a
  link ipsec-1 up; link ipsec-2 down
  ask a --initiate --child net42 >"$work/a/up" 2>&1 || fail "the second child: $(tail -3 "$work/a/up")"
  link ipsec-2 up
  for child in 1 2; do ping_both 169.254.$child.1 169.254.$child.2; done
  wait_until "not 18 packets each way by ipsec-2" has_packets site42/net42 18
  # A path that is cut silently takes the link of the monitored tunnel's interface down.
  wait_until "the tunnel of ipsec-1 has no name, or its echoes are not answered" routed up answered
  ip netns exec $B nft 'add table inet cut; add chain inet cut in { type filter hook input priority -300; }; add rule inet cut in udp dport 4500 drop'
  link ipsec-1 down; link ipsec-2 up
  routed silent lost || fail "the tunnel of ipsec-1 is not silent while its path is cut"
  ip netns exec $B nft delete table inet cut
  link ipsec-1 up
  ! ask a --initiate --child net44 >"$work/a/up" 2>&1 || fail "a child of an interface that is not there is up"
  grep -q 'no \[\[interface\]\] of the gateway has if_id = 44' "$work"/[ab]/log || fail "charon's log does not say why: $(tail -5 "$work/a/log")"
  ask a --terminate --ike site42 >/dev/null
  link ipsec-2 down; link ipsec-1 up
  down a
  link ipsec-1 down
  passed "interfaces by if_id" "two children for everything, links up and down with them and with echoes, an unknown one refused"
}

namespaces
start_both 1
cases=("${@:3}")
[ ${#cases[@]} -gt 0 ] || cases=(algorithms long_sequence_numbers events native transport ipv6 mobike monitors two_workers interfaces)
for name in "${cases[@]}"; do $name; done
