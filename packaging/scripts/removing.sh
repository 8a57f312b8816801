#!/bin/sh
# Before the package's files go; not before an upgrade. dpkg says "remove", rpm 0.
set -e
case "${1:-}" in remove | 0) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now convoy.service || true
