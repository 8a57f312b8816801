#!/usr/bin/env bash
# The privileges of a running gateway; a second gateway is rejected before it does harm; no key
# stays in memory after the reload that removed its tunnel; and a gateway ends if its helper does,
# or stands still. Needs root.
set -euo pipefail
convoy=$(realpath "$1")
tests=$(dirname "$(realpath "$0")")
WORKERS=2
source "$tests/../demo/sites.sh"
lines() { grep -E "^($1):" "$2" | tr -s '\t ' ' ' | tr '\n' ';'; } # names file

process=${gateways[0]}
helper=$(pgrep -P "$process") || fail "the gateway has no helper"
uid=$(awk '/^Uid:/ { print $2 }' "/proc/$process/status")
[ "$uid" != 0 ] || fail "the gateway is still root: $(lines Uid "/proc/$process/status")"
threads=0
for status in /proc/$process/task/*/status; do
  threads=$((threads + 1))
  for line in "Uid: $uid $uid $uid $uid" "CapPrm: 0000000000000000" "CapEff: 0000000000000000" "CapAmb: 0000000000000000" "NoNewPrivs: 1" "Seccomp: 2"; do
    tr -s '\t ' ' ' <"$status" | contains -x "$line" || fail "a thread lacks '$line': $(lines 'Name|Uid|Cap...|NoNewPrivs|Seccomp' "$status")"
  done
done
groups=$(awk '/^Groups:/ { print NF - 1 }' "/proc/$process/status")
[ "$groups" = 0 ] || fail "the gateway is in $groups groups"
[ "$(stat -c %u "/proc/$process/mem")" = 0 ] || fail "the gateway's memory is open to its own user"
grep -q '^Max core file size *0 *0 ' "/proc/$process/limits" || fail "core files are possible"
! setpriv --reuid "$uid" --regid "$uid" --clear-groups test -w /etc/shadow || fail "the gateway's user may write /etc/shadow"
locked=$(awk '/^VmLck:/ { print $2 }' "/proc/$process/status")
# Root can lock memory if it may raise the limit (CAP_SYS_RESOURCE, number 24).
may_lock=$((0x$(awk '/^CapEff:/ { print $2 }' /proc/self/status) >> 24 & 1))
[ "$(ulimit -Hl)" != unlimited ] || may_lock=1
if [ "$may_lock" = 1 ]; then
  [ "$locked" -gt 0 ] || fail "no memory is locked"
else
  grep -q 'memlock limit too low: keys may reach swap; raise it with' "$work/a.log" || fail "it is not reported that memory is not locked"
fi
ok "$threads threads of the gateway: user $uid, no groups, no capability, no new privileges, a filter of system calls; $locked KiB locked"
# CAP_NET_ADMIN is number 12.
for line in "CapPrm: 0000000000001000" "CapEff: 0000000000001000" "NoNewPrivs: 1" "Seccomp: 2"; do
  for status in /proc/$helper/task/*/status; do
    tr -s '\t ' ' ' <"$status" | contains -x "$line" || fail "the helper lacks '$line': $(lines 'Name|Cap...|NoNewPrivs|Seccomp' "$status")"
  done
done
[ "$(cat "/proc/$helper/comm")" = convoy-helper ] || fail "the helper is called $(cat "/proc/$helper/comm")"
ok "the helper: CAP_NET_ADMIN alone"

# A second gateway, for each resource that it could share with the first one.
refused() { # what words sed-expression
  sed "$3" "$work/site-1.toml" >"$work/second.toml"
  local status=0
  ip netns exec $a timeout "$PATIENCE" "$convoy" run -c "$work/second.toml" >"$work/second.log" 2>&1 || status=$?
  [ "$status" = 1 ] || fail "a second gateway with $1 ends with $status"
  grep -q "$2" "$work/second.log" || fail "a second gateway with $1 is not reported why"
}
umask 077
# Link-local addresses appear late.
routing() { { ip -n $a rule; ip -n $a -6 rule; ip -n $a route show table all; ip -n $a -6 route show table all; } | grep -v "fe80:"; }
rules=$(routing)
ip netns exec $a ping -i 0.01 -c 400 -w "$PATIENCE" 10.2.0.1 >"$work/ping.log" & ping=$!
refused "the same configuration" "another gateway (process $process) runs with the control socket $work/site-1.sock" ''
other="s#site-1.sock#second.sock#; s#site-1.state#second.state#; s/:9464/:9465/"
refused "the same device" "the interface convoy0 exists: another gateway uses it" "$other; s/\"192.0.2.1\"/\"127.0.0.5\"/"
refused "the same address" "listen on UDP 192.0.2.1:4500 (another program" "$other; s/convoy0/convoy1/"
wait $ping
none_lost "$work/ping.log" 400 || fail "a second gateway took echoes away: $(tail -2 "$work/ping.log")"
[ "$rules" = "$(routing)" ] || { diff <(echo "$rules") <(routing) >&2; fail "a second gateway changed routes"; }
[ -S "$work/site-1.sock" ] || fail "a second gateway took the control socket away"
ok "three second gateways refused; 400 of 400 echoes answered beside them"

