#!/usr/bin/env bash
# Two gateways of a cluster, each with a charon of its own, and a stock strongSwan as their peer. The
# leader is stopped, and then killed: each time the other gateway goes on with the SAs that are
# there, before its charon has negotiated anything, and then negotiates new ones. Needs root.
# usage: cluster.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
cd "$(dirname "$0")/../.."
source tests/cluster/lib.sh
cat >"$work/tunnels.toml" <<'CONF'
[[tunnel]]
name = "site/net"
local = "192.0.2.10"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.2.0.0/24"]
esp_proposal = "aes128gcm16"
CONF
libraries=$(dirname "$(find /usr/lib -name libstrongswan-vici.so | head -n 1)")
mkdir "$work/plugins"
cp "$libraries"/*.so "$plugin" "$work/plugins/"

settings() { # name plugins
  mkdir -p "$work/$1/run"
  cat >"$work/$1/strongswan.conf" <<CONF
charon {
  load = random nonce aes sha1 sha2 hmac kdf drbg openssl curve25519 pem pkcs1 pkcs8 x509 pubkey gcm $2 vici
  install_routes = no
  plugins {
    vici { socket = unix://$work/$1/vici }
    convoy { socket = $work/$1/charon.sock }
    kernel-libipsec { allow_peer_ts = yes }
  }
  filelog { log { path = $work/$1/log
    time_format = %T
    flush_line = yes
    default = 1 } }
}
CONF
}
# connection NAME LOCAL REMOTE LOCAL-ID REMOTE-ID LOCAL-TS REMOTE-TS OF-CONNECTION OF-CHILD
connection() {
  cat >"$work/$1/swanctl.conf" <<CONF
connections { site { version = 2
  local_addrs = $2
  remote_addrs = $3
  # Otherwise INITIAL_CONTACT makes the peer remove SAs that are in use.
  unique = never
  $8
  local { auth = psk
    id = $4 }
  remote { auth = psk
    id = $5 }
  children { net { local_ts = $6
    remote_ts = $7
    esp_proposals = aes128gcm16-x25519
    $9 } } } }
secrets { ike-1 { secret = a secret of the test } }
CONF
}
# In the namespace, with a /run of its own and convoy's plugin among the others.
within() { # name namespace command...
  local name=$1 ns=$2; shift 2
  STRONGSWAN_CONF=$work/$name/strongswan.conf exec unshare -m ip netns exec "$ns" sh -c "mount --make-rprivate /
    mount --bind $work/plugins $libraries
    mount --bind $work/$name/run /run; exec \"\$@\"" sh "$@"
}
ask() { # name arguments
  local name=$1; shift
  SWANCTL_DIR=$work/$name STRONGSWAN_CONF=$work/$name/strongswan.conf timeout 20 swanctl "$@" --uri "unix://$work/$name/vici"
}
load() { ask "$1" --load-all --noprompt --file "$work/$1/swanctl.conf"; }
# A unit's work: charon starts when its gateway leads, and again when it has ended.
charon_of() { # gateway
  while "$convoy" cluster wait --control "$work/g$1.sock"; do
    rm -f "$work/g$1/vici"
    (within "g$1" "cl-g$1" /usr/lib/ipsec/charon) >>"$work/g$1/out" 2>&1 & charon=$!
    for _ in $(seq 200); do [ ! -S "$work/g$1/vici" ] || break; sleep 0.1; done
    date +%s.%N >>"$work/g$1/loaded"
    load "g$1" >>"$work/g$1/load" 2>&1 || true
    wait "$charon" || true
  done
}

settings peer "kernel-libipsec kernel-netlink socket-default"
connection peer 192.0.2.2 192.0.2.10 peer.example gateway.example 10.2.0.0/24 10.1.0.0/24 "encap = yes" ""
ip -n cl-peer addr add 10.2.0.1/24 dev lo
(within peer cl-peer /usr/lib/ipsec/charon) >"$work/peer/out" 2>&1 & running+=($!)
wait_for "the peer's charon does not start" test -S "$work/peer/vici"
wait_for "the peer's charon has no connection" load peer
for g in 1 2; do
  settings g$g "convoy! kernel-netlink"
  connection g$g 192.0.2.10 192.0.2.2 gateway.example peer.example 10.1.0.0/24 10.2.0.0/24 "encap = yes" "start_action = start"
  configure $g "charon = \"$work/g$g/charon.sock\""
done
capture
both
for g in 1 2; do charon_of $g & running+=($!); done
wait_for "the tunnel is not up" answers

spis() { # gateway: of its outbound SAs
  "$convoy" show sa --json --control "$work/g$1.sock" | python3 -c '
import json, sys
print(*sorted(sa["spi"] for sa in json.load(sys.stdin) if sa["direction"] == "outbound"))'
}
loads() { wc -l <"$work/g$1/loaded" 2>/dev/null || echo 0; }
# What charon has negotiated has not come yet when the gateway goes on.
goes_on() { # gateway spis
  moves "$1"
  local now; now=$(spis "$1")
  [[ " $now " == *" $2 "* ]] || fail "g$1 goes on with the SAs $now instead of $2"
}
renewed() { [ "$(spis "$1" | wc -w)" -gt "$(echo "$2" | wc -w)" ]; } # gateway spis

before=$(spis 1)
[ -n "$before" ] || fail "g1 has no SA"
stop() { kill "${gateways[1]}"; goes_on 2 "$before"; }
echo "g1 is stopped: $(under stop)"
wait_for "charon of g2 negotiates nothing" renewed 2 "$before"
wait_for "the tunnel is not up with new SAs" answers
gateway 1
wait_for "g1 does not come back" ready 1 2
[ "$(loads 1)" = 1 ] || fail "charon of g1 has started while g2 leads"

before=$(spis 2)
killed() { kill -9 "${gateways[2]}"; moves 1; }
echo "g2 is killed: $(under killed)"
now=$(spis 1)
for spi in $before; do [[ " $now " == *" $spi "* ]] || fail "g1 goes on with the SAs $now instead of $before"; done

wait_for "charon of g1 negotiates nothing" renewed 1 "$before"
wait_for "the tunnel is not up with new SAs" answers
[ "$(loads 1)" = 2 ] || fail "charon of g1 started $(loads 1) times"

python3 tests/cluster/doubles.py "$work/outside.pcap" 192.0.2.10 || fail "sequence numbers came twice"
