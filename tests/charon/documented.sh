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
mkdir -p "$folder/strongswan.d/charon" "$folder/swanctl" "$folder/run/convoy"
cp -r /etc/strongswan.d/. "$folder/strongswan.d/"; cp "$here/../../charon/convoy.conf" "$folder/strongswan.d/charon/"
(umask 077; block toml >"$folder/convoy.toml"; block swanctl >"$folder/swanctl/swanctl.conf")
cp "$here/../../charon/charon.conf" "$folder/strongswan.d/convoy.conf"
# in_a COMMAND...: runs it on side A, with a separate /run and /etc/strongswan.d.
in_a() {
  unshare -m ip netns exec $A sh -c "mount --make-rprivate /
    mount --bind $folder/plugins $libraries
    mount --bind $folder/strongswan.d /etc/strongswan.d
    mount --bind $folder/run /run; exec \"\$@\"" sh "$@"
}
mkdir -p "$folder/a"
in_a "$convoy" run -c "$folder/convoy.toml" >"$folder/a/convoy.log" 2>&1 & processes+=("$!")
wait_for "the gateway does not start" in_a "$convoy" show stats
in_a /usr/lib/ipsec/charon >"$folder/a/log" 2>&1 & processes+=("$!")
wait_for "charon does not start" test -S "$folder/run/charon.vici"
in_a swanctl --stats >"$folder/stats" 2>&1 || fail "charon does not answer: $(cat "$folder/stats")"
grep -q ' convoy ' "$folder/stats" && ! grep -q socket-default "$folder/stats" || fail "charon has other plugins: $(cat "$folder/stats")"
strongswan b "$stock"
peers_block >"$folder/b/swanctl.conf"
start_charon b; load b
export SWANCTL_DIR=$folder/swanctl
in_a swanctl --load-all --noprompt >"$folder/load" 2>&1 || fail "site.conf does not load: $(cat "$folder/load")"
pings_from $A 5 -I 10.1.0.1 10.2.0.1 || fail "not all answered by B: $(cat "$folder/ping")"
pings_from $B 5 -I 10.2.0.1 10.1.0.1 || fail "not all answered by A: $(cat "$folder/ping")"
in_a "$convoy" show sa --wide >"$folder/shown"
grep -q "site/net.*aes128ctr-sha256" "$folder/shown" || fail "no SA of site/net: $(cat "$folder/shown")"
# charon is connected now, so the threads that serve it exist.
gateway=$(ip netns pids $A | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != convoy ] || echo "$pid"; done)
[ "$(cat /proc/$gateway/task/*/status | grep -c '^CapPrm:')" -gt 3 ] || fail "no threads of the gateway's"
! grep -L $'^CapPrm:\t0000000000000000' /proc/$gateway/task/*/status | grep . || fail "threads of the gateway have capabilities left"
echo "ok: as docs/guide/strongswan.md says: the first packet makes the tunnel, 10 of 10 pings, AES-CTR"
