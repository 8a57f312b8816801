#!/usr/bin/env bash
# Reloads under traffic: a tunnel is added and removed again, and the remaining one loses no packet
# and keeps its sequence numbers. A configuration with an error changes nothing. Needs root.
# usage: reload.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/../demo/sites.sh"

reload() { "$convoy" reload --control "$work/site-1.sock"; }
tunnels() { "$convoy" show sa --json --control "$work/site-1.sock" | grep -c '"transform"'; }
are() { [ "$(tunnels)" = "$1" ]; }
await() { wait_until "there are not $1 SAs" are "$1"; } # how many SAs
await 2
cp -p "$work/site-1.toml" "$work/before.toml"
ip netns exec $a ping -i 0.01 -c 400 -W 2 10.2.0.1 >"$work/ping.log" & ping=$!
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
grep -q ' 400 received, 0% packet loss' "$work/ping.log" || fail "pings were lost"
sequence=$("$convoy" show sa --json --control "$work/site-1.sock" | grep -o '"sequence": [0-9]*' | grep -o '[0-9]*' | sort -n | head -1)
[ "$sequence" -ge 400 ] || fail "sequence numbers started again: $sequence"
echo "reload: routes came and went, 400 of 400 pings answered over three reloads, sequence at $sequence"
