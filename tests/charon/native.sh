#!/usr/bin/env bash
# An unchanged swanctl.conf has charon negotiate native ESP, which a gateway whose only outside port
# is of kind `udp` cannot send: the SA is refused, charon and the gateway say why, and nothing seems
# to be up. With encap = yes the tunnel works. Needs root.
# usage: native.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2") A=convoy-native-a B=convoy-native-b
source "$(dirname "$0")/lib.sh"

declare -A charon
namespaces
for side in a b; do
  host=1; [ $side = a ] || host=2
  gateway_conf $side "\"192.0.2.$host\""
  strongswan $side "$with_convoy"
  start_gateway $side
  start_charon $side; charon[$side]=$charon_pid
done
connections() { # OPTIONS
  connection a 192.0.2.1 192.0.2.2 "$1" "esp_proposals = aes128gcm16"
  connection b 192.0.2.2 192.0.2.1 "$1" "esp_proposals = aes128gcm16"
  load a; load b
}
connections ""
if ask a --initiate --child net --timeout 20 >"$work/native" 2>&1; then fail "the tunnel seems to be up: $(cat "$work/native")"; fi
reason='native ESP and AH need an outside port of kind "raw", "af_packet" or "af_xdp", and there is none'
grep -q "an SA of charon's is refused: $reason; add one, or write encap = yes" "$work/b/convoy.log" || fail "the gateway does not say why"
grep -q "$reason" "$work/b/log" || fail "charon does not say why: $(tail -5 "$work/b/log")"
for side in a b; do [ "$(sas $side)" = 0 ] || fail "$side has SAs whose packets cannot leave"; done
down a; down b

connections "encap = yes"
up a
ping_both
# Without charon, explain says that, and not only that no policy selects a packet.
end_process "${charon[a]}"
without_charon() {
  ! "$convoy" explain 10.1.0.1 10.2.0.1 --control "$work/a/control.sock" >"$work/explained" || return 1
  grep -q 'charon is not connected' "$work/explained"
}
wait_until "explain does not miss charon" without_charon
echo "native ESP by a udp port: refused with what to do, and no SA; with encap = yes 36 pings answered"
