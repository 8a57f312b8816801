#!/bin/sh
# After the files of charon's plugin are gone.
set -e
own=/etc/apparmor.d/local/usr.sbin.charon-systemd
[ "${1:-}" != purge ] || [ ! -e "$own" ] || sed -i '\#^/run/convoy/charon\.sock rw,$#d' "$own"
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
