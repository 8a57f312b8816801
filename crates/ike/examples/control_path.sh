#!/usr/bin/env bash
# A real charon with convoy's plugin, over the example `control_path`, against a stock charon with
# kernel-libipsec: keys, names, policies, rekeying on expiry, acquire, restarts of the gateway and
# of charon. No packet is protected here. Root.
# usage: control_path.sh CONTROL_PATH_BINARY PLUGIN.so
set -euo pipefail
gateway=$(readlink -f "$1") plugin=$(readlink -f "$2")
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/../../../tests/lib.sh"
need_root
work_dir
cd "$work"; mkdir -p a b plugins
A=cvy$$A B=cvy$$B
show_logs() { tail -n 5 a/gateway a/gateway.log a/log; }
add_namespace "$A" "$B"
cable "$A" va 192.0.2.1/24 "$B" vb 192.0.2.2/24
ip -n "$B" addr add 10.2.0.1/24 dev lo
cp "$(dirname "$(find /usr/lib -name libstrongswan-vici.so | head -n 1)")"/*.so "$plugin" plugins/

# configure FOLDER PLUGINS LOCAL REMOTE LOCAL_ID REMOTE_ID LOCAL_TS REMOTE_TS CHILD_OPTIONS
configure() {
  cat >"$1/strongswan.conf" <<X
charon {
  load = random nonce aes sha2 hmac kdf drbg openssl curve25519 pem pkcs1 pkcs8 x509 pubkey ctr $2 vici
  install_routes = no
  plugins {
    vici { socket = unix://$work/$1/vici }
    convoy { socket = $work/a/charon.sock }
  }
  filelog { log { path = $work/$1/log
    flush_line = yes
    default = 1 } }
}
swanctl { load = pem pkcs1 pkcs8 x509 pubkey openssl random }
X
  cat >"$1/swanctl.conf" <<X
connections { site { version = 2
  local_addrs = $3
  remote_addrs = $4
  proposals = aes256gcm16-prfsha384-ecp384
  encap = yes
  local { auth = psk
    id = $5 }
  remote { auth = psk
    id = $6 }
  children { net { local_ts = $7
    remote_ts = $8
    esp_proposals = aes128ctr-sha256,aes128gcm16
    $9 } } } }
secrets { ike-1 { secret = control-path } }
X
}
configure a "convoy! kernel-netlink" 192.0.2.1 192.0.2.2 a.example b.example 10.1.0.0/24 10.2.0.0/24 $'rekey_time = 4s\n    rand_time = 0\n    life_time = 60s\n    start_action = trap'
configure b "kernel-libipsec kernel-netlink socket-default" 192.0.2.2 192.0.2.1 b.example a.example 10.2.0.0/24 10.1.0.0/24 "rekey_time = 1h"

start_gateway() {
  rm -f a/in; mkfifo a/in; exec 9<>a/in
  ip netns exec "$A" "$gateway" "$work/a/charon.sock" 192.0.2.1 <a/in >>a/gateway 2>>a/gateway.log & gateway_pid=$!
  holds "the gateway listens" test -S a/charon.sock
}
start_charon() { # A|B FOLDER
  rm -f "$2/vici"
  STRONGSWAN_CONF=$work/$2/strongswan.conf unshare -m ip netns exec "${!1}" sh -c "mount --make-rprivate /
    mount --bind $work/plugins $(dirname "$(find /usr/lib -name libstrongswan-vici.so | head -n 1)")
    mkdir -p $work/$2/run; mount --bind $work/$2/run /run; exec /usr/lib/ipsec/charon" >"$2/out" 2>&1 & charon_pid=$!
  holds "charon $1 is up" test -S "$2/vici"
  ask "$2" --load-all --noprompt --file "$2/swanctl.conf" >/dev/null 2>&1
}
ask() { # FOLDER SWANCTL_ARGUMENTS
  local side=$1; shift
  STRONGSWAN_CONF=$work/$side/strongswan.conf timeout "$PATIENCE" swanctl "$@" --uri "unix://$work/$side/vici"
}
holds() { wait_until "not so: $1" "${@:2}"; ok "$1"; } # what command...
# heard COUNT PATTERN: the gateway has printed at least so many such lines.
heard() { [ "$(grep -cE "$2" a/gateway)" -ge "$1" ]; }
living() { [ "$(ask a --list-sas | grep -c INSTALLED)" -ge 1 ]; }

start_charon B b
says_no_gateway() { grep -q "convoy: no gateway at" a/log; }
start_charon A a; first=$charon_pid
holds "charon starts without a gateway, and says so" says_no_gateway
holds "its trap waits" grep -q "convoy: the gateway is away" a/log
start_gateway
holds "it connects by itself" heard 1 "connected charon 5"
holds "the trap that waited is a policy" heard 1 "^policy 3[0-9]+ .*10.1.0.0/24 === 10.2.0.0/24"
holds "with its name" heard 1 "^name [0-9]+ .*/net"
echo acquire >&9
holds "an acquire brings SAs, AES-CTR as preferred" heard 1 "install Outbound .* aes128ctr-sha256"
holds "inbound first" sh -c 'grep -E "^install" a/gateway | head -n 1 | grep -q Inbound'
holds "regular policies come before traps" heard 1 "^policy 2[0-9]+ "
holds "names of connection and child" heard 1 "^name [0-9]+ site/net"
holds "a soft expiry rekeys" heard 2 "install Outbound"
holds "and the old ones go" heard 1 "remove Outbound"
ask a --terminate --ike site >/dev/null
holds "termination takes the SAs out" sh -c '[ "$(grep -c ^install a/gateway)" = "$(grep -c ^remove a/gateway)" ]'
ask b --initiate --child net >/dev/null
holds "the other side initiates" living

: >a/gateway
kill_and_wait "$gateway_pid"
holds "the plugin notices that the gateway has gone" grep -q "the gateway has gone" a/log
begin=$(date +%s%N)
start_gateway
holds "policies are reported again" heard 1 "^policy 2[0-9]+ .*10.1.0.0/24 === 10.2.0.0/24"
holds "CHILD_SAs are made again" heard 1 "^install Outbound"
holds "with their names" heard 1 "^name [0-9]+ site/net"
echo "recovered $(( ($(date +%s%N) - begin) / 1000000 )) ms after the gateway's start"
holds "traps too" heard 1 "^policy 3[0-9]+ "

stop_process "$gateway_pid"
begin=$(date +%s%N)
ask a --rekey --child net >/dev/null
holds "a gateway that hangs is an error" grep -q "the gateway does not answer a request of kind 16" a/log
echo "reported $(( ($(date +%s%N) - begin) / 1000000 )) ms after the request"
kill -CONT "$gateway_pid"
holds "and is found again" heard 2 "connected charon"
count=$(grep -c "^install Outbound" a/gateway)
holds "and the CHILD_SA is rekeyed after all" heard $((count + 1)) "^install Outbound"

kill_and_wait "$first"
count=$(grep -c "^remove" a/gateway || true)
start_charon A a
holds "a charon that was restarted connects" heard 3 "connected charon"
[ "$(grep -c "^remove" a/gateway || true)" = "$count" ]; echo "ok: living SAs stay"
ask a --initiate --child net >/dev/null
holds "and makes new ones" living
end_well "$charon_pid" charon
ok "charon ends cleanly"
