#!/usr/bin/env bash
# Runs the files of docs/guide/road-warriors.md with 100 clients, half of them with certificates and
# half with passwords, each with an outer address and a virtual IP of its own: a stock charon with
# 100 connections. All are up, reach a host behind the gateway, and are reached. One is revoked, one
# loses its password: their traffic is blocked, and nothing is in clear. Another client gets the
# address of one of them. Needs root.
# usage: road-warriors.sh CONVOY PLUGIN
#
#   10.1.0.10 [host] -- 10.1.0.1 [A: convoy + charon] 192.0.2.1 -- 192.0.2.101 to .201 [B: charon]
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
page=$here/../../docs/guide/road-warriors.md
A=convoy-rw-a B=convoy-rw-b H=convoy-rw-host
source "$here/lib.sh"
CLIENTS=100
# block NAME: the code block that the page marks with this name.
block() { marked "$page" "$1"; }
namespaces
add_namespace $H
cable $A lan 10.1.0.1/24 $H lan 10.1.0.10/24
ip -n $H route add default via 10.1.0.1
ip netns exec $A sysctl -qw net.ipv4.ip_forward=1
# Without the gateway, packets to the pool would leave unencrypted by this route.
ip -n $A route add default via 192.0.2.2
for n in $(seq $((CLIENTS + 1))); do ip -n $B addr add "192.0.2.$((100 + n))/24" dev vb; done

mkdir -p "$work/strongswan.d/charon" "$work/run/convoy" "$work/pki" "$work/a" "$work/swanctl/conf.d"
cp -r /etc/strongswan.d/. "$work/strongswan.d/"; cp "$here/../../charon/convoy.conf" "$work/strongswan.d/charon/"
cp "$here/../../charon/charon.conf" "$work/strongswan.d/convoy.conf"
printf 'charon { filelog { log { path = %s/a/log\n    flush_line = yes\n    default = 1 } } }\n' "$work" >"$work/strongswan.d/log.conf"
# in_a COMMAND...: runs it on the gateway, with separate files in /run, /etc/strongswan.d and
# /etc/swanctl.
in_a() {
  unshare -m ip netns exec $A sh -c "mount --make-rprivate /
    mount --bind $work/plugins $libraries
    mount --bind $work/strongswan.d /etc/strongswan.d
    mount --bind $work/swanctl /etc/swanctl
    mount --bind $work/run /run; cd $work/pki; exec \"\$@\"" sh "$@"
}
step() { block "$1" >"$work/step"; in_a sh -e "$work/step" >>"$work/steps" 2>&1 || fail "the page's step \"$1\": $(tail -5 "$work/steps")"; }
name() { echo "client$1"; }
has_certificate() { [ "$1" -le $((CLIENTS / 2)) ]; }

step ca; step install
block client >"$work/client"
for n in $(seq $((CLIENTS / 2))); do
  sed "s/^NAME=.*/NAME=$(name "$n")/" "$work/client" >"$work/step"
  in_a sh -e "$work/step" >>"$work/steps" 2>&1 || fail "no certificate: $(tail -5 "$work/steps")"
done
(umask 077; block convoy.toml >"$work/convoy.toml")
block gateway.conf >"$work/gateway.conf"
passwords() { # but that of a client
  local n
  echo "secrets {"
  for n in $(seq $((CLIENTS / 2 + 1)) $((CLIENTS + 1))); do
    [ "$n" = "${1:-0}" ] || printf 'eap-%s { id = %s@example.org\n  secret = "password %s" }\n' "$(name "$n")" "$(name "$n")" "$n"
  done
  echo "}"
}
configure_a() { { cat "$work/gateway.conf"; passwords "${1:-0}"; } >"$work/swanctl/conf.d/road-warriors.conf"; }
configure_a
echo 'include conf.d/*.conf' >"$work/swanctl/swanctl.conf"

