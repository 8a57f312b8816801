# shellcheck shell=bash disable=SC2034,SC2154
# A convoy gateway with charon and convoy's plugin on side A, another IKE peer on side B, each in a
# network namespace. Sourced by the tests in this folder, with $convoy and $plugin set; A and B are
# set to other names if two tests run at the same time. Needs root.
#
#   10.1.0.1 [A: convoy + charon] 192.0.2.1 --veth-- 192.0.2.2 [B] 10.2.0.1
# shellcheck source=tests/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
need_root
work_dir
A=${A:-convoy-ike-a} B=${B:-convoy-ike-b}
# CHARON selects another charon than the system's: one under a prefix, together with its plugins.
# STRONGSWAN_ROOT selects a folder in which a strongSwan runs; see ../iptfs/strongswan.sh.
root=${STRONGSWAN_ROOT:+$(realpath "$STRONGSWAN_ROOT")}
enter=${root:+"$(realpath "$(dirname "${BASH_SOURCE[0]}")/../iptfs/enter.sh") $root --with $work"}
prefix=$root/usr/lib
[ -z "${CHARON:-}" ] || prefix=$(readlink -f "$(dirname "$CHARON")/../..")
libraries=$(dirname "$(find "$prefix" -name libstrongswan-vici.so | head -n 1)")
show_logs() {
  local log
  for log in a/convoy.log b/convoy.log a/log b/log; do [ ! -f "$work/$log" ] || { echo "--- $log"; tail -n 15 "$work/$log"; }; done
}
mkdir -p "$work/a" "$work/b" "$work/plugins"
cp "$libraries"/*.so ${plugin:+"$plugin"} "$work/plugins/"

namespaces() {
  add_namespace "$A" "$B"
  cable "$A" va "192.0.2.1/24 2001:db8::1/64" "$B" vb "192.0.2.2/24 2001:db8::2/64"
}

# gateway_conf SIDE ADDRESSES [MORE_PORTS]: the configuration of an operator; SIDE is a or b. The
# tunnel's local end is $LOCAL or the first address. With $DEVICE, that DPDK device is the only
# engine. $OUTSIDE replaces the keys of the outside port but its name.
gateway_conf() {
  local side=$1 host=1 udp; [ "$side" = a ] || host=2
  udp=$(printf 'kind = "udp"\naddress = [%s]' "$2")
  (umask 077; cat >"$work/$side/gateway.toml" <<CONF
[gateway]
control = "$work/$side/control.sock"
charon = "$work/$side/charon.sock"
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.$host.0.1/24", "fd00:$host::1/64"]
[[port]]
name = "outside"
${OUTSIDE:-$udp}
${3:-}
${DEVICE:+$(printf '[[engine]]\nkind = "cryptodev"\ndevice = "%s"' "$DEVICE")}
[[tunnel]]
name = "net"
local = "${LOCAL:-$(echo "$2" | cut -d'"' -f2)}"
remote = "${REMOTE:-192.0.2.$((3 - host))}"
local_ts = ["10.$host.0.0/24", "fd00:$host::/64"]
remote_ts = ["10.$((3 - host)).0.0/24", "fd00:$((3 - host))::/64"]
esp_proposal = "aes128gcm16"
CONF
  )
}
start_gateway() { # side
  local ns=$A; [ "$1" = a ] || ns=$B
  ip netns exec "$ns" "$gateway_program" run -c "$work/$1/gateway.toml" >>"$work/$1/convoy.log" 2>&1 & gateway_pid=$!
  wait_until "the gateway of $1 does not start" show stats "$1"
}

# strongswan SIDE PLUGINS: charon's own settings.
strongswan() {
  local ours=; [[ $2 != *convoy!* ]] || ours="install_virtual_ip = no"
  cat >"$work/$1/strongswan.conf" <<CONF
charon {
  load = random nonce aes sha1 sha2 md5 hmac kdf drbg openssl curve25519 pem pkcs1 pkcs8 x509 pubkey ctr gcm ccm chapoly $2 vici
  install_routes = no
  $ours
  retransmit_tries = ${RETRIES:-4}
  retransmit_timeout = ${RETRANSMIT_S:-1}
  retransmit_base = 1.2
  ${CHARON_OPTIONS:-}
  plugins {
    vici { socket = unix://$work/$1/vici }
    convoy { socket = $work/$1/charon.sock }
    kernel-libipsec { allow_peer_ts = yes }
  }
  filelog { log { path = $work/$1/log
    flush_line = yes
    default = 1 } }
}
swanctl { load = pem pkcs1 pkcs8 x509 pubkey openssl random }
CONF
  chmod 644 "$work/$1/strongswan.conf" # whatever the umask, as charon may have no privilege
}
with_convoy="convoy! kernel-netlink"
stock="kernel-libipsec kernel-netlink socket-default"

# connection SIDE LOCAL REMOTE "CONNECTION OPTIONS" "CHILD OPTIONS" [local auth] [remote auth]
connection() {
  local side=$1 host=1; [ "$side" = a ] || host=2
  local me=$side.example peer; [ "$side" = a ] && peer=b.example || peer=a.example
  cat >"$work/$side/swanctl.conf" <<CONF
connections { site { version = 2
  local_addrs = $2
  remote_addrs = $3
  $4
  local { ${6:-auth = psk}
    id = $me }
  remote { ${7:-auth = psk}
    id = $peer }
  children { net { local_ts = ${LOCAL_TS:-10.$host.0.0/24}
    remote_ts = ${REMOTE_TS:-10.$((3 - host)).0.0/24}
    rand_time = 0
    $5 } } } }
secrets { ike-1 { secret = ${SECRET:-a secret of the test} }
  ${SECRETS:-} }
CONF
}
# Before a command: as packaging/strongswan-convoy.conf has charon started, with no privilege.
unprivileged="setpriv --reuid convoy-charon --regid convoy-charon --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs"
# for_charon FOLDER...: lets a charon without privileges write there.
for_charon() {
  id -u convoy-charon >/dev/null 2>&1 || fail "there is no user convoy-charon; start this test by tests/own-run.sh"
  chmod 711 "$work"
  mkdir -p "$@"
  chown convoy-charon:convoy-charon "$@"
}
# A charon that has no gateway has the kernel's privileges of its own.
charon_is_privileged() { ! grep -q convoy! "$work/$1/strongswan.conf"; } # side
start_charon() { # side
  local ns=$A as='' inside=''; [ "$1" = a ] || ns=$B
  if ! charon_is_privileged "$1"; then
    for_charon "$work/$1" "$work/$1/run"
    if [ -z "$enter" ]; then as=$unprivileged; else inside="--as $(id -u convoy-charon)"; fi
  fi
  rm -f "$work/$1/vici"
  STRONGSWAN_CONF=$work/$1/strongswan.conf unshare -m ip netns exec "$ns" sh -c "mount --make-rprivate /
    mount --bind $work/plugins $libraries
    mkdir -p $work/$1/run; mount --bind $work/$1/run $root/run; exec $as $enter $inside ${CHARON:-/usr/lib/ipsec/charon}" >"$work/$1/out" 2>&1 & charon_pid=$!
  wait_until "charon of $1 does not start" test -S "$work/$1/vici"
}
ask() { # side swanctl-arguments
  local side=$1; shift
  SWANCTL_DIR=$work/$side STRONGSWAN_CONF=$work/$side/strongswan.conf timeout "$PATIENCE" $enter swanctl "$@" --uri "unix://$work/$side/vici"
}
load() { ask "$1" --load-all --noprompt --file "$work/$1/swanctl.conf" >"$work/$1/load" 2>&1 || fail "$1 does not load: $(cat "$work/$1/load")"; }
up() { ask "$1" --initiate --child net >"$work/$1/up" 2>&1 || fail "$1 cannot initiate: $(tail -3 "$work/$1/up")"; }
down() { ask "$1" --terminate --ike site >/dev/null 2>&1 || true; }
show() { "$convoy" show "$1" --json --control "$work/${2:-a}/control.sock"; } # what side
sas() { show sa "${1:-a}" | grep -c '"transform"' || true; }
# pings_from NAMESPACE COUNT ARGUMENT...: leaves ping's output in $work/ping.
pings_from() { pings "$work/ping" "$@"; }
# ping_both [ADDRESS_OF_A ADDRESS_OF_B]: three pings of each of three sizes from each side, all at
# the same time: 18 packets in each direction.
ping_both() {
  local one size tries=()
  for size in 0 56 1200; do
    pings "$work/ping-a-$size" "$A" 3 -s $size -I "${1:-10.1.0.1}" "${2:-10.2.0.1}" & tries+=("$!")
    pings "$work/ping-b-$size" "$B" 3 -s $size -I "${2:-10.2.0.1}" "${1:-10.1.0.1}" & tries+=("$!")
  done
  for one in "${tries[@]}"; do wait "$one" || true; done
  for one in "$work"/ping-[ab]-*; do all_answered "$one" || fail "not all are answered of the pings ${one##*ping-}: $(tail -3 "$one")"; done
}
