#!/usr/bin/env bash
# Installs what convoy needs, by apt on Debian and Ubuntu; elsewhere it says what is missing.
# usage: install.sh build|test ...
set -euo pipefail

# What each purpose needs: "command or file:package". Intel's library is wanted, not needed.
declare -A needs=(
  [build]="cc:gcc pkg-config:pkg-config"
  [test]="ip:iproute2 tcpdump:tcpdump tshark:tshark iperf3:iperf3 ping:iputils-ping curl:curl python3:python3 ethtool:ethtool"
)
declare -A wants=(
  [build]="/usr/include/intel-ipsec-mb.h:libipsec-mb-dev"
  [test]=""
)
python_modules=(scapy cryptography)

has() { case $1 in /*) [ -e "$1" ];; *) command -v "$1" >/dev/null;; esac; }
packages_of() { for pair in $1; do has "${pair%%:*}" || echo "${pair#*:}"; done; }

needed=() wanted=()
for purpose in "$@"; do
  while read -r package; do [ -z "$package" ] || needed+=("$package"); done < <(packages_of "${needs[$purpose]}")
  while read -r package; do [ -z "$package" ] || wanted+=("$package"); done < <(packages_of "${wants[$purpose]}")
done

run_as_root() { if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi; }
apt_install() {
  run_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null &&
    run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if [ ${#needed[@]} -gt 0 ]; then
  echo "installing: ${needed[*]}"
  if ! command -v apt-get >/dev/null || ! apt_install "${needed[@]}"; then
    echo "convoy needs these, and they could not be installed here: ${needed[*]}" >&2
    echo "(named as on Debian; install their counterparts and run this again)" >&2
    exit 1
  fi
fi
if [ ${#wanted[@]} -gt 0 ]; then
  echo "installing: ${wanted[*]}"
  command -v apt-get >/dev/null && apt_install "${wanted[@]}" ||
    echo "going on without ${wanted[*]}: the multibuffer engine will be absent" >&2
fi

if ! command -v cargo >/dev/null; then
  echo "convoy needs Rust $(grep -m1 rust-version Cargo.toml | cut -d'"' -f2) or later: https://rustup.rs" >&2
  exit 1
fi

case " $* " in *" test "*)
  venv=target/test-venv
  if ! [ -x $venv/bin/python ] || ! $venv/bin/python -c "import ${python_modules[0]}, ${python_modules[1]}" 2>/dev/null; then
    python3 -m venv $venv 2>/dev/null || { apt_install python3-venv && python3 -m venv $venv; }
    $venv/bin/pip install -q -r tests/requirements.txt
  fi
esac
