#!/usr/bin/env bash
# No key stays in memory after the reload that removed its tunnel, whichever thread ran the engine
# that used it. Needs root.
# usage: [MODEL=1] keys.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
tests=$(dirname "$(realpath "$0")")
WORKERS=2 TUNNELS=4
PROPOSALS=(aes128gcm16 chacha20poly1305 aes128ctr-sha1 aes128gcm16)
# Threads that serve both workers, a thread of a single worker, and, with MODEL=1 and the
# laboratory's program, the thread of a modelled device. Engines for which the machine lacks a core
# or Intel's library are left out.
EXTRA=$(cat <<CONF
[[engine]]
kind = "software"
name = "shared"
core = 0
[[engine]]
kind = "software"
name = "of its own"
core = 0
worker = 1
CONF
)
if [ -n "${MODEL:-}" ]; then
  IN_LAB=1
  EXTRA+=$'\n[[engine]]\nkind = "model"\nt_init_us = 1.0\nt_block_ns = 10.0'
fi
[ ! -e /usr/lib/x86_64-linux-gnu/libIPSec_MB.so.1 ] || EXTRA+=$'\n[[engine]]\nkind = "multibuffer"\ncore = 0'
source "$tests/../demo/sites.sh"
process=${gateways[0]}
helper=$(pgrep -P "$process") || fail "the gateway has no helper"
# Counts the copies of keys, in their order.
copies() { local IFS=,; "$tests/memory.py" "$*" "$process" "$helper"; }

# Each tunnel carries packets of its own.
ping_all() {
  for t in $(seq 0 $last); do
    ip netns exec $a ping -i 0.01 -c 50 -W 2 10.2.$t.1 >"$work/ping.log" || fail "ping: $(tail -2 "$work/ping.log")"
  done
}

for round in 1 2 3; do
  ping_all
  old_keys=("${key_ab[@]}" "${key_ba[@]}")
  counts=$(copies "${old_keys[@]}" 2>/dev/null)
  [[ " $counts " != *" 0 "* ]] || fail "the search does not find all keys in use: $counts"
  for t in $(seq 0 $last); do
    key_ab[t]=$(key "$(proposal "$t")") key_ba[t]=$(key "$(proposal "$t")")
  done
  new_keys=("${key_ab[@]}" "${key_ba[@]}")
  # Both sides at once, so that the next round's echoes use the new keys.
  for at in "${!old_keys[@]}"; do
    sed -i "s/${old_keys[at]}/${new_keys[at]}/" "$work"/site-?.toml
  done
  "$convoy" reload --control "$work/site-1.sock" || fail "the reload of site 1"
  "$convoy" reload --control "$work/site-2.sock" || fail "the reload of site 2"
  ping_all
  counts=$(copies "${old_keys[@]}")
  [[ "$counts" != *[1-9]* ]] || fail "round $round: copies of keys are in memory after the reload that took them away: $counts"
done
ok "three reloads, each with new keys for four tunnels: no copy of an old key is in memory"
