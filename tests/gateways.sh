# shellcheck shell=bash disable=SC2034,SC2154
# A gateway at each site of hosts.sh, with static keys that are generated for each run:
# configuration, start and stop, `convoy show`, and decryption of the captured packets with tshark.
# Sourced after hosts.sh; the caller sets $encap.
key_ab=$(random_key) key_ba=$(random_key) spi_ab=0x5b000002 spi_ba=0x5a000001
declare -A process_of=()
# configure NAMESPACE NUMBER PEER_NUMBER OUTER PEER_OUTER FAMILIES <PORTS: writes its gateway's
# configuration, with a tunnel between the networks behind both gateways: IPv4, and also IPv6 if
# FAMILIES is 46.
configure() {
  local ports spi_in=$spi_ba spi_out=$spi_ab key_in=$key_ba key_out=$key_ab
  ports=$(cat)
  [ "$2" = 1 ] || { spi_in=$spi_ab spi_out=$spi_ba key_in=$key_ab key_out=$key_ba; }
  behind() { printf '"10.%s.0.0/24"' "$2"; [ "$1" = 4 ] || printf ', "fd00:%s::/64"' "$2"; } # families number
  (umask 077; cat >"$work/$1.toml" <<CONF
[gateway]
control = "$work/$1.sock"
state = "$work/$1.state"
workers = ${WORKERS:-1}
$ports
[[tunnel]]
name = "site-$3"
local = "$4"
remote = "$5"
local_ts = [$(behind "$6" "$2")]
remote_ts = [$(behind "$6" "$3")]
esp_proposal = "aes128gcm16"
encap = "$encap"
[tunnel.manual]
spi_in = $spi_in
spi_out = $spi_out
key_in = "$key_in"
key_out = "$key_out"
CONF
  )
}
# start_gateway NAMESPACE: starts its gateway; end_gateway NAMESPACE: stops it, and fails if it does
# not exit cleanly.
start_gateway() {
  run_gateway "$1-convoy.log" "$1" "$work/$1.toml"
  process_of[$1]=$started
}
end_gateway() { end_well "${process_of[$1]}" "the gateway $1"; }
ask() { "$convoy" show "$2" --json --control "$work/$1.sock"; } # namespace what
# of_port NAMESPACE PORT COUNTER: a counter of a port.
of_port() {
  ask "$1" port | python3 -c '
import json, sys
port = next(port for port in json.load(sys.stdin) if port["name"] == sys.argv[1])
print(dict(port["device"], **port)[sys.argv[2]])' "$2" "$3"
}
# decrypted OUTER_A OUTER_B FILTER: number of captured packets that tshark decrypts and that match
# the filter.
decrypted() {
  local family=IPv4
  case $1 in *:*) family=IPv6 ;; esac
  sa() { printf 'uat:esp_sa:"%s","%s","%s","%s","AES-GCM with 16 octet ICV [RFC4106]","0x%s","NULL",""' "$family" "$@"; }
  tshark -r "$work/outside.pcap" -o esp.enable_encryption_decode:TRUE \
    -o "$(sa "$1" "$2" $spi_ab "$key_ab")" -o "$(sa "$2" "$1" $spi_ba "$key_ba")" -Y "esp && ($3)" 2>/dev/null | wc -l
}
