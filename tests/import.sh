#!/usr/bin/env bash
# `convoy import`: gateways and charons run from what it makes of swanctl.conf, of one ipsec.conf at
# both ends, of a pair of wg-quick's files and of AWS' text, and pings pass. Needs root.
# usage: import.sh CONVOY PLUGIN
#
#   10.1.0.1 [a] 192.0.2.1 --veth-- 192.0.2.2, 192.0.2.3 [b] 10.2.0.1
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
A=convoy-import-a B=convoy-import-b
source "$here/charon/lib.sh"
source "$here/charon/own-etc.sh"
# The LANs, whose addresses the inside interfaces get.
for side in a b; do
  ns=$A host=1; [ $side = a ] || { ns=$B; host=2; }
  ip -n $ns link add lan0 type veth peer name host0
  up_with $ns lan0 "10.$host.0.7/24"
  up_with $ns host0 ""
  forward $ns
done
# imports SIDE FILE: by its content; what it writes goes to its place, as it says.
imports() {
  at "$1" "$convoy" import "$2" >"$work/$1/said" 2>"$work/$1/errors" || fail "$1 does not import $2: $(cat "$work/$1/errors")"
  mv "$work/$1/home/convoy.toml" "$work/$1/etc/convoy/"
  [ ! -e "$work/$1/home/convoy.conf" ] || mv "$work/$1/home/convoy.conf" "$work/$1/etc/swanctl/conf.d/"
}
said() { grep -qF -- "$2" "$work/$1/said" || fail "\"$2\" is not said at $1: $(cat "$work/$1/said")"; }
# set_secret SIDE: what an operator does where charon's file says TO DO.
set_secret() {
  local file=$work/$1/etc/swanctl/conf.d/convoy.conf
  grep -q 'TO DO' "$file" || fail "no place for the secret: $(cat "$file")"
  sed -i '/TO DO\|openssl rand/d; s/^  # *//; s/secret = ""/secret = "of the test"/' "$file"
}
# carries WHAT FROM TO: five pings from a, and five back.
carries() {
  pings_from $A 5 -I "$2" "$3" && all_answered "$work/ping" || fail "$1: a does not reach b: $(cat "$work/ping" "$work/a/log")"
  pings_from $B 5 -I "$3" "$2" && all_answered "$work/ping" || fail "$1: b does not reach a: $(cat "$work/ping")"
}

# swanctl.conf: charon keeps it.
for side in a b; do
  host=1; [ $side = a ] || host=2
  cat >"$work/$side/etc/swanctl/conf.d/site.conf" <<CONF
base { version = 2
  dpd_delay = 30s }
connections { site : base { local_addrs = 192.0.2.$host
    remote_addrs = 192.0.2.$((3 - host))
    local { auth = psk
      id = $side.example }
    remote { auth = psk }
    children { net { local_ts = 10.$host.0.0/24
        remote_ts = 10.$((3 - host)).0.0/24
        esp_proposals = aes256gcm16-x25519-esn-noesn
        ipcomp = no
        start_action = trap } } } }
secrets { ike-1 { secret = "of the test" } }
CONF
  imports $side /etc/swanctl/conf.d/site.conf
  [ ! -e "$work/$side/etc/swanctl/conf.d/convoy.conf" ] || fail "charon got a second file"
  grep -qF 'address = ["10.'$host'.0.7/32"]' "$work/$side/etc/convoy/convoy.toml" || fail "convoy0 of $side has not the address of lan0"
done
gateways; charons
carries swanctl.conf 10.1.0.7 10.2.0.7
at a "$convoy" show sa --wide >"$work/shown"
grep -q 'site/net.*aes256gcm16' "$work/shown" || fail "no SA of site/net: $(cat "$work/shown")"
ok "swanctl.conf: native ESP as before, 10 pings"
at a "$convoy" import /etc/swanctl/conf.d/site.conf --output /etc/convoy >"$work/said" 2>&1 && fail "a file was replaced"
grep -qF "/etc/convoy/convoy.toml already exists; nothing was written; --output writes elsewhere" "$work/said" || fail "$(cat "$work/said")"
end_all

# ipsec.conf: the same file at both ends, of which each finds its own.
for side in a b; do
  cat >"$work/$side/home/ipsec.conf" <<'CONF'
config setup
	uniqueids = no

conn %default
	keyexchange=ikev2
	authby=secret
conn site
	left=192.0.2.1
	leftid=@a.example
	leftsubnet=10.1.0.0/24
	right=192.0.2.2
	rightid=@b.example
	rightsubnet=10.2.0.0/24
	ike=aes256-sha256-modp2048!
	esp=aes256gcm16-modp2048!
	forceencaps=yes
	compress=no
	leftfirewall=yes
	dpdaction=restart
	auto=route
CONF
  imports $side ipsec.conf
  said $side "ipsec.conf:6: authby: the pre-shared key is in ipsec.secrets"
  said $side "ipsec.conf:18: leftfirewall: rules for IPsec policies match nothing"
  set_secret $side
done
gateways; charons
carries ipsec.conf 10.1.0.7 10.2.0.7
ok "ipsec.conf: the same file at both ends, 10 pings"
end_all

