#!/usr/bin/env bash
# ML-KEM as docs/guide/strongswan.md has it, between two convoys with a strongSwan that has it: the
# IKE SA and, once rekeyed, the CHILD_SA have a key exchange of both kinds, and pings pass before
# and after. A peer without ML-KEM is refused. Needs root.
# usage: post-quantum.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1") A=convoy-pq-a-$$ B=convoy-pq-b-$$
cd "$(dirname "$0")/../.."
tests/iptfs/strongswan.sh
STRONGSWAN_ROOT=$PWD/target/iptfs/strongswan/root plugin=$PWD/target/iptfs/strongswan/plugin/libstrongswan-convoy.so
source tests/charon/lib.sh
page=docs/guide/strongswan.md
awk '/^<!-- ml-kem -->$/ { marked = 1 } marked && /^```$/ { fences++; next } fences == 1' $page >"$work/ml-kem"
[ "$(grep -c mlkem768 "$work/ml-kem")" = 2 ] || fail "the page has no proposals with ML-KEM: $(cat "$work/ml-kem")"

namespaces
for side in "a 1 2" "b 2 1"; do
  read -r side host peer <<<"$side"
  gateway_conf "$side" "\"192.0.2.$host\""
  strongswan "$side" "$with_convoy"
  start_gateway "$side"
  start_charon "$side"
  connection "$side" "192.0.2.$host" "192.0.2.$peer" "encap = yes" ""
  cat "$work/ml-kem" >>"$work/$side/swanctl.conf"
  load "$side"
done
listed() { ask "$1" --list-sas --raw; }
# exchanged SIDE: the key exchanges of the IKE SA and of its CHILD_SA.
exchanged() { listed "$1" | python3 -c '
import re, sys
text = sys.stdin.read()
ike, _, child = text.partition("child-sas")
kinds = [re.findall(r"(?:dh-group|ke1?)=(\S+?)[ }]", part) for part in (ike, child)]
print(*("+".join(kind) or "none" for kind in kinds))'; }
spis() { show sa "$1" | python3 -c 'import json, sys; print(*sorted(sa["spi"] for sa in json.load(sys.stdin)))'; }
up a
for side in a b; do
  [[ $(exchanged $side) == *"CURVE_25519+"*ML_KEM_768* ]] || fail "the IKE SA of $side has another key exchange: $(exchanged $side)"
done
ping_both
[ "$(show tunnel | python3 -c 'import json, sys
print(*[row["ike"]["key_exchange"] for row in json.load(sys.stdin) if row["ike"]])')" = x25519+mlkem768 ] ||
  fail "the gateway says of the key exchange: $(show tunnel)"
echo "two convoys with strongSwan $(cat target/iptfs/strongswan/version): IKE SA and CHILD_SA by $(exchanged a), 36 of 36 pings"
old=$(spis a) old_ike=$(listed a | grep -o 'initiator-spi=[0-9a-f]*')
ask a --rekey --child net >"$work/rekey" 2>&1 || fail "the CHILD_SA is not rekeyed: $(cat "$work/rekey")"
replaced() { local spi; for spi in $old; do [[ " $(spis a) " != *" $spi "* ]] || return 1; done; [ "$(sas)" = 2 ]; }
wait_until "the CHILD_SA is not replaced" replaced
both='CURVE_25519+ML_KEM_768 CURVE_25519+ML_KEM_768'
both_are() { [ "$(exchanged a)" = "$both" ] && [ "$(exchanged b)" = "$both" ]; }
wait_until "the rekeyed CHILD_SA has another key exchange" both_are
ask a --rekey --ike site >"$work/rekey" 2>&1 || fail "the IKE SA is not rekeyed: $(cat "$work/rekey")"
other_ike() { [ "$(listed a | grep -o 'initiator-spi=[0-9a-f]*')" != "$old_ike" ] && [ "$(listed a | grep -c 'list-sa event')" = 1 ]; }
wait_until "the IKE SA is not replaced" other_ike
[[ $(exchanged a) == *"CURVE_25519+"*ML_KEM_768* ]] || fail "the rekeyed IKE SA has another key exchange: $(exchanged a)"
ping_both
ask a --list-sas | contains 'CURVE_25519/KE1_ML_KEM_768' || fail "swanctl does not show what the page says: $(ask a --list-sas)"
echo "rekeyed, CHILD_SA and IKE SA: by $(exchanged a), 36 of 36 pings"
down a

connection b 192.0.2.2 192.0.2.1 "encap = yes
  proposals = aes256gcm16-prfsha384-x25519" "esp_proposals = aes256gcm16"
load b
! ask a --initiate --child net >"$work/a/up" 2>&1 || fail "a peer without ML-KEM is accepted"
grep -q NO_PROPOSAL_CHOSEN "$work/a/up" "$work/a/log" || fail "a peer without ML-KEM is refused for another reason: $(tail -3 "$work/a/up")"
echo "ok: a peer without ML-KEM is refused"