# Keys in both forms: as bytes, and as in the configuration.
found() { "$tests/memory.py" "$1" "$process" "$helper"; } # hexadecimal key: how often it is in the memory of gateway and helper
old_out=${key_ab[0]} old_in=${key_ba[0]}
[ "$(found "$old_out" 2>/dev/null)" -gt 0 ] || fail "the search does not find a key that is in use"
sed -i "s/$old_out/$(key aes128gcm16)/; s/$old_in/$(key aes128gcm16)/" "$work/site-1.toml"
kill -HUP "$process"
wait_for_line 'reload of tunnels: 1 added, 1 removed, 0 unchanged' "$work/a.log" "the reload"
sleep 1
for which in out in; do
  name=old_$which
  copies=$(found "${!name}")
  [ "$copies" = 0 ] || fail "$copies copies of key_$which are in memory after the reload that took it away"
done
ok "no copy of either key is in memory after the reload that took them away"

# The helper crashes. The gateway must end too, because it could not set routes or reload any more.
kill -9 "$helper"
wait_until "the gateway goes on without its helper" is_gone "$process"
[ "$(grep -c 'the helper process ended (signal: 9 (SIGKILL))' "$work/a.log")" = 1 ] || fail "the log does not say once that the helper ended"
ip -n $a route show table 4500 | contains '^blackhole 10.2.0.0/24' || fail "packets for the tunnel may leave in clear"
ok "a helper that is killed ends the gateway, which says so; what would go into the tunnel is dropped"

# The helper stands still, and cannot restore the guard. Only another helper can, so the gateway
# ends.
begin_gateway 1
process=${gateways[0]}
helper=$(pgrep -P "$process")
stop_process "$helper"
in_ns $a nft flush ruleset
began=$SECONDS
wait_until "the gateway goes on although its helper does not answer" is_gone "$process"
! wait "$process" || fail "a gateway whose helper does not answer ends well"
[ "$(grep -c 'the helper process has not answered for 10 s' "$work/a.log")" = 1 ] || fail "the log does not say once that the helper does not answer"
ip -n $a route show table 4500 | contains '^blackhole 10.2.0.0/24' || fail "packets for the tunnel may leave in clear"
echo "a gateway whose helper stands still ended after $((SECONDS - began)) s"
begin_gateway 1
in_ns $a nft list table inet convoy_4500 | contains 10.2.0.0/24 || fail "there is no guard after the next start"
kill -CONT "$helper"
wait_until "a helper whose gateway has ended goes on" is_gone "$helper"
in_ns $a nft list table inet convoy_4500 | contains 10.2.0.0/24 || fail "the former helper has removed the guard"
end_well "${gateways[0]}" "the gateway"
ok "a helper that stands still ends the gateway, which says so; the next one has its guard"

# A configuration that belongs to another user: root reads it with a capability that the helper does
# not keep.
chown nobody "$work/site-1.toml"
run_gateway another.log $a "$work/site-1.toml"; process=$started
helper=$(pgrep -P "$process")
grep -qx $'CapPrm:\t0000000000001000' "/proc/$helper/status" || fail "the helper keeps more: $(lines 'Cap...' "/proc/$helper/status")"
grep -q "a reload will not be able to read $work/site-1.toml" "$work/another.log" || fail "it is not reported that a reload cannot work"
end_well "$process" "the gateway"
ok "a configuration of another user's: the helper has CAP_NET_ADMIN alone, and the log says that a reload cannot read it"
