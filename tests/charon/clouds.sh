#!/usr/bin/env bash
# The files of docs/guide/clouds.md: each convoy.toml passes `convoy check`, and each swanctl.conf
# sets its tunnels up with a strongSwan that has only the algorithms that the page names for AWS,
# Azure and VyOS; pings pass by each interface. None of the peers themselves was available. Needs
# root.
# usage: clouds.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
page=$here/../../docs/guide/clouds.md
A=convoy-cloud-a B=convoy-cloud-b
source "$here/lib.sh"
# block NAME: the code block that the page marks with this name.
block() { marked "$page" "$1"; }
namespaces
for address in 203.0.113.1 203.0.113.2 203.0.113.3 198.51.100.1; do ip -n $B addr add $address/32 dev lo; done
ip -n $A route add default via 192.0.2.2
strongswan a "$with_convoy"; strongswan b "$stock"
# peer NUMBER ADDRESS INSIDE,ITS_INSIDE PROPOSAL ESP_PROPOSAL SECRET: a connection of the other
# side, which protects the inside addresses alone, as strongSwan's ESP in userspace has one
# interface for all.
peer() {
  cat <<CONF
connections { peer-$1 { version = 2
  local_addrs = $2
  remote_addrs = 192.0.2.1
  proposals = $4
  local { auth = psk
    id = $2 }
  remote { auth = psk
    id = 192.0.2.1 }
  children { net-$1 { local_ts = ${3#*,}
    remote_ts = ${3%,*}
    esp_proposals = $5 } } } }
secrets { ike-$1 { id = $2
  secret = "$6" } }
CONF
}
aws() {
  peer 1 203.0.113.1 169.254.10.2,169.254.10.1 aes256gcm16-prfsha384-ecp384 aes256gcm16-ecp384 "key of the first tunnel"
  peer 2 203.0.113.2 169.254.11.2,169.254.11.1 aes256gcm16-prfsha384-ecp384 aes256gcm16-ecp384 "key of the second tunnel"
}
azure() { peer 1 203.0.113.3 169.254.21.2,169.254.21.1 aes256gcm16-prfsha384-ecp384 aes256gcm16-ecp384 "key of the connection"; }
vyos() { peer 1 198.51.100.1 169.254.1.1,169.254.1.2 aes256gcm128-sha384-ecp384 aes256gcm128-sha384-ecp384 "a long one"; }
# of CLOUD INTERFACES...: each with its own and the peer's inside address.
of() {
  local cloud=$1 one interface own other; shift
  (umask 077; { block "$cloud.toml" | sed "s|^charon = .*|charon = \"$work/a/charon.sock\"\ncontrol = \"$work/a/control.sock\"|"; } >"$work/a/gateway.toml")
  ip netns exec $A "$convoy" check -c "$work/a/gateway.toml" >"$work/check" 2>&1 || fail "$cloud: convoy check: $(cat "$work/check")"
  block "$cloud.conf" >"$work/a/swanctl.conf"; $cloud >"$work/b/swanctl.conf"
  : >"$work/a/log"
  start_gateway a; start_charon a; local charon_a=$charon_pid
  start_charon b; local charon_b=$charon_pid
  for one; do ip -n $B addr replace "${one##*,}/32" dev lo; done
  load b; load a
  for one; do
    IFS=, read -r interface own other <<<"$one"
    is_up() { ask a --list-sas --child "$interface" | contains 'INSTALLED.*TUNNEL-in-UDP.*ESP:AES_GCM_16-256'; }
    wait_until "$cloud: $interface is not up" is_up
    ask a --list-sas | contains 'AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384' || fail "$cloud: other algorithms: $(ask a --list-sas)"
    has_link() { ip -n $A link show "$interface" | contains LOWER_UP; }
    wait_until "$cloud: $interface has no link" has_link
    pings_from $A 5 -I "$own" "$other" || fail "$cloud: no pings by $interface: $(cat "$work/ping")"
    # The CHILD_SA's own key exchange takes place with the first rekeying.
    ask a --rekey --child "$interface" >"$work/rekey" 2>&1 || fail "$cloud: $interface is not rekeyed: $(cat "$work/rekey")"
    pings_from $A 5 -I "$own" "$other" || fail "$cloud: no pings by $interface after the rekeying: $(cat "$work/ping")"
  done
  [ "$cloud" != azure ] || ip -n $A link show azure | contains 'mtu 1400' || fail "azure: another MTU"
  kill_and_wait "$charon_a" "$charon_b"
  end_well "$gateway_pid" "the gateway"
  passed "$cloud" "convoy check, rekeyed, tunnels: $#, $((10 * $#)) pings"
}
of aws aws-1,169.254.10.2,169.254.10.1 aws-2,169.254.11.2,169.254.11.1
of azure azure,169.254.21.2,169.254.21.1
of vyos vyos,169.254.1.1,169.254.1.2
ok "docs/guide/clouds.md: its files and proposals, with a strongSwan as the peer"
