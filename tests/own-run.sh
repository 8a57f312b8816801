#!/bin/sh
# Runs a command with a separate /run, so that its network namespaces and daemons may have the same
# names as another test's, and with process numbers of its own, so that all its processes end with
# it, and their CPU time counts as its own. There is a user convoy-charon, as the package of
# charon's plugin makes one. Needs root. usage: own-run.sh COMMAND...
set -eu
[ "${OWN_RUN:-}" = 1 ] || exec env OWN_RUN=1 unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0" "$@"
# The resolver's configuration may be in /run.
resolver=$(readlink -f /etc/resolv.conf || true)
text=$(cat "$resolver" 2>/dev/null || true)
mount -t tmpfs tmpfs /run
mkdir /run/lock
case $resolver in
  /run/*) mkdir -p "${resolver%/*}"; echo "$text" >"$resolver" ;;
esac
if ! getent passwd convoy-charon >/dev/null; then
  for file in passwd group; do cp "/etc/$file" "/run/.$file"; done
  echo "convoy-charon:x:64731:64731::/nonexistent:/usr/sbin/nologin" >>/run/.passwd
  echo "convoy-charon:x:64731:" >>/run/.group
  for file in passwd group; do mount --bind "/run/.$file" "/etc/$file"; done
fi
# Without exec: signals would not end a first process that has no handlers for them.
status=0
env -u OWN_RUN "$@" || status=$?
exit $status
