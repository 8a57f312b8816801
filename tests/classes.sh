#!/usr/bin/env bash
# Two traffic classes between hosts behind both gateways, where one gateway's engine is too slow
# for the traffic: pings with the DSCP of expedited forwarding in a tunnel of their own lose
# nothing, and those of the lower class, or of a gateway without classes, are lost. Junk that claims
# the higher class keeps the lower one out, but not where classes have weights. Needs root.
# usage: classes.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1") IN_LAB=1
here=$(dirname "$(realpath "$0")")
source "$here/hosts.sh"

declare -A key process
for name in bulk urgent; do key[$name-ab]=$(random_key) key[$name-ba]=$(random_key); done
# tunnel NAME SITE LOCAL_TS REMOTE_TS SPI: of one site; the other site's SPIs are the other way
# round.
tunnel() {
  local own=198.51.100.1 peer=192.0.2.1 in=ab out=ba spi_in=$(($5 + 1)) spi_out=$5
  [ "$2" = b ] || own=192.0.2.1 peer=198.51.100.1 in=ba out=ab spi_in=$5 spi_out=$(($5 + 1))
  cat <<CONF
[[tunnel]]
name = "$1"
local = "$own"
remote = "$peer"
local_ts = ["$3"]
remote_ts = ["$4"]
esp_proposal = "aes128gcm16"
[tunnel.manual]
spi_in = $spi_in
spi_out = $spi_out
key_in = "${key[$1-$in]}"
key_out = "${key[$1-$out]}"
CONF
}
conf() { # site address inside scheduler engine
  (umask 077; { cat <<CONF; if [ "$1" = a ]; then tunnel urgent a 10.1.0.0/24 10.2.9.0/24 4098; tunnel bulk a 10.1.0.0/24 10.2.0.0/24 4096; else tunnel urgent b 10.2.9.0/24 10.1.0.0/24 4098; tunnel bulk b 10.2.0.0/24 10.1.0.0/24 4096; fi; } >"$work/$1.toml"
[gateway]
control = "$work/$1.sock"
state = "$work/$1.state"
[scheduler]
$4
[[engine]]
$5
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["$3"]
[[port]]
name = "outside"
kind = "udp"
address = ["$2"]
CONF
  )
}
start_gateway() { # namespace name network
  run_gateway "$2.log" "$1" "$work/$2.toml"
  process[$2]=$started
  has_route() { ip -n "$1" route get "$2" | contains 'dev convoy0'; }
  wait_until "the gateway $2 sets no routes" has_route "$1" "$3"
}
drops() { "$convoy" show stats --json --control "$work/a.sock" | python3 -c 'import json, sys
print(dict(json.load(sys.stdin)["drops"]).get("overloaded", 0))'; }
# flood: UDP of the lower class from host a, for longer than the pings, at twice what the engine
# does.
flood() {
  in_ns $ha python3 - <<'PYTHON'
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
began, sent = time.monotonic(), 0
while (elapsed := time.monotonic() - began) < 9:
    while sent < elapsed * 3000:
        sender.sendto(bytes(60), ("10.2.0.10", 9))
        sent += 1
    time.sleep(0.002)
PYTHON
}
# junk: what a host on the path can send: ESP with the urgent tunnel's SPI and DSCP.
junk() { in_ns $gb python3 "$here/junk.py" 198.51.100.1 192.0.2.1 4098 3000 9 0xb8 >/dev/null; }
# beside COMMAND DSCP ADDRESS: how many of 30 pings are answered beside a flood.
beside() {
  "$1" & local flood=$!; shift
  sleep 1
  in_ns $ha ping -q -Q "$1" -i 0.2 -c 30 -W 5 "$2" >"$work/ping.log" 2>&1 || true
  wait "$flood" || fail "the flood was not sent"
  grep -o '[0-9]* received' "$work/ping.log" | tr -dc 0-9
}

sites
forward $ga; forward $gb
ip -n $hb address add 10.2.9.10/32 dev eth0
ip -n $gb route add 10.2.9.0/24 dev lan0
slow=$'kind = "model"\nname = "slow"\nt_init_us = 1.0\nt_block_ns = 100000.0'
two=$'classes = 2\ndscp = { 46 = 0 }'
for classes in "$two" "$two"$'\nweights = [1, 1]' ''; do
  conf a 192.0.2.1 10.1.0.1/32 "$classes" "$slow"
  conf b 198.51.100.1 10.2.0.1/32 "$classes" 'kind = "software"'
  rm -f "$work"/[ab].state
  start_gateway $ga a 10.2.0.10
  start_gateway $gb b 10.1.0.10
  # Where other programs take the core away, its packets wait in the interface's queue.
  [ -z "$classes" ] || ip -n $ga link set convoy0 txqueuelen 5000
  for address in 10.2.9.10 10.2.0.10; do wait_until "$address is not reached" in_ns $ha ping -q -c 1 -W 1 $address; done
  urgent=$(beside flood 0xb8 10.2.9.10)
  lower=$(beside flood 0 10.2.0.10)
  dropped=$(drops)
  name=${classes//$'\n'/, }
  what="${name:-one class}: of 30 pings each, $urgent of the urgent tunnel and $lower of the flooded one are answered; $dropped packets dropped for want of room"
  if [ -n "$classes" ]; then
    [ "$urgent" = 30 ] && [ "$lower" -lt 30 ] && [ "$dropped" -gt 1000 ] || fail "$what"
  else
    # The tunnel's own queue overflows, and it has no classes.
    [ "$urgent" -lt 30 ] && [ "$lower" -lt 30 ] && [ "$dropped" = 0 ] || fail "$what"
  fi
  ok "$what"
  if [ -n "$classes" ]; then
    lower=$(beside junk 0 10.2.0.10)
    what="$name: beside junk of the urgent class, of 30 pings of the lower one $lower are answered"
    case $classes in *weights*) [ "$lower" -ge 20 ] ;; *) [ "$lower" -le 5 ] ;; esac || fail "$what"
    ok "$what"
  fi
  end_well "${process[a]}" "gateway a"; end_well "${process[b]}" "gateway b"
done
