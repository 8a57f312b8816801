#!/usr/bin/env bash
# Peers given by name, with a name server that answers from a file: a gateway starts and reloads
# while no server answers, one name that does not exist leaves its own tunnel down and the others
# up, and a peer whose address changes is followed under the traffic of another, without a restart.
# Needs root.
#
#   10.1.0.1 [hub] 192.0.2.1 -- bridge -- 192.0.2.2 [b] 10.2.0.1
#                                     \-- 192.0.2.3 [c] 10.3.0.1
# usage: names.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
source "$here/lib.sh"
need_root
work_dir
declare -A keys pids
hub=convoy-names-hub b=convoy-names-b c=convoy-names-c
add_namespace $hub $b $c
ip -n $hub link add net type bridge
ip -n $hub addr add 192.0.2.1/24 dev net
ip -n $hub link set net up
for peer in "$b 2" "$c 3"; do
  read -r ns host <<<"$peer"
  cable $hub "to-$host" "" "$ns" outer "192.0.2.$host/24"
  ip -n $hub link set "to-$host" master net
done

printf 'nameserver 127.0.0.1\noptions timeout:5 attempts:2\n' >"$work/resolv.conf"
printf '127.0.0.1 localhost\n' >"$work/hosts"
# in_hub COMMAND...: with a resolver's configuration of its own.
in_hub() {
  unshare -m ip netns exec $hub sh -c "mount --make-rprivate /
    mount --bind $work/resolv.conf /etc/resolv.conf; mount --bind $work/hosts /etc/hosts; exec \"\$@\"" sh "$@"
}
for side in b c d; do
  for way in in out; do keys[$side-$way]=$("$convoy" genkey aes128gcm16); done
done
gateway() { # name address-inside address-outside
  cat <<CONF
[gateway]
control = "$work/$1.sock"
state = "$work/$1.state"
metrics = "127.0.0.1:9100"
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["$2/24"]
[[port]]
name = "outside"
kind = "udp"
address = ["$3"]
CONF
}
tunnel() { # name local remote local-network remote-networks spi-in spi-out key-in key-out
  cat <<CONF
[[tunnel]]
name = "$1"
local = "$2"
remote = "$3"
local_ts = ["$4"]
remote_ts = [$5]
esp_proposal = "aes128gcm16"
[tunnel.manual]
spi_in = $6
spi_out = $7
key_in = "$8"
key_out = "$9"
CONF
}
# The peers' network is behind c too, so that the peer itself must be left out of the routes.
umask 077
{
  gateway hub 10.1.0.1 192.0.2.1
  tunnel site-b 192.0.2.1 b.example 10.1.0.0/24 '"10.2.0.0/24"' 0x1002 0x2001 "${keys[b-in]}" "${keys[b-out]}"
  tunnel site-c 192.0.2.1 c.example 10.1.0.0/24 '"10.3.0.0/24", "192.0.2.0/28"' 0x1003 0x3001 "${keys[c-in]}" "${keys[c-out]}"
  tunnel site-d 192.0.2.1 dead.example 10.1.0.0/24 '"10.4.0.0/24"' 0x1004 0x4001 "${keys[d-in]}" "${keys[d-out]}"
} >"$work/hub.toml"
peer() { # site address
  local site=$1 number=2; [ "$site" = b ] || number=3
    gateway "$site" "10.$number.0.1" "$2"
  tunnel hub "$2" 192.0.2.1 "10.$number.0.0/24" '"10.1.0.0/24"' "0x${number}001" "0x100$number" "${keys[$site-out]}" "${keys[$site-in]}"
}
peer b 192.0.2.2 >"$work/b.toml"
peer c 192.0.2.3 >"$work/c.toml"
for site in "$b b" "$c c"; do
  read -r ns name <<<"$site"
  start "$name.log" "$ns" "$convoy" run -c "$work/$name.toml"
  pids[$name]=$started
done

# Datagrams to a stopped server are never answered, which takes a question 10 s.
: >"$work/records"
in_hub python3 "$here/dns.py" "$work/records" >"$work/dns.log" 2>&1 &
wait_until "the name server does not start" grep -q listening "$work/dns.log"
server=$(ip netns pids $hub)
stop_process "$server"
in_hub "$convoy" run -c "$work/hub.toml" >"$work/hub.log" 2>&1 & hub_pid=$!
wait_for_line ' ready' "$work/hub.log" "the gateway does not start without a name server"
! grep -q 'does not resolve' "$work/hub.log" || fail "the start waited until no server had answered"
show() { "$convoy" show "$1" --json --control "$work/hub.sock"; }
field() { # tunnel key
  show name | python3 -c 'import json, sys
rows = {row["tunnel"]: row for row in json.load(sys.stdin)}
print(rows[sys.argv[1]][sys.argv[2]])' "$1" "$2"
}
is() { [ "$(field "$1" "$2")" = "$3" ]; }
is site-b address None || fail "an address is known that was not reported: $(show name)"
# A question is under way, and the reload does not wait for it.
"$convoy" reload --control "$work/hub.sock" >"$work/reload.log" || fail "the reload fails"
! grep -q 'does not resolve' "$work/hub.log" || fail "the reload waited until no server had answered"
wait_until "a server that does not answer is not reported" is site-b problem 'no server of /etc/resolv.conf answers'
grep -q 'WARN.*tunnel site-b is down: b.example does not resolve' "$work/hub.log" || fail "the log does not say that it is down"

