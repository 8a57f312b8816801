# A gateway at each site of hosts.sh, with static keys that are generated for each run:
# configuration, start and stop, `convoy show`, and decryption of the captured packets with tshark.
# Sourced after hosts.sh; the caller sets $encap.
new_key() { head -c 20 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
key_ab=$(new_key) key_ba=$(new_key) spi_ab=0x5b000002 spi_ba=0x5a000001
declare -A started
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
# start NAMESPACE: starts its gateway; end NAMESPACE: stops it, and fails if it does not exit
# cleanly.
start() {
  in_ns "$1" "$convoy" run -c "$work/$1.toml" >"$work/$1-convoy.log" 2>&1 & started[$1]=$!
  running+=($!)
  wait_for "the gateway $1 does not start" grep -q ' ready' "$work/$1-convoy.log"
}
process_of() { pgrep -f "^$convoy run -c $work/$1.toml" | head -1; } # namespace
end() {
  kill -TERM "$(process_of "$1")"
  wait "${started[$1]}" || fail "the gateway $1 does not end well"
}
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
