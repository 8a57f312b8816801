#!/usr/bin/env bash
# The firewall of the card between two gateways: rules come, change and go by reloads under traffic,
# are counted, and decide about packets of all kinds as the reference in Python does. Also its
# checksums and signatures. Needs root and a convoy with the card.
# usage: card-filter.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
python=target/test-venv/bin/python
PORT=card IN_LAB=1 EXTRA=$'[[engine]]\nkind = "software"'
source demo/sites.sh
for host in 7 9; do ip -n $a addr add 10.1.0.$host/32 dev lo; done
cp -p "$work/site-2.toml" "$work/open.toml"

device() { # counter
  "$convoy" show stats --json --control "$work/site-2.sock" >"$work/stats" || return
  "$python" -c 'import json, sys
ports = json.load(open(sys.argv[1]))["ports"]
print(next(port["device"] for port in ports if port["kind"] == "card").get(sys.argv[2], "none"))' "$work/stats" "$1"
}
is() { [ "$(device "$1")" = "$2" ]; }
counts() { wait_until "$1 is not $2" is "$@"; }
# Writes rules into the configuration of site 2; `rules` also reloads it.
write() { # rules
  awk -v rules="$1" '{ print } /^interface = "v/ { print rules }' "$work/open.toml" >"$work/site-2.toml"
}
rules() { # rules
  write "$1"
  "$convoy" reload --control "$work/site-2.sock" >"$work/reload.log" || fail "the reload failed"
  ! grep -q 'needs a restart' "$work/reload.log" || fail "$(cat "$work/reload.log")"
}
answered() { ip netns exec $a ping -c 2 -i 0.2 -W 5 -I "$1" 10.2.0.1 >"$work/ping.log"; }
silent() { ! ip netns exec $a ping -c 2 -i 0.2 -W 1 -I "$1" 10.2.0.1 >"$work/ping.log"; }

echo "--- without rules, everything passes"
for host in 1 7 9; do answered 10.1.0.$host || fail "10.1.0.$host got no answer"; done
counts filter_1_in none

echo "--- a rule drops the pings of one host, while those of another lose nothing"
ip netns exec $a ping -i 0.05 -c 160 -w "$PATIENCE" -I 10.1.0.1 10.2.0.1 >"$work/long.log" & long=$!
sleep 1
rules $'[[port.filter]]\ndirection = "in"\nsource = "10.1.0.7/32"\nprotocol = "icmp"\naction = "drop"\n[[port.filter]]\ndirection = "in"\nsource = "10.1.0.9/32"\naction = "accept"'
counts filter_1_in 0
silent 10.1.0.7 || fail "the rule did not drop"
answered 10.1.0.9 || fail "the second host was dropped, too"
counts filter_1_in 2
counts filter_2_in 2
counts filtered_in 2
"$convoy" show port --wide --control "$work/site-2.sock" | tee "$work/port" | contains filter_1_in || fail "show port has no rules: $(cat "$work/port")"
ip netns exec $b curl -s http://127.0.0.1:9464/metrics |
  grep -Fx 'convoy_port_device_total{port="outside",counter="filter_1_in"} 2' || fail "the metrics do not have the rule"

echo "--- a reload exchanges the two"
rules $'[[port.filter]]\ndirection = "in"\nsource = "10.1.0.9/32"\naction = "drop"'
counts filter_2_in none
silent 10.1.0.9 || fail "the new rule did not drop"
answered 10.1.0.7 || fail "the rule that went still drops"
counts filter_1_in 2
write $'[[port.filter]]\naction = "dorp"'
! "$convoy" reload --control "$work/site-2.sock" 2>"$work/refused" || fail "a rule with an error was taken"
grep -q 'port.filter.action: unknown "dorp"' "$work/refused" || fail "$(cat "$work/refused")"
answered 10.1.0.7 && silent 10.1.0.9 || fail "a refused reload changed the rules"
wait $long || true
none_lost "$work/long.log" 160 || fail "pings were lost: $(tail -n 3 "$work/long.log")"

