#!/usr/bin/env bash
# Two gateways of a cluster whose tunnels are in the store: versions are put, refused, listed and
# rolled back, both gateways follow, and a restarted one has them. Needs root.
# usage: cluster-config.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
# The first gateway leads all the while, also if it has no core for a second.
LEASE_S=10
source tests/cluster/lib.sh

network
store
CLUSTER='tunnels = "store"' python3 tests/cluster/configure.py "$work" 0 $LEASE_S "${endpoints[@]}"
gateway 1
wait_until "the first gateway does not lead" leads 1
gateway 2
wait_until "the second gateway is not ready" ready 2 1
tunnel() { # name network spi
  cat <<CONF
[[tunnel]]
name = "$1"
local = "192.0.2.10"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["$2"]
esp_proposal = "aes128gcm16"
[tunnel.manual]
spi_in = $3
spi_out = $3
key_in = "$(openssl rand -hex 20)"
key_out = "$(openssl rand -hex 20)"
CONF
}
shared() { ip netns exec cl-g1 "$convoy" cluster "$@" -c "$work/g1.toml"; }
# Whether a gateway has these tunnels, up if it leads.
has() { # gateway names
  [ "$("$convoy" show stats --json --control "$work/g$1.sock" | python3 -c 'import json, sys
print(*sorted(row["name"] for row in json.load(sys.stdin)["configured"]))')" = "$2" ]
}
installed() { # gateway number: SAs
  [ "$("$convoy" show sa --json --control "$work/g$1.sock" | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')" = "$2" ]
}
! shared get 2>"$work/none" || fail "there is a version already"
grep -q "convoy cluster put" "$work/none" || fail "get without a version says: $(cat "$work/none")"

tunnel one 10.2.0.0/24 0x1001 >"$work/first.toml"
shared put "$work/first.toml" | contains '^version 1;' || fail "the first version"
for g in 1 2; do wait_until "g$g has not the first version" has $g "one"; done
wait_until "the leader has not installed it" installed 1 2
installed 2 0 || fail "who stands by has SAs"

{ cat "$work/first.toml"; tunnel two 10.3.0.0/24 0x2001; } >"$work/second.toml"
shared put "$work/second.toml" >/dev/null
for g in 1 2; do wait_until "g$g has not the second version" has $g "one two"; done
wait_until "the leader has not installed it" installed 1 4

# What is wrong is refused where it is put, with its place.
sed 's/10\.3\.0\.0/10.3.0/' "$work/second.toml" >"$work/bad.toml"
! shared put "$work/bad.toml" 2>"$work/refused" || fail "a bad file was put"
grep -q "bad.toml:18:14: error: tunnel.remote_ts" "$work/refused" || fail "a bad file: $(cat "$work/refused")"
printf '[gateway]\nmtu = 9000\n' >"$work/bad.toml"
! shared put "$work/bad.toml" 2>"$work/refused" || fail "another table was put"
grep -q "it has gateway" "$work/refused" || fail "another table: $(cat "$work/refused")"

shared rollback 1 | contains '^version 3;' || fail "the rollback"
for g in 1 2; do wait_until "g$g has not rolled back" has $g "one"; done
wait_until "the leader has not removed it" installed 1 2
[ "$(shared history | wc -l)" = 3 ] || fail "the history: $(shared history)"
shared get | cmp - "$work/first.toml" || fail "the third version is not the first"
! ip netns exec cl-store etcdctl get --prefix /convoy/ 2>/dev/null | contains remote_ts || fail "the store has it unsealed"

# A gateway that starts again, and leads, has what the store has.
end_process "${gateways[2]}"
wait_until "g2 does not end" ended 2
gateway 2
wait_until "g2 does not come back" ready 2 2
wait_until "g2 has not the version of the store" has 2 "one"
wait_until "g1 does not see g2" sees_both 1
"$convoy" drain --control "$work/g1.sock" >/dev/null
wait_until "g2 does not lead" leads 2
wait_until "g2 has not installed it" installed 2 2