printf 'b.example 2 192.0.2.2\nc.example 2 2001:db8::3 192.0.2.3\n' >"$work/records"
kill -CONT "$server"
wait_until "site-b does not resolve" is site-b address 192.0.2.2
wait_until "site-c does not resolve" is site-c address 192.0.2.3
wait_until "site-d does not fail" is site-d problem 'there is no such name'
"$convoy" show name --control "$work/hub.sock" | tee "$work/shown"
grep -q 'site-d.*dead.example.*unknown.*there is no such' "$work/shown" || fail "show name does not tell"
from_hub() { pings "$work/ping.$3" $hub "$1" -I 10.1.0.1 "$2"; }
from_hub 5 10.2.0.1 b && from_hub 5 10.3.0.1 c || fail "the tunnels are not up: $(cat "$work"/ping.?)"
ip netns exec $hub ping -q -c 3 -i 0.1 -W 1 -I 10.1.0.1 10.4.0.1 >/dev/null 2>&1 && fail "the tunnel without a peer is answered"
without_peer() { [ "$(show stats | python3 -c 'import json, sys; print(json.load(sys.stdin)["drops"].get("outbound_no_peer"))')" = 3 ]; }
wait_until "the packets without a peer are not counted" without_peer
! "$convoy" explain 10.1.0.1 10.4.0.1 --control "$work/hub.sock" >"$work/explained" || fail "a packet without a peer is explained as sent"
grep -q '^= dropped: outbound_no_peer' "$work/explained" || fail "explain does not tell: $(cat "$work/explained")"
ip netns exec $hub python3 -c 'import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:9100/metrics", timeout=20).read().decode())' >"$work/metrics"
for line in 'tunnel="site-b",name="b.example"} 1.0' 'tunnel="site-d",name="dead.example"} 0.0'; do
  grep -q "convoy_peer_name_resolved{$line" "$work/metrics" || fail "no metric $line"
done
routed() { [[ $(ip -n $hub route show table 4500) == *"throw $1"* ]]; }
wait_until "the peer c is not left out of the routes" routed 192.0.2.3

# b gets another address, as after a reconnection, while c's traffic goes on.
(umask 022; ip netns exec $hub ping -i 0.02 -c 500 -w "$PATIENCE" -I 10.1.0.1 10.3.0.1 >"$work/meanwhile" 2>&1) & meanwhile=$!
end_well "${pids[b]}" "the gateway of b"
ip -n $b addr add 192.0.2.22/24 dev outer
ip -n $b addr del 192.0.2.2/24 dev outer
ip -n $b addr add 192.0.2.22/24 dev outer 2>/dev/null || true
peer b 192.0.2.22 >"$work/b.toml"
run_gateway b.log $b "$work/b.toml"
printf 'b.example 2 192.0.2.22\nc.example 2 192.0.2.3\n' >"$work/records"
wait_until "b is not followed" is site-b address 192.0.2.22
grep -q 'INFO.*tunnel site-b: the peer has moved from 192.0.2.2 to 192.0.2.22: b.example has changed' "$work/hub.log" ||
  fail "the log does not tell that b has moved"
from_hub 10 10.2.0.1 b || fail "b is not reached where it is now: $(cat "$work/ping.b")"
wait $meanwhile || fail "pings to c failed meanwhile: $(tail -2 "$work/meanwhile")"
none_lost "$work/meanwhile" 500 || fail "pings to c were lost meanwhile: $(tail -2 "$work/meanwhile")"

# The last known address outlives the name; a hosts file is read again.
printf 'c.example 2 192.0.2.3\n' >"$work/records"
wait_until "the name that has gone is not reported" is site-b problem 'there is no such name'
from_hub 5 10.2.0.1 b || fail "a tunnel went down with its peer's name"
grep -q 'WARN.*b.example no longer resolves, so its last address 192.0.2.22 stays in use' "$work/hub.log" || fail "the log does not say that the name has gone"
printf '127.0.0.1 localhost\n192.0.2.22 b.example\n' >"$work/hosts"
wait_until "/etc/hosts is not read again" is site-b problem ''
kill -0 $hub_pid || fail "the gateway has ended"
echo "names: start and reload without a name server, one name without address, b followed from 192.0.2.2 to 192.0.2.22, 500 of 500 pings to c meanwhile"