echo "--- drop by default: what no rule accepts, also ESP that leaves"
rules $'filter_default = "drop"\n[[port.filter]]\ndirection = "in"\nsource = "10.1.0.1/32"\naction = "accept"'
counts filter_default_in 0
silent 10.1.0.1 || fail "its answers should not have left"
wait_until "the pings did not reach the rule" is filter_1_in 2
[ "$(device filter_default_out)" -ge 2 ] || fail "the answers were not dropped on their way out"
echo "--- every kind of packet, against the reference"
rules 'filter_default = "drop"
[[port.filter]]
direction = "out"
action = "accept"
[[port.filter]]
source = "10.1.0.7/32"
action = "drop"
[[port.filter]]
source = "10.1.0.0/29"
protocol = "udp"
destination_port = 53
action = "drop"
[[port.filter]]
source = "10.1.0.0/24"
destination = "10.2.0.0/30"
action = "accept"
[[port.filter]]
source = "fd00:1::/120"
protocol = "tcp"
destination_port = 22
action = "drop"
[[port.filter]]
protocol = "udp"
source_port = 80
action = "accept"
[[port.filter]]
protocol = "icmpv6"
source = "fd00:1::9/128"
action = "drop"
[[port.filter]]
source = "fd00:1::/64"
destination = "fd00:2::1/128"
action = "accept"'
counts filter_4_in 0
start_capture sent $a convoy0 -Q out
start_capture got $b convoy0 -Q in
ip netns exec $a "$python" -W ignore tests/oracle/firewall.py send convoy0 || fail "nothing was sent"
decided() { echo "$(device decrypted)/$(device filtered_in)"; }
until_unchanged decided
end_capture sent got
device filtered_in >/dev/null
"$python" -W ignore tests/oracle/firewall.py check "$work/site-2.toml" "$work/sent.pcap" "$work/got.pcap" "$work/stats" || fail "the card does not decide as the reference"

echo "--- without rules again, and with checksums, of which one is wrong"
rules 'checksum = true'
counts wrong_udp_checksum 0
ip netns exec $a "$python" -W ignore -c 'import socket
from scapy.layers.inet import IP, UDP
with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as wire:
    for chksum in [None, 0, 0x1234]:
        wire.sendto(bytes(IP(src="10.1.0.1", dst="10.2.0.1") / UDP(dport=9, chksum=chksum) / b"sum"), ("convoy0", 0x0800))'
counts wrong_udp_checksum 1
counts wrong_ip_checksum 0

echo "--- signatures, and others after a reload"
say() { # text port
  ip netns exec $a "$python" -c 'import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(sys.argv[1].encode(), ("10.2.0.1", int(sys.argv[2])))' "$1" "$2"
}
rules "[[port.signature]]
rule = 'alert udp any any -> any 53 (msg:\"a\"; content:\"GET |2f|etc\"; content:\"passwd\"; sid:1001;)'
[[port.signature]]
rule = 'alert ip any any -> any any (content:\"passwd\"; sid:1002;)'"
counts signature_1002 0
say 'GET /etc/passwd' 53
say 'GET /etc/passwd' 54
say 'passwd GET /etc/shadow' 53
say 'GET /etc/shadow' 53
counts signature_1001 2
counts signature_1002 1
answered 10.1.0.1 || fail "signatures dropped something"
rules "[[port.signature]]
rule = 'alert udp any any -> any any (content:\"shadow\"; sid:1003;)'"
counts signature_1003 0
counts signature_1001 none
say 'GET /etc/passwd' 53
say 'GET /etc/shadow' 53
counts signature_1003 1
rules ''
counts signature_1003 none
for host in 1 7 9; do answered 10.1.0.$host || fail "10.1.0.$host got no answer"; done
stop_gateways
echo "card-filter: rules came, changed and went by reloads, and decided as the reference does"
