#!/usr/bin/env bash
# strongSwan's own test suite with convoy as the data plane: its scenarios of swanctl in namespaces
# of user-mode Linux, the gateway moon (or sun) a convoy with charon, the other hosts stock. The
# gateway's file is what `convoy import` makes of the scenario's swanctl.conf. A scenario that fails
# is tried with stock hosts alone, so that what this machine cannot run is not convoy's failure. It
# goes on where it was interrupted; with FRESH=1 it starts over. Root.
# usage: [FRESH=1] strongswan.sh CONVOY [PATTERN]    scenarios of the list `scenarios` that match
set -euo pipefail
convoy=$(realpath "$1") pattern=${2:-}
cd "$(dirname "$0")"
out=$(realpath -m ../../target/foreign) machine=/run/machine
suite=$out/strongswan work=$out/work
fail() { echo "strongswan.sh: $1" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root"
for tool in linux.uml python3 unshare; do command -v $tool >/dev/null || fail "needs $tool; run scripts/install.sh test iptfs"; done
./prepare.sh "$suite"
[ -z "${FRESH:-}" ] || rm -rf "$work"
mkdir -p "$work"
mapfile -t scenarios < <(grep -E '^[a-z]' scenarios | grep -E -- "$pattern")
[ ${#scenarios[@]} -gt 0 ] || fail "no scenario matches '$pattern'"

# left KIND: the scenarios that have no result of this kind, of those on standard input.
left() { while read -r one; do grep -qsF "\"scenario\": \"$one\"," "$work/$1" || echo "$one"; done; }
# A guest for a few scenarios each, so that one that hangs costs no others. A scenario without a
# result has ended its guest.
in_guests() { # kind [--gateways HOSTS]
  local kind=$1 group; shift
  while mapfile -t -n 4 group && [ ${#group[@]} -gt 0 ]; do
    WORK=$work timeout 900 ./guest.sh --root "$machine$suite/root" --testing "$machine$suite/testing" --convoy "$machine$convoy" \
      --plugin "$machine$suite/plugin/libstrongswan-convoy.so" --results "/tmp/work/$kind" "$@" "${group[@]}" || cat "$work/output" >&2
    printf '%s\n' "${group[@]}" | left "$kind" | while read -r one; do
      echo "{\"scenario\": \"$one\", \"passed\": false, \"wrong\": [\"the guest ended\"]}"
    done >>"$work/$kind"
  done
}
printf '%s\n' "${scenarios[@]}" | left convoy | in_guests convoy --gateways moon,sun
grep -F '"passed": false' "$work/convoy" | sed -E 's/^\{"scenario": "([^"]*)".*/\1/' | left stock | in_guests stock
printf '%s\n' "${scenarios[@]}" | python3 summary.py "$work/convoy" "$work/stock" known