# The page's client as client N, without ESN, which strongSwan's ESP in userspace lacks.
block certificate.conf >"$work/certificate.conf"; block password.conf >"$work/password.conf"
client() { # N
  local page=$work/password.conf name; name=$(name "$1")
  ! has_certificate "$1" || page=$work/certificate.conf
  sed "s/office {/$name {/; s/alice/$name/; s/bob@/$name@/; s/eap-bob/eap-$name/; s/secret = .*/secret = \"password $1\" } }/
    s/remote_addrs = /local_addrs = 192.0.2.$((100 + $1))\n  mobike = no\n  &/; s/start_action = start/start_action = none/
    s/-esn-noesn//" "$page"
}
# A thread waits for each client that is being set up.
CHARON_OPTIONS="threads = 64" strongswan b "eap-identity eap-mschapv2 $stock"
mkdir -p "$work/b/x509" "$work/b/x509ca" "$work/b/private"
cp "$work/pki/ca.pem" "$work/b/x509ca/"
for n in $(seq $((CLIENTS / 2))); do
  cp "$work/pki/$(name "$n").pem" "$work/b/x509/"; cp "$work/pki/$(name "$n")-key.pem" "$work/b/private/"
done
for n in $(seq $((CLIENTS + 1))); do client "$n"; done >"$work/b/swanctl.conf"

in_a "$convoy" run -c "$work/convoy.toml" >"$work/a/convoy.log" 2>&1 &
wait_until "the gateway does not start" in_a "$convoy" show stats
for_charon "$work/a" "$work/run" "$work/run/convoy-charon"
in_a $unprivileged /usr/lib/ipsec/charon >"$work/a/out" 2>&1 &
wait_until "charon does not start" test -S "$work/run/convoy-charon/vici"
in_a swanctl --load-all --noprompt >"$work/load" 2>&1 || fail "the page's configuration does not load: $(cat "$work/load")"
start_charon b; load b
began=$SECONDS
for n in $(seq $CLIENTS); do
  ask b --initiate --child net --ike "$(name "$n")" >"$work/b/up-$n" 2>&1 & starting[n]=$!
  [ $((n % 10)) != 0 ] || wait "${starting[@]}" || true
done
for n in $(seq $CLIENTS); do wait "${starting[n]}" || fail "client $n is not up: $(tail -3 "$work/b/up-$n")"; done
sas() { in_a "$convoy" show sa --json | grep -c '"transform"' || true; }
[ "$(sas)" = $((2 * CLIENTS)) ] || fail "$(sas) SAs for $CLIENTS clients"
echo "$CLIENTS clients are up after $((SECONDS - began)) s, half by certificate, half by EAP-MSCHAPv2"
# address N: the virtual IP of a client.
ask b --list-sas --raw >"$work/b/sas"
address() {
  local ike=$1; [ "$1" = offer ] || ike=$(name "$1")
  python3 - "$work/b/sas" "$ike" <<'FIND'
import re, sys
found = re.search(re.escape(sys.argv[2]) + r" \{.*?local-vips=\[([0-9.]+)", open(sys.argv[1]).read(), re.S)
print(found[1] if found else "none")
FIND
}
for n in $(seq $CLIENTS); do addresses[n]=$(address "$n"); done
[ "$(printf '%s\n' "${addresses[@]}" | sort -u | grep -c '^10\.3\.0\.')" = $CLIENTS ] || fail "not each client has an address of its own: ${addresses[*]}"
# Each client's tunnel has its identity and its address.
in_a "$convoy" show tunnel --json >"$work/tunnels"
python3 - "$work/tunnels" "${addresses[@]}" <<'PEERS' || fail "clients and addresses are not those of show tunnel"
import json, sys
peers = [row["ike"] for row in json.load(open(sys.argv[1])) if row["outbound"]["sas"]]
assert sorted(peer["virtual_ips"] for peer in peers) == sorted(sys.argv[2:]), peers
assert len({peer["identity"] for peer in peers}) == len(peers), peers
assert all("@example.org" in peer["identity"] for peer in peers), peers
PEERS

