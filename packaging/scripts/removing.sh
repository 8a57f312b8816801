#!/bin/sh
# Before the package's files go; not before an upgrade. dpkg says "remove", rpm 0.
set -e
case "${1:-}" in remove | 0) ;; *) exit 0 ;; esac
[ ! -d /run/systemd/system ] || systemctl disable --now convoy.service || true
# What drops the packets of the tunnels' networks outlives the gateway, and the program that removes
# it goes now.
[ -e /etc/convoy/convoy.toml ] && [ -d /var/lib/convoy ] && cp -p /usr/bin/convoy /var/lib/convoy/convoy || exit 0
echo "convoy: packets to and from the tunnels' networks are dropped until the next boot, unless on_stop is \"open\"." >&2
echo "convoy: To let them pass unencrypted: /var/lib/convoy/convoy unblock -c /etc/convoy/convoy.toml" >&2
echo "convoy: \`apt purge convoy\` does that." >&2
