#!/usr/bin/env bash
# `convoy init`: by questions on a terminal and by options; two gateways run from the files as they
# were written, with static keys and with charon, one of them also at an address that is not known.
# The commands of docs/guide/first-tunnel.md are run as they stand. Needs root.
# usage: init.sh CONVOY PLUGIN
#
#   10.1.0.1 [site-a] 192.0.2.1 --veth-- 192.0.2.2 [site-b] 10.2.0.1
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
A=convoy-init-a B=convoy-init-b
source "$here/charon/lib.sh"
source "$here/charon/own-etc.sh"
# refused WORDS ARGUMENT...: init refuses these arguments with these words, and status 1 or 2.
refused() {
  local words=$1 status=0; shift
  at a "$convoy" init "$@" >"$work/refused" 2>&1 </dev/null || status=$?
  [[ $status = [12] ]] || fail "status $status instead of a refusal of: $*"
  grep -qF -- "$words" "$work/refused" || fail "\"$words\" is not said of $*: $(cat "$work/refused")"
}
all_ping() {
  local ends ns from to
  for ends in "$A 10.1.0.1 10.2.0.1" "$B 10.2.0.1 10.1.0.1" "$A fd00:1::1 fd00:2::1" "$B fd00:2::1 fd00:1::1"; do
    read -r ns from to <<<"$ends"
    pings_from $ns 5 -I "$from" "$to" || fail "$1, $ns does not reach $to: $(cat "$work/ping")"
  done
}
packets() { at "$1" "$convoy" show sa --json | python3 -c 'import json, sys; print(min(sa["packets"] for sa in json.load(sys.stdin)))'; }

# The page's own commands, where scp is said by init, and done by cp.
mkdir "$work/bin"; ln -s "$convoy" "$work/bin/convoy"; PATH=$work/bin:$PATH
block() { marked "$here/../docs/guide/first-tunnel.md" "$1" >"$work/block"; } # name
block init
at a sh -e "$work/block" >"$work/said" 2>&1 || fail "the page's init: $(cat "$work/said")"
block copy
read -r _ file to <"$work/block"
grep -qF "scp $work/a/home/$file $to" "$work/said" || fail "init does not say what the page says: $(cat "$work/said")"
cp -p "$work/a/home/$file" "$work/b/${to#*:/}"
gateways
block look
at a sh -e "$work/block" >"$work/said" 2>&1 || fail "the page's last commands: $(cat "$work/said")"
grep -q ' 0% packet loss' "$work/said" && grep -q site-b "$work/said" || fail "no tunnel by the page: $(cat "$work/said")"
ok "docs/guide/first-tunnel.md as it stands"
end_all

# By questions, at site a; two answers are wrong.
at a python3 "$here/answers.py" "$convoy" init >"$work/said" <<'ANSWERS' || fail "by questions: $(cat "$work/said")"
IKE = 
other gateway = 192.0.2.1
other gateway = 192.0.2.2
this gateway [192.0.2.1] = 
behind this gateway = 10.1.0.1/24
behind this gateway = 10.1.0.0/24 fd00:1::/64
behind the other gateway = 10.2.0.0/24, fd00:2::/64
this gateway [10.1.0.1, fd00:1::1] = 
other gateway [10.2.0.1, fd00:2::1] = 
reaches this one = 
other gateway [192.0.2.2] = 
proposal [aes128gcm16-esn] = chacha20poly1305-esn
port = 
ANSWERS
for words in "192.0.2.1 is this host's own; run init at one site only" "10.1.0.1/24 has bits after its prefix; write 10.1.0.0/24" \
  "scp $work/a/home/site-b/etc/convoy/convoy.toml root@192.0.2.2:/etc/convoy/" "systemctl enable --now convoy" "ping -c 3 -I 10.1.0.1 10.2.0.1"; do
  grep -qF -- "$words" "$work/said" || fail "\"$words\" is not said: $(cat "$work/said")"
done
[ "$(modes)" = 600 ] || fail "files have the modes $(modes)"
cp -p "$work/a/home/site-b/etc/convoy/convoy.toml" "$work/b/etc/convoy/"
gateways
all_ping "by questions"
for side in a b; do [ "$(packets $side)" -ge 20 ] || fail "at $side an SA has only $(packets $side) packets"; done
grep -q chacha20poly1305-esn "$work/b/etc/convoy/convoy.toml" || fail "the proposal is another"
ok "by questions on a terminal: files with mode 600, 20 pings, IPv4 and IPv6, with chacha20poly1305-esn"

