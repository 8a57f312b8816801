#!/usr/bin/env bash
# Runs in the guest, under its systemd: the commands of docs/guide/first-tunnel.md and
# site-to-site.md, then those of docs/guide/strongswan.md, and checks what the two units do
# afterwards. The peer is a stock charon in a namespace, with the same site.conf and its ends
# swapped.
set -euo pipefail
echo "systemd is up after $(cut -d' ' -f1 /proc/uptime) s"
cd /src
# shellcheck disable=SC2034 # lib.sh takes them; the plugin is installed
convoy=/usr/bin/convoy plugin=
here=/src/tests/charon B=peer
# shellcheck source=tests/charon/lib.sh
source "$here/lib.sh"
# shellcheck source=tests/charon/page.sh
source "$here/page.sh"
show_logs() {
  systemctl status --no-pager -n 0 convoy strongswan || true
  for unit in convoy strongswan; do journalctl --no-pager -o short-monotonic -n 30 -u $unit || true; done
  tail -n 15 "$work/b/log"
}
property() { systemctl show -P "$2" "$1"; } # unit property
process() { property "$1" MainPID; }
answered() { ping -q -c 1 -W 1 -I 10.1.0.1 10.2.0.1; }
five_pings() { # what
  ping -q -c 5 -i 0.1 -W 3 -I 10.1.0.1 10.2.0.1 >"$work/ping" || fail "$1: $(cat "$work/ping")"
  ok "$1: $(grep -o '[0-9]* received' "$work/ping") of 5 pings"
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }
# is_before FIRST SECOND WHAT: compares two points in time, in microseconds since the guest's start.
is_before() { if [ "$1" -gt 0 ] && [ "$1" -le "$2" ]; then ok "$3, $((($2 - $1) / 1000)) ms"; else fail "not so: $3 ($1, $2)"; fi; }
in_order() { # what
  systemctl is-active --quiet convoy && systemctl is-active --quiet strongswan || fail "$1: not both run"
  is_before "$(property convoy ActiveEnterTimestampMonotonic)" "$(property strongswan ExecMainStartTimestampMonotonic)" "$1: charon starts once the gateway is ready"
}

ip link set lo up
add_namespace $B
ip link add va type veth peer name vb netns $B
ip addr add 192.0.2.1/24 dev va
ip link set va up
up_with $B vb 192.0.2.2/24
ip -n $B addr add 10.2.0.1/24 dev lo
strongswan b "$stock"
peers_block >"$work/b/swanctl.conf"
start_charon b
load b

# docs/guide/first-tunnel.md installs, docs/guide/site-to-site.md configures and starts, each with
# its own commands.
[ ! -e /usr/bin/convoy ] || fail "convoy is installed already"
marked docs/guide/first-tunnel.md install >commands
bash -e commands || fail "the commands of docs/guide/first-tunnel.md"
id convoy >/dev/null || fail "the commands of docs/guide/first-tunnel.md make no user"
install -d -m 755 /etc/convoy
(umask 077; marked docs/guide/site-to-site.md configuration >/etc/convoy/convoy.toml)
# This guest's kernel has nf_tables without the inet family, which every distribution's kernel has.
! convoy run -c /etc/convoy/convoy.toml >refused 2>&1 || fail "a gateway runs although it cannot set its guard"
grep -q 'cannot set the nftables table .*guard = false in \[gateway\]' refused || fail "the reason is not reported: $(cat refused)"
sed -i '1i [gateway]\nguard = false' /etc/convoy/convoy.toml
marked docs/guide/site-to-site.md service >commands
bash -e commands || fail "docs/guide/site-to-site.md's commands to start the service"
systemctl is-active --quiet convoy && systemctl is-enabled --quiet convoy || fail "the service of docs/guide/site-to-site.md does not run"
[ "$(ps -o user= -p "$(process convoy)")" = convoy ] || fail "the service is another user: $(ps -o user= -p "$(process convoy)")"
ip route get 10.2.0.10 | contains 'dev convoy0' || fail "the service sets no routes"
[[ " $(property convoy After) " == *" nftables.service "* ]] || fail "the service does not wait for the firewall"
marked docs/guide/site-to-site.md firewall-at-boot | contains -x 'systemctl enable nftables' || fail "the firewall is not loaded at boot"
systemctl disable --now --quiet convoy
ip route get 10.2.0.10 >route 2>&1 && fail "the network behind the tunnel is reached after a stop: $(cat route)"
convoy unblock | contains '^removed' || fail "unblock removes nothing"
dpkg --purge convoy >/dev/null || fail "the package cannot be purged"
rm -f /etc/convoy/convoy.toml
[ ! -e /var/lib/convoy/state ] || fail "the package leaves its state when it is purged"
ok "docs/guide/first-tunnel.md and site-to-site.md start the service, as the user convoy, behind the firewall"

