#!/usr/bin/env bash
# Twelve faults between two gateways: `convoy explain` and `convoy trace` name each of them, and a
# trace as pcapng is read by tshark. Two more are faults of the kernel before the gateway, which
# `convoy check` names as well. Needs root.
# usage: explain.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source demo/sites.sh
in_a() { ip netns exec $a "$@"; }
control() { echo "$work/site-$1.sock"; } # site
# says PATTERN TEXT: fails unless a line of the text matches.
says() { grep -qE "$1" <<<"$2" || fail "$fault: no line matches '$1' in:"$'\n'"$2"; }
# explained PATTERN ARGUMENTS...: what site 1 says of a packet, with the exit status that its last
# line implies.
explained() {
  local pattern=$1 text status=0 expected=0
  shift
  text=$("$convoy" explain "$@" --control "$(control 1)") || status=$?
  says "$pattern" "$text"
  ! grep -qE '^= (dropped|does not reach)' <<<"$text" || expected=1
  [ $status = $expected ] || fail "$fault: explain exits with $status: $text"
  ! grep -q '^!' <<<"$text" || ! grep -q '^= protected' <<<"$text" || fail "$fault: it is called protected: $text"
  grep -m 1 -E "$pattern" <<<"$text" | cut -c1-150
}
# traced SITE PATTERN COMMAND...: a line of the trace of two packets while a command runs. Options
# of the trace are in $options.
options=(--dropped)
traced() {
  local site=$1 pattern=$2 text
  shift 2
  { sleep 1; "$@"; } >/dev/null 2>&1 & local sender=$!
  text=$("$convoy" trace --count 2 "${options[@]}" --control "$(control "$site")")
  wait $sender || true
  says "$pattern" "$text"
}
# shellcheck disable=SC2120 # options of ping
ping_b() { in_a ping -q -i 0.1 -c 20 -W 1 "$@" 10.2.0.1; }
reloaded() { "$convoy" reload --control "$(control "$1")" >"$work/reload" 2>&1 || fail "$fault: $(cat "$work/reload")"; } # site
original() { cp "$work/site-$1.original" "$work/site-$1.toml"; reloaded "$1"; } # site
for site in 1 2; do cp "$work/site-$site.toml" "$work/site-$site.original"; done

fault="no fault"
options=()
traced 1 'sent by port outside, 148 bytes' ping_b
explained '^= protected' 10.1.0.1 10.2.0.1 --proto icmp --length 84
"$convoy" explain 10.1.0.1 10.2.0.1 --proto icmp --length 84 --json --control "$(control 1)" >"$work/explained"
ping_b >/dev/null & ping=$!
"$convoy" trace --count 6 --tunnel site-2 --json --pcapng "$work/trace.pcapng" --control "$(control 1)" >"$work/traced"
wait $ping
python3 - "$work/explained" "$work/traced" <<'CHECK' || fail "explain and trace disagree"
import json, sys
reported = json.load(open(sys.argv[1]))
traced = [json.loads(line) for line in open(sys.argv[2])]
assert len(traced) == 6, traced
out = [packet for packet in traced if packet["side"] == "inside"]
assert out and len(out) < 6, "both directions are traced"
for packet in out:
    stages = [step["stage"] for step in packet["steps"]]
    assert stages == ["port", "classify", "window", "train", "engine", "order", "end"], stages
    times = [step["after_ns"] for step in packet["steps"]]
    assert times == sorted(times) and times[-1] > 0, times
    assert packet["end"] == {"end": "sent", "port": "outside"}, packet["end"]
    # What explain predicted is what happened. The packet left with its IP and UDP headers.
    assert (packet["spi"], packet["tunnel"]) == (reported["spi"], reported["policy"])
    assert packet["sent_len"] == reported["outer_length"], (packet["sent_len"], reported["outer_length"])
    assert packet["sent"].endswith(packet["sent"][-32:]) and packet["sent"][:2] == "45"
CHECK
[ "$(stat -c %a "$work/trace.pcapng")" = 600 ] || fail "others may read the trace"
# Which engine is the cheapest for single packets is measured at the start, and may differ.
comments=$(tshark -r "$work/trace.pcapng" -Y 'frame.comment contains "to engine "' 2>/dev/null | wc -l)
[ "$comments" = 6 ] || fail "tshark finds $comments comments in the trace"
# The keys decrypt what left.
"$convoy" show sa --wireshark "$work/esp_sa" --control "$(control 1)" 2>"$work/warning"
grep -q 'has the keys of 2 SAs' "$work/warning" || fail "no warning of the keys: $(cat "$work/warning")"
[ "$(stat -c %a "$work/esp_sa")" = 600 ] || fail "others may read the keys"
table=()
while read -r line; do table+=(-o "uat:esp_sa:$line"); done <"$work/esp_sa"
opened=$(tshark -r "$work/trace.pcapng" -o esp.enable_encryption_decode:TRUE "${table[@]}" -Y 'esp && icmp' 2>/dev/null | wc -l)
[ "$opened" = 6 ] || fail "tshark opens $opened of 6 packets with the table: $(cat "$work/esp_sa")"
! setpriv --reuid nobody --clear-groups "$convoy" show sa --wireshark "$work/other" --control "$(control 1)" 2>/dev/null ||
  fail "another user gets the keys"
