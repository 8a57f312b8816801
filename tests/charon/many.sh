#!/usr/bin/env bash
# charon installs very many CHILD_SAs one by one, and removes them again, while pings use another
# tunnel of the same gateway. Fails if either takes longer than LIMIT seconds, or if the median
# round trip exceeds 5 ms meanwhile. Needs root.
# usage: many.sh CONVOY
# Optional variables: CHILDREN (10000), LIMIT (60) and OUTSIDE (the network of the children, such as
# 10.64.0.0, if no [[tunnel]] is to contain it).
set -euo pipefail
convoy=$(realpath "$1") children=${CHILDREN:-10000} limit=${LIMIT:-60} outside=${OUTSIDE:-}
cd "$(dirname "$0")/../.."
source tests/lib.sh
need_root
work_dir
a=convoy-many-a b=convoy-many-b
add_namespace $a $b
cable $a va 192.0.2.1/24 $b vb 192.0.2.2/24
keys=("$(random_key)" "$(random_key)")
# gateway SITE PEER MORE: a gateway with a tunnel with static keys, for the pings.
gateway() {
  (umask 077; cat >"$work/$1.toml" <<CONF
[gateway]
control = "$work/$1.sock"
state = ""
${3%%|*}
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.$1.0.1/32"]
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.$1"]
[[tunnel]]
name = "pings"
local = "192.0.2.$1"
remote = "192.0.2.$2"
local_ts = ["10.$1.0.1/32"]
remote_ts = ["10.$2.0.1/32"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = 100$1
spi_out = 100$2
key_in = "${keys[$1 - 1]}"
key_out = "${keys[$2 - 1]}"
${3#*|}
CONF
  )
}
gateway 1 2 "charon = \"$work/charon.sock\"|[[tunnel]]
name = \"charon\"
local = \"192.0.2.1\"
remote = \"192.0.2.2\"
local_ts = [\"10.1.0.1/32\"]
remote_ts = [\"10.128.0.0/9\"]
esp_proposal = \"aes128gcm16\""
gateway 2 1 "|"
start 1.log $a "$convoy" run -c "$work/1.toml"; gateway=$started
run_gateway 2.log $b "$work/2.toml"
wait_for_line ' ready' "$work/1.log" "gateway 1 does not start"
ping_once() { ip netns exec $a ping -n -q -c 3 -i 0.2 -W 2 -I 10.1.0.1 10.2.0.1 >"$work/ping.log" 2>&1; }
ping_once || fail "no ping before: $(cat "$work/ping.log")"

# pings WHAT: prints the round-trip times meanwhile, in ms. If the host pauses for a moment, only a
# few of them are delayed.
pings_begin() { ip netns exec $a ping -n -i 0.005 -W 2 -I 10.1.0.1 10.2.0.1 >"$work/pings" 2>&1 & pinging=$!; }
pings_end() {
  kill -INT $pinging; wait $pinging || true
  sed -n 's/.* time=\([0-9.]*\) ms/\1/p' "$work/pings" | sort -n | awk -v what="$1" '
    { times[NR] = $1 }
    END {
      if (NR < 20) { print what ": only " NR " pings"; exit 1 }
      median = times[int((NR + 1) / 2)]
      printf "%s: %d pings, median %.2f  p99 %.2f  max %.2f ms\n", what, NR, median, times[int(NR * .99)], times[NR]
      exit median > 5
    }' || fail "pings stood still while $1"
  # Pings under way at the end do not count as lost.
  awk '/packets transmitted/ { exit $1 - $4 > 2 }' "$work/pings" || fail "pings were lost while $1: $(tail -n 2 "$work/pings")"
}
expect_sas() {
  local found; found=$("$convoy" show sa --json --control "$work/1.sock" | grep -c '"transform"' || true)
  [ "$found" = "$1" ] || fail "$found SAs instead of $1"
}
mkfifo "$work/order"
exec 3<>"$work/order"
pings_begin
begin=$SECONDS
python3 tests/charon/many.py "$work/charon.sock" 192.0.2.1 192.0.2.2 "$children" "${outside:-10.128.0.0}" <&3 >"$work/driver.log" 2>&1 &
driver=$!
until grep -q "^$children CHILD_SAs" "$work/driver.log"; do
  kill -0 $driver 2>/dev/null || fail "the children are refused: $(tail -3 "$work/driver.log")"
  [ $((SECONDS - begin)) -le "$limit" ] || fail "$children CHILD_SAs take longer than $limit s: $(cat "$work/driver.log")"
  sleep 0.1
done
pings_end "$children CHILD_SAs come"
cat "$work/driver.log"
expect_sas $((2 * children + 2))
pings_begin
begin=$SECONDS
echo "away with them" >&3
until grep -q "^gone" "$work/driver.log"; do
  kill -0 $driver 2>/dev/null || fail "they do not go: $(tail -3 "$work/driver.log")"
  [ $((SECONDS - begin)) -le "$limit" ] || fail "$children CHILD_SAs take longer than $limit s to go"
  sleep 0.1
done
pings_end "$children CHILD_SAs go"
tail -1 "$work/driver.log"
expect_sas 2
[ -z "$outside" ] || ip -n $a route show table all | awk -v network="^${outside%.*.*}[.]" '/^blackhole/ && $2 ~ network' | wc -l | sed 's/$/ networks are blocked/'
awk '/VmRSS|VmHWM/ { print $1, int($2 / 1024), "MB" }' "/proc/$gateway/status" | xargs
