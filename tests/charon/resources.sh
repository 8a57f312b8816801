#!/usr/bin/env bash
# SAs of several workers by charon (RFC 9611, `per_cpu_sas = encap`), of a strongSwan that has them:
# between two convoys with two workers each, and with Linux and its per-CPU SAs in a guest as the
# peer. Needs root.
# usage: resources.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1") A=convoy-cpus-a-$$ B=convoy-cpus-b-$$
cd "$(dirname "$0")/../.."
tests/iptfs/build.sh
tests/iptfs/strongswan.sh
STRONGSWAN_ROOT=$PWD/target/iptfs/strongswan/root plugin=$PWD/target/iptfs/strongswan/plugin/libstrongswan-convoy.so
source tests/charon/lib.sh
python=$PWD/target/test-venv/bin/python
both_ts=("10.1.0.0/24,fd00:1::/64" "10.2.0.0/24,fd00:2::/64")

start_side() { # side
  gateway_conf "$1" "\"192.0.2.$([ "$1" = a ] && echo 1 || echo 2)\""
  sed -i 's/^\[gateway\]/&\nworkers = 2/' "$work/$1/gateway.toml"
  strongswan "$1" "$with_convoy"
  start_gateway "$1"
  start_charon "$1"
}
configure() { # side
  local ends=("${both_ts[@]}") hosts=(1 2)
  [ "$1" = a ] || { ends=("${both_ts[1]}" "${both_ts[0]}") hosts=(2 1); }
  LOCAL_TS=${ends[0]} REMOTE_TS=${ends[1]} connection "$1" "192.0.2.${hosts[0]}" "192.0.2.${hosts[1]}" "encap = yes" \
    $'esp_proposals = aes128gcm16\n    per_cpu_sas = encap\n    start_action = trap'
  load "$1"
}
# Flows of new UDP ports, so that the kernel deals them to the TUN device's queues again.
flows() { # [packets]
  ip netns exec "$A" "$python" tests/charon/udp_flows.py send 10.1.0.1 10.2.0.1 16 "${1:-40}" >"$work/flows" ||
    fail "of the UDP flows through the tunnel, $(cat "$work/flows")"
}
# What each SA of a side has carried, and what is wrong with it.
sas_are() { # side what
  show sa "$1" >"$work/sas" && "$python" - "$work/sas" "$2" <<'CHECK'
import json, sys
sas = json.load(open(sys.argv[1]))
for direction in ("outbound", "inbound"):
    found = [sa for sa in sas if sa["direction"] == direction]
    assert len(found) >= 2, f"{len(found)} {direction} SAs"
    # A worker may have several: two ends ask for one at the same time.
    for worker in (0, 1):
        own = [sa for sa in found if sa["worker"] == worker]
        assert own, f"worker {worker} has no {direction} SA"
        carried = sum(sa["packets"] for sa in own)
        assert sys.argv[2] != "used" or carried > 100, f"worker {worker}: {carried} packets {direction}"
    # The two that the peer uses may be of one worker, if A has asked for an SA of it meanwhile.
    carrying = [sa for sa in found if sa["packets"] > 100]
    assert sys.argv[2] != "received" or direction == "outbound" or len(carrying) >= 2, f"{len(carrying)} SAs carry packets {direction}"
assert not any(sum(sa["drops"].values()) for sa in sas), sas
CHECK
}
handed_over() { show stats "$1" | "$python" -c 'import json, sys; print(json.load(sys.stdin)["handed_over"])'; }
spread() { # side: sends until both workers have SAs
  flows 4
  sas_are "$1" there
}
spis() { show sa "$1" | "$python" -c 'import json, sys; print(*sorted(sa["spi"] for sa in json.load(sys.stdin) if sa["direction"] == "inbound"))'; }

namespaces
start_side a; start_side b
configure a; configure b
ip netns exec "$B" "$python" tests/charon/udp_flows.py echo 10.2.0.1 >"$work/echo" &
wait_until "the echo server does not start" grep -q listening "$work/echo"
flows 4
wait_until "the workers of A have no SAs of their own" spread a
wait_until "the workers of B have no SAs of their own" spread b

