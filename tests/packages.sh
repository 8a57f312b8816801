#!/usr/bin/env bash
# `make charon` installs no IKE daemon: convoy's documentation says which one to run, and the
# gateway serves only one. Queries apt for all dependencies of the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=$(awk '/^  \[charon\]="/ { inside = 1 } inside; inside && /"$/ { exit }' scripts/install.sh)
packages=$(sed 's/.*="//; s/"$//' <<<"$wanted" | tr ' ' '\n' | sed -n 's/.*://p')
[ -n "$packages" ] || { echo "FAILED: install.sh names no packages for charon" >&2; exit 1; }
# shellcheck disable=SC2086
all=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $packages)
grep -q '^libstrongswan$' <<<"$all" || { echo "FAILED: apt does not know the packages" >&2; exit 1; }
for daemon in strongswan-starter strongswan-charon charon-systemd libreswan; do
  ! grep -qx "$daemon" <<<"$all" || { echo "FAILED: make charon installs $daemon" >&2; exit 1; }
done
echo "ok: make charon installs no IKE daemon: $(tr '\n' ' ' <<<"$packages")"
