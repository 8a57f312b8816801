#!/usr/bin/env bash
# A gateway with charon as a client that asks for a virtual IP: this host's packets into the tunnel
# have it as their source, with no option of the program that sends them, also when it changes; and
# a host without one has an address that the policy selects. A stock charon is the server. Needs
# root.
# usage: virtual-ip.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
A=convoy-vip-a B=convoy-vip-b
source "$here/lib.sh"
namespaces
ip -n $B addr add 10.2.0.1/24 dev lo
for selected in 10.3.0.0/16 0.0.0.0/0; do
  gateway_conf a '"192.0.2.1"'
  sed -i "/^address = \[\"10/d; s|^local_ts = .*|local_ts = [\"$selected\"]|; s|^local = .*|local = \"192.0.2.1\"|; s|^remote_ts = .*|remote_ts = [\"10.2.0.0/24\"]|" "$work/a/gateway.toml"
  start_gateway a
  strongswan a "$with_convoy"; strongswan b "$stock"
  server() { # pool
    LOCAL_TS=10.2.0.0/24 REMOTE_TS=dynamic connection b 192.0.2.2 192.0.2.1 "encap = yes
      pools = clients" "esp_proposals = aes128gcm16"
    echo "pools { clients { addrs = $1 } }" >>"$work/b/swanctl.conf"
    start_charon b; load b
    server_pid=$charon_pid
  }
  server 10.3.0.0/24
  LOCAL_TS=dynamic REMOTE_TS=10.2.0.0/24 connection a 192.0.2.1 192.0.2.2 "encap = yes
    vips = 0.0.0.0" "esp_proposals = aes128gcm16"
  start_charon a; load a
  client_pid=$charon_pid
  for pool in 10.3.0.0/24 10.3.7.0/24; do
    up a
    address_of_pool() { address=$(ip -n $A -4 -o addr show | awk '{ sub("/.*", "", $4); print $4 }' | grep "^${pool%.0/24}\."); }
    wait_until "the client has no address of $pool" address_of_pool
    leads() { ip -n $A route get 10.2.0.1 | contains "dev convoy0.* src $address "; }
    wait_until "packets into the tunnel have another source than $address" leads
    pings_from $A 3 10.2.0.1
    all_answered "$work/ping" || fail "not all pings are answered with the virtual IP $address: $(tail -3 "$work/ping")"
    [ "$pool" = 10.3.7.0/24 ] || {
      down a
      gone() { ! ip -n $A -4 -o addr show | contains "$address"; }
      wait_until "the virtual IP stays" gone
      ask b --unload-pool >/dev/null 2>&1 || true
      sed -i 's|^pools { .*|pools { clients { addrs = 10.3.7.0/24 } }|' "$work/b/swanctl.conf"
      load b
    }
  done
  kill_and_wait "$gateway_pid"
  start_gateway a
  wait_until "the client has no address of $pool after its gateway was killed" address_of_pool
  back() { pings_from $A 1 10.2.0.1 && all_answered "$work/ping"; }
  wait_until "no pings with the virtual IP after the gateway was killed" back
  kill_and_wait "$client_pid" "$server_pid" "$gateway_pid"
  for ns in $A $B; do ip netns pids $ns | xargs -r kill -9 2>/dev/null || true; done
  ip netns exec $A "$convoy" unblock -c "$work/a/gateway.toml" >/dev/null || true
  ip -n $A addr flush dev va; ip -n $A addr add 192.0.2.1/24 dev va
  ip -n $B addr flush dev vb; ip -n $B addr add 192.0.2.2/24 dev vb
  echo "ok: a client's packets have the virtual IP as their source, of two pools one after another"
done

# The address of the LAN, where the inside interface has none.
ip -n $A link add lan type veth peer name host; ip -n $A link set lan up; ip -n $A link set host up; ip -n $A addr add 10.1.0.1/24 dev lan
gateway_conf a '"192.0.2.1"'
sed -i '/^address = \["10/d' "$work/a/gateway.toml"
start_gateway a
ip -n $A route get 10.2.0.1 | contains 'dev convoy0.* src 10.1.0.1 ' || fail "the source is not the LAN's address: $(ip -n $A route get 10.2.0.1)"
ip -n $A addr del 10.1.0.1/24 dev lan; ip -n $A addr add 10.1.0.9/24 dev lan
follows() { ip -n $A route get 10.2.0.1 | contains 'src 10.1.0.9 '; }
wait_until "the source does not follow the LAN's address" follows
echo "ok: with no address inside, the LAN's address is the source, also after it has changed"
