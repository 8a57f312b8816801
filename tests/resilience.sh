#!/usr/bin/env bash
# Conditions that a running gateway survives: a log without a reader, a flood on one tunnel, a full
# disk, little memory. Needs root.
# usage: resilience.sh CONVOY [CASE...]
set -euo pipefail
convoy=$(realpath "$1") WORKERS=2 TUNNELS=2; shift
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(log terminal flood disk memory)
# Engines that a flood can overload on any machine: some 1,400 packets/s each.
[[ " ${cases[*]} " != *" flood "* ]] || IN_LAB=1 EXTRA=$(for worker in 0 1; do printf '[[engine]]\nkind = "model"\nname = "slow%s"\nworker = %s\nt_init_us = 1.0\nt_block_ns = 100000.0\n' $worker $worker; done)
here=$(dirname "$(realpath "$0")")
source "$here/../demo/sites.sh"
pid_of() { pgrep -f "^$gateway_program run -c $work/site-$1.toml"; }
# shellcheck disable=SC2120 # the control socket
answers() { "$convoy" show stats --control "${1:-$work/site-1.sock}" >/dev/null 2>&1; }
# Waits until the gateway of the process answers, or has ended.
answers_or_ended() { answers || is_gone "$process"; }
# It answers before it handles SIGHUP, the first signal.
handles_hup() { answers "$@" && ((0x$(awk '/^SigCgt:/ { print $2 }' "/proc/$process/status") & 1)); }
# ping_through TUNNEL COUNT: from site 1, all at once.
ping_through() { pings "$work/ping.log" $a "$2" "10.2.$1.1"; }
# The peer restarts with each gateway: if it continued, it would take the static keys' first
# sequence numbers for replays.
fresh_peer() {
  end_well "$peer" "the gateway of site 2"
  begin_gateway 2
  peer=$started
}
begin() { # its standard error is this function's
  fresh_peer
  ip netns exec "$a" "$gateway_program" run -c "$work/site-1.toml" & process=$!
  wait_until "the gateway does not start" handles_hup
}
ends_well() { end_well "$process" "a gateway with $1"; }

log() { # A pipe whose reader exits: logging to it must do no harm.
  mkfifo "$work/log"
  head -n 1 "$work/log" >/dev/null & local reader=$!
  begin 2>"$work/log"
  wait "$reader"
  for _ in 1 2 3; do kill -HUP "$process" || fail "the gateway is gone"; sleep 0.3; done
  ping_through 0 3 || fail "no pings after the log's reader has gone"
  ends_well "a log whose reader has gone"
  passed log "reader gone, three reloads logged without a reader: 3 of 3 pings, exit status 0"
}

terminal() { # The terminal is closed, which also sends SIGHUP.
  fresh_peer
  ip netns exec "$a" python3 "$here/terminal.py" "$work/site-1.sock" "$gateway_program" run -c "$work/site-1.toml" & local session=$! status=0
  wait_until "the gateway does not start on a terminal" answers
  wait_until "the terminal was not closed" test -e "$work/site-1.sock.closed"
  process=$(pid_of 1) || fail "the gateway is gone with its terminal"
  kill -HUP "$process"
  ping_through 0 3 || fail "no pings after the terminal was closed"
  kill -TERM "$process"
  wait "$session" || status=$?
  [ "$status" = 0 ] || fail "a closed terminal: exit status $status"
  passed terminal "closed: 3 of 3 pings, exit status 0"
}