# Debian starts charon when its package is installed, and loads its AppArmor profile in complain
# mode; here it is enforced.
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null || true
sed -i 's/flags=(complain,/flags=(/' /etc/apparmor.d/usr.sbin.charon-systemd
apparmor_parser -a /etc/apparmor.d/usr.sbin.charon-systemd
systemctl enable --now --quiet strongswan || fail "Debian's own charon does not start"
(umask 077; block toml | sed 's/^\[gateway\]$/&\nguard = false/' >convoy.toml; block swanctl >site.conf)
for step in install files start; do marked docs/guide/strongswan.md $step; done >commands
bash -e commands || fail "the page's commands"
in_order "docs/guide/strongswan.md's commands"
five_pings "the first packet makes the tunnel"
convoy show sa --wide >"$work/shown"
grep -q "site/net.*aes128ctr-sha256" "$work/shown" || fail "no SA of site/net: $(cat "$work/shown")"
grep -q "(enforce)" "/proc/$(process strongswan)/attr/apparmor/current" || fail "charon is not under AppArmor"
ok "charon under its enforced AppArmor profile"

for task in "/proc/$(process convoy)"/task/*/status; do
  for line in $'CapPrm:\t0000000000000000' $'CapEff:\t0000000000000000' $'CapAmb:\t0000000000000000' $'NoNewPrivs:\t1' $'Seccomp:\t2'; do
    grep -qx "$line" "$task" || fail "$task lacks '$line': $(grep -E 'Name|Cap|NoNew|Seccomp' "$task")"
  done
done
charon=$(process strongswan)
[ "$(stat -c %U "/proc/$charon")" = convoy-charon ] || fail "charon is another user: $(stat -c %U "/proc/$charon")"
for task in "/proc/$charon"/task/*/status; do
  for line in $'CapPrm:\t0000000000000000' $'CapEff:\t0000000000000000' $'CapBnd:\t0000000000000000' $'NoNewPrivs:\t1' $'Seccomp:\t2'; do
    grep -qx "$line" "$task" || fail "$task lacks '$line': $(grep -E 'Name|Cap|NoNew|Seccomp' "$task")"
  done
done
ok "no thread of charon's has a capability, or can get one"
ok "no thread of the gateway has a capability left; it began with no more than $(property convoy CapabilityBoundingSet)"

systemctl reload convoy
five_pings "reload"
cp -a /etc/convoy/convoy.toml good.toml
echo 'nonsense = true' >>/etc/convoy/convoy.toml
! systemctl reload convoy 2>"$work/reload" || fail "a reload of a wrong file succeeds"
cp -a good.toml /etc/convoy/convoy.toml
systemctl is-active --quiet convoy || fail "a reload that failed has ended the gateway"
systemctl reload convoy || fail "no reload after one that failed"
five_pings "a reload that failed, and one that did not"
journalctl --no-pager -q -o cat -p warning -u convoy >"$work/warnings"
grep -q nonsense "$work/warnings" || fail "the journal has no warning of the wrong file: $(cat "$work/warnings")"
! grep -E ' INFO |^<' "$work/warnings" || fail "lines of the journal with a wrong priority"
ok "the journal knows the priorities of the log's lines"

