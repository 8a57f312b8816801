#!/usr/bin/env bash
# A convoy gateway keyed by charon with convoy's plugin, and a stock charon with kernel-libipsec as
# the peer, with a router between them that can be a NAT. Each case prints its figures; the first
# one that fails ends the run and prints the logs. Needs root.
# usage: stock.sh CONVOY PLUGIN [CASE...]    with DEVICE=crypto_aesni_mb0, or another of DPDK's crypto devices, that is the gateway's only engine
#
#   10.1.0.1 [A: convoy + charon] 192.0.2.1 --va-- .254 [R] .254 --vb-- 198.51.100.2 [B: charon]
#   10.2.0.1
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
A=convoy-stock-a B=convoy-stock-b R=convoy-stock-r
source "$here/lib.sh"
source "$here/router.sh"
a=192.0.2.1 b=198.51.100.2 out_of_a=192.0.2.254 out_of_b=198.51.100.254

begin=$SECONDS
say() { echo "ok: $* ($((SECONDS - begin)) s)"; }
# tunnel ROLE CONNECTION_OPTIONS CHILD_OPTIONS_A [CHILD_OPTIONS_B]: configures both ends, and has
# the one with this role initiate.
tunnel() {
  local initiator=$1
  configure "$2" "$3" "${4:-$3}"
  up "$initiator"
  wait_until "no pair of SAs at the gateway" pair
}
configure() { describe "$@"; load a; load b; }
describe() {
  connection a $a "${TO_B:-$b}" "encap = yes
    $1" "$2" "${AUTH_A:-}" "${AUTH_REMOTE:-}"
  connection b $b "${TO_A:-$a}" "encap = yes
    ${OPTIONS_B-$1}" "$3" "${AUTH_B:-}" "${AUTH_REMOTE:-}"
}
pair() { [ "$(sas)" = 2 ]; }
none() { [ "$(sas)" = 0 ]; }
end() {
  ask "${1:-a}" --terminate --ike site >/dev/null 2>&1 || true
  wait_until "the gateway keeps SAs of a tunnel that ended" none
}
transform() { show sa | sed -n 's/.*"transform": "\(.*\)".*/\1/p' | sort -u; }
expect_transform() { [ "$(transform)" = "$1" ] || fail "$(transform) instead of $1"; }
# drops REASON: value of the gateway's drop counter.
drops() { show stats | python3 -c 'import json, sys; print(json.load(sys.stdin)["drops"].get(sys.argv[1], 0))' "$1"; }
# traffic COUNT: pings of A, 100 per second, in the background; traffic_ends sets $count to the
# number of replies.
traffic() { ip netns exec $A ping -c "$1" -i 0.01 -w "$PATIENCE" -I 10.1.0.1 10.2.0.1 >"$work/traffic" 2>&1 & traffic_pid=$! traffic_count=$1; }
answered() { awk '/transmitted/ { print $4 " of " $1 }' "$1"; }
traffic_ends() { wait "$traffic_pid" || true; count=$(answered "$work/traffic"); }
expect_all() { traffic_ends; none_lost "$work/traffic" "$traffic_count" || fail "$1: $count pings answered"; }
child() { ask "$1" --list-sas --raw | grep -o 'uniqueid=[0-9]*' | tail -n 1; }
spis() { show sa | grep -o '"spi": [0-9]*' | sort; }
one_child() { local side; for side in a b; do [ "$(ask $side --list-sas | grep -c 'net: #')" = 1 ] || return 1; done; }
ike_spis() { ask "$1" --list-sas --raw | grep -o 'initiator-spi=[0-9a-f]*' | sort -u; }