options=(--dropped)

fault="the kernel forwards nothing"
# Hosts behind site 1.
ip -n $a link add lan0 type veth peer name lan0-peer
ip -n $a link set lan0-peer up
up_with $a lan0 10.1.0.129/25
in_a sysctl -qw net.ipv4.ip_forward=0
explained '^! port .*forwards nothing that comes by lan0.*sysctl -w net.ipv4.ip_forward=1' 10.1.0.200 10.2.0.1
explained '^= does not reach the gateway' 10.1.0.200 10.2.0.1
explained '^= protected' 10.1.0.1 10.2.0.1
# checked PATTERN: a warning of check, which fails if it is to.
checked() {
  local text
  if text=$(in_a "$convoy" check --deny-warnings -c "$work/site-1.toml" 2>&1); then fail "$fault: check denies no warning: $text"; fi
  says "warning: tunnel.local_ts: .*$1" "$text"
  in_a "$convoy" check --json -c "$work/site-1.toml" 2>&1 | contains "\"message\": \".*$1" || fail "$fault: not in JSON"
}
checked 'hosts on interface lan0 .*sysctl -w net.ipv4.ip_forward=1'
in_a sysctl -qw net.ipv4.ip_forward=1

fault="a chain of another program's"
in_a nft 'add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
explained '^! port .*chain FORWARD of table ip filter.*iptables -I FORWARD -i convoy0 -j ACCEPT' 10.1.0.200 10.2.0.1
explained '^= sent, but see !' 10.1.0.200 10.2.0.1
explained '"outcome": "sent"' 10.1.0.200 10.2.0.1 --json
checked 'chain FORWARD of table ip filter drops'
in_a nft 'insert rule ip filter FORWARD iifname convoy0 accept; insert rule ip filter FORWARD oifname convoy0 accept'
explained '^= protected' 10.1.0.200 10.2.0.1
in_a "$convoy" check -c "$work/site-1.toml" >"$work/check" 2>&1
! grep -q 'tunnel.local_ts' "$work/check" || fail "$fault: a rule accepts it, but check warns: $(cat "$work/check")"
in_a nft delete table ip filter
ip -n $a link del lan0

fault="1: a wrong key"
# Site 1 expects another key, with an SA of its own, so that no sequence number is old.
sed -i 's/^\(key_in = "\)\(.*\)\(.\)"$/\1\3\2"/' "$work/site-1.toml"
reloaded 1
traced 1 'dropped: integrity_failed.*keys' ping_b
explained '^! peer .*dropped: integrity_failed' 10.1.0.1 10.2.0.1
original 1

fault="2: no route to the peer"
ip -n $a route del 192.0.2.0/24
traced 1 'dropped: no_route' ping_b
explained '^! route .*no route to the peer 192.0.2.2' 10.1.0.1 10.2.0.1
explained '^= dropped: no_route' 10.1.0.1 10.2.0.1
ip -n $a route add 192.0.2.0/24 dev va src 192.0.2.1

fault="3: a firewall"
in_a nft 'add table inet test; add chain inet test out { type filter hook output priority 0; }'
in_a nft 'add rule inet test out udp dport 4500 drop'
traced 1 'dropped: send_forbidden' ping_b
explained '^! route .*dropped: send_forbidden' 10.1.0.1 10.2.0.1
in_a nft delete table inet test

fault="4: a selector that does not fit"
ip -n $a addr add 10.9.0.1/32 dev lo
traced 1 'dropped: outbound_no_policy' ping_b -I 10.9.0.1
explained '^! policy .*tunnel site-2: the source 10.9.0.1 is not in 10.1.0.0/24' 10.9.0.1 10.2.0.1
explained '^= dropped: outbound_no_policy' 10.9.0.1 10.2.0.1

fault="5: a path with a small MTU"
ip -n $a link set va mtu 1400
# Packets that the system refuses teach the gateway the MTU, and the host learns it from the first
# that the gateway drops.
too_big() { for _ in 1 2 3 4; do in_a ping -q -c 1 -W 1 -M "do" -s 1380 10.2.0.1; ip -n $a route flush cache; done; }
learned() { too_big >/dev/null 2>&1; "$convoy" show tunnel --json --control "$(control 1)" | contains '"path_mtu": *1400'; }
wait_until "$fault: the gateway does not learn it" learned
traced 1 'dropped: packet_too_big' too_big
explained '^! size .*notified of an MTU of 1[0-9]{3} bytes' 10.1.0.1 10.2.0.1 --length 1408 --df
explained '^= dropped: packet_too_big' 10.1.0.1 10.2.0.1 --length 1408 --df
ip -n $a link set va mtu 1500

