#!/bin/sh
# After charon's plugin is installed or upgraded. Debian's AppArmor profiles let neither charon nor
# swanctl reach the sockets that they have with a gateway.
set -e
systemd-sysusers convoy-charon.conf || true
# allow PROFILE RULE
allow() {
  own=/etc/apparmor.d/local/$1
  grep -qxF "$2" "$own" 2>/dev/null || { mkdir -p "${own%/*}"; echo "$2" >>"$own"; }
}
allow usr.sbin.charon-systemd '/run/convoy/charon.sock rw,'
allow usr.sbin.charon-systemd '/run/convoy-charon/vici rw,'
allow usr.sbin.swanctl '/run/convoy-charon/vici rw,'
if [ -e /sys/kernel/security/apparmor/profiles ] && command -v apparmor_parser >/dev/null; then
  for profile in usr.sbin.charon-systemd usr.sbin.swanctl; do
    [ ! -e /etc/apparmor.d/$profile ] || apparmor_parser -r -T -W /etc/apparmor.d/$profile || true
  done
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