ip netns exec $B tcpdump -n -U -l -i vb net 10.0.0.0/8 >"$work/plain" 2>"$work/tcpdump" &
wait_until "tcpdump does not start" grep -q listening "$work/tcpdump"
nothing_plain() { sleep 0.3; [ ! -s "$work/plain" ] || fail "$1: in clear outside: $(head -n 3 "$work/plain")"; }
# all_ping FROM: each client and the host behind the gateway, both ways.
both_ways() { # N...
  local n tries=()
  for n in "$@"; do
    pings "$work/from-$n" $B 3 -I "${addresses[n]}" 10.1.0.10 & tries+=("$!")
    pings "$work/to-$n" $H 3 "${addresses[n]}" & tries+=("$!")
  done
  for n in "${tries[@]}"; do wait "$n" || true; done
  for n in "$@"; do
    all_answered "$work/from-$n" || fail "client $n does not reach the host: $(cat "$work/from-$n")"
    all_answered "$work/to-$n" || fail "the host does not reach client $n: $(cat "$work/to-$n")"
  done
}
for n in $(seq 1 20 $CLIENTS); do both_ways $(seq "$n" $((n + 19))); done
nothing_plain "with all clients"
! grep -q 'WARN.*traffic selectors of no' "$work/a/convoy.log" || fail "a warning of what the [[tunnel]] covers: $(grep WARN "$work/a/convoy.log")"
! ip -n $A route show table 4500 | grep '^blackhole 10[.]3[.]0[.][0-9]* ' || fail "addresses of the pool are blocked"
echo "each client reaches the host behind the gateway and is reached by it: $((6 * CLIENTS)) of $((6 * CLIENTS)) pings"

