#!/usr/bin/env bash
# Runs a command in the folder that unpack.sh made as in a system: /proc, /dev and /sys are there,
# in a mount namespace of the command's own, and so is each FOLDER that is named, at its own path.
# The network is that of the caller. Root, and the command is of the user UID if one is named.
# usage: enter.sh ROOT [--with FOLDER] ... [--as UID] COMMAND ...
set -euo pipefail
root=$(realpath "$1"); shift
folders=()
while [ "${1:-}" = --with ]; do folders+=("$2"); shift 2; done
user=0
[ "${1:-}" != --as ] || { user=$2; shift 2; }
exec unshare --mount sh -c '
  set -e
  root=$1 user=$2 count=$3; shift 3
  for folder in dev sys; do mount --rbind /$folder "$root/$folder"; done
  mount -t proc proc "$root/proc"
  while [ "$count" -gt 0 ]; do
    mkdir -p "$root$1"
    mount --bind "$1" "$root$1"
    count=$((count - 1)); shift
  done
  exec chroot --userspec="$user:$user" --groups= "$root" "$@"' sh "$root" "$user" "${#folders[@]}" "${folders[@]}" "$@"
