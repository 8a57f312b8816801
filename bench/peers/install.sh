#!/usr/bin/env bash
# Installs the userspace VPNs that convoy is compared with, or those named, each from its package
# registry, into FOLDER.
# usage: install.sh FOLDER [wireguard | wireguard-go | boringtun-cli | gotatun ...]
set -euo pipefail
folder=$(realpath -m "$1"); shift
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(wireguard wireguard-go boringtun-cli gotatun)
mkdir -p "$folder/bin"
# The versions in the table of docs/results/vpns.md.
WIREGUARD_GO=latest TAILSCALE_WIREGUARD_GO=v0.0.0-20260928213032-417aef361226
BORINGTUN=0.7.1 GOTATUN=0.10.2
lacks() { [[ " ${programs[*]} " == *" $1 "* ]] && [ ! -x "$folder/bin/$1" ]; }
go_install() { # module
  command -v go >/dev/null || { echo "$1 needs Go 1.23 or later: https://go.dev/dl" >&2; exit 1; }
  GOBIN=$folder/bin GOFLAGS=-modcacherw GOPATH=$folder/go go install "$1"
}
! lacks wireguard || go_install golang.zx2c4.com/wireguard@$WIREGUARD_GO
# Tailscale's fork.
! lacks wireguard-go || go_install github.com/tailscale/wireguard-go@$TAILSCALE_WIREGUARD_GO
! lacks boringtun-cli ||
  cargo install --locked --quiet --root "$folder" --target-dir "$folder/build" boringtun-cli@$BORINGTUN
! lacks gotatun ||
  cargo install --locked --quiet --root "$folder" --target-dir "$folder/build" gotatun-cli@$GOTATUN
rm -rf "$folder/build"
