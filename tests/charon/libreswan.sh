#!/usr/bin/env bash
# libreswan as the peer of convoy and its charon: pluto and the kernel's ESP in user-mode Linux on a
# TAP device. Needs root.
# usage: libreswan.sh CONVOY PLUGIN
#
#   10.1.0.1 [A: convoy + charon] 198.51.100.1 --TAP-- 198.51.100.2 [guest: Linux + pluto] 10.2.0.1
set -euo pipefail
exec </dev/null
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
A="convoy-libreswan"
source "$here/lib.sh"
target=$here/../../target peer=$work/b a=198.51.100.1 b=198.51.100.2
begin=$SECONDS
say() { echo "ok: $* ($((SECONDS - begin)) s)"; }

# peer_conf ENCAPSULATION; aes_gcm128 is libreswan's name for aes128gcm16.
peer_conf() {
  cat >"$peer/ipsec.conf" <<CONF
config setup
  protostack=xfrm
conn net
  ikev2=insist
  authby=secret
  left=$b
  leftid=@b.example
  leftsubnet=10.2.0.0/24
  leftupdown=%disabled
  right=$a
  rightid=@a.example
  rightsubnet=10.1.0.0/24
  ike=aes256-sha2_256;dh19
  esp=aes_gcm128
  pfs=no
  encapsulation=$1
  auto=ignore
CONF
}
boot() {
  "$here/libreswan/fetch.sh" "$target/libreswan"
  "$here/../kernel/build.sh" "$target/kernel-peer.gz"
  mkdir -p "$peer/do" "$peer/done" "$peer/nss" "$work/ramdisk"
  certutil -N --empty-password -d "sql:$peer/nss"
  peer_conf yes
  (umask 077; echo '@b.example @a.example : PSK "a secret of the test"' >"$peer/ipsec.secrets")
  cp "$here/libreswan/init" "$work/ramdisk/init"
  (cd "$work/ramdisk" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/init.gz"
  cat "$target/kernel-peer.gz" "$work/init.gz" >"$work/initrd.gz"
  TMPDIR=$work unshare --pid --mount-proc --kill-child ip netns exec $A \
    "$here/../kernel/uml.sh" mem=256M uml_dir="$work/uml/" umid=peer initrd="$work/initrd.gz" \
    vec0:transport=tap,ifname=convoy-tap,depth=128,gro=1 con=null con0=null,fd:1 root=/dev/ram rdinit=/init quiet \
    peer="$peer" pluto="$(readlink -f "$target/libreswan")" >"$work/console" 2>&1 &
  # User-mode Linux sometimes misses an incoming packet and only finds it with the next one, so
  # there is always a next one.
  ip netns exec $A bash -c "while :; do echo >/dev/udp/$b/9; sleep 0.05; done" >/dev/null 2>&1 &
}
# guest COMMAND...: runs it in the guest; leaves its output in $work/said.
asked=0
guest() {
  asked=$((asked + 1))
  echo "$*" >"$peer/next"; mv "$peer/next" "$peer/do/$asked"
  wait_until "the guest does not answer: $*; $(tail -3 "$work/console")" test -s "$peer/done/$asked"
  cp "$peer/done/$asked.out" "$work/said"
  return "$(cat "$peer/done/$asked")"
}
pluto() { guest "busybox timeout 15 whack --rundir /run/pluto $*"; }

pair() { [ "$(sas)" = 2 ]; }
none() { [ "$(sas)" = 0 ]; }
spis() { show sa | grep -o '"spi": [0-9]*' | sort; }
# configure ENCAP: configures both sides.
configure() {
  peer_conf "$1"
  guest "addconn --config /peer/ipsec.conf --ctlsocket /run/pluto/pluto.ctl net" || fail "pluto does not take it: $(cat "$work/said")"
  connection a $a $b "encap = $1
    proposals = aes256-sha256-ecp256" "esp_proposals = aes128gcm16"
  load a
}
# pings_both ENCAP: nine pings from each side, and checks the gateway's data about the SAs that
# carried them.
pings_both() {
  local size
  for size in 0 56 1200; do
    pings_from $A 3 -s $size -I 10.1.0.1 10.2.0.1 || fail "libreswan's side does not answer all: $(cat "$work/ping")"
  done
  guest 'for size in 0 56 1200; do busybox ping -q -c 3 -W 5 -s $size -I 10.2.0.1 10.1.0.1 & done; wait'
  [ "$(grep -c ' 3 packets received, 0% packet loss' "$work/said")" = 3 ] || fail "convoy does not answer all: $(cat "$work/said")"
  show sa | python3 -c 'import json, sys
sas = json.load(sys.stdin)
sys.exit(len(sas) != 2 or any((sa["transform"], sa["encap"]) != ("aes128gcm16", sys.argv[1]) or sa["drops"] for sa in sas))' "$1" ||
    fail "the SAs are not what they should be: $(show sa)"
}
# libreswan ends the tunnel, because it would set up again what it has initiated.
end() { pluto --terminate --name net || true; wait_until "the gateway keeps SAs of a tunnel that ended" none; }
new_pair() { pair && [ "$(comm -12 <(spis) <(echo "$before") | wc -l)" = 0 ]; }
early() { show stats | python3 -c 'import json, sys; print(json.load(sys.stdin)["drops"].get("unknown_spi", 0))'; }
# rekey WHO COMMAND...: during pings. As responder, libreswan uses the new SA as soon as it has
# replied, but charon can only install it when it has the reply. On a busy machine a packet may
# arrive before that, which the gateway counts. No other packet may be lost.
rekey() {
  local count unknown; unknown=$(early)
  before=$(spis)
  ip netns exec $A ping -q -c 60 -i 0.05 -W 5 -I 10.1.0.1 10.2.0.1 >"$work/ping" & local traffic=$!
  "${@:2}" >"$work/rekey" || fail "$1 cannot rekey: $(cat "$work/rekey" "$work/said")"
  wait_until "no new pair of SAs" new_pair
  wait $traffic || true
  count=$(sed -n 's/.*transmitted, \([0-9]*\) received.*/\1/p' "$work/ping") unknown=$(($(early) - unknown))
  [ $((count + unknown)) -ge 60 ] || {
    guest "busybox cat /proc/net/xfrm_stat" || true
    fail "while $1 rekeyed $unknown packets were early, and yet: $(cat "$work/ping")
the gateway's drops: $(show stats | python3 -c 'import json, sys; print(json.load(sys.stdin)["drops"])')
the guest's: $(grep -v '	0$' "$work/said" || true)"
  }
  say "CHILD_SA rekeyed by $1: $count of 60 pings meanwhile, $unknown packets early"
}

add_namespace $A
ip -n $A tuntap add dev convoy-tap mode tap vnet_hdr
ip -n $A link set convoy-tap address 02:00:00:00:00:01 up
ip -n $A addr add $a/24 dev convoy-tap
boot
REMOTE=$b gateway_conf a "\"$a\"" "[[port]]
name = \"right on IP\"
kind = \"raw\"
address = [\"$a\"]"
start_gateway a
strongswan a "$with_convoy"
start_charon a
guest "busybox uname -r; pluto --version"
versions=$(paste -sd ' ' "$work/said")
guest "busybox timeout 10 sh -c 'until [ -S /run/pluto/pluto.ctl ]; do busybox usleep 100000; done'" || fail "pluto does not start"
pluto --listen || fail "pluto does not listen: $(cat "$work/said")"

configure yes
up a; wait_until "no pair of SAs" pair
pings_both udp
say "PSK, AES-GCM, convoy initiates, ESP in UDP: 18 of 18 pings"
rekey convoy ask a --rekey --child net
rekey libreswan pluto --rekey-ipsec --name net
pings_both udp
say "after that: 18 of 18 pings"
end
configure no
pluto --initiate --name net || fail "libreswan cannot initiate: $(cat "$work/said")"
wait_until "no pair of SAs" pair
pings_both none
say "PSK, AES-GCM, libreswan initiates, native ESP: 18 of 18 pings"
end
echo "Linux ${versions%% IKEv*}: 3 of 3 cases passed in $((SECONDS - begin)) s"
