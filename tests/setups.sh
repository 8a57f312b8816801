#!/usr/bin/env bash
# How much work each way of setting up is: clean Debians, each with a systemd of its own, follow the
# guides' own commands from the packages to the first ping, and the gateways of a cluster to a
# failover under ping. Prints for each way what a person types and writes, and the seconds that the
# machines take. Needs root.
# usage: setups.sh CONVOY PLUGIN [WAY...]    CONVOY has convoy-cluster-agent and convoy-lab beside it
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
source tests/lib.sh
need_root
work_dir
source tests/debian.sh
source tests/setups/machines.sh
source tests/setups/ways.sh
at_exit end_machines
show_logs() {
  tail -n 20 "$work/typed.log"
  local name
  for name in "${!pids[@]}"; do
    echo "--- $name"
    enter "$name" journalctl --no-pager -q -n 25 -u convoy -u strongswan -u frr -u etcd || true
  done
}
findmnt -t cgroup2 >/dev/null || fail "no cgroup2 is mounted, which a systemd needs"
[ $# -gt 0 ] || set -- "${ways[@]}"
packages packages 1
debs=("$work"/packages/convoy_*.deb "$work"/packages/convoy-charon_*.deb)
clean_debian "${archives[@]}"

rows=()
for way; do
  began='' seconds='' what='' apt_ms=0
  mkdir -p "$work/peers"
  : >"$work/typed.log"
  "way_$way"
  [ -z "${SETUPS_TYPED:-}" ] || cat "$work/typed.log"
  commands='' lines=0
  for name in "${machines[@]}"; do
    commands+=", $name ${typed[$name]}"
    lines=$((lines + ${written[$name]}))
  done
  rows+=("| $what | ${commands#, } | $lines | $seconds | $(((apt_ms + 500) / 1000)) |")
  echo "${rows[-1]}"
  end_machines
done
echo
echo "| way | commands | lines written | seconds | of apt |"
echo "| --- | --- | --: | --: | --: |"
printf '%s\n' "${rows[@]}"