# ended N: ends a client's IKE SA, and has nothing of it come through.
ended() {
  local id n=$1
  id=$(in_a swanctl --list-sas --raw | grep "remote-\(eap-\)\?id=$(name "$n")@" | grep -o 'uniqueid=[0-9]*' | sed -n 1p | cut -d= -f2)
  in_a swanctl --terminate --ike-id "$id" >"$work/end" 2>&1 || fail "client $n cannot be ended: $(cat "$work/end")"
  ! ask b --initiate --child net --ike "$(name "$n")" >"$work/b/again" 2>&1 || fail "client $n comes back"
  grep -q AUTH_FAILED "$work/b/again" "$work/b/log" || fail "client $n is refused for another reason: $(tail -3 "$work/b/again")"
  ip netns exec $H ping -q -c 3 -i 0.1 -W 0.5 "${addresses[n]}" >/dev/null 2>&1 && fail "the host still reaches client $n"
  nothing_plain "after the end of client $n"
  # As one who sends without a tunnel.
  ip -n $B addr add "${addresses[n]}/32" dev lo
  ip -n $B route add 10.1.0.10 via 192.0.2.1 src "${addresses[n]}" table 77
  ip -n $B rule add from "${addresses[n]}" lookup 77
  ip netns exec $B ping -q -c 3 -i 0.1 -W 0.5 -I "${addresses[n]}" 10.1.0.10 >/dev/null 2>&1 && fail "client $n still reaches the host"
  ! grep -q "> ${addresses[n]}:" "$work/plain" || fail "client $n is answered in clear"
  ! grep -q "${addresses[n]} >" "$work/host" || fail "packets of client $n have come to the host: $(cat "$work/host")"
  ip -n $B rule del from "${addresses[n]}" lookup 77; ip -n $B route flush table 77; ip -n $B addr del "${addresses[n]}/32" dev lo
  : >"$work/plain"
}
ip netns exec $H tcpdump -n -U -l -i lan icmp and dst 10.1.0.10 and icmp[0] == 8 >"$work/host" 2>"$work/tcpdump-host" &
wait_until "tcpdump does not start" grep -q listening "$work/tcpdump-host"
revoked=7 locked=58
block revoke | sed "s/alice/$(name $revoked)/" >"$work/step"
in_a sh -e "$work/step" >>"$work/steps" 2>&1 || fail "the page's step \"revoke\": $(tail -5 "$work/steps")"
ended $revoked
configure_a $locked
in_a swanctl --load-creds --clear --noprompt >"$work/load" 2>&1 || fail "credentials do not load: $(cat "$work/load")"
ended $locked
drops=$(in_a "$convoy" show stats --json | python3 -c 'import json, sys
stats = json.load(sys.stdin)
print(stats["drops"].get("outbound_no_policy", 0), stats["guard"]["dropped_inbound"])')
[ "${drops% *}" -ge 6 ] && [ "${drops#* }" = 6 ] || fail "not 3 packets of each client in each direction were dropped: $drops"
echo "a revoked certificate and a removed password: no way back, nothing in clear, dropped outbound and by the guard: $drops"

# The pool has as many addresses as there were clients.
new=$((CLIENTS + 1))
ask b --initiate --child net --ike "$(name $new)" >"$work/b/up-$new" 2>&1 || fail "client $new is not up: $(tail -3 "$work/b/up-$new")"
ask b --list-sas --raw >"$work/b/sas"
addresses[new]=$(address $new)
[[ " ${addresses[$revoked]} ${addresses[$locked]} " == *" ${addresses[new]} "* ]] || fail "client $new has ${addresses[new]}, which is no client's old address"
both_ways $new 1 $CLIENTS
nothing_plain "with a new client"
echo "client $new has ${addresses[new]}, which another had, and 18 of 18 pings"

# What phones and Windows offer, according to the page: each alone, with its rekeying.
ask b --terminate --ike "$(name $new)" >/dev/null
block_rows() { sed -n 's/^| \([A-Za-z].*\) | `\([^`]*\)` | `\([^`]*\)` |$/\1|\2|\3/p' "$page"; }
[ "$(block_rows | wc -l)" = 5 ] || fail "the page's table of clients is another: $(block_rows)"
offers=0
while IFS='|' read -r kind ike esp; do
  { for n in $(seq $((CLIENTS + 1))); do client "$n"; done
    client $new | sed "s/$(name $new) {/offer {/; s/version = 2/&\n  proposals = $ike/; s/esp_proposals = .*/esp_proposals = $esp/; /^secrets/,\$d"; } >"$work/b/swanctl.conf"
  load b
  ask b --initiate --child net --ike offer >"$work/b/offer" 2>&1 || fail "$kind: $ike with $esp is refused: $(tail -3 "$work/b/offer")"
  ask b --list-sas --raw --ike offer >"$work/b/sas"
  addresses[new]=$(address offer)
  both_ways $new
  ask b --rekey --child net --ike offer >"$work/b/offer" 2>&1 || fail "$kind: $esp is not rekeyed: $(tail -3 "$work/b/offer")"
  both_ways $new
  ask b --terminate --ike offer >/dev/null
  offers=$((offers + 1))
done < <(block_rows)
echo "what $offers kinds of clients offer, each alone and rekeyed"

# A certificate of an intermediate CA, as from ACME: the page's hook has charon use it.
in_a sh -e >>"$work/steps" 2>&1 <<'ACME' || fail "no certificate of an intermediate CA: $(tail -5 "$work/steps")"
pki --gen --type ecdsa --size 256 --outform pem >sub-key.pem
pki --issue --in sub-key.pem --type ecdsa --cacert ca.pem --cakey ca-key.pem --ca --dn "CN=Example Sub-CA" --outform pem >sub.pem
pki --gen --type ecdsa --size 256 --outform pem >acme-key.pem
pki --issue --in acme-key.pem --type ecdsa --cacert sub.pem --cakey sub-key.pem --dn "CN=renewed" --san vpn.example.org \
  --flag serverAuth --outform pem >acme.pem
cat acme.pem sub.pem >fullchain.pem
ACME
block acme >"$work/hook"
mkdir "$work/lineage"; cp "$work/pki/fullchain.pem" "$work/lineage/"; cp "$work/pki/acme-key.pem" "$work/lineage/privkey.pem"
for how in "env RENEWED_LINEAGE=$work/lineage sh $work/hook" "env LEGO_CERT_PATH=fullchain.pem LEGO_CERT_KEY_PATH=acme-key.pem sh $work/hook" \
  "sh $work/hook fullchain.pem acme-key.pem"; do
  rm "$work/swanctl/x509/vpn.pem" "$work/swanctl/private/vpn-key.pem"
  # shellcheck disable=SC2086 # several words
  in_a $how >>"$work/steps" 2>&1 || fail "the page's hook, as $how: $(tail -5 "$work/steps")"
  cmp -s "$work/pki/acme.pem" "$work/swanctl/x509/vpn.pem" && cmp -s "$work/pki/acme-key.pem" "$work/swanctl/private/vpn-key.pem" ||
    fail "the page's hook, as $how, installs other files"
done
: >"$work/b/log"
ask b --initiate --child net --ike offer >"$work/b/offer" 2>&1 || fail "no tunnel with the new certificate: $(tail -3 "$work/b/offer")"
contains "CN=renewed" <"$work/b/log" || contains "CN=renewed" <"$work/b/offer" || fail "charon still has the old certificate: $(grep CERT "$work/b/offer")"
ask b --list-sas --raw --ike offer >"$work/b/sas"
addresses[new]=$(address offer)
both_ways $new 1
echo "ok: as docs/guide/road-warriors.md says; a renewed certificate of an intermediate CA is used at once"
