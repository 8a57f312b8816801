#!/usr/bin/env bash
# A hub between two sites: traffic from one to the other leaves by the interface by which it came,
# and the kernel sends no ICMP redirects about it. Needs root.
# usage: hub.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/lib.sh"
need_root
work_dir
hub=convoy-hub-hub b=convoy-hub-b c=convoy-hub-c
add_namespace $hub $b $c
cable $hub to-b 192.0.2.1/30 $b outer 192.0.2.2/30
cable $hub to-c 192.0.2.5/30 $c outer 192.0.2.6/30
forward $hub
declare -A keys
for side in b c; do
  for way in in out; do keys[$side-$way]=$("$convoy" genkey aes128gcm16); done
done
gateway() { # name number address-outside...
  cat <<CONF
[gateway]
control = "$work/$1.sock"
state = ""
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.$2.0.1/32"]
[[port]]
name = "outside"
kind = "udp"
address = ["$3"${4:+, \"$4\"}]
CONF
}
tunnel() { # name local remote local-network remote-network spi-in spi-out key-in key-out
  cat <<CONF
[[tunnel]]
name = "$1"
local = "$2"
remote = "$3"
local_ts = ["$4"]
remote_ts = ["$5"]
esp_proposal = "aes128gcm16"
[tunnel.manual]
spi_in = $6
spi_out = $7
key_in = "$8"
key_out = "$9"
CONF
}
# The sites' networks are parts of the hub's, so that one tunnel carries all of a site's traffic.
umask 077
{
  gateway hub 1 192.0.2.1 192.0.2.5
  tunnel site-b 192.0.2.1 192.0.2.2 10.0.0.0/8 10.2.0.0/24 0x1002 0x2001 "${keys[b-in]}" "${keys[b-out]}"
  tunnel site-c 192.0.2.5 192.0.2.6 10.0.0.0/8 10.3.0.0/24 0x1003 0x3001 "${keys[c-in]}" "${keys[c-out]}"
} >"$work/hub.toml"
{ gateway b 2 192.0.2.2; tunnel hub 192.0.2.2 192.0.2.1 10.2.0.0/24 10.0.0.0/8 0x2001 0x1002 "${keys[b-out]}" "${keys[b-in]}"; } >"$work/b.toml"
{ gateway c 3 192.0.2.6; tunnel hub 192.0.2.6 192.0.2.5 10.3.0.0/24 10.0.0.0/8 0x3001 0x1003 "${keys[c-out]}" "${keys[c-in]}"; } >"$work/c.toml"

redirects() { in_ns $hub nstat -asz IcmpOutRedirects | awk '/IcmpOutRedirects/ { print $2 }'; }
warned() { in_ns $hub "$convoy" check -c "$work/hub.toml" 2>&1 | contains 'send_redirects = 1: packets from tunnel "site-b" to tunnel "site-c"'; }
pass() { pings "$work/ping.log" $b 10 -I 10.2.0.1 10.3.0.1 || fail "pings from site to site are not answered: $(tail -3 "$work/ping.log")"; }

# The settings of a new namespace may be those of the host.
in_ns $hub sysctl -qw net.ipv4.conf.all.send_redirects=1 net.ipv4.conf.default.send_redirects=1
warned || fail "check does not warn of redirects"
in_ns $hub sysctl -qw net.ipv4.conf.all.send_redirects=0
! warned || fail "check warns of redirects that are off"
for site in "$hub hub" "$b b" "$c c"; do
  read -r ns name <<<"$site"
  run_gateway "$name.log" "$ns" "$work/$name.toml"
done
pass
[ "$(redirects)" = 0 ] || fail "the kernel sends $(redirects) redirects by the gateway's interface"
# The setting for all interfaces is as good as that of one, which shows that there is something to
# send.
in_ns $hub sysctl -qw net.ipv4.conf.all.send_redirects=1
pass
sent=$(redirects)
[ "$sent" -gt 0 ] || fail "the kernel sends no redirects at all, so this test shows nothing"
echo "a hub: no redirects by its own interface, $sent with the setting for all; 20 pings from site to site"
