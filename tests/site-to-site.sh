#!/usr/bin/env bash
# Runs docs/guide/site-to-site.md literally, on two gateways with hosts behind them, and has new
# static keys replace theirs as docs/operation/restarts.md says. Needs root.
# usage: site-to-site.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
page=$here/../docs/guide/site-to-site.md
source "$here/hosts.sh"
# block NAME: the code block that the page marks with this name.
block() { marked "$page" "$1"; }
# swapped: a filter that makes the other gateway's version of a block.
swapped() {
  sed 's/192\.0\.2\.1"/LEFT"/; s/198\.51\.100\.1"/192.0.2.1"/; s/LEFT"/198.51.100.1"/; s/10\.1\.0\./10.LEFT.0./g; s/10\.2\.0\./10.1.0./g; s/10\.LEFT\.0\./10.2.0./g
    s/fd00:1::/fd00:LEFT::/g; s/fd00:2::/fd00:1::/g; s/fd00:LEFT::/fd00:2::/g; s/0x1001/LEFT/; s/0x1002/0x1001/; s/LEFT/0x1002/
    s/^key_in/LEFT/; s/^key_out/key_in/; s/^LEFT/key_out/; s/site-b/site-a/'
}
# on GATEWAY COMMAND...: with separate files in /etc, /run and /var/lib, and convoy on the path.
on() {
  local ns=$1; shift
  unshare -m ip netns exec "$ns" sh -c "mount --make-rprivate /
    mount --bind $work/etc/$ns/convoy /etc/convoy; mount --bind $work/etc/$ns/sysctl.d /etc/sysctl.d
    mount --bind $work/etc/$ns/nftables.conf /etc/nftables.conf; mount --bind $work/etc/$ns/run /run
    mount --bind $work/etc/$ns/state /var/lib/convoy
    PATH=$work/bin:\$PATH; exec \"\$@\"" sh "$@"
}
# run GATEWAY NAME: runs the commands of a block.
run() { block "$2" | if [ "$1" = $ga ]; then cat; else swapped; fi >"$work/commands" && on "$1" sh -e "$work/commands"; }

sites
serve
mkdir "$work/bin"; ln -s "$convoy" "$work/bin/convoy"
mkdir -p /etc/convoy /etc/sysctl.d /var/lib/convoy; touch /etc/nftables.conf
for ns in $ga $gb; do
  mkdir -p "$work/etc/$ns/convoy" "$work/etc/$ns/sysctl.d" "$work/etc/$ns/run" "$work/etc/$ns/state"
  side=cat peer=2; [ $ns = $ga ] || side=swapped peer=1
  (umask 077; block configuration | $side >"$work/etc/$ns/convoy/convoy.toml")
  block firewall | $side >"$work/etc/$ns/nftables.conf"
  for step in forwarding firewall-on check; do run $ns $step >>"$work/$ns-$step.log" 2>&1 || fail "$ns: the step \"$step\""; done
  run $ns start >"$work/$ns-convoy.log" 2>&1 &
  wait_until "the gateway $ns does not start" test -S "$work/etc/$ns/run/convoy/control.sock"
  wait_until "the gateway $ns sets no routes" routed $ns $peer
done
all_ping() { # when
  local ends ns address
  for ends in "$ha 10.2.0.10" "$hb 10.1.0.10" "$ha fd00:2::10" "$hb fd00:1::10" "$ga 10.2.0.10" "$gb fd00:1::10" "$ha 10.2.0.1"; do
    read -r ns address <<<"$ends"
    pings "$work/ping.log" $ns 3 "$address" || fail "$1, $ns does not reach $address: $(cat "$work/ping.log")"
  done
}
all_ping "at first"
fetch_all
for address in ::ffff:10.1.0.10 fd00:1::10; do
  grep -q "^$address " "$work/$hb.log" || fail "host b does not see host a by its own address: $(cat "$work/$hb.log")"
done
in_ns $ha ping -c 1 -W 5 192.0.2.254 >"$work/ping.log" || fail "host a does not reach the internet, masqueraded: $(cat "$work/ping.log")"
run $ga look >"$work/look.log" 2>&1 || fail "the step \"look\""
grep -q 'dev convoy0' "$work/look.log" || fail "10.2.0.10 is not routed to convoy0"
echo "hosts reach each other by IPv4 and IPv6: 21 pings, 4 files; masquerading touches none of it"

# A stranger outside forges replies to a flow of host a: neither their addresses nor the connection
# tracking distinguish them from real ones.
for address in 10.2.0.10/32 fd00:2::10/128; do ip -n $near addr add $address dev lo; done
ip -n $near route add 10.1.0.0/24 via 192.0.2.1; ip -n $near route add fd00:1::/64 via 2001:db8:1::1
cat >"$work/flow.py" <<'PY'
import socket, sys
role, own, peer = sys.argv[1:]
flow = socket.socket(socket.AF_INET6 if ":" in own else socket.AF_INET, socket.SOCK_DGRAM)
flow.bind((own, 9 if role == "host" else 5))
if role == "stranger":
    for _ in range(5):
        flow.sendto(b"forged", (peer, 9))
else:
    flow.sendto(b"asked", (peer, 5))
    print("asked", flush=True)
    sys.stdin.readline()
    flow.settimeout(1)
    try:
        while True:
            print(flow.recv(100).decode(), flush=True)
    except TimeoutError:
        pass
