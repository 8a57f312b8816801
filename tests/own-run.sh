#!/bin/sh
# Runs a command with a separate /run, so that its network namespaces and daemons may have the same
# names as another test's. Needs root.
# usage: own-run.sh COMMAND...
set -eu
[ "${OWN_RUN:-}" = 1 ] || exec env OWN_RUN=1 unshare --mount --propagation private "$0" "$@"
# The resolver's configuration may be in /run.
resolver=$(readlink -f /etc/resolv.conf || true)
text=$(cat "$resolver" 2>/dev/null || true)
mount -t tmpfs tmpfs /run
mkdir /run/lock
case $resolver in
  /run/*) mkdir -p "${resolver%/*}"; echo "$text" >"$resolver" ;;
esac
exec env -u OWN_RUN "$@"
