#!/bin/sh
# After the package is installed or upgraded, by dpkg and by rpm.
set -e
systemd-sysusers convoy.conf || true
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
# A gateway that runs is restarted: the guard drops packets for its tunnels meanwhile.
systemctl try-restart convoy.service || true
