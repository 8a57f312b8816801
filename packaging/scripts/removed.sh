#!/bin/sh
# After the package's files are gone. The configuration is the operator's and stays. The state goes
# when the package is purged: with it go the sequence numbers of static keys, which must not be used
# again then.
set -e
[ "${1:-}" != purge ] || rm -rf /var/lib/convoy /var/cache/convoy
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
