#!/usr/bin/env bash
# IKE by a card that encrypts inline: charon's messages and what its SAs protect share the card's
# port, and the card has all of the SAs. Two convoys with cards, native ESP and ESP in UDP, with
# AES-GCM, 3DES and the unrolled AES-GCM; then strongSwan with its own ESP as the peer of one; then
# a router between two, which is also a NAT that forgets its mappings. SAs and the IKE SA are
# rekeyed during pings. Needs root and a convoy with the card.
# usage: card.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
IN_LAB=1 A=convoy-card-a B=convoy-card-b R=convoy-card-r
source "$here/lib.sh"
source "$here/router.sh"
# A simulated card on a busy machine takes seconds to answer; IKE must not give up by then.
RETRANSMIT_S=5
# The addresses of the gateways outside.
at_a=192.0.2.1 at_b=192.0.2.2

# outside DEVICE ADDRESS [FUNCTION]: the keys of a card's port, whose network has a router, and an
# engine that has nothing to do.
outside() {
  printf 'kind = "card"\ninterface = "%s"\naddress = ["%s/24"]\ngateway = "%s.254"\n' "$1" "$2" "${2%.*}"
  [ -z "${3:-}" ] || printf 'function = "%s"\n' "$3"
  printf '[[engine]]\nkind = "software"\n'
}
# The card's interface has no address of the kernel's.
bare() { # namespace device
  ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=1"
  ip -n "$1" addr flush dev "$2"
}
start_side() { # side plugins [function]
  local own=$at_a peer=$at_b
  [ "$1" = a ] || { own=$at_b peer=$at_a; }
  if [ "$2" = "$with_convoy" ]; then
    OUTSIDE=$(outside "v$1" "$own" "${3:-}") REMOTE=$peer gateway_conf "$1" "\"$own\""
    sed -i 's/^\[gateway\]/&\nallow_weak = true/' "$work/$1/gateway.toml" # 3DES
    start_gateway "$1"
    running+=("$gateway_pid")
  fi
  strongswan "$1" "$2"
  start_charon "$1"
  running+=("$charon_pid")
}
stop_both() { end_process "${running[@]}"; running=(); }
both_ends() { # connection options, child options
  connection a $at_a $at_b "mobike = no
  $1" "$2"
  connection b $at_b ${TO_A:-$at_a} "mobike = no
  $1" "$2"
  load a; load b
}
# on_card SIDE ENCAP TRANSFORM: all SAs are, of which none dropped anything, and no engine had work.
on_card() {
  show sa "$1" >"$work/sas"
  show stats "$1" >"$work/stats"
  python3 - "$work/sas" "$work/stats" "$2" "$3" <<'END' || fail "not all of $1 is the card's: $(cat "$work/sas")"
import json, sys
sas, stats = (json.load(open(path)) for path in sys.argv[1:3])
asked = dict(inline_by="outside", encap=sys.argv[3], transform=sys.argv[4])
for sa in sas:
    for key, value in asked.items():
        if sa[key] != value:
            sys.exit(f"{key} of the SA {sa['spi']:#x} is {sa[key]!r}")
    if sum(sa["drops"].values()):
        sys.exit(f"the SA {sa['spi']:#x} has dropped packets: {sa['drops']}")
software = sum(engine["packets"] for engine in stats["engines"] if engine["kind"] == "software")
if len(sas) < 2 or software:
    sys.exit(f"{len(sas)} SAs, and {software} packets by the software")
END
}
# device SIDE COUNTER: of the card.
device() {
  show stats "$1" | python3 -c 'import json, sys
ports = json.load(sys.stdin)["ports"]
print(next(port["device"] for port in ports if port["kind"] == "card")[sys.argv[1]])' "$2"
}
spis() { show sa "$1" | grep -o '"spi": [0-9]*' | sort; }
# replaced SIDE BEFORE: it has two SAs that were not there before. Charon keeps the old inbound one
# for some seconds.
replaced() { [ "$(spis "$1" | grep -cvxF "$2")" = 2 ]; }
ike_spis() { ask a --list-sas --raw | grep -o 'initiator-spi=[0-9a-f]*' | sort -u; }
other_ike_spis() { [ "$(ike_spis)" != "$before" ]; }
no_sas() { [ "$(sas a)" = 0 ]; }
end_tunnel() { down a; wait_until "SAs that were ended are still there" no_sas; }
# rekeyed_under_traffic SIDES: pings both ways, during which each side replaces the SAs, and the
# first one the IKE SA.
rekeyed_under_traffic() {
  local side before one tries=()
  ip netns exec "$A" ping -i 0.08 -s 600 -I 10.1.0.1 10.2.0.1 >"$work/long-a" 2>&1 & tries+=("$!")
  ip netns exec "$B" ping -i 0.08 -s 600 -I 10.2.0.1 10.1.0.1 >"$work/long-b" 2>&1 & tries+=("$!")
  for side in $1; do
    before=$(spis a)
    ask "$side" --rekey --child net >"$work/rekey" 2>&1 || fail "$side cannot rekey: $(cat "$work/rekey")"
    wait_until "a has not replaced its SAs" replaced a "$before"
  done
  before=$(ike_spis)
  ask a --rekey --ike site >"$work/rekey" 2>&1 || fail "the IKE SA is not rekeyed: $(cat "$work/rekey")"
  wait_until "the IKE SA is the same" other_ike_spis
  all_pinged() { none_lost "$work/long-a" 160 && none_lost "$work/long-b" 160; }
  wait_until "not 160 pings of each side were answered, or some were lost" all_pinged
  kill -INT "${tries[@]}"
  for one in "${tries[@]}"; do wait "$one" || true; done
}
# tunnel SIDES ENCAP PROPOSAL: sets it up, rekeys it by each end, ends it. SIDES are those with a
# card, each of which has all of it.
tunnel() {
  local options="encap = no" side counter; [ "$2" = none ] || options="encap = yes"
  declare -A before=()
  for side in $1; do for counter in encrypted decrypted; do before[$side$counter]=$(device "$side" $counter); done; done
  both_ends "$options" "esp_proposals = $3"
  up a
  ping_both
  rekeyed_under_traffic "a b"
  ping_both
  for side in $1; do
    on_card "$side" "$2" "$3"
    for counter in encrypted decrypted; do
      count=$(($(device "$side" $counter) - ${before[$side$counter]}))
      [ "$count" -ge 356 ] || fail "the card of $side has $counter $count of 356 packets"
    done
  done
  end_tunnel
}