proposal() { # PROPOSAL
  for role in a b; do
    tunnel $role "" "esp_proposals = $1"
    expect_transform "$1"
    ping_both
    end $role
  done
  say "$1: both roles, 36 of 36 pings"
}
authentication() { # KIND
  AUTH_A="auth = pubkey
    certs = a-$1.pem" AUTH_B="auth = pubkey
    certs = b-$1.pem" AUTH_REMOTE="auth = pubkey
    cacerts = ca-$1.pem"
  for role in a b; do
    tunnel $role "" "esp_proposals = aes128gcm16"
    ask a --list-sas >"$work/sas"
    ping_both
    end $role
  done
  grep -q "authentication of 'b.example' with $2.* successful" "$work/a/log" || fail "the peer was not authenticated by $2"
  AUTH_A="" AUTH_B="" AUTH_REMOTE=""
  say "certificates, $1: both roles, 36 of 36 pings"
}
ctr_is_preferred() {
  # The responder chooses, so the order in the gateway's swanctl.conf decides even if the peer would
  # prefer GCM.
  tunnel b "" "esp_proposals = aes128ctr-sha256,aes128gcm16" "esp_proposals = aes128gcm16,aes128ctr-sha256"
  expect_transform aes128ctr-sha256
  ping_both
  end
  tunnel a "" "esp_proposals = aes256ctr-sha256,aes128gcm16" "esp_proposals = aes256ctr-sha256,aes128gcm16"
  expect_transform aes256ctr-sha256
  ping_both
  end
  say "AES-CTR preferred by swanctl.conf and chosen: aes128ctr-sha256 as responder, aes256ctr-sha256 as initiator, 36 of 36 pings"
}
convoy_behind_nat() { # MOBIKE
  nat vb
  TO_A=%any OPTIONS_B="mobike = $1" tunnel a "mobike = $1
    dpd_delay = 2s" "esp_proposals = aes128gcm16"
  ask b --list-sas | contains "remote 'a.example' @ $out_of_b\[[23][0-9]*\]" || fail "the peer sees no NAT: $(ask b --list-sas)"
  ping_both
  say "NAT, convoy behind it, mobike = $1: 18 of 18 pings"
  # libipsec does not check where ESP comes from. Without MOBIKE, the peer follows with the next IKE
  # message, here DPD's. With MOBIKE, only an update moves the peer, which charon on A sends once a
  # reply to DPD shows another mapping than the previous one.
  first_dpd() { grep -q "parsed INFORMATIONAL response 2" <(tail -n 8 "$work/a/log"); }
  [ "$1" = no ] || wait_until "no DPD" first_dpd
  rebind vb
  local start
  start=$(date +%s%N)
  wait_until "the peer does not follow a NAT that rebound" ip netns exec $A ping -q -c 1 -W 0.2 -I 10.1.0.1 10.2.0.1
  local took=$((($(date +%s%N) - start) / 1000000))
  ask b --list-sas | contains "@ $out_of_b\[3" || fail "the NAT did not rebind"
  ping_both
  end
  no_nat
  say "NAT rebinding, convoy behind it, mobike = $1: traffic back after $took ms, 18 of 18 pings"
}
peer_behind_nat() {
  nat va
  TO_B=%any tunnel b "" "esp_proposals = aes128gcm16"
  ask a --list-sas | contains "remote 'b.example' @ $out_of_a\[[23][0-9]*\]" || fail "the gateway sees no NAT: $(ask a --list-sas)"
  show sa | contains "$out_of_a" || fail "the SAs do not name the NAT"
  ping_both
  say "NAT, the peer behind it: 18 of 18 pings"
  rebind va
  ip netns exec $B ping -q -c 200 -i 0.02 -W 2 -I 10.2.0.1 10.1.0.1 >"$work/ping" || true
  count=$(answered "$work/ping")
  # The only case in which loss is expected: charon learns the new ports and updates the gateway's
  # SAs. Until then, replies go to the old ports, which the NAT has forgotten.
  [ "${count% of *}" -ge 50 ] || fail "the gateway does not follow a NAT that rebound: $count pings answered"
  wait_until "charon was not notified of the NAT's mapping" grep -q "NAT mappings of CHILD_SA" "$work/a/log"
  ping_both
  end
  no_nat
  say "NAT rebinding, the peer behind it: $count pings at once, then 18 of 18"
}
ike_rekey() {
  tunnel a "" "esp_proposals = aes128gcm16"
  traffic 300
  local before side after
  after=$(spis)
  for side in a b; do
    before=$(ike_spis a)
    ask $side --rekey --ike site >/dev/null
    other_ike_sa() { local now; now=$(ike_spis a); [ "$now" != "$before" ] && [ "$(echo "$now" | wc -l)" = 1 ]; }
    wait_until "no new IKE SA" other_ike_sa
  done
  expect_all "IKE rekeyed"
  [ "$(spis)" = "$after" ] || fail "an IKE rekey changed the CHILD_SA"
  say "IKE rekey by each side: $count pings at 100/s"
  end
}
child_rekey() { # NAME PROPOSAL
  tunnel a "" "esp_proposals = $2"
  traffic 500
  local before side
  for side in a b a; do
    # While an old CHILD_SA is being deleted, charon may apply the request to that one.
    wait_until "a CHILD_SA that was replaced stays" one_child
    before=$(spis)
    ask $side --rekey --child net >/dev/null
    new_sas() { pair && [ "$(comm -12 <(spis) <(echo "$before") | wc -l)" = 0 ]; }
    wait_until "the CHILD_SA is not rekeyed" new_sas
  done
  expect_all "CHILD rekeyed"
  case $2 in *-*) ask a --list-sas | contains ECP_256 || fail "no PFS";; esac
  end
  say "CHILD rekey ${1/-/ }, 3 times: $count pings at 100/s"
}
acquire_by_traffic() {
  configure "" "esp_proposals = aes128gcm16
    start_action = trap" "esp_proposals = aes128gcm16"
  pings_from $A 3 -I 10.1.0.1 10.2.0.1 || fail "acquire: not all answered, or none: $(cat "$work/ping")"
  end
  configure "" "esp_proposals = aes128gcm16" "esp_proposals = aes128gcm16"
  say "acquire by traffic: $(answered "$work/ping") pings at once, answered after $(sed -n 's#^rtt .* = \([0-9.]*\)/.*#\1#p' "$work/ping") ms"
}
peer_killed() {
  tunnel a "dpd_delay = 1s" "esp_proposals = aes128gcm16"
  ping_both
  local start dropped clear
  clear=$(in_clear) start=$(date +%s%N)
  kill_and_wait "$peer_pid"
  wait_until "SAs of a dead peer stay" none
  show policy | contains '"protect"' && fail "policies of a dead peer stay"
  local took=$((($(date +%s%N) - start) / 1000000))
  dropped=$(drops outbound_no_policy)
  ip netns exec $A ping -q -c 20 -i 0.01 -W 1 -I 10.1.0.1 10.2.0.1 >/dev/null && fail "answers from a dead peer"
  [ "$(in_clear)" = "$clear" ] || fail "traffic left in clear"
  all_dropped() { [ $(($(drops outbound_no_policy) - dropped)) -ge 20 ]; }
  wait_until "traffic without a policy is not counted" all_dropped
  dropped=$(($(drops outbound_no_policy) - dropped))
  say "DPD, peer killed: SAs and policies gone after $took ms, then 20 pings: $dropped dropped, 0 in clear"
  start_peer
}
wrong_key() {
  local role
  for role in a b; do
    connection a $a $b "encap = yes" "esp_proposals = aes128gcm16"
    SECRET="another secret" connection b $b $a "encap = yes" "esp_proposals = aes128gcm16"
    load a; load b
    if ask $role --initiate --child net >"$work/up" 2>&1; then fail "a tunnel with a wrong PSK"; fi
    none || fail "SAs with a wrong PSK"
  done
  grep -q "received AUTHENTICATION_FAILED notify error" "$work/a/log" || fail "no word of the refusal"
  local line
  line=$(grep -o "tried .* shared key.* but MAC mismatched" "$work/a/log" | tail -n 1) || fail "no word of the wrong PSK"
  say "hostile, wrong PSK: no SA in both roles; the log says \"$line\""
}
malformed_ike() {
  tunnel a "" "esp_proposals = aes128gcm16"
  local sent refused dropped
  refused=$(refusals) dropped=$(drops unknown_spi)
  sent=$(ip netns exec $B python3 "$here/hostile.py" ike $a)
  wait_until "malformed IKE is not refused" more_than "$refused" refusals
  dropped=$(($(drops unknown_spi) - dropped)) refused=$(($(refusals) - refused))
  [ "$dropped" -gt 0 ] || fail "what is no IKE on 4500 is not counted"
  alive "malformed IKE"
  end
  say "hostile, $sent: charon's log refuses $refused, the gateway counts $dropped that had no marker of IKE, 18 of 18 pings"
}
unknown_spis() {
  tunnel a "" "esp_proposals = aes128gcm16"
  local before after sent memory
  before=$(drops unknown_spi) memory=$(resident)
  traffic 200
  sent=$(ip netns exec $B python3 "$here/hostile.py" esp $a)
  traffic_ends
  after=$(drops unknown_spi)
  [ "$after" -gt "$before" ] || fail "unknown SPIs are not counted"
  alive "ESP with unknown SPIs"
  end
  say "hostile, $sent: $((after - before)) counted, $count pings meanwhile, 18 of 18 after it; memory $memory to $(resident) KiB"
}
refusals() { grep -cE "invalid IKE header|unsupported IKE version|message parsing failed|processing failed" "$work/a/log" || true; }
more_than() { [ "$("$2")" -gt "$1" ]; }
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$gateway_pid/status"; }
alive() { kill -0 "$gateway_pid" 2>/dev/null || fail "the gateway died of $1"; pair || fail "the SAs went with $1"; ping_both; }

