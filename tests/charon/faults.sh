#!/usr/bin/env bash
# The faults that operators meet, one after the other, between two gateways with charon: for each,
# what `convoy check`, `show tunnel`, `explain`, the events, the log and the metric behind the alert
# say, and after how long. `convoy top` and the page for browsers draw the rows of `show tunnel`.
# Needs root.
# usage: faults.sh CONVOY PLUGIN
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2") A=convoy-faults-a B=convoy-faults-b
here=$(dirname "$(realpath "$0")")
source "$here/lib.sh"

# static NAME OWN_NUMBER NETWORK KEY_IN KEY_OUT REMOTE...: a tunnel with static keys.
static() {
  local name=$1 host=$2 third=$3 key_in=$4 key_out=$5 remote=$6
  cat <<CONF
[[tunnel]]
name = "$name"
local = "192.0.2.$host"
remote = "$remote"
local_ts = ["10.$host.$third.0/24"]
remote_ts = ["10.$((3 - host)).$third.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = $((third * 256 + host))
spi_out = $((third * 256 + 3 - host))
key_in = "$key_in"
key_out = "$key_out"
CONF
}
one=00112233445566778899aabbccddeeff00112233 other=ffeeddccbbaa99887766554433221100ffeeddcc
wrong=aaaaaaaabbbbbbbbccccccccddddddddaaaaaaaa
third=0123456789abcdef0123456789abcdef01234567 fourth=76543210fedcba9876543210fedcba9876543210
# configure SIDE KEY_IN KEY_OUT: a monitor of charon's tunnel, the tunnel "static", and at A one to
# a name that is not resolved.
configure() {
  local host=1; [ "$1" = a ] || host=2
  gateway_conf "$1" "\"192.0.2.$host\""
  sed -i "s|^\[gateway\]|&\nmetrics = \"127.0.0.1:9464\"\nstate = \"$work/$1/state\"|; s|\"10.$host.0.1/24\"|\"10.$host.0.1/32\"|" \
    "$work/$1/gateway.toml"
  printf '[tunnel.monitor]\necho = true\ninterval_ms = 100\nlost_after_ms = 500\n' >>"$work/$1/gateway.toml"
  static static $host 3 "$2" "$3" "192.0.2.$((3 - host))" >>"$work/$1/gateway.toml"
  [ "$1" = b ] || static nameless 1 4 $third $fourth nowhere.invalid >>"$work/$1/gateway.toml"
}
in_side() { local ns=$A; [ "$1" = a ] || ns=$B; ip netns exec "$ns" "${@:2}"; }
# firewall SIDE HOOK RULE: of a side; mend removes it.
firewall() { in_side "$1" nft "add table inet fault; add chain inet fault c { type filter hook $2; }; add rule inet fault c $3"; }
mend() { in_side "$1" nft delete table inet fault; }
events_of() { show events a | python3 -c 'import json, sys; print(max([0] + [event["number"] for event in json.load(sys.stdin)]))'; }
# said NAME TUNNEL FROM TO WHAT=PATTERN...: what side A says, within the limits of faults.py.
said() {
  in_side a python3 "$here/faults.py" --convoy "$convoy" --folder "$work/a" --since "$since" --log-from "$log_from" "$@" || fail "$1: not said as it should be"
}
# fault: what A says from now on is about the next one.
fault() { since=$(events_of) log_from=$(stat -c %s "$work/a/convoy.log"); }
is_up() { show tunnel a | python3 -c 'import json, sys
sys.exit("up" not in [row["state"] for row in json.load(sys.stdin) if row["tunnel"] == "net"])'; }
up_again() { wait_until "$1: the tunnel is not up again" is_up; }

declare -A charon gateway
namespaces
for side in a b; do
  in_side $side sysctl -qw net.ipv4.ip_forward=1
  host=1; [ $side = a ] || host=2
  # Hosts behind, and a name server that knows nothing.
  in_side $side ip link add lan0 type veth peer name hosts0
  in_side $side ip addr add 10.$host.0.254/24 dev lan0
  in_side $side ip addr add 10.$host.3.1/24 dev lo
  in_side $side ip link set hosts0 up
  in_side $side ip link set lan0 up
done
configure a $one $other
configure b $other $one
ike=aes128-sha256-x25519 esp=aes128gcm16
connections() { # IKE_PROPOSAL_OF_B ESP_PROPOSAL_OF_B
  connection a 192.0.2.1 192.0.2.2 "encap = yes
  proposals = $ike" "esp_proposals = $esp"
  connection b 192.0.2.2 192.0.2.1 "encap = yes
  proposals = $1" "esp_proposals = $2"
}
connections $ike $esp
for side in a b; do
  RETRIES=3 strongswan $side "$with_convoy"
  start_gateway $side; gateway[$side]=$gateway_pid
  start_charon $side; charon[$side]=$charon_pid
done

# IKE fails: what charon reports, in the gateway's own words.
refused() { # NAME PATTERN
  load a; load b; fault
  if ask a --initiate --child net --timeout 20 >"$work/a/up" 2>&1; then fail "$1: the tunnel is up"; fi
  said "$1" net 10.1.0.1 10.2.0.1 show="negotiating.*$2" explain="$2" event="ike-failed.*$2" log="$2" up=0
  down a; down b
}
sed -i 's/a secret of the test/another secret/' "$work/b/swanctl.conf"
refused "another pre-shared key" AUTHENTICATION_FAILED
connections aes256-sha512-ecp384 $esp; refused "no IKE proposal in common" "no IKE proposal in common"
connections $ike aes256-sha512; refused "no ESP proposal in common" "no ESP proposal in common"
connections $ike $esp; sed -i 's/remote_ts = 10\.1\.0\.0/remote_ts = 10.9.0.0/' "$work/b/swanctl.conf"
refused "networks that do not fit" TS_UNACCEPTABLE
# B's certificate has expired; both trust the same CA.
ec=(-newkey ec -pkeyopt "ec_paramgen_curve:P-256" -nodes)
for side in a b; do mkdir -p "$work/$side/x509" "$work/$side/x509ca" "$work/$side/private"; done
openssl req -x509 "${ec[@]}" -days 1 -subj "/CN=ca" -keyout "$work/ca.key" -out "$work/ca.pem" 2>"$work/openssl"
for side in a b; do
  days=1; [ $side = a ] || days=-1
  openssl req "${ec[@]}" -subj "/CN=$side.example" -keyout "$work/$side/private/key.pem" -out "$work/request" 2>>"$work/openssl"
  openssl x509 -req -in "$work/request" -days $days -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial \
    -extfile <(echo "subjectAltName=DNS:$side.example") -out "$work/$side/x509/cert.pem" 2>>"$work/openssl"
  cp "$work/ca.pem" "$work/$side/x509ca/"
  host=1; [ $side = a ] || host=2
  connection $side 192.0.2.$host 192.0.2.$((3 - host)) "encap = yes" "esp_proposals = $esp" "auth = pubkey
    certs = cert.pem" "auth = pubkey"
done
refused "a certificate that has expired" "certificate has expired: CN=b.example"
connections $ike $esp; load a; load b; up a
up_again "IKE"

# The path: the monitor notices what is reported by no ICMP and no IKE.
fault; firewall b "input priority -10" "udp dport 4500 drop"
said "a firewall at the far end" net 10.1.0.1 10.2.0.1 show=silent explain='! peer.*ESP echoes' event=probes-lost log='has not answered ESP echoes' up=0
mend b; up_again "the far firewall"
fault; firewall a "output priority -10" "udp dport 4500 drop"
said "a firewall at this end" net 10.1.0.1 10.2.0.1 show=silent explain='! route.*send_forbidden' event=probes-lost log='has not answered ESP echoes' up=0
mend a; up_again "the near firewall"
fault; firewall a "prerouting priority -400" "iifname va drop"
said "a path that is cut" net 10.1.0.1 10.2.0.1 show=silent explain='! peer.*ESP echoes' event=probes-lost log='has not answered ESP echoes' up=0
mend a; up_again "the path"
fault; firewall b "prerouting priority -400" "iifname vb ip length > 1300 drop"
sed -i 's/^lost_after_ms = 500/lost_after_ms = 501/' "$work/a/gateway.toml"; kill -HUP "${gateway[a]}"
said "a black hole for long packets" net 10.1.0.1 10.2.0.1 show='"path_mtu": 1(29[0-9]|300)' event=path-mtu log='the path MTU to' up=1
mend b

# The way in: what the kernel does before the gateway.
fault; in_side a sysctl -qw net.ipv4.ip_forward=0
down a; up a
said "forwarding is off" net 10.1.0.77 10.2.0.1 check='lan0.*ip_forward=1' explain='! port.*forwards nothing.*ip_forward=1' \
  event='hosts on interface lan0' log='hosts on interface lan0.*ip_forward=1' show=up
in_side a sysctl -qw net.ipv4.ip_forward=1
fault; in_side a nft 'add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
said "a chain that drops, as Docker's" net 10.1.0.77 10.2.0.1 check='chain FORWARD' explain='! port.*chain FORWARD' show=up
in_side a nft delete table ip filter

# Static keys: no daemon says what is wrong.
since=0 log_from=0
said "a name that is not resolved" nameless 10.1.4.1 10.2.4.1 show=no-peer explain='! sa.*outbound_no_peer' log='nowhere.invalid' up=0
fault; configure b $other $wrong; kill -HUP "${gateway[b]}"
reloaded() { [ "$(grep -c "reload of tunnels" "$work/b/convoy.log")" = "$1" ]; }
wait_until "B does not read its configuration again" reloaded 1
lose() { in_side b ping -q -c 30 -i 0.05 -W 0.1 -I 10.2.3.1 10.1.3.1 >/dev/null 2>&1 || true; }
lose
said "another key at the peer" static 10.1.3.1 10.2.3.1 explain='! peer.*integrity_failed' event='dropped.*integrity_failed' log='integrity_failed' show='integrity_failed'
configure b $other $one; kill -HUP "${gateway[b]}"
answers() { pings_from $A 3 -I 10.1.3.1 10.2.3.1; }
wait_until "the static tunnel does not answer again" answers
# Nothing else may go from A to B meanwhile: its entry would be one that no NAT changes.
down a
fault; in_side b nft 'add table ip nat; add chain ip nat post { type nat hook postrouting priority srcnat; }; add rule ip nat post udp sport 4500 masquerade to :40000'
(while :; do lose; done) & losing=$!
said "a NAT between, and static keys" static 10.1.3.1 10.2.3.1 event='peer-elsewhere.*40000' log='answers go on to'
kill $losing; wait $losing || true
in_side b nft delete table ip nat

# Processes that are gone.
fault; end_process "${charon[a]}"
said "charon is gone" net 10.1.0.1 10.2.0.1 show='(down|negotiating)' explain='charon is not connected' up=0
start_charon a; charon[a]=$charon_pid; load a; up a
up_again "charon"
fault; kill -KILL "${gateway[b]}" "${charon[b]}"
said "a peer that is dead" net 10.1.0.1 10.2.0.1 show=silent explain='! peer.*ESP echoes' event=probes-lost log='has not answered ESP echoes' up=0
