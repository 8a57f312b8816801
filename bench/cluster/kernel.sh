#!/usr/bin/env bash
# The Linux kernel as the peer of a cluster of two gateways: the leader is killed, then the next one
# is stopped, with packets both ways all the while. The kernel, which drops what its replay window
# refuses, is the judge. It runs in user-mode-linux, as this machine's may lack ESP; see
# tests/kernel.sh. Needs root.
# usage: kernel.sh CONVOY
# Optional variable: RATE (1000 packets/s each way).
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/../.."
rate=${RATE:-1000}
source tests/cluster/lib.sh
save_logs() { [ -z "${LOGS:-}" ] || cp "$work"/console "$work"/*.log "$LOGS" 2>/dev/null; }
at_exit save_logs

# The guest is in place of the peer: its TAP device is at the bridge outside.
peer() {
  # User-mode Linux sometimes finds a packet only with the next one, so there is always one.
  ip -n cl-peer addr del 192.0.2.2/24 dev wan
  ip -n cl-peer addr add 192.0.2.3/24 dev wan
  ip -n cl-switch tuntap add dev guest mode tap vnet_hdr
  ip -n cl-switch link set guest master wan up
  base=target/kernel-peer.gz
  tests/kernel/build.sh $base
  local files=$work/guest
  mkdir -p "$files/bin" "$files/cases"
  cc -O2 -Wall -Wextra -Werror -static -pthread -o "$files/bin/traffic" bench/cluster/traffic.c
  local to_guest to_cluster
  to_guest=$(sed -n 's/^key_out = "\(.*\)"/\1/p' "$work/g1.toml")
  to_cluster=$(sed -n 's/^key_in = "\(.*\)"/\1/p' "$work/g1.toml")
  local algorithm="rfc4106(gcm(aes))"
  cat >"$files/cases/batch" <<BATCH
link set lo up
addr add 10.2.0.1/32 dev lo
addr add 192.0.2.2/24 dev vec0
link set vec0 up
route add 10.1.0.0/24 via 192.0.2.10 src 10.2.0.1
xfrm state add src 192.0.2.10 dst 192.0.2.2 proto esp spi 0x200001 mode tunnel replay-window 64 aead $algorithm 0x$to_guest 128 encap espinudp 4500 4500 0.0.0.0
xfrm state add src 192.0.2.2 dst 192.0.2.10 proto esp spi 0x100001 mode tunnel replay-window 64 aead $algorithm 0x$to_cluster 128 encap espinudp 4500 4500 0.0.0.0
xfrm policy add src 10.1.0.0/24 dst 10.2.0.1/32 dir in tmpl src 192.0.2.10 dst 192.0.2.2 proto esp mode tunnel
xfrm policy add src 10.2.0.1/32 dst 10.1.0.0/24 dir out tmpl src 192.0.2.2 dst 192.0.2.10 proto esp mode tunnel
BATCH
  # In place of the guest's init of tests/kernel.sh.
  cat >"$files/init" <<INIT
#!/bin/sh
export PATH=/bin:/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys
for module in xfrm_user esp4 seqiv; do modprobe \$module; done
echo "PEER Linux \$(uname -r)"
/bin/ip -batch /cases/batch
espinudp &
echo BEGINS
traffic udp 10.2.0.1 10.1.0.100 1 0 $rate >/tmp/json & traffic=\$!
busybox nc -l -p 9 >/dev/null
kill -INT \$traffic
wait \$traffic
echo "JSON \$(cat /tmp/json)"
/bin/ip -s xfrm state | grep -E 'spi|replay-window|failed|replay|stats'
[ -e /proc/net/xfrm_stat ] || echo "COUNTER no-xfrm_stat 1"
grep -v '[^0-9]0\$' /proc/net/xfrm_stat | while read -r counter; do echo "COUNTER \$counter"; done
echo DONE
while :; do sleep 3600; done
INIT
  chmod 755 "$files/init"
  (cd "$files" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/cases.gz"
  cat $base "$work/cases.gz" >"$work/initrd.gz"
  TMPDIR=$work unshare --pid --mount-proc --kill-child ip netns exec cl-switch \
    tests/kernel/uml.sh mem=256M uml_dir="$work/uml/" umid=peer initrd="$work/initrd.gz" \
    vec0:transport=tap,ifname=guest,depth=128,gro=1 con=null con0=null,fd:1 root=/dev/ram rdinit=/init quiet \
    >"$work/console" 2>&1 &
  wait_until "the guest does not start" grep -q BEGINS "$work/console"
  start ticks.log cl-peer ping -q -i 0.05 192.0.2.2
}
capture() { start_capture outside cl-switch guest -s 64 src 192.0.2.10 and udp port 4500; }
cc -O2 -Wall -Wextra -Werror -pthread -o "$work/traffic" bench/cluster/traffic.c
cluster
ip netns exec cl-host "$work/traffic" udp 10.1.0.100 10.2.0.1 1 0 "$rate" >"$work/host.json" & host=$!
sleep 3
killed=$EPOCHREALTIME
kill_and_wait "${gateways[1]}"
wait_until "g2 does not lead" leads 2
sleep 5
gateway 1
wait_until "g1 does not come back" ready 1 2
sleep 1
stopped=$EPOCHREALTIME
kill "${gateways[2]}"
wait_until "g1 does not lead" leads 1
sleep 5
kill -INT $host
wait $host
# The guest's traffic ends with a connection to its port 9.
wait_until "the guest does not hear" ip netns exec cl-host timeout 5 bash -c 'echo >/dev/tcp/10.2.0.1/9'
wait_until "the guest does not end" grep -q DONE "$work/console"
sed -n 's/^PEER //p; s/^COUNTER //p' "$work/console" | tr -d '\r'
no_doubles
python3 - "$work" "$killed" "$stopped" <<'PY'
import json, re, sys
folder, *times = sys.argv[1:]
text = open(f"{folder}/console", errors="replace").read()
ends = {"host": json.load(open(f"{folder}/host.json")), "Linux": json.loads(re.search(r"JSON (.*)", text)[1])}
for what, since in zip(("killed", "stopped"), map(float, times)):
    gaps = {end: max((b - a for a, b in of["silences"] if since < b < since + 5), default=0) for end, of in ends.items()}
    print(f"the leader is {what}: without packets at the host for {gaps['host']:.3f} s, at Linux for {gaps['Linux']:.3f} s")
for end, of in ends.items():
    print(f"{end}: {of['sent']} sent, {of['received']} received, {of['twice']} twice")
counters = dict(line.split()[1:] for line in re.findall(r"COUNTER .*", text))
wrong = {name: count for name, count in counters.items() if name in ("XfrmInStateSeqError", "XfrmInStateProtoError", "XfrmInNoStates", "no-xfrm_stat")}
refused = sum(int(number) for found in re.findall(r"replay-window (\d+) replay (\d+) failed (\d+)", text) for number in found)
print(f"Linux refused {refused} packets by its SAs' own counters, and counted {wrong or 'nothing'} in xfrm_stat")
sys.exit(f"Linux refused packets: {wrong}, {refused}" if wrong or refused or any(of["twice"] for of in ends.values()) else 0)
PY