running=()
for function in "" 3des-sha1 aes128gcm16-unrolled; do
  proposal=${function%-unrolled} proposal=${proposal:-aes128gcm16}
  namespaces; bare "$A" va; bare "$B" vb
  start_side a "$with_convoy" "$function"
  start_side b "$with_convoy" "$function"
  for encap in none udp; do
    tunnel "a b" $encap "$proposal"
    echo "two cards, ${function:-$proposal}, encap $encap: SAs and IKE SA rekeyed, 356 packets each way by the cards, none lost"
  done
  stop_both
done

namespaces; bare "$A" va
ip -n "$B" addr add 10.2.0.1/24 dev lo
start_side a "$with_convoy"
start_side b "$stock"
tunnel a udp aes128gcm16
echo "a card and strongSwan's own ESP, aes128gcm16, encap udp: likewise"
stop_both

at_b=198.51.100.2
routed; bare "$A" va; bare "$B" vb
# The kernel gives up a neighbour after three seconds, which a simulated card on a busy machine may
# take to answer.
for one in va vb; do ip netns exec "$R" sysctl -qw "net.ipv4.neigh.$one.ucast_solicit=30" "net.ipv4.neigh.$one.mcast_solicit=30"; done
ip -n "$B" addr flush dev lo scope global
start_side a "$with_convoy"
start_side b "$with_convoy"
tunnel "a b" none aes128gcm16
echo "two cards with a router between, encap none: likewise"
nat vb
TO_A=%any
tunnel "a b" udp aes128gcm16
both_ends "" "esp_proposals = aes128gcm16"
up a
ping_both
rebind vb
wait_until "b does not follow the NAT's new mapping" ip netns exec "$A" ping -q -c 1 -W 0.2 -I 10.1.0.1 10.2.0.1
ping_both
for side in a b; do on_card "$side" udp aes128gcm16; done
[ "$(in_clear)" = 0 ] || fail "the router has seen $(in_clear) packets in clear"
echo "and the router a NAT, encap udp: likewise, and the tunnel goes on when the NAT forgets its mapping"
stop_both