stat_of() { "$convoy" show stats --json --control "$work/site-1.sock" | python3 -c 'import json, sys
stats = json.load(sys.stdin)
print(dict(stats["drops"]).get(sys.argv[1], stats.get(sys.argv[1], 0)))' "$1"; }
junk() { # tunnel rate seconds: with its SPI, from the peer's own address and port
  ip netns exec "$b" python3 "$here/junk.py" 192.0.2.2 192.0.2.1 $((0x1001 + 16 * $1)) "$2" "$3" >"$work/junk"
}

# Junk with the SPI of one worker's tunnel, while the other worker's tunnel is used. It arrives at
# the worker that is used, and at the one that is flooded.
flood() {
  begin 2>"$work/flood.log"
  # The kernel assigns all packets from the peer to one worker's queue, by a hash with a secret.
  junk 1 500 1
  sleep 0.5
  local receiver=1 tunnel
  [ "$(stat_of handed_over)" -lt 300 ] || receiver=0
  for tunnel in $((1 - receiver)) $receiver; do flood_of $tunnel $((1 - tunnel)) $receiver; done
  ends_well "a flood"
}
flood_of() { # tunnel used_tunnel receiver
  local flood answered before dropped
  before=$(shed)
  junk "$1" 8000 9 & flood=$!
  sleep 1
  ip netns exec "$a" ping -q -i 0.2 -c 30 -W 5 "10.2.$2.1" >"$work/ping.log" 2>&1 || true
  wait "$flood" || fail "junk: $(cat "$work/junk")"
  answered=$(grep -o '[0-9]* received' "$work/ping.log") dropped=$(($(shed) - before))
  [ "$answered" = "30 received" ] || fail "a flood of tunnel $1, which worker $3 receives: of 30 pings in tunnel $2, $answered"
  [ "$dropped" -gt 1000 ] || fail "only $dropped packets of the flood were dropped for want of room"
  passed flood "$(cat "$work/junk") for tunnel $1, received by worker $3, $dropped dropped for want of room: 30 of 30 pings in tunnel $2"
}
shed() { echo $(($(stat_of handoff_full) + $(stat_of overloaded))); }

# A disk of 64 KiB with the control socket, the calibration cache and the log; it is full before the
# start, or gets full afterwards.
disk() {
  local full; mkdir -p "$work/disk"
  mount -t tmpfs -o size=64k,mode=0755 convoy-test "$work/disk"
  at_exit umount -l "$work/disk"
  sed "s|^control = .*|control = \"$work/disk/site-1.sock\"|" "$work/site-1.toml" >"$work/disk.toml"
  chmod 600 "$work/disk.toml"
  for full in before after; do
    fresh_peer
    rm -rf "$work/disk"/*
    [ $full = after ] || dd if=/dev/zero of="$work/disk/filler" bs=1k 2>/dev/null || true
    XDG_CACHE_HOME=$work/disk/cache ip netns exec "$a" "$gateway_program" run -c "$work/disk.toml" 2>>"$work/disk/log" & process=$!
    wait_until "with a disk that is full $full the start the gateway does not start" handles_hup "$work/disk/site-1.sock"
    if [ $full = after ]; then
      dd if=/dev/zero of="$work/disk/filler" bs=1k 2>/dev/null || true
      # Fill the log's last page as well.
      yes >>"$work/disk/log" 2>/dev/null || true
    fi
    for _ in $(seq 20); do kill -HUP "$process"; sleep 0.05; done
    ping_through 0 3 || fail "no pings with a disk that is full $full the start"
    rm -f "$work/disk/filler"
    kill -HUP "$process"
    wait_until "the log does not say that lines were lost" grep -aq 'could not be written' "$work/disk/log"
    ends_well "a disk that is full $full the start"
    passed disk "full $full the start: 3 of 3 pings, and the log goes on when there is room, saying what it lost"
  done
}

memory() { # With too little memory, the gateway reports it when it starts; its code and libraries, 50 MiB, fit into the smallest limit. With enough, it works, and memory does not grow under a flood.
  local limit status said works=0 refused=0
  for limit in 56 64 80 100 120 160 240 320 480 640 960; do
    fresh_peer
    status=0
    ip netns exec "$a" prlimit --as=$((limit << 20)) --core=0 "$gateway_program" run -c "$work/site-1.toml" 2>"$work/memory.log" & process=$!
    wait_until "with $limit MiB the gateway neither answers nor ends" answers_or_ended
    if is_running "$process"; then
      works=$((works + 1))
      ping_through 0 3 || fail "with $limit MiB it runs, but no pings are answered"
      end_well "$process" "the gateway with $limit MiB"
      ! grep -q panicked "$work/memory.log" || fail "with $limit MiB a thread panicked, and it went on"
    else
      refused=$((refused + 1))
      wait "$process" || status=$?
      # Just below the limit at which the gateway starts, the C library aborts with a message if
      # there is no memory for a new thread's first thread-local value, and Rust's for any other
      # allocation.
      said=$(grep -m 1 -E '^convoy: |^Fatal glibc error: .*out of memory|^memory allocation of [0-9]+ bytes failed' "$work/memory.log") ||
        fail "with $limit MiB it does not say what is wrong (exit status $status): $(cat "$work/memory.log")"
      [ "$status" = 1 ] || [[ $said = Fatal* || $said = memory* ]] || fail "with $limit MiB: exit status $status"
    fi
  done
  [ $works -ge 1 ] && [ $refused -ge 1 ] || fail "$works limits were enough and $refused too low"
  passed memory "$refused limits too low, each reported in words ($said); $works enough: 3 of 3 pings, and a good end"
}

end_well "${gateways[0]}" "the gateway of site 1"
peer=${gateways[1]}
for one in "${cases[@]}"; do "$one"; done
