#!/usr/bin/env bash
# Unpacks Debian's libreswan without installing it, because its package conflicts with strongSwan's.
# The libraries that it needs are installed.
# usage: fetch.sh FOLDER
set -euo pipefail
folder=$1
[ ! -x "$folder/usr/libexec/ipsec/pluto" ] || exit 0
rm -rf "$folder"; mkdir -p "$folder"
cd "$folder"
apt-get update -qq
apt-get download -qq -o APT::Sandbox::User=root libreswan
package=$(echo ./libreswan_*.deb)
dpkg-deb -f "$package" Depends | tr ',' '\n' | sed -E 's/^ *//; s/[ (|].*//' | grep '^lib' |
  DEBIAN_FRONTEND=noninteractive xargs apt-get install -y -qq --no-install-recommends >/dev/null
dpkg-deb -x "$package" .
rm "$package"
