#!/usr/bin/env bash
# What an operator sees: the log as text and as JSON, `convoy show` with rates, and the warning
# about dropped packets. Needs root.
# usage: operation.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source demo/sites.sh
show() { "$convoy" show "$@" --control "$work/site-1.sock"; }

for line in "INFO .*convoy [0-9.]* with $work/site-1.toml: 1 worker" 'INFO .*engines' 'INFO .*port inside: tun convoy0' \
  'INFO .*port outside: udp' 'INFO .*tunnels: 1 with static keys, 0 without' 'INFO .*ready'; do
  grep -q "$line" "$work/a.log" || fail "the log lacks '$line'"
done
[ "$(grep -c 'MTU 1438 (tunnel site-2' "$work/a.log")" = 1 ] || fail "the log does not say once what the MTU inside is, and why"
! grep -q $'\e' "$work/a.log" || fail "escape codes in a log that is a file"

pings "$work/ping.log" $a 5 10.2.0.1 || fail "no pings"
for what in "" tunnel "tunnel site-2" sa policy engine scheduler port stats; do
  # shellcheck disable=SC2086 # a word, two or none
  show $what >"$work/${what:=summary}"
  wide=$(awk '{ if (length > most) most = length } END { print most + 0 }' "$work/$what")
  [ "$wide" -le 80 ] || fail "show $what is $wide characters wide: $(cat "$work/$what")"
done
cat "$work/summary" "$work/tunnel" "$work/tunnel site-2" "$work/sa"
grep -q '^tunnels  *1 up$' "$work/summary" || fail "the summary does not count the tunnels"
grep -q "^configuration  $work/site-1.toml, read " "$work/summary" || fail "the summary does not name the configuration"
# The tunnel has a pair of IPv4 and one of IPv6, and none of two families.
[ "$(grep -c '^site-2 ' "$work/policy")" = 2 ] || fail "policies that cannot match: $(cat "$work/policy")"
sas() { awk '{ print $1, $2, $3 }'; }
[ "$(show sa --peer 192.0.2.2 --tunnel site-2 | sas)" = "$(sas <"$work/sa")" ] || fail "a filter that selects all"
! show sa --tunnel site-3 2>"$work/no-tunnel" || fail "a tunnel that there is not was shown"
grep -q 'no tunnel is named "site-3"; there are site-2' "$work/no-tunnel" || fail "$(cat "$work/no-tunnel")"
python3 - "$("$convoy" show tunnel --json --control "$work/site-1.sock")" <<'CHECK' || fail "show tunnel --json"
import json, sys
[tunnel] = json.loads(sys.argv[1])
assert (tunnel["tunnel"], tunnel["state"], tunnel["remote"]) == ("site-2", "up", "192.0.2.2"), tunnel
assert tunnel["outbound"]["packets"] >= 5 and tunnel["inbound"]["packets"] >= 5, tunnel
CHECK
show sa --wide | contains aes128gcm16 || fail "show sa --wide lacks the algorithms"
ip netns exec $a ping -q -i 0.05 -c 60 10.2.0.1 >/dev/null & ping=$!
# Two tables a second apart, of which the second has rates.
{ timeout 2.5 "$convoy" show sa --watch 1 --control "$work/site-1.sock" || true; } >"$work/watch"
wait $ping
python3 - <<CHECK || fail "no stream of JSON"
import json, subprocess
stream = subprocess.Popen(["$convoy", "show", "tunnel", "--json", "--watch", "0.2", "--control", "$work/site-1.sock"], stdout=subprocess.PIPE)
tunnels = [json.loads(stream.stdout.readline()) for _ in range(3)]
stream.kill()
assert all(len(of_one) == 1 for of_one in tunnels), tunnels
CHECK
rates=$(awk '$3 ~ /^0x/ && $4 != "-" { print $4 }' "$work/watch" | sort -n | tail -1)
[ "${rates:-0}" -ge 5 ] || fail "no rates: $(cat "$work/watch")"
! grep -q $'\e' "$work/watch" || fail "escape codes where there is no terminal"