PY
for ends in "10.1.0.10 10.2.0.10" "fd00:1::10 fd00:2::10"; do
  read -r here there <<<"$ends"
  mkfifo "$work/go"
  in_ns $ha python3 "$work/flow.py" host "$here" "$there" <"$work/go" >"$work/flow.log" & flow=$!
  exec 7>"$work/go"
  wait_until "host a does not send" grep -q asked "$work/flow.log"
  in_ns $near python3 "$work/flow.py" stranger "$there" "$here"
  echo >&7; exec 7>&-
  wait $flow; rm "$work/go"
  [ "$(grep -c forged "$work/flow.log" || true)" = 0 ] || fail "$(grep -c forged "$work/flow.log") of 5 forged answers reach host a, by $there"
done
for address in 10.2.0.10/32 fd00:2::10/128; do ip -n $near addr del $address dev lo; done
echo "of 10 forged answers from outside to flows of host a, none reaches it"

# The LAN's link goes down: at its far end, and by a command, which also removes IPv6 addresses.
ip -n $ha link set eth0 down; ip -n $ha link set eth0 up
ip -n $ga link set lan0 down; ip -n $ga link set lan0 up; ip -n $ga addr replace fd00:1::1/64 dev lan0 nodad
ip -n $ha addr replace fd00:1::10/64 dev eth0 nodad
ip -n $ha route replace default via 10.1.0.1; ip -n $ha route replace default via fd00:1::1
wait_until "the LAN does not come back" in_ns $ga ping -c 1 -W 1 10.1.0.10
for address in 10.1.0.10 fd00:1::10; do
  route=$(ip -n $ga route get $address)
  [[ $route == *"dev lan0"* ]] || fail "the LAN's host $address is sought elsewhere: $route"
done
[ "$(ip -n $ga route show 10.1.0.0/24 | grep -c .)" = 1 ] || fail "the LAN has several routes: $(ip -n $ga route show)"
all_ping "after the LAN's link was down"
echo "the LAN's link down and up: its route is on its interface, 21 pings"

between 1300
fetch_all
echo "a path of 1,300 bytes, with this firewall: 4 files"

# New static keys under traffic, as the other page says.
page=${page%/*}/../operation/restarts.md
ends=("$ha 10.2.0.10" "$hb fd00:1::10")
flows=()
for flow in "${ends[@]}"; do
  ip netns exec ${flow% *} ping -i 0.01 -W 2 "${flow#* }" >"$work/flow-${flow% *}.txt" & flows+=($!)
done
# tunnels GATEWAY PACKETS: the SAs that have carried more packets.
tunnels() {
  on "$1" convoy show sa --json | python3 -c '
import json, sys
print(*sorted(":".join([sa["tunnel"], sa["direction"]]) for sa in json.load(sys.stdin) if sa["packets"] > int(sys.argv[1])))' "$2"
}
# are GATEWAY TUNNEL:DIRECTION...: whether these SAs, and no others, are there; carry: whether these
# have carried packets.
are() { [ "$(tunnels "$1" -1)" = "${*:2}" ]; }
carry() { [ "$(tunnels "$1" 0)" = "${*:2}" ]; }
rotate() { (cd "$work/etc/$1/convoy" && run "$1" "$2" >>"$work/rotation.log" 2>&1) || fail "the step \"$2\""; }
# without GATEWAY TUNNEL: removes its table from the gateway's configuration.
without() {
  python3 - "$work/etc/$1/convoy/convoy.toml" "$2" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
tables = re.split(r"^(?=\[\[)", text, flags=re.M)
open(sys.argv[1], "w").write("".join(table for table in tables if f'name = "{sys.argv[2]}"\n' not in table))
PY
  on "$1" convoy reload >>"$work/rotation.log" 2>&1 || fail "no reload without $2"
}
rotate $ga new-keys
cp -p "$work/etc/$ga/convoy/new/site-b-2/etc/convoy/convoy.toml" "$work/etc/$gb/convoy/new.toml"
rotate $ga first-opens
grep -q 'remote_ts.*site-b-2' "$work/rotation.log" || fail "nothing is said of the tunnel that protects nothing"
swapped() { cat; } # the page has a block for each
rotate $gb other-protects
wait_until "the first gateway opens nothing by the new keys" carry $ga site-b-2:inbound site-b:inbound site-b:outbound
without $ga site-b
wait_until "the first gateway does not protect by the new keys" carry $ga site-b-2:inbound site-b-2:outbound
wait_until "the other gateway opens nothing by the new keys" carry $gb site-a-2:inbound site-a-2:outbound site-a:inbound site-a:outbound
without $gb site-a
wait_until "the old tunnel stays" are $gb site-a-2:inbound site-a-2:outbound
sleep 0.5
# Whether each echo of a ping was answered; answers to those of the last two seconds may still
# have been on their way when the ping ended.
answered() {
  local sent last
  sent=$(sed -n 's/ packets transmitted.*//p' "$1")
  last=$(sed -n 's/.*icmp_seq=\([0-9]*\) .*/\1/p' "$1" | sort -nu | tee "$1.answered" | tail -n 1)
  [ "$(wc -l <"$1.answered")" = "$last" ] && [ $((sent - last)) -le 200 ]
}
kill -INT "${flows[@]}"
for flow in "${ends[@]}"; do
  wait_until "ping does not end" grep -q 'packet loss' "$work/flow-${flow% *}.txt"
  answered "$work/flow-${flow% *}.txt" || fail "packets are lost while keys change: $(tail -n 3 "$work/flow-${flow% *}.txt")"
done
all_ping "with new keys"
echo "new static keys under traffic: $(cat "$work"/flow-*.txt | sed -n 's/ packets transmitted.*//p' | paste -sd+ | bc) pings over four reloads, none lost"
echo "ok: docs/guide/site-to-site.md as it stands"
