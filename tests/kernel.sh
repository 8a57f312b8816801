#!/usr/bin/env bash
# The Linux kernel as ESP and AH peer: Debian's user-mode Linux on a TAP device, because this
# machine's kernel may lack ESP. Static keys, one tunnel for each case; see kernel/matrix.py. Needs
# root.
# usage: [DEVICE=crypto_aesni_mb0] kernel.sh CONVOY
# DEVICE is a DPDK device of kernel/matrix.py, which is then the gateway's only engine.
set -euo pipefail
exec </dev/null
convoy=$(realpath "$1")
cd "$(dirname "$0")"
source ./lib.sh
need_root
base=../target/kernel-peer.gz
work_dir
ns=convoy-kernel-$$

kernel/build.sh "$base"
python3 kernel/drive.py prepare "$work"
(cd "$work/guest" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/cases.gz"
cat "$base" "$work/cases.gz" >"$work/initrd.gz"

add_namespace $ns
ip -n $ns tuntap add dev convoy-tap mode tap vnet_hdr
ip -n $ns -batch "$work/host.batch"
"$convoy" check -c "$work/gateway.toml" >/dev/null
run_gateway gateway.log $ns "$work/gateway.toml"
# In transport mode pings and TCP are routed into the gateway, but the packets that it makes of them
# are not.
for family in "-4 198.51.100.128/25 icmp" "-6 2001:db8::1:0/112 ipv6-icmp"; do
  read -r flag peers echo <<<"$family"
  ip -n $ns $flag route add default dev convoy0 table 100
  for protocol in $echo tcp; do ip -n $ns $flag rule add to $peers ipproto $protocol lookup 100; done
done

TMPDIR=$work unshare --pid --mount-proc --kill-child ip netns exec $ns \
  kernel/uml.sh mem=256M uml_dir="$work/uml/" umid=peer initrd="$work/initrd.gz" \
  vec0:transport=tap,ifname=convoy-tap,depth=128,gro=1 con=null con0=null,fd:1 root=/dev/ram rdinit=/init quiet \
  >"$work/console" 2>&1 &
# In the background, so that this script handles signals at once.
ip netns exec $ns python3 kernel/drive.py try "$work" "$convoy" & driver=$!
status=0
wait $driver || status=$?
if [ $status != 0 ]; then
  { tail -n 40 "$work/gateway.log"; for what in stats port; do "$convoy" show $what --control "$work/control.sock" || true; done
    tail -n 15 "$work/console"; } >&2
fi
exit $status