# The second site gets another key, so the first one drops its packets.
sed -i 's/^\(key_out = "\)\(.*\)\(.\)"$/\1\3\2"/' "$work/site-2.toml"
"$convoy" reload --control "$work/site-2.sock"
ip netns exec $b ping -q -i 0.2 -c 40 10.1.0.1 >/dev/null || true
# The reason depends on the first sequence numbers of the other key.
reason='reason="\(replayed\|integrity_failed\)"'
wait_for_line "$reason" "$work/a.log" "no warning of dropped packets"
show events --wide >"$work/events"
grep -q 'WARN tunnel site-2, inbound: .* packets dropped in [0-9]* s, \(replayed\|integrity_failed\); packets were dropped: ' "$work/events" || fail "the warning is no event: $(cat "$work/events")"
show | contains '^warning  .*tunnel site-2, inbound: ' || fail "the summary does not warn: $(show)"
grep "WARN.*packets were dropped: .*tunnel=\"site-2\" direction=\"inbound\" $reason packets=" "$work/a.log" || fail "no warning of dropped packets"
[ -z "$(grep -o "$reason" "$work/a.log" | sort | uniq -d)" ] || fail "a reason was reported more than once in a minute"

# A stream of events, from the first on: what happens while it is read is in it, and in the log.
stdbuf -oL "$convoy" show events --json --watch 0.2 --control "$work/site-1.sock" >"$work/stream" & stream=$!
wait_for_line '"event":"ready"' "$work/stream" "no stream of events"
sed -i 's/^replay_window = .*//; s/^encap = "udp"/&\nreplay_window = 64/' "$work/site-1.toml"
"$convoy" reload --control "$work/site-1.sock"
sed -i 's/^replay_window = 64/replay_window = 7/' "$work/site-1.toml"
! "$convoy" reload --control "$work/site-1.sock" 2>/dev/null || fail "a bad configuration was taken"
wait_for_line '"event":"reload-refused"' "$work/stream" "no event of the refused reload"
sed -i '/^replay_window = 7/d' "$work/site-1.toml"
end_process $stream
python3 - "$work/stream" "$work/a.log" <<'CHECK' || fail "the stream of events: $(cat "$work/stream")"
import json, re, sys
events = [json.loads(line) for line in open(sys.argv[1])]
log = open(sys.argv[2]).read()
assert [event["number"] for event in events] == list(range(1, len(events) + 1)), "each once, in order"
kinds = [event["event"] for event in events]
assert {"ready", "dropped", "reload", "sa-rekeyed", "reload-refused"} <= set(kinds), kinds
for event in events:
    first = event["message"].splitlines()[0]
    assert first in log, f"the log lacks {first}"
    assert event["severity"] == {"dropped": "warn", "warning": "warn", "reload-refused": "error"}.get(event["event"], "info"), event
rekeyed = next(event for event in events if event["event"] == "sa-rekeyed")
assert (rekeyed["tunnel"], rekeyed["peer"], rekeyed["spi_in"]) == ("site-2", "192.0.2.2:4500", 0x1001), rekeyed
CHECK

# The same gateway with its log as JSON.
end_well "${gateways[0]}" "the gateway"
ip netns exec $a "$convoy" run --log-format json -c "$work/site-1.toml" 2>"$work/json" & gateway=$!
wait_for_line '"message":"ready"' "$work/json" "the gateway does not start"
end_well "$gateway" "the gateway with a log in JSON"
python3 - "$work/json" <<'CHECK' || fail "not JSON"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert all({"timestamp", "level", "message"} <= line.keys() for line in lines), lines
assert {"ready", "stopped"} <= {line["message"] for line in lines}, lines
CHECK

# Approved algorithms alone, and every packet computed by two engines.
end_well "${gateways[1]}" "the gateway of site 2"
# shellcheck disable=SC2034 # sites.sh takes it
EXTRA=$'fips = true\nverify_one_in = 1'
configure
begin_gateways
pings "$work/ping.log" $a 20 10.2.0.1 || fail "no pings with packets that are computed twice"
grep -q 'INFO .*fips: approved algorithms alone; .* no validated module' "$work/a.log" || fail "the log does not say what fips means"
show engine --json | python3 -c '
import json, sys
engines = json.load(sys.stdin)
assert len(engines) == 2 and all(engine["down"] == "" and engine["failures"] == 0 for engine in engines), engines
done, verified = (sum(engine[key] for engine in engines) for key in ("packets", "verified_packets"))
assert done >= 40 and verified == done, (done, verified)' || fail "not every packet was computed twice"
sed -i 's/^esp_proposal = .*/esp_proposal = "chacha20poly1305"/' "$work/site-1.toml"
! "$convoy" check -c "$work/site-1.toml" 2>"$work/check" || fail "fips admits what is not approved"
grep -q 'chacha20poly1305 is not approved by NIST, and fips is set' "$work/check" || fail "$(cat "$work/check")"
echo "operation: the log, show and its rates, a warning of dropped packets, a stream of events; fips and verified packets"