# WireGuard: the networks, and authentication by what the operator sets.
for side in a b; do
  host=1; [ $side = a ] || host=2
  cat >"$work/$side/home/wg0.conf" <<CONF
[Interface]
Address = 10.9.0.$host/24
PrivateKey = not.a.key.of.anybody
ListenPort = 51820
MTU = 1380

[Peer]
PublicKey = not.a.key.either
AllowedIPs = 10.9.0.$((3 - host))/32, 10.$((3 - host)).0.0/24
Endpoint = 192.0.2.$((3 - host)):51820
CONF
  imports $side wg0.conf
  said $side "wg0.conf:3: PrivateKey: WireGuard's keys are not taken"
  said $side "connection peer-1: set its authentication"
  ! grep -rq 'not.a.key' "$work/$side/etc" || fail "a key of WireGuard's was taken"
  set_secret $side
done
gateways; charons
carries WireGuard 10.9.0.1 10.9.0.2
carries "WireGuard, networks behind" 10.1.0.7 10.2.0.7
ip -n $A -o link show convoy0 | contains 'mtu 1380 ' || fail "another MTU: $(ip -n $A -o link show convoy0)"
ok "WireGuard: addresses, networks behind and MTU, 20 pings"
end_all

# WireGuard's full tunnel: a client, and a server that waits for it.
printf '%s\n' '[Interface]' 'Address = 10.9.0.1/24' '[Peer]' 'AllowedIPs = 0.0.0.0/0' 'Endpoint = 192.0.2.2:51820' >"$work/a/home/wg0.conf"
printf '%s\n' '[Interface]' 'Address = 10.9.0.2/24' '[Peer]' 'AllowedIPs = 10.9.0.1/32' >"$work/b/home/wg0.conf"
for side in a b; do imports $side wg0.conf; set_secret $side; done
gateways; charons
carries "WireGuard, full tunnel" 10.9.0.1 10.9.0.2
ip -n $A route get 203.0.113.9 | contains 'dev convoy0' || fail "not all goes into the tunnel: $(ip -n $A route get 203.0.113.9)"
ok "WireGuard, full tunnel: 10 pings"
end_all

# AWS: its side is a gateway with two addresses.
ip -n $B addr add 192.0.2.3/24 dev vb
tunnel() { # number
  cat <<TEXT
IPSec Tunnel #$1
================================================================================
#1: Internet Key Exchange Configuration

  - IKE version              : IKEv2
  - Authentication Method    : Pre-Shared Key
  - Pre-Shared Key           : the.key_of.$1
  - Authentication Algorithm : sha2-256
  - Encryption Algorithm     : aes-256-cbc
  - Diffie-Hellman           : Group 14

#2: IPSec Configuration

  - Protocol                 : esp
  - Authentication Algorithm : hmac-sha2-256-128
  - Encryption Algorithm     : aes-256-cbc
  - Perfect Forward Secrecy  : Diffie-Hellman Group 14
  - DPD Interval             : 10
  - TCP MSS Adjustment       : 1379 bytes

#3: Tunnel Interface Configuration

Outside IP Addresses:
  - Customer Gateway         : 192.0.2.1
  - Virtual Private Gateway  : 192.0.2.$(($1 + 1))

Inside IP Addresses
  - Customer Gateway         : 169.254.$1.2/30
  - Virtual Private Gateway  : 169.254.$1.1/30

  - Tunnel interface MTU     : 1436 bytes

#4: Static Route Configuration:
  - Next hop                 : 169.254.$1.1

TEXT
}
{ printf 'Your VPN Connection ID : vpn-of-the-test\n\n'; tunnel 1; tunnel 2; } >"$work/a/home/vpn.txt"
imports a vpn.txt
said a "ip route add NETWORK dev aws-1"
[ "$(modes)" = 600 ] || fail "files have the modes $(modes)"
cat >"$work/b/etc/convoy/convoy.toml" <<'CONF'
[gateway]
charon = "/run/convoy/charon.sock"
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.2", "192.0.2.3"]
[[port]]
name = "native"
kind = "raw"
address = ["192.0.2.2", "192.0.2.3"]
[[interface]]
name = "cloud-1"
if_id = 1
address = ["169.254.1.1/30"]
[[interface]]
name = "cloud-2"
if_id = 2
address = ["169.254.2.1/30"]
CONF
for number in 1 2; do
  cat >"$work/b/etc/swanctl/conf.d/$number.conf" <<CONF
connections { customer-$number { version = 2
    local_addrs = 192.0.2.$((number + 1))
    remote_addrs = 192.0.2.1
    proposals = aes256-sha256-modp2048
    local { auth = psk }
    remote { auth = psk }
    children { net { if_id_in = $number
        if_id_out = $number
        local_ts = 0.0.0.0/0
        remote_ts = 0.0.0.0/0
        esp_proposals = aes256-sha256-modp2048 } } } }
secrets { ike-$number { id-1 = 192.0.2.$((number + 1))
    secret = "the.key_of.$number" } }
CONF
done
gateways; charons
for number in 1 2; do
  linked() { ip -n $A -o link show aws-$number | contains LOWER_UP; }
  wait_until "aws-$number has no link" linked
  carries "AWS' tunnel $number" 169.254.$number.2 169.254.$number.1
done
ok "AWS: two interfaces with the keys of the text, 20 pings"
