#!/usr/bin/env bash
# Why charon's negotiations fail, in the gateway's own words: a wrong pre-shared key, IKE and ESP
# proposals and networks that do not fit, a peer that does not answer. Each is in `show tunnel`,
# `explain`, the events and the log, and goes when the tunnel is up. Needs root.
# usage: refusals.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2") A=convoy-refused-a B=convoy-refused-b
source "$(dirname "$0")/lib.sh"

namespaces
for side in a b; do
  host=1; [ $side = a ] || host=2
  gateway_conf $side "\"192.0.2.$host\""
  RETRIES=3 strongswan $side "$with_convoy"
  start_gateway $side
  start_charon $side
done
# both IKE_PROPOSAL_OF_B ESP_PROPOSAL_OF_B: A has the usual ones.
ike=aes128-sha256-x25519 esp=aes128gcm16
both() {
  connection a 192.0.2.1 192.0.2.2 "encap = yes
  proposals = $ike" "esp_proposals = $esp"
  connection b 192.0.2.2 192.0.2.1 "encap = yes
  proposals = $1" "esp_proposals = $2"
}
# is_named SIDE WORDS: its tunnel is being negotiated, and every place has these words.
is_named() {
  local control="$work/$1/control.sock" from=10.1.0.1 to=10.2.0.1
  [ "$1" = a ] || from=10.2.0.1 to=10.1.0.1
  "$convoy" show tunnel net --control "$control" | tr -s ' \n' ' ' | grep -q "^net: negotiating IKE.*$2" || return 1
  "$convoy" explain $from $to --control "$control" >"$work/explained" && return 1
  tr -s ' \n' ' ' <"$work/explained" | grep -q "charon's last attempt failed.*$2" || return 1
  show events "$1" | python3 -c 'import json, sys
print(*[event["reason"] for event in json.load(sys.stdin) if event["event"] == "ike-failed"], sep="\n")' | grep -q "$2" || return 1
  grep -q "WARN.*charon's connection .* with 192\.0\.2\.[12]: .*$2" "$work/$1/convoy.log"
}
# refused NAME WORDS_OF_A WORDS_OF_B: A cannot initiate, and both sides say why.
refused() {
  load a; load b
  if ask a --initiate --child net --timeout 30 >"$work/a/up" 2>&1; then fail "$1: the tunnel is up"; fi
  wait_until "$1: a does not say '$2'" is_named a "$2"
  [ -z "$3" ] || wait_until "$1: b does not say '$3'" is_named b "$3"
  down a; down b
}
# is_up SIDE: and nothing is left of the failures.
is_up() { [ "$(show tunnel "$1" | python3 -c 'import json, sys
print([(row["state"], row["negotiation"]) for row in json.load(sys.stdin) if row["outbound"]["sas"]])')" = "[('up', None)]" ]; }

both $ike $esp
sed -i 's/a secret of the test/another secret/' "$work/b/swanctl.conf"
refused "a wrong pre-shared key" "the peer answered AUTHENTICATION_FAILED" "charon answered AUTHENTICATION_FAILED"
both aes256-sha512-ecp384 $esp
refused "IKE proposals" "NO_PROPOSAL_CHOSEN: no IKE proposal in common" "NO_PROPOSAL_CHOSEN: no IKE proposal in common"
both $ike aes256-sha512
refused "ESP proposals" "NO_PROPOSAL_CHOSEN: no ESP proposal in common" "NO_PROPOSAL_CHOSEN: no ESP proposal in common"
both $ike $esp
sed -i 's/remote_ts = 10\.1\.0\.0/remote_ts = 10.9.0.0/' "$work/b/swanctl.conf"
refused "networks" "TS_UNACCEPTABLE: the networks do not fit" "TS_UNACCEPTABLE: the networks do not fit"

both $ike $esp
load a; load b; up a
for side in a b; do wait_until "$side is not up without a fault" is_up $side; done
"$convoy" show tunnel site --control "$work/a/control.sock" >"$work/details"
grep -q '^  identity *b\.example$' "$work/details" && grep -q '^  keys by *x25519$' "$work/details" ||
  fail "not said who the peer is: $(cat "$work/details")"
ping_both
down a
wait_until "SAs that were ended are still there" eval '[ "$(sas a)$(sas b)" = 00 ]'

# A firewall of the peer's drops IKE.
ip netns exec $B nft 'add table inet wall; add chain inet wall in { type filter hook input priority -10; }; add rule inet wall in udp dport { 500, 4500 } drop'
refused "a peer that does not answer" "\(does not run IKE\|did not answer\)" ""
ip netns exec $B nft delete table inet wall
up a
wait_until "a is not up without a fault" is_up a
echo "refusals: a wrong key, two proposals, networks, a silent peer: named at both ends in show, explain, events and log, and gone once the tunnel is up"
