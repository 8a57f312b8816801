#!/usr/bin/env bash
# Monitors of tunnels between two gateways: one pings a host behind the other, which sends ESP
# echoes. What each tool says while they are answered, when the path is cut silently, and when it is
# mended; echoes as scapy opens them, and one with a return SPI of no tunnel. With MODE=iptfs,
# echoes between payloads. Needs root.
# usage: [MODE=iptfs] [WORKERS=2] monitor.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
python=$PWD/target/test-venv/bin/python
source demo/sites.sh
site() { local number=$1; shift; "$convoy" "$@" --control "$work/site-$number.sock"; }
# monitor SITE: the state of its tunnel, and of its monitor.
monitor() {
  site "$1" show tunnel --json | python3 -c 'import json, sys
[tunnel] = json.load(sys.stdin)
print(tunnel["state"], (tunnel["monitor"] or {}).get("state"))'
}
is() { [ "$(monitor "$1")" = "$2" ]; }
metric() { in_ns "$(tr 12 ab <<<"convoy-$1")" curl -s http://127.0.0.1:9464/metrics | sed -n "s/^convoy_$2{tunnel=\"site-$((3 - $1))\"} //p"; }
metric_is() { [ "$(metric "$1" "$2")" = "$3" ]; }
outcome_is() { site 1 explain 10.1.0.1 10.2.0.1 --json | contains "\"outcome\": *\"$1\""; }
# since EVENT SITE: milliseconds from $cut to the last such event.
since() {
  site "$2" show events --json | python3 -c 'import json, sys
times = [event["time_s"] for event in json.load(sys.stdin) if event["event"] == sys.argv[1]]
print(round((times[-1] - float(sys.argv[2])) * 1000))' "$1" "$cut"
}
kernels() { in_ns $a nstat -asz IcmpInEchoReps | awk '/^Icmp/ { print $2 }'; }

stop_gateways
printf '[tunnel.monitor]\nping = "10.2.0.1"\ninterval_ms = 100\n' >>"$work/site-1.toml"
printf '[tunnel.monitor]\necho = true\ninterval_ms = 100\nlost_after_ms = 200\n' >>"$work/site-2.toml"
for site in 1 2; do
  "$convoy" check -c "$work/site-$site.toml" >"$work/check" || fail "check: $(cat "$work/check")"
done
# The capture has what would cross a wire.
for end in "$a va" "$b vb"; do
  read -r ns dev <<<"$end"
  in_ns "$ns" ethtool -K "$dev" gso off gro off tso off tx-udp-segmentation off >/dev/null
done
start_capture outside $a va "udp port 4500"
begin_gateways
for site in 1 2; do
  wait_until "the probes of site $site are not answered" is $site "up answered"
  wait_until "the metric of site $site does not say so" metric_is $site tunnel_probe_answered 1.0
  site $site show events --json | contains '"probes-answered"' || fail "no event at site $site"
  site $site show tunnel site-$((3 - site)) >"$work/shown"
  grep -q 'round trip' "$work/shown" || fail "show tunnel of site $site: $(cat "$work/shown")"
done
wait_until "explain does not say that packets arrive" outcome_is protected
[ "$(kernels)" = 0 ] || fail "$(kernels) answers reached the kernel"
ok "answered: state, metric, event and show at both sites; explain; no answer reaches the kernel"

# A reload that changes a monitor alone leaves the tunnel as it is.
sequence() { site 1 show sa --json | python3 -c 'import json, sys; print(*[sa["spi"] for sa in json.load(sys.stdin)])'; }
sas=$(sequence)
sed -i 's/^ping = .*/ping = "10.2.0.1"\nsource = "10.1.0.1"\nlost_after_ms = 250/' "$work/site-1.toml"
site 1 reload >"$work/reload.log" 2>&1 || fail "the reload failed: $(cat "$work/reload.log")"
grep -q '0 added, 0 removed, 1 unchanged' "$work/reload.log" || fail "the reload changed the tunnel: $(cat "$work/reload.log")"
wait_until "the probes of the changed monitor are not answered" is 1 "up answered"
[ "$(sequence)" = "$sas" ] || fail "the reload replaced SAs"
ok "a reload takes a changed monitor over, and leaves the tunnel as it is"

# Silently: nothing comes back by ICMP.
cut=$(date +%s.%N)
in_ns $a nft "add table inet cut; add chain inet cut in { type filter hook prerouting priority -400; }; add rule inet cut in iifname va drop"
for site in 1 2; do
  wait_until "site $site does not notice that its path is cut" is $site "silent lost"
  wait_until "the metric tunnel_up of site $site stays" metric_is $site tunnel_up 0.0
done
outcome_is sent || fail "explain: $(site 1 explain 10.1.0.1 10.2.0.1)"
site 1 explain 10.1.0.1 10.2.0.1 | contains '! .*10.2.0.1 has last answered pings from 10.1.0.1' || fail "explain: $(site 1 explain 10.1.0.1 10.2.0.1)"
site 1 show tunnel site-2 | contains 'silent, probes are not answered' || fail "show tunnel: $(site 1 show tunnel site-2)"
ok "a silent cut: lost by pings within $(since probes-lost 1) ms, by echoes within $(since probes-lost 2) ms; state, metric, explain"
in_ns $a nft delete table inet cut
for site in 1 2; do wait_until "the probes of site $site are not answered again" is $site "up answered"; done
wait_until "the metric tunnel_up does not come back" metric_is 1 tunnel_up 1.0
ok "the path is mended: up again"

# A black hole: longer packets are dropped, and no ICMP says so. Changed monitors look at once.
in_ns $a nft "add table inet hole; add chain inet hole in { type filter hook prerouting priority -400; }; add rule inet hole in iifname va ip length > 1300 drop"
sed -i 's/^lost_after_ms = 200/lost_after_ms = 210/' "$work/site-2.toml"
site 2 reload >"$work/reload.log" 2>&1 || fail "the reload failed: $(cat "$work/reload.log")"
path_mtu() { site 2 show tunnel --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["path_mtu"])'; }
is_found() { local mtu; mtu=$(path_mtu); [ "$mtu" -gt 1292 ] && [ "$mtu" -le 1300 ]; }
wait_until "the black hole is not found" is_found
site 2 show events --json | contains '"path-mtu"' || fail "no event says what the path carries"
long=(-M "do" -s 1372 -I 10.2.0.1 10.1.0.1)
if [ "${MODE:-tunnel}" = tunnel ]; then
  in_ns $b ping -c 3 -i 0.2 -W 2 "${long[@]}" >"$work/ping.log" 2>&1 && fail "a packet that is too long arrived"
  grep -qiE 'too (long|large)|frag needed' "$work/ping.log" || fail "the host is not notified: $(cat "$work/ping.log")"
  what="a host is notified"
else
  pings "$work/ping.log" $b 3 "${long[@]}" || fail "a long packet does not arrive in parts: $(cat "$work/ping.log")"
  what="packets go in parts that pass"
fi
ok "a black hole without ICMP: the path carries $(path_mtu) of 1300 bytes, found by padded echoes; $what"
in_ns $a nft delete table inet hole

[ "${MODE:-tunnel}" = tunnel ] || { stop_gateways; exit; }
end_process "${captures[outside]}"
ip netns exec $b "$python" -W ignore tests/oracle/echo.py "$work/outside.pcap" "$work/site-2.toml" 192.0.2.2 192.0.2.1 >"$work/echo.log" 2>&1 ||
  fail "scapy: $(cat "$work/echo.log")"
counted() { site 1 show stats --json | python3 -c 'import json, sys
drops = json.load(sys.stdin)["drops"]
sys.exit(drops.get("esp_echo_refused", 0) != 1)'; }
wait_until "a request with a return SPI of no tunnel was answered, or not counted" counted
ok "$(cat "$work/echo.log"); one with a return SPI of no tunnel is refused and counted"
stop_gateways
