#!/usr/bin/env bash
# Installs the userspace VPNs that convoy is compared with, each from its package registry, into
# FOLDER.
# usage: install.sh FOLDER
set -euo pipefail
folder=$(realpath -m "$1")
mkdir -p "$folder/bin"
# The versions in the table of docs/results/vpns.md.
WIREGUARD_GO=latest TAILSCALE_WIREGUARD_GO=v0.0.0-20260928213032-417aef361226 BORINGTUN=0.7.1 GOTATUN=0.10.2
if [ ! -x "$folder/bin/wireguard" ]; then
  command -v go >/dev/null || { echo "wireguard-go needs Go 1.23 or later: https://go.dev/dl" >&2; exit 1; }
  GOBIN=$folder/bin GOFLAGS=-modcacherw GOPATH=$folder/go go install golang.zx2c4.com/wireguard@$WIREGUARD_GO
fi
# Tailscale's fork.
[ -x "$folder/bin/wireguard-go" ] ||
  GOBIN=$folder/bin GOFLAGS=-modcacherw GOPATH=$folder/go go install github.com/tailscale/wireguard-go@$TAILSCALE_WIREGUARD_GO
[ -x "$folder/bin/boringtun-cli" ] ||
  cargo install --locked --quiet --root "$folder" --target-dir "$folder/build" boringtun-cli@$BORINGTUN
[ -x "$folder/bin/gotatun" ] ||
  cargo install --locked --quiet --root "$folder" --target-dir "$folder/build" gotatun-cli@$GOTATUN
rm -rf "$folder/build"