fault="6: the peer is down"
ping_b >/dev/null || fail "$fault: no pings before"
end_process "${gateways[1]}"
options=(--host 10.2.0.1)
traced 1 'sent by port outside' ping_b
sleep 4
in_a ping -q -i 0.2 -c 10 -W 1 10.2.0.1 >/dev/null || true
explained '^! peer .*down, or does not accept' 10.1.0.1 10.2.0.1
options=(--dropped)
begin_gateway 2
ping_b >/dev/null || fail "$fault: no pings after the restart"

fault="7: a replay"
cat >"$work/repeat.py" <<'REPEAT'
# Every packet of the gateway at site 2 leaves a second time.
import socket, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("vb", 3))
seen, until = set(), time.monotonic() + 1.5
link.settimeout(0.2)
while time.monotonic() < until:
    try:
        frame, (_, _, kind, _, _) = link.recvfrom(2048)
    except TimeoutError:
        continue
    if kind == socket.PACKET_OUTGOING and frame[23:24] == b"\x11" and frame not in seen:
        seen.add(frame)
        # The checksum was left to the device; IPv4 does without.
        link.send(frame[:40] + bytes(2) + frame[42:])
REPEAT
in_a ping -q -i 0.1 -c 40 10.2.0.1 >/dev/null & ping=$!
traced 1 'dropped: replayed' ip netns exec $b python3 "$work/repeat.py"
wait $ping || true
explained '^! peer .*dropped: replayed' 10.1.0.1 10.2.0.1

fault="8: an expired SA"
sed -i 's/^\[tunnel.manual\]/hard = { packets = 3 }\n&/' "$work/site-1.toml"
reloaded 1
ping_b >/dev/null 2>&1 || true
traced 1 'dropped: sa_expired' ping_b
explained '^! sa .*sa_expired' 10.1.0.1 10.2.0.1
explained '^= dropped: sa_expired' 10.1.0.1 10.2.0.1
original 1

fault="9: the order of policies"
printf '[[bypass]]\nlocal_ts = "10.1.0.0/24"\nremote_ts = "10.2.0.0/24"\n' >>"$work/site-1.toml"
reloaded 1
options=(--host 10.2.0.1)
traced 1 'bypassed: passes unencrypted' ping_b
explained '^! policy .*site-2.*selects it as well, but comes later' 10.1.0.1 10.2.0.1
explained '^= bypassed' 10.1.0.1 10.2.0.1
options=(--dropped)
original 1

fault="10: an outer source that is not of the host"
ip -n $a addr del 192.0.2.1/24 dev va
ip -n $a addr add 198.51.100.7/24 dev va
ip -n $a route add 192.0.2.0/24 dev va
traced 1 'dropped: (no_local_address|no_route)' ping_b
explained '^! route .*192.0.2.1 is not an address of this host' 10.1.0.1 10.2.0.1
explained '^= dropped: no_local_address' 10.1.0.1 10.2.0.1
ip -n $a route del 192.0.2.0/24
ip -n $a addr add 192.0.2.1/24 dev va

fault="11: a full queue"
sed -i 's/^mode = "tunnel"/mode = "iptfs"/; s/^\[tunnel.manual\]/[tunnel.iptfs]\npacket_rate = 1\nmax_queue_size = 1500\n&/' "$work/site-1.toml"
reloaded 1
traced 1 'dropped: iptfs_queue_full' ping_b -s 1000
explained '^! route .*dropped: iptfs_queue_full' 10.1.0.1 10.2.0.1
original 1

fault="12: a dead engine"
end_process "${gateways[0]}"
cat >>"$work/site-1.toml" <<'CONF'
[scheduler]
policy = "round-robin"
[[engine]]
kind = "software"
[[engine]]
kind = "multibuffer"
name = "core"
core = 1
CONF
# Engines in turns are for comparisons, which the laboratory's program makes.
gateway_program=$lab
begin_gateway 1
ping_b >/dev/null || fail "$fault: no pings before"
# A debugger that holds a single thread: the engine hangs while the gateway runs on.
python3 - "${gateways[0]}" core 600 <<'HOLD' & holder=$!
import ctypes, os, sys, time
process, name = int(sys.argv[1]), sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
threads = [int(thread) for thread in os.listdir(f"/proc/{process}/task")
           if open(f"/proc/{process}/task/{thread}/comm").read().strip() == name]
for thread in threads:
    if any(libc.ptrace(request, thread, None, None) != 0 for request in (PTRACE_SEIZE, PTRACE_INTERRUPT)):
        sys.exit(f"cannot hold thread {thread}: {os.strerror(ctypes.get_errno())}")
assert threads, "there is no such thread"
time.sleep(float(sys.argv[3]))
HOLD
options=(--host 10.2.0.1)
ping_b >/dev/null 2>&1 || true
quarantined() {
  grep -q 'engine core was quarantined' "$work/a.log" || { in_a ping -q -i 0.1 -c 5 -W 1 10.2.0.1 || true; return 1; }
}
wait_until "the engine is not taken out of use" quarantined
explained '^! engine .*engine core is out of use' 10.1.0.1 10.2.0.1
explained '^  engine .*software' 10.1.0.1 10.2.0.1
traced 1 'to engine software' ping_b
end_process $holder
echo "explain: twelve faults named by explain and by trace, two of the kernel by explain and check"
