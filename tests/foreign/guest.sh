#!/usr/bin/env bash
# Runs suite.py in user-mode Linux, whose kernel has IPsec. The caller's arguments are suite.py's;
# the work folder is WORK, which the guest sees as /tmp/work.
# usage: WORK=FOLDER guest.sh ARGUMENT...
set -euo pipefail
here=$(dirname "$(realpath "$0")")
mkdir -p "$WORK/uml"
rm -f "$WORK/status"
echo "$*" >"$WORK/arguments"
TMPDIR=$WORK "$here/../kernel/uml.sh" mem="${GUEST_MEMORY:-1024M}" uml_dir="$WORK/uml/" umid=suite root=/dev/root rootfstype=hostfs rootflags=/ ro \
  init="$here/init" work="$WORK" con=null con0=null,fd:1 quiet </dev/null >"$WORK/console" 2>&1 || true
[ -e "$WORK/status" ] || { echo "guest.sh: the guest ended early" >&2; tail -n 20 "$WORK/console" >&2; exit 1; }
exit "$(cat "$WORK/status")"
