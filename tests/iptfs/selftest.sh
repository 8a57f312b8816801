#!/usr/bin/env bash
# Linux' IP-TFS against itself over two TAPs, before convoy is held against it: every class of
# proposals, IPv4 and IPv6 outside and inside, native and in UDP. See selftest.py. With --ike it is
# strongSwan that sets it up; see ike.py. Root.
# usage: selftest.sh [PATTERN]: all cases, or those whose names match
#        selftest.sh --ike
set -euo pipefail
exec </dev/null
cd "$(dirname "$0")"
# shellcheck source=tests/lib.sh
source ../lib.sh
need_root
python=../../target/test-venv/bin/python
[ -x "$python" ] || { echo "no $python; run scripts/install.sh test iptfs" >&2; exit 1; }
./build.sh
words=(selftest.py "${1:-}")
[ "${1:-}" != --ike ] || { ./strongswan.sh; words=(ike.py); }
work_dir
ns=iptfs-selftest-$$

add_namespace $ns
ip -n $ns link add bridge type bridge
ip -n $ns link set bridge up
for tap in tap-a tap-b; do
  ip -n $ns tuntap add dev $tap mode tap
  ip -n $ns link set $tap master bridge up
done
# All of it ends with the first process of its namespace.
TMPDIR=$work unshare --pid --fork --kill-child ip netns exec $ns "$python" -W ignore "${words[0]}" "$work" tap-a tap-b "${words[@]:1}" & test=$!
status=0
wait $test || status=$?
[ $status = 0 ] || { echo "--- the guest's console"; grep -vE "^ *$" "$work/console" | tail -n "${CONSOLE:-20}"; } >&2
exit $status