needed=(--local 192.0.2.1 --remote 192.0.2.2 --local-ts "10.1.0.0/24,fd00:1::/64" --remote-ts "10.2.0.0/24,fd00:2::/64")
before=$(sha256sum "$work/a/etc/convoy/convoy.toml")
refused "/etc/convoy/convoy.toml, $work/a/home/site-b/etc/convoy/convoy.toml already exist; nothing was written" "${needed[@]}"
[ "$(sha256sum "$work/a/etc/convoy/convoy.toml")" = "$before" ] || fail "a file was replaced without --force"
refused "--local-ts <VALUE>: networks behind this gateway" --remote 192.0.2.2
refused "--remote: \"192.0.2.256\": an address or a name is expected" "${needed[@]:0:2}" --remote 192.0.2.256
refused "--remote-ts: 10.1.0.0/25 and 10.1.0.0/24 of the other site overlap" "${needed[@]:0:6}" --remote-ts 10.1.0.0/25,fd00:2::/64
refused "--proposal: \"aes128gcm16, aes256gcm16\": static keys are for one proposal" "${needed[@]}" --proposal "aes128gcm16, aes256gcm16"
refused "--proposal: null-sha256 is weak" "${needed[@]}" --proposal null-sha256
refused "--udp-port: \"70000\": a UDP port from 1 to 65535" "${needed[@]}" --udp-port 70000
refused "cannot write /proc/site-a/etc/convoy/convoy.toml" "${needed[@]}" --out /proc
end_all

# By options, with a port of its own; once more by force, with other keys.
at a "$convoy" init "${needed[@]}" --udp-port 5500 --local-name berlin --remote-name wien >"$work/said"
first=$(grep key_in "$work/a/etc/convoy/convoy.toml")
at a "$convoy" init "${needed[@]}" --udp-port 5500 --local-name berlin --remote-name wien --force >"$work/said"
[ "$(grep key_in "$work/a/etc/convoy/convoy.toml")" != "$first" ] || fail "the same key twice"
cp -p "$work/a/home/wien/etc/convoy/convoy.toml" "$work/b/etc/convoy/"
gateways
all_ping "by options"
# One more tunnel for the gateway that runs; the first one's SAs stay.
cp "$work/a/etc/convoy/convoy.toml" "$work/before"
at a "$convoy" init --add graz --remote 192.0.2.9 --local-ts 10.1.0.0/24 --remote-ts 10.9.0.0/24 >"$work/said"
grep -q '^     convoy reload$' "$work/said" || fail "--add does not say to reload: $(cat "$work/said")"
cmp -n "$(stat -c %s "$work/before")" "$work/before" "$work/a/etc/convoy/convoy.toml" || fail "--add changed what was there"
[ -e "$work/a/home/graz/etc/convoy/convoy.toml" ] && [ "$(modes)" = 600 ] || fail "no files of graz, or modes $(modes)"
at a "$convoy" reload >"$work/said" 2>&1 || fail "no reload: $(cat "$work/said")"
at a "$convoy" show tunnel | contains graz || fail "no tunnel graz after the reload"
all_ping "after --add"
refused "--add: /etc/convoy/convoy.toml has a tunnel \"graz\" already" --add graz --remote 192.0.2.8
ok "--add: a tunnel more behind what is there, by a reload; the first one goes on"
ok "by options, at UDP port 5500: 20 pings; what is wrong or missing is reported with its option, and nothing is overwritten"
end_all

# With charon: b begins with its first packet; or a does, when b cannot know its address.
from_files() {
  local side
  for side in a b; do
    cp -p "$work/files/site-$side/etc/convoy/convoy.toml" "$work/$side/etc/convoy/"
    cp -p "$work/files/site-$side/etc/swanctl/conf.d/convoy.conf" "$work/$side/etc/swanctl/conf.d/"
  done
  [ "$(modes)" = 600 ] || fail "files have the modes $(modes)"
  gateways
  charons
}
at a "$convoy" init "${needed[@]}" --ike psk --out "$work/files" >"$work/said"
grep -qF "scp $work/files/site-b/etc/swanctl/conf.d/convoy.conf root@192.0.2.2:/etc/swanctl/conf.d/" "$work/said" || fail "swanctl's file is not to be copied: $(cat "$work/said")"
from_files
all_ping "with charon"
at a "$convoy" show sa --wide >"$work/shown"
grep -q "site-b/net.*aes256gcm16" "$work/shown" || fail "no SA of site-b/net: $(cat "$work/shown")"
ok "--ike psk: the first packet makes the tunnel, 20 pings"
end_all
rm -rf "$work/files"

at a "$convoy" init "${needed[@]}" --ike psk --local-public any --out "$work/files" >"$work/said"
from_files
there() { at b "$convoy" show sa --json | contains '"transform"'; }
wait_until "a does not begin" there
all_ping "with an address that b does not know"
ok "--local-public any: the gateway with the unknown address begins, 20 pings"
end_all
rm -rf "$work/files"

# A peer that roams: its first packet says where it is.
at a "$convoy" init "${needed[@]}" --ike psk --roaming --out "$work/files" >"$work/said"
from_files
pings_from $B 1 -I 10.2.0.1 10.1.0.1 || fail "the peer that roams does not reach a by charon: $(cat "$work/ping")"
all_ping "with charon and --roaming"
end_all
at a "$convoy" init "${needed[@]}" --roaming --remote-public any >"$work/said"
cp -p "$work/a/home/site-b/etc/convoy/convoy.toml" "$work/b/etc/convoy/"
gateways
pings_from $B 1 -I 10.2.0.1 10.1.0.1 || fail "the peer that roams does not reach a: $(cat "$work/ping")"
all_ping "with static keys and --roaming"
ok "--roaming: the gateway learns where its peer is, with charon and with static keys, 42 pings"
