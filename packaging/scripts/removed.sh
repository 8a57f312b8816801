#!/bin/sh
# After the package's files are gone. The configuration is the operator's and stays. The state goes
# when the package is purged: with it go the sequence numbers of static keys, which must not be used
# again then, and what drops the packets of the tunnels' networks.
set -e
if [ "${1:-}" = purge ]; then
  if [ -x /var/lib/convoy/convoy ]; then
    config=
    [ ! -e /etc/convoy/convoy.toml ] || config="-c /etc/convoy/convoy.toml"
    # shellcheck disable=SC2086 # two words or none
    /var/lib/convoy/convoy unblock $config ||
      echo "convoy: what drops the packets of the tunnels' networks is left until the next boot" >&2
  fi
  rm -rf /var/lib/convoy /var/cache/convoy
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
