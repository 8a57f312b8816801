# shellcheck shell=bash
# Two sites in network namespaces, each with a gateway: for net.sh and for system tests. To be
# sourced with $convoy set, and IN_LAB for devices of the laboratory. Optional variables: PORT (udp,
# raw, af_xdp, af_packet or card), UDP_PORT (instead of 4500), OUTER (4 or 6), WORKERS, TUNNELS
# (their number; tunnel t connects the subnets 10.x.t.0), PROPOSALS (an array, one for each tunnel),
# MODE (of the tunnels, tunnel or iptfs), RESOURCES (of how many workers a tunnel has SAs), ENCAP
# (udp or none), FUNCTION (of port card), LINK_MTU (between the gateways), INNER_MTU (inside) and
# EXTRA (appended to [gateway] of both).
# Both gateways run afterwards; stop_gateways, configure and begin_gateways run them with others.
#
#   host 10.1.0.1 [site 1] 192.0.2.1 --veth-- 192.0.2.2 [site 2] 10.2.0.1 host
# shellcheck source=tests/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tests/lib.sh"
need_root
work_dir
a=convoy-a b=convoy-b
add_namespace $a $b
cable $a va "" $b vb ""
for side in "$a va 1" "$b vb 2"; do
  read -r ns dev host <<<"$side"
  [ -z "${LINK_MTU:-}" ] || ip -n "$ns" link set "$dev" mtu "$LINK_MTU"
  if [ "${PORT:-udp}" = card ]; then
    # The card's driver uses this interface, so the kernel needs no address on it.
    in_ns "$ns" sysctl -qw "net.ipv6.conf.$dev.disable_ipv6=1"
    continue
  fi
  up_with "$ns" "$dev" "192.0.2.$host/24 2001:db8::$host/64"
done

outer() { if [ "${OUTER:-4}" = 4 ]; then echo "192.0.2.$1"; else echo "2001:db8::$1"; fi; }
encap=${ENCAP:-udp}
[ "${PORT:-udp}" != raw ] || encap=none
proposal() { echo "${PROPOSALS[$1]:-aes128gcm16}"; }
key() { # proposal
  local bytes=20
  case $1 in
    chacha20poly1305 | aes128-sha1) bytes=36 ;;
    aes128ctr-sha1) bytes=40 ;;
    3des-sha1) bytes=44 ;;
    aes128ctr-sha512) bytes=84 ;;
  esac
  random_key $bytes
}
last=$((${TUNNELS:-1} - 1))
for t in $(seq 0 $last); do key_ab[t]=$(key "$(proposal "$t")") key_ba[t]=$(key "$(proposal "$t")"); done
tunnel() { # site peer t spi_in spi_out key_in key_out
  local v6_local="" v6_remote=""
  [ "$3" != 0 ] || v6_local=", \"fd00:$1::/64\"" v6_remote=", \"fd00:$2::/64\""
  cat <<CONF
[[tunnel]]
name = "site-$2${3#0}"
local = "$(outer "$1")"
remote = "$(outer "$2")"
local_ts = ["10.$1.$3.0/24"$v6_local]
remote_ts = ["10.$2.$3.0/24"$v6_remote]
esp_proposal = "$(proposal "$3")"
encap = "$encap"
mode = "${MODE:-tunnel}"
${UDP_PORT:+remote_port = $UDP_PORT}
[tunnel.manual]
spi_in = $4
spi_out = $5
key_in = "$6"
key_out = "$7"
${RESOURCES:+resources = $RESOURCES}
CONF
}
conf() { # site
  local t addresses="\"fd00:$1::1/64\"" outside
  outside="address = [\"$(outer "$1")\"]"
  if [ "${PORT:-udp}" = card ]; then
    outside="address = [\"$(outer "$1")/$([ "${OUTER:-4}" = 4 ] && echo 24 || echo 64)\"]"$'\n'"interface = \"v$(tr 12 ab <<<"$1")\""
    [ -z "${FUNCTION:-}" ] || outside="$outside"$'\n'"function = \"$FUNCTION\""
  fi
  [[ "${PORT:-udp}" != af_* ]] || outside="$outside"$'\n'"interface = \"v$(tr 12 ab <<<"$1")\""
  for t in $(seq 0 $last); do addresses="$addresses, \"10.$1.$t.1/24\""; done
  (umask 077; cat >"$work/site-$1.toml" <<CONF
[gateway]
control = "$work/site-$1.sock"
state = "$work/site-$1.state"
metrics = "127.0.0.1:9464"
workers = ${WORKERS:-1}
${EXTRA:-}
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
${INNER_MTU:+mtu = $INNER_MTU}
address = [$addresses]
[[port]]
name = "outside"
kind = "${PORT:-udp}"
${UDP_PORT:+udp_port = $UDP_PORT}
$outside
CONF
  )
}
configure() {
  local t
  conf 1
  conf 2
  for t in $(seq 0 $last); do
    tunnel 1 2 "$t" $((0x1001 + 16 * t)) $((0x1002 + 16 * t)) "${key_ba[t]}" "${key_ab[t]}" >>"$work/site-1.toml"
    tunnel 2 1 "$t" $((0x1002 + 16 * t)) $((0x1001 + 16 * t)) "${key_ab[t]}" "${key_ba[t]}" >>"$work/site-2.toml"
  done
}
begin_gateways() {
  start a.log $a "$gateway_program" run -c "$work/site-1.toml"; gateways[0]=$started
  start b.log $b "$gateway_program" run -c "$work/site-2.toml"; gateways[1]=$started
  wait_for_line ' ready' "$work/a.log" "the gateway of site 1 does not start"
  wait_for_line ' ready' "$work/b.log" "the gateway of site 2 does not start"
}
# begin_gateway SITE: again, when it has ended.
begin_gateway() {
  local log=a.log ns=$a; [ "$1" = 1 ] || log=b.log ns=$b
  run_gateway $log $ns "$work/site-$1.toml"
  gateways[$1 - 1]=$started
}
stop_gateways() { end_well "${gateways[0]}" "the gateway of site 1"; end_well "${gateways[1]}" "the gateway of site 2"; }
gateways=()
configure
"$gateway_program" check -c "$work/site-1.toml"
begin_gateways
