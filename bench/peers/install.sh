#!/usr/bin/env bash
# Installs the userspace VPNs that convoy is compared with, or those named, each from its package
# registry, into FOLDER.
# usage: install.sh FOLDER [wireguard | boringtun-cli | gotatun ...]
set -euo pipefail
folder=$(realpath -m "$1"); shift
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(wireguard boringtun-cli gotatun)
mkdir -p "$folder/bin"
# The versions in the table of docs/results/vpns.md.
WIREGUARD_GO=latest BORINGTUN=0.7.1 GOTATUN=0.10.2
lacks() { [[ " ${programs[*]} " == *" $1 "* ]] && [ ! -x "$folder/bin/$1" ]; }
if lacks wireguard; then
  command -v go >/dev/null || { echo "wireguard-go needs Go 1.23 or later: https://go.dev/dl" >&2; exit 1; }
  GOBIN=$folder/bin GOFLAGS=-modcacherw GOPATH=$folder/go go install golang.zx2c4.com/wireguard@$WIREGUARD_GO
fi
! lacks boringtun-cli ||
  cargo install --locked --quiet --root "$folder" --target-dir "$folder/build" boringtun-cli@$BORINGTUN
! lacks gotatun ||
  cargo install --locked --quiet --root "$folder" --target-dir "$folder/build" gotatun-cli@$GOTATUN
rm -rf "$folder/build"
