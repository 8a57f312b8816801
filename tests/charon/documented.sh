#!/usr/bin/env bash
# Runs docs/guide/strongswan.md literally: its convoy.toml and site.conf under Debian's own
# strongswan.conf, with a stock charon as the peer that has the same files with the ends swapped.
# The first packet sets up the tunnel. Needs root.
# usage: documented.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
A=convoy-doc-a B=convoy-doc-b
source "$here/lib.sh"
source "$here/page.sh"
namespaces
ip -n $B addr add 10.2.0.1/24 dev lo
mkdir -p "$work/strongswan.d/charon" "$work/swanctl" "$work/run/convoy"
cp -r /etc/strongswan.d/. "$work/strongswan.d/"; cp "$here/../../charon/convoy.conf" "$work/strongswan.d/charon/"
(umask 077; block toml >"$work/convoy.toml"; block swanctl >"$work/swanctl/swanctl.conf")
cp "$here/../../charon/charon.conf" "$work/strongswan.d/convoy.conf"
# in_a COMMAND...: runs it on side A, with a separate /run and /etc/strongswan.d.
in_a() {
  unshare -m ip netns exec $A sh -c "mount --make-rprivate /
    mount --bind $work/plugins $libraries
    mount --bind $work/strongswan.d /etc/strongswan.d
    mount --bind $work/run /run; exec \"\$@\"" sh "$@"
}
mkdir -p "$work/a"
in_a "$convoy" run -c "$work/convoy.toml" >"$work/a/convoy.log" 2>&1 &
wait_until "the gateway does not start" in_a "$convoy" show stats
for_charon "$work/run" "$work/run/convoy-charon"
in_a $unprivileged /usr/lib/ipsec/charon >"$work/a/log" 2>&1 &
wait_until "charon does not start" test -S "$work/run/convoy-charon/vici"
in_a swanctl --stats >"$work/stats" 2>&1 || fail "charon does not answer: $(cat "$work/stats")"
grep -q ' convoy ' "$work/stats" && ! grep -q socket-default "$work/stats" || fail "charon has other plugins: $(cat "$work/stats")"
strongswan b "$stock"
peers_block >"$work/b/swanctl.conf"
start_charon b; load b
export SWANCTL_DIR=$work/swanctl
in_a swanctl --load-all --noprompt >"$work/load" 2>&1 || fail "site.conf does not load: $(cat "$work/load")"
pings_from $A 5 -I 10.1.0.1 10.2.0.1 || fail "not all answered by B: $(cat "$work/ping")"
pings_from $B 5 -I 10.2.0.1 10.1.0.1 || fail "not all answered by A: $(cat "$work/ping")"
in_a "$convoy" show sa --wide >"$work/shown"
grep -q "site/net.*aes128ctr-sha256" "$work/shown" || fail "no SA of site/net: $(cat "$work/shown")"
# One tunnel has one name from its trap on, and all of its packets.
in_a "$convoy" show tunnel --json >"$work/tunnels"
python3 - "$work/tunnels" <<'TUNNELS' || fail "not one tunnel with all packets: $(cat "$work/tunnels")"
import json, sys
[row] = json.load(open(sys.argv[1]))
assert (row["tunnel"], row["child"], row["state"]) == ("net", "site/net", "up"), row
assert all(row[way]["packets"] >= 10 for way in ("inbound", "outbound")), row
TUNNELS
charon=$(ip netns pids $A | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != charon ] || echo "$pid"; done)
for line in $'CapEff:\t0000000000000000' $'CapPrm:\t0000000000000000' $'CapBnd:\t0000000000000000' $'NoNewPrivs:\t1'; do
  ! grep -L -x "$line" /proc/$charon/task/*/status | grep . || fail "threads of charon lack '$line'"
done
# charon is connected now, so the threads that serve it exist.
gateway=$(ip netns pids $A | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != convoy ] || echo "$pid"; done)
[ "$(cat /proc/$gateway/task/*/status | grep -c '^CapPrm:')" -gt 3 ] || fail "no threads of the gateway's"
! grep -L $'^CapPrm:\t0000000000000000' /proc/$gateway/task/*/status | grep . || fail "threads of the gateway have capabilities left"
echo "ok: as docs/guide/strongswan.md says: the first packet makes the tunnel, 10 of 10 pings, AES-CTR"
