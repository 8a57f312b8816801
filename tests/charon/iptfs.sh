#!/usr/bin/env bash
# `mode = iptfs` negotiated by charon, of a strongSwan that has it: between two convoys, with a peer
# that does not agree to it, and with Linux and its own charon in a guest as the peer. Needs root.
# usage: iptfs.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1") A=convoy-iptfs-a-$$ B=convoy-iptfs-b-$$
cd "$(dirname "$0")/../.."
tests/iptfs/build.sh
tests/iptfs/strongswan.sh
STRONGSWAN_ROOT=$PWD/target/iptfs/strongswan/root plugin=$PWD/target/iptfs/strongswan/plugin/libstrongswan-convoy.so
source tests/charon/lib.sh
python=$PWD/target/test-venv/bin/python
export CHARON_OPTIONS="iptfs { init_delay = 5000 }"
both_ts=("10.1.0.0/24,fd00:1::/64" "10.2.0.0/24,fd00:2::/64")

cc -O1 -o "$work/burst" tests/iptfs/burst.c
start_side() { # side
  gateway_conf "$1" "\"192.0.2.$([ "$1" = a ] && echo 1 || echo 2)\""
  strongswan "$1" "$with_convoy"
  start_gateway "$1"
  start_charon "$1"
}
configure() { # side mode
  local ends=("${both_ts[@]}") hosts=(1 2)
  [ "$1" = a ] || { ends=("${both_ts[1]}" "${both_ts[0]}") hosts=(2 1); }
  LOCAL_TS=${ends[0]} REMOTE_TS=${ends[1]} connection "$1" "192.0.2.${hosts[0]}" "192.0.2.${hosts[1]}" "encap = yes" \
    $'esp_proposals = aes128gcm16\n    mode = '"$2"
  load "$1"
}
# bursts [LEAST]: in IP-TFS a packet of a burst leaves with others, and one of 8,000 bytes over
# several. All are answered, or, by an emulated Linux, which loses some, at least LEAST of 24; none
# comes twice or changed.
bursts() {
  local at words
  for at in "10.1.0.1 10.2.0.1" "fd00:1::1 fd00:2::1"; do
    read -r -a at <<<"$at"
    ip netns exec "$A" "$work/burst" "${at[@]}" 24 1,60,1300,8000 3000 >"$work/burst.log" && continue
    words=$(<"$work/burst.log")
    [[ $words =~ answered\ ([0-9]+)\ again\ 0\ late\ [0-9]+\ changed\ 0 ]] && [ "${BASH_REMATCH[1]}" -ge "${1:-24}" ] || fail "burst to ${at[1]}: $words"
  done
}
# as_expected SIDE MODE [LEAST]: the mode of all SAs; in IP-TFS, each had LEAST inner packets.
as_expected() {
  show sa "$1" | "$python" -c '
import json, sys
sas, mode = json.load(sys.stdin), sys.argv[1]
assert len(sas) == 2, f"{len(sas)} SAs"
for sa in sas:
    assert sa["mode"] == mode, sa
    assert not sum(sa["drops"].values()), sa
    if mode == "iptfs":
        counts = sa["iptfs"]
        assert 0 < sa["packets"] and counts["inner_packets"] >= int(sys.argv[2]), sa' "$2" "${3:-48}" || fail "SAs of $1 are not in $2 mode as they should be: $(show sa "$1")"
}
warned() { grep -q "uses tunnel mode instead of the configured iptfs mode" "$work/$1/convoy.log"; }

namespaces
start_side a
! grep -q "needs strongSwan 6.0.2" "$work/a/convoy.log" || fail "the gateway takes this strongSwan for one without IP-TFS"
start_side b
configure a iptfs; configure b iptfs
up a; bursts; as_expected a iptfs; as_expected b iptfs
! warned a || fail "a warning of a mode that is as configured"
passed "two convoys" "mode iptfs on both sides, bursts of 1 to 8,000 bytes, IPv4 and IPv6"
down a
wait_until "SAs that were ended are still there" test "$(sas a)$(sas b)" = 00

configure b tunnel
up a; bursts; as_expected a tunnel; as_expected b tunnel
wait_until "no warning that the mode is not the configured one" warned a
! warned b || fail "B has its configured mode, and warns"
passed "a peer without it" "tunnel mode, and a warning"
down a

# The guest takes B's place.
remove_namespace "$B"
ip -n "$A" link del va 2>/dev/null || true
ip -n "$A" tuntap add dev tap0 mode tap
ip -n "$A" addr add 192.0.2.1/24 dev tap0
ip -n "$A" link set tap0 up
mkdir "$work/guest"
TMPDIR=$work unshare --pid --fork --kill-child ip netns exec "$A" "$python" tests/iptfs/guest.py start "$work/guest" tap0 \
  target/iptfs/strongswan/guest.gz >"$work/guest/out" 2>&1 &
linux=$("$python" tests/charon/guest_peer.py "$work/guest") || fail "the guest does not start: $(tail -n 5 "$work/guest/console")"
up a; bursts 18; as_expected a iptfs 36
"$python" tests/iptfs/guest.py run "$work/guest" "ip -n b xfrm state" | contains "mode iptfs\|mode 5" || fail "the guest's SAs are not of IP-TFS"
passed "Linux $linux, its own charon" "mode iptfs on both sides, bursts of 1 to 8,000 bytes, IPv4 and IPv6"
