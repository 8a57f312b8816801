#!/usr/bin/env bash
# No key stays in memory after the reload that removed its tunnel, whichever thread ran the engine
# that used it. Needs root.
# usage: keys.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
tests=$(dirname "$(realpath "$0")")
WORKERS=2
# Threads that serve both workers, a thread of a single worker, and the thread of a modelled device.
# Engines for which the machine lacks a core or Intel's library are left out.
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
[[engine]]
kind = "model"
t_init_us = 1.0
t_block_ns = 10.0
CONF
)
[ ! -e /usr/lib/x86_64-linux-gnu/libIPSec_MB.so.1 ] || EXTRA+=$'\n[[engine]]\nkind = "multibuffer"\ncore = 0'
source "$tests/../demo/sites.sh"
fail() { echo "FAILED: $*" >&2; head -n 20 "$work"/*.log >&2 || true; exit 1; }
ok() { echo "ok: $*"; }
process=$(pgrep -f "^$convoy run -c $work/site-1.toml") || fail "the gateway does not run"
helper=$(pgrep -P "$process") || fail "the gateway has no helper"
copies() { "$tests/memory.py" "$1" "$process" "$helper"; }

for round in 1 2 3; do
  ip netns exec $a ping -i 0.01 -c 100 -W 2 10.2.0.1 >"$work/ping.log" || fail "ping: $(tail -2 "$work/ping.log")"
  old_out=${key_ab[0]} old_in=${key_ba[0]}
  for old in "$old_out" "$old_in"; do
    [ "$(copies "$old" 2>/dev/null)" -gt 0 ] || fail "the search does not find a key that is in use"
  done
  key_ab[0]=$(key aes128gcm16) key_ba[0]=$(key aes128gcm16)
  # Both sides at once, so that the next round's echoes use the new keys.
  sed -i "s/$old_out/${key_ab[0]}/; s/$old_in/${key_ba[0]}/" "$work"/site-?.toml
  "$convoy" reload --control "$work/site-1.sock" || fail "the reload of site 1"
  "$convoy" reload --control "$work/site-2.sock" || fail "the reload of site 2"
  ip netns exec $a ping -i 0.01 -c 100 -W 2 10.2.0.1 >"$work/ping.log" || fail "ping: $(tail -2 "$work/ping.log")"
  for which in out in; do
    name=old_$which
    left=$(copies "${!name}")
    [ "$left" = 0 ] || fail "round $round: $left copies of key_$which are in memory after the reload that took it away"
  done
done
ok "three reloads, each with new keys: no copy of an old key is in memory"
