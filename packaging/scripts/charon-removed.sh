#!/bin/sh
# After the files of charon's plugin are gone: dpkg calls it with `purge`, rpm with 0.
set -e
case ${1:-} in
  purge | 0)
    for own in /etc/apparmor.d/local/usr.sbin.charon-systemd /etc/apparmor.d/local/usr.sbin.swanctl; do
      [ ! -e "$own" ] || sed -i '\#^/run/convoy/charon\.sock rw,$#d; \#^/run/convoy-charon/vici rw,$#d' "$own"
    done
    ;;
esac
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
