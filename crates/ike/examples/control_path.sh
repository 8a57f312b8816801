#!/usr/bin/env bash
# A real charon with convoy's plugin, over the example `control_path`, against a stock charon with
# kernel-libipsec: keys, names, policies, rekeying on expiry, acquire, restarts of the gateway and
# of charon. No packet is protected here. Root.
# usage: control_path.sh CONTROL_PATH_BINARY PLUGIN.so
set -euo pipefail
gateway=$(readlink -f "$1") plugin=$(readlink -f "$2")
folder=$(mktemp -d); cd "$folder"; mkdir -p a b plugins
processes=()
end() {
  local status=$?
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for side in A B; do ip netns del "cvy$$$side" 2>/dev/null || true; done
  if [ "$status" = 0 ]; then rm -rf "$folder"; else echo "logs: $folder" >&2; fi
}
trap end EXIT
for side in A B; do ip netns add "cvy$$$side"; ip -n "cvy$$$side" link set lo up; done
ip link add "va$$" netns "cvy$$A" type veth peer name "vb$$" netns "cvy$$B"
ip -n "cvy$$A" addr add 192.0.2.1/24 dev "va$$"; ip -n "cvy$$A" link set "va$$" up
ip -n "cvy$$B" addr add 192.0.2.2/24 dev "vb$$"; ip -n "cvy$$B" link set "vb$$" up
ip -n "cvy$$B" addr add 10.2.0.1/24 dev lo
cp "$(dirname "$(find /usr/lib -name libstrongswan-vici.so | head -n 1)")"/*.so "$plugin" plugins/

# configure FOLDER PLUGINS LOCAL REMOTE LOCAL_ID REMOTE_ID LOCAL_TS REMOTE_TS CHILD_OPTIONS
configure() {
  cat >"$1/strongswan.conf" <<X
charon {
  load = random nonce aes sha2 hmac kdf drbg openssl curve25519 pem pkcs1 pkcs8 x509 pubkey ctr $2 vici
  install_routes = no
  plugins {
    vici { socket = unix://$folder/$1/vici }
    convoy { socket = $folder/a/charon.sock }
  }
  filelog { log { path = $folder/$1/log
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
  ip netns exec "cvy$$A" "$gateway" "$folder/a/charon.sock" 192.0.2.1 <a/in >>a/gateway 2>>a/gateway.log & gateway_pid=$!
  processes+=("$gateway_pid")
  wait_for "the gateway listens" test -S a/charon.sock
}
start_charon() { # A|B FOLDER
  rm -f "$2/vici"
  STRONGSWAN_CONF=$folder/$2/strongswan.conf unshare -m ip netns exec "cvy$$$1" sh -c "mount --make-rprivate /
    mount --bind $folder/plugins $(dirname "$(find /usr/lib -name libstrongswan-vici.so | head -n 1)")
    mkdir -p $folder/$2/run; mount --bind $folder/$2/run /run; exec /usr/lib/ipsec/charon" >"$2/out" 2>&1 & charon_pid=$!
  processes+=("$charon_pid")
  wait_for "charon $1 is up" test -S "$2/vici"
  ask "$2" --load-all --noprompt --file "$2/swanctl.conf" >/dev/null 2>&1
}
ask() { # FOLDER SWANCTL_ARGUMENTS
  local side=$1; shift
  STRONGSWAN_CONF=$folder/$side/strongswan.conf timeout 20 swanctl "$@" --uri "unix://$folder/$side/vici"
}
wait_for() { # WHAT COMMAND...
  local what=$1; shift
  for _ in $(seq 150); do if "$@" >/dev/null 2>&1; then echo "ok: $what"; return; fi; sleep 0.1; done
  echo "failed: $what" >&2; exit 1
}
# heard COUNT PATTERN: the gateway has printed at least so many such lines.
heard() { [ "$(grep -cE "$2" a/gateway)" -ge "$1" ]; }
living() { [ "$(ask a --list-sas | grep -c INSTALLED)" -ge 1 ]; }

start_charon B b
says_no_gateway() { grep -q "convoy: no gateway at" a/log; }
start_charon A a; first=$charon_pid
wait_for "charon starts without a gateway, and says so" says_no_gateway
wait_for "its trap waits" grep -q "convoy: the gateway is away" a/log
start_gateway
wait_for "it connects by itself" heard 1 "connected charon 5"
wait_for "the trap that waited is a policy" heard 1 "^policy 3[0-9]+ .*10.1.0.0/24 === 10.2.0.0/24"
wait_for "with its name" heard 1 "^name [0-9]+ .*/net"
echo acquire >&9
wait_for "an acquire brings SAs, AES-CTR as preferred" heard 1 "install Outbound .* aes128ctr-sha256"
wait_for "inbound first" sh -c 'grep -E "^install" a/gateway | head -n 1 | grep -q Inbound'
wait_for "regular policies come before traps" heard 1 "^policy 2[0-9]+ "
wait_for "names of connection and child" heard 1 "^name [0-9]+ site/net"
wait_for "a soft expiry rekeys" heard 2 "install Outbound"
wait_for "and the old ones go" heard 1 "remove Outbound"
ask a --terminate --ike site >/dev/null
wait_for "termination takes the SAs out" sh -c '[ "$(grep -c ^install a/gateway)" = "$(grep -c ^remove a/gateway)" ]'
ask b --initiate --child net >/dev/null
wait_for "the other side initiates" living

: >a/gateway
kill -9 "$gateway_pid"; wait "$gateway_pid" 2>/dev/null || true
wait_for "the plugin notices that the gateway has gone" grep -q "the gateway has gone" a/log
begin=$(date +%s%N)
start_gateway
wait_for "policies are told again" heard 1 "^policy 2[0-9]+ .*10.1.0.0/24 === 10.2.0.0/24"
wait_for "CHILD_SAs are made anew" heard 1 "^install Outbound"
wait_for "with their names" heard 1 "^name [0-9]+ site/net"
echo "recovered $(( ($(date +%s%N) - begin) / 1000000 )) ms after the gateway's start"
wait_for "traps too" heard 1 "^policy 3[0-9]+ "

kill -STOP "$gateway_pid"
begin=$(date +%s%N)
ask a --rekey --child net >/dev/null
wait_for "a gateway that hangs is an error" grep -q "the gateway does not answer a request of kind 16" a/log
echo "told $(( ($(date +%s%N) - begin) / 1000000 )) ms after the request"
kill -CONT "$gateway_pid"
wait_for "and is found again" heard 2 "connected charon"
count=$(grep -c "^install Outbound" a/gateway)
wait_for "and the CHILD_SA is rekeyed after all" heard $((count + 1)) "^install Outbound"

kill -9 "$first"; wait "$first" 2>/dev/null || true
count=$(grep -c "^remove" a/gateway || true)
start_charon A a
wait_for "a charon that was restarted connects" heard 3 "connected charon"
[ "$(grep -c "^remove" a/gateway || true)" = "$count" ]; echo "ok: living SAs stay"
ask a --initiate --child net >/dev/null
wait_for "and makes new ones" living
kill "$charon_pid"; wait "$charon_pid" && echo "ok: charon ends cleanly"
