#!/bin/sh
# After the package is installed or upgraded, by dpkg and by rpm.
set -e
systemd-sysusers convoy.conf || true
rm -f /var/lib/convoy/convoy # what a removal left for `convoy unblock`
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
systemctl is-active --quiet convoy.service || exit 0
# A gateway that works is better than one that this version refuses to start.
if ! reason=$(/usr/bin/convoy check -c /etc/convoy/convoy.toml 2>&1); then
  echo "convoy: this version refuses the configuration, so the gateway keeps running the old one:" >&2
  echo "$reason" >&2
  echo "convoy: correct it (see \`convoy check\`), then: systemctl restart convoy" >&2
  exit 0
fi
# The guard drops packets for its tunnels meanwhile.
systemctl try-restart convoy.service || {
  echo "convoy: the gateway does not start; see: journalctl -u convoy" >&2
  exit 1
}