start_capture outside "$A" va udp
before="$(handed_over a) $(handed_over b)"
for _ in 1 2 3; do flows; done
after="$(handed_over a) $(handed_over b)"
for side in a b; do sas_are $side used || fail "the SAs of $side have not shared the packets: $(cat "$work/sas")"; done
[ "$before" = "$after" ] || fail "packets changed their worker: $before before and $after after"
end_capture outside
ports=$(tshark -r "$work/outside.pcap" -Y esp -T fields -e udp.srcport -e udp.dstport 2>/dev/null | sort -u | tr '\t\n' '> ')
[ "$ports" = "4501>4500 4502>4500 " ] || fail "ESP packets went by the UDP ports $ports"
passed "two convoys" "both workers of each have SAs of their own; ESP by UDP $ports; none handed over"

old=$(spis a)
ask a --rekey --child net >"$work/rekey" 2>&1 || fail "no rekeying: $(cat "$work/rekey")"
replaced() {
  local spi
  flows 4
  for spi in $old; do [[ " $(spis a) " != *" $spi "* ]] || return 1; done
}
wait_until "the SAs are not replaced" replaced
for side in a b; do sas_are $side there || fail "not all workers of $side have SAs after they were rekeyed: $(cat "$work/sas")"; done
passed "rekeyed" "every SA replaced, at the same workers, without a loss"
down a

# The guest takes B's place, with two CPUs.
remove_namespace "$B"
ip -n "$A" link del va 2>/dev/null || true
ip -n "$A" tuntap add dev tap0 mode tap
ip -n "$A" addr add 192.0.2.1/24 dev tap0
ip -n "$A" link set tap0 up
mkdir "$work/guest"
GUEST_CPUS=2 TMPDIR=$work unshare --pid --fork --kill-child ip netns exec "$A" "$python" tests/iptfs/guest.py start "$work/guest" tap0 \
  target/iptfs/strongswan/guest.gz >"$work/guest/out" 2>&1 &
linux=$("$python" tests/charon/guest_peer.py "$work/guest" $'per_cpu_sas = encap\n    start_action = trap') ||
  fail "the guest does not start: $(tail -n 5 "$work/guest/console")"
guest() { "$python" tests/iptfs/guest.py run "$work/guest" "$1"; }
# Its CPUs send in turn, so that the kernel asks for an SA of each, unless A has.
# shellcheck disable=SC2120 # packets, 200 by default
guest_flows() { guest "set -e; for cpu in 0 1; do ip netns exec b taskset -c \$cpu burst 10.2.0.1 10.1.0.1 ${1:-200} 60-200 5000 2000; done" >"$work/burst" 2>&1; }
# Linux drops what comes before the first SA, and the responder sends by a further one before the
# initiator has it: some of these packets are lost.
has_each() { # whether there is an SA of each CPU, no matter who asked for it
  local shown; shown=$(guest "ip netns exec b unshare -m sh /tmp/b/start swanctl --list-sas --raw")
  [[ $shown == *cpu=0* && $shown == *cpu=1* ]]
}
used() { guest "ip -n b xfrm state" | "$python" -c '
import re, sys
used = [int(number, 16) for number in re.findall(r"oseq (0x[0-9a-f]+)", sys.stdin.read())]
sys.exit(sum(number > 100 for number in used) < 2)'; }
# charon overlooks an acquire that comes while it handles another one, and until that expires Linux
# drops the packets of its CPU. charon has made that 165 s.
guest "echo 2 >/proc/sys/net/core/xfrm_acq_expires; ip netns exec b sh -c 'echo 2 >/proc/sys/net/core/xfrm_acq_expires'"
# tried HOW_OFTEN COMMAND...: sends before each time.
tried() {
  local often=$1; shift
  for _ in $(seq "$often"); do
    ! { guest_flows && "$@"; } || return 0
    sleep 1
  done
  return 1
}
tried 12 has_each || fail "the kernel has no SA of each CPU: $(cat "$work/burst")"
tried 6 used || fail "the kernel has not sent by an SA of each CPU: $(cat "$work/burst"; guest "ip -n b xfrm state" | grep -v aead)"
sas_are a received || fail "the SAs of A have not shared the packets of the kernel's CPUs: $(cat "$work/sas")"
passed "Linux $linux, its own charon" "an SA of each of the kernel's CPUs, and of each worker of A"