start_peer() {
  start_charon b; peer_pid=$charon_pid
  load b
}

routed
certificates rsa ecdsa
REMOTE=$b gateway_conf a "\"$a\""
start_gateway a
export RETRIES=2 CHARON_OPTIONS="delete_rekeyed_delay = 1"
strongswan a "$with_convoy"; strongswan b "$stock"
describe "" "" ""
start_charon a; load a; start_peer
cases=("proposal aes128gcm16" "proposal aes256gcm16" "proposal aes128-sha256" "proposal aes256-sha512" "proposal chacha20poly1305"
  "authentication rsa RSA" "authentication ecdsa ECDSA" ctr_is_preferred "convoy_behind_nat no" "convoy_behind_nat yes" peer_behind_nat ike_rekey
  "child_rekey without-PFS aes128gcm16" "child_rekey with-PFS aes128gcm16-ecp256" acquire_by_traffic peer_killed
  wrong_key malformed_ike unknown_spis)
[ $# -le 2 ] || cases=("${@:3}")
for case in "${cases[@]}"; do $case; done
[ -z "${DEVICE:-}" ] || show engine | python3 -c 'import json, sys
sys.exit(any(e["kind"] != "cryptodev" or e["packets"] == 0 or e["failures"] for e in json.load(sys.stdin)))' ||
  fail "not all was done by $DEVICE: $(show engine)"
echo "stock $("${CHARON:-/usr/lib/ipsec/charon}" --version | head -n 1): ${#cases[@]} of ${#cases[@]} cases passed${DEVICE:+ by $DEVICE} in $((SECONDS - begin)) s"
