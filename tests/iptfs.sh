#!/usr/bin/env bash
# Linux' IP-TFS as the peer: a guest with a kernel that has it, on a TAP. Every class of proposals,
# IPv4 and IPv6 outside and inside, native and in UDP, with and without ESN; loss and reordering on
# the way to the gateway. What crosses is opened by scapy; see iptfs/convoy.py. Needs root.
# usage: iptfs.sh CONVOY [PATTERN]: all cases, or those whose names match
set -euo pipefail
exec </dev/null
convoy=$(realpath "$1") pattern=${2:-}
cd "$(dirname "$0")/iptfs"
# shellcheck source=tests/lib.sh
source ../lib.sh
need_root
python=../../target/test-venv/bin/python
[ -x "$python" ] || { echo "no $python; run scripts/install.sh test iptfs" >&2; exit 1; }
./build.sh
work_dir
ns=convoy-iptfs-$$

cc -O1 -o "$work/burst" burst.c
add_namespace $ns
ip -n $ns tuntap add dev tap0 mode tap
"$python" convoy.py prepare "$work" "$pattern"
ip -n $ns -batch "$work/host.batch"
ip netns exec $ns "$convoy" check -c "$work/gateway.toml" >/dev/null
run_gateway gateway.log $ns "$work/gateway.toml"
# All of it ends with the first process of its namespace.
TMPDIR=$work unshare --pid --fork --kill-child ip netns exec $ns "$python" -W ignore convoy.py try "$work" "$pattern" "$convoy" & test=$!
status=0
wait $test || status=$?
if [ $status != 0 ]; then
  { tail -n 20 "$work/gateway.log"
    for what in stats sa port; do "$convoy" show $what --control "$work/control.sock" || true; done
    echo "--- the guest's console"; grep -vE "^ *$" "$work/console" | tail -n 20; } >&2
fi
exit $status