# traffic_again WHAT: measures for how long the peer cannot be reached.
traffic_again() {
  local begin; begin=$(now_ms)
  until answered >/dev/null; do [ $(($(now_ms) - begin)) -lt 40000 ] || fail "$1: no traffic"; done
  ok "$1: traffic after $(($(now_ms) - begin)) ms"
}
charon=$(process strongswan)
systemctl restart convoy
traffic_again "systemctl restart convoy"
kill_and_wait "$(process convoy)"
wait_until "a gateway that was killed is not started again" systemctl is-active convoy
traffic_again "a gateway that was killed"
[ "$(process strongswan)" = "$charon" ] || fail "charon was started again with the gateway"
ok "charon ran on through both"
systemctl restart strongswan
traffic_again "systemctl restart strongswan"

# What a fault in charon could do, done by a plugin.
cp probe.so /usr/lib/ipsec/plugins/libstrongswan-probe.so
echo 'probe { load = yes }' >/etc/strongswan.d/charon/probe.conf
process convoy >/etc/strongswan.d/gateway-pid
systemctl restart strongswan
traffic_again "charon with a plugin that probes"
journalctl --no-pager -q -o cat -u strongswan | sed -n 's/^.*probe: //p' >"$work/probed"
grep -qx 'done' "$work/probed" || fail "the plugin was not loaded: $(cat "$work/probed")"
[ "$(wc -l <"$work/probed")" = 15 ] || fail "the plugin has not tried all: $(cat "$work/probed")"
! grep possible "$work/probed" || fail "charon could do that"
ok "charon is refused $(($(wc -l <"$work/probed") - 1)) things that a fault in it could try: $(sed 's/: .*//; /^done$/d' "$work/probed" | paste -sd ,)"
rm /usr/lib/ipsec/plugins/libstrongswan-probe.so /etc/strongswan.d/charon/probe.conf
systemctl restart strongswan
traffic_again "charon without it"

# As in a shutdown and a boot of the machine.
are_down() { [ "$(property convoy ActiveState) $(property strongswan ActiveState)" = "inactive inactive" ]; }
systemctl isolate down.target
# systemctl waits for units that it starts, not for those that it stops.
wait_until "still running" are_down
[ ! -e /run/convoy ] || fail "the gateway leaves /run/convoy: $(ls -la /run/convoy)"
is_before "$(property strongswan InactiveEnterTimestampMonotonic)" "$(property convoy ActiveExitTimestampMonotonic)" "going down: charon ends before the gateway is ordered to"
for unit in convoy strongswan; do
  [ "$(property $unit Result)" = success ] || fail "$unit ended with $(property $unit Result)"
done
systemctl isolate multi-user.target
in_order "coming up"
traffic_again "coming up"

# A gateway that cannot start does not keep charon from running, and charon's trap waits for one
# that can.
systemctl stop convoy strongswan
sed -i 's/^kind = "tun"/kind = "tub"/' /etc/convoy/convoy.toml
systemctl start strongswan || fail "charon needs a gateway to start"
! systemctl is-active --quiet convoy || fail "a gateway with a wrong configuration runs"
sed -i 's/^kind = "tub"/kind = "tun"/' /etc/convoy/convoy.toml
systemctl reset-failed convoy
systemctl restart convoy
traffic_again "a gateway that could not start with charon, and was mended"

! dmesg | grep -E 'apparmor="(DENIED|ALLOWED)".*(convoy|charon)' || fail "AppArmor has refused"
systemd-analyze verify /usr/lib/systemd/system/convoy.service /lib/systemd/system/strongswan.service 2>"$work/verify" || fail "systemd-analyze verify: $(cat "$work/verify")"
! grep -E 'convoy|strongswan' "$work/verify" || fail "systemd-analyze verify complains"
# The score counts the capability to change user, but does not see that the gateway does so.
systemd-analyze security --no-pager --threshold=28 convoy.service >"$work/security" || fail "exposed: $(cat "$work/security")"
ok "systemd-analyze: verify finds nothing, security: $(sed -n 's/.*Overall //p' "$work/security")"
cp "$work/security" /out/security
echo good >/out/status
