#!/usr/bin/env bash
# Reloads under traffic: a tunnel is added and removed again, and the remaining one loses no packet
# and keeps its sequence numbers. A configuration with an error changes nothing. Reloads
# that change one of TUNNELS others (10000) lose no packet either; it prints the longest time that a
# ping took. Needs root.
# usage: reload.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/../demo/sites.sh"

# As many as a gateway may have to take at once when it had no core for some seconds.
for ns in $a $b; do ip -n $ns link set convoy0 txqueuelen 10000; done
reload() { "$convoy" reload --control "$work/site-1.sock"; }
tunnels() { "$convoy" show sa --json --control "$work/site-1.sock" | grep -c '"transform"'; }
are() { [ "$(tunnels)" = "$1" ]; }
await() { wait_until "there are not $1 SAs" are "$1"; } # how many SAs
await 2
cp -p "$work/site-1.toml" "$work/before.toml"
ip netns exec $a ping -i 0.01 -c 400 -w "$PATIENCE" 10.2.0.1 >"$work/ping.log" & ping=$!
sleep 0.5
sed -n '/^\[\[tunnel\]\]/,$p' "$work/before.toml" | sed 's/site-2/site-3/; s/10\.2\.0\.0/10.3.0.0/; s/fd00:2::/fd00:3::/; s/= 4097/= 8193/; s/= 4098/= 8194/' |
  sed "s/^key_in = .*/key_in = \"$(key aes128gcm16)\"/; s/^key_out = .*/key_out = \"$(key aes128gcm16)\"/" >>"$work/site-1.toml"
reload | tee "$work/reload.log"
grep -qx 'tunnels: 1 added, 0 removed, 1 unchanged' "$work/reload.log" || fail "the reload did not report it"
await 4
routed() { ip netns exec $a ip route get 10.3.0.5 2>/dev/null | contains 'dev convoy0 table 4500 src 10.1.0.1'; }
wait_until "the new tunnel is not routed" routed
sleep 0.5
echo 'nonsense = true' >>"$work/site-1.toml"
! reload 2>"$work/refused" || fail "a reload of a file with an error succeeded"
cat "$work/refused"
await 4
for reported in "$work/refused" "$work/a.log"; do
  grep -q 'the configuration is unchanged' "$reported" || fail "the error is not reported: $(cat "$reported")"
done
grep -q "nonsense: unknown key" "$work/a.log" || fail "the error is not reported"
cp -p "$work/before.toml" "$work/site-1.toml"
kill -HUP "${gateways[0]}"
await 2
not_routed() { ! routed; }
wait_until "the tunnel that went is still routed" not_routed
wait $ping
tail -2 "$work/ping.log"
none_lost "$work/ping.log" 400 || fail "pings were lost"
lowest_sequence() {
  "$convoy" show sa --json --control "$work/site-1.sock" | grep -o '"sequence": [0-9]*' | grep -o '[0-9]*' | sort -n | sed -n 1p
}
sequence=$(lowest_sequence)
[ "$sequence" -ge 400 ] || fail "sequence numbers started again: $sequence"
echo "reload: routes came and went, 400 of 400 pings answered over three reloads, sequence at $sequence"

# Many tunnels, all of which another one leaves as they are.
count=${TUNNELS:-10000}
key=$(random_key 16)
seq "$count" | awk -v key="$key" -v here="$(outer 1)" -v there="$(outer 2)" '{
  printf "[[tunnel]]\nname = \"many-%d\"\nlocal = \"%s\"\nremote = \"%s\"\n", $1, here, there
  printf "local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"11.%d.%d.0/24\"]\n", $1 / 250, $1 % 250
  printf "esp_proposal = \"aes128gcm16\"\n[tunnel.manual]\nspi_in = %d\nspi_out = %d\n", 100000 + $1, 200000 + $1
  printf "key_in = \"%08x%s\"\nkey_out = \"%08x%s\"\n", $1, key, $1 + 1000000, key
}' >>"$work/site-1.toml"
reload | tee "$work/reload.log"
# reported LINE: the reload did, or that a worker, which has no core, does it later.
reported() { grep -qx "$1" "$work/reload.log" || grep -q 'did not answer in time; the change is applied there later' "$work/reload.log"; }
# many_are NAME: as many tunnels are there, one of this name. One that was removed may still be
# shown.
many_are() {
  "$convoy" show tunnel --json --control "$work/site-1.sock" | grep -o '"tunnel": "many-[^"]*"' >"$work/many"
  [ "$(wc -l <"$work/many")" -ge "$count" ] && grep -q "\"many-$1\"" "$work/many"
}
reported "tunnels: $count added, 0 removed, 1 unchanged" || fail "the reload does not report the tunnels that were added"
wait_until "the tunnels were not added" many_are "$count"
begin_pings() {
  ip netns exec $a ping -i 0.002 -c 1500 -w "$PATIENCE" 10.2.0.1 >"$work/ping.log" & ping=$!
}
end_pings() { # sets longest, in ms
  wait $ping
  none_lost "$work/ping.log" 1500 || fail "pings were lost: $(tail -n 3 "$work/ping.log")"
  longest=$(sed -n 's|^rtt .* = [0-9.]*/[0-9.]*/\([0-9.]*\)/.*|\1|p' "$work/ping.log")
}
begin_pings
end_pings; at_rest=$longest
begin_pings
for round in $(seq 5); do
  sed -i "s/^name = \"many-$((count / 2)).*\"/name = \"many-$((count / 2))-$round\"/" "$work/site-1.toml"
  reload >"$work/reload.log"
  reported "tunnels: 1 added, 1 removed, $count unchanged" || fail "more than one tunnel changed: $(cat "$work/reload.log")"
  wait_until "the tunnel did not change" many_are "$((count / 2))-$round"
done
end_pings
selected=$("$convoy" show policy --json --control "$work/site-1.sock" | tr -d '\n' | grep -o '"name": "site-2"[^}]*"packets": [0-9]*' | grep -o '[0-9]*$' | sort -n | tail -1)
[ "$selected" -ge 3400 ] || fail "the counters of a policy that stayed started again: $selected"
echo "reload: 1 of $((count + 1)) tunnels changed five times, no ping lost; the longest took $longest ms, without reloads $at_rest ms"
