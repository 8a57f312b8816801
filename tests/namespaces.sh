#!/usr/bin/env bash
# Runs docs/operation/namespaces.md: a gateway in a network namespace, which the host reaches by a
# veth pair, and two VRFs with the same networks and a tunnel each. This machine's kernel may lack
# VRFs, so those run in Debian's user-mode Linux, whose root is this machine's. Needs root.
# usage: namespaces.sh CONVOY [netns | vrf]
set -euo pipefail
exec </dev/null
convoy=$(realpath "$1") part=${2:-all}
here=$(dirname "$(realpath "$0")")
page=$here/../docs/operation/namespaces.md
source "$here/lib.sh"
need_root
# block NAME: the code block that the page marks with this name.
block() { marked "$page" "$1"; }
near_host=convoy-ns-host gate=vpn far=convoy-ns-far ga=convoy-vrf-a gb=convoy-vrf-b

# gateway NAME NAMESPACE: starts it with $work/NAME.toml, and sockets and state of its own.
gateway() {
  sed -i "1i [gateway]\ncontrol = \"$work/$1.sock\"\nstate = \"$work/$1.state\"\n${guard:-}" "$work/$1.toml"
  run_gateway "$1.log" "$2" "$work/$1.toml"
}
peer() { # the other end of a configuration: 192.0.2.2, and SPIs and keys swapped
  sed 's/192\.0\.2\.1"/LEFT"/; s/192\.0\.2\.2"/192.0.2.1"/; s/LEFT"/192.0.2.2"/; s/10\.1\.0\./10.LEFT./; s/10\.2\.0\./10.1.0./; s/10\.LEFT\./10.2.0./
    s/^spi_in/LEFT/; s/^spi_out/spi_in/; s/^LEFT/spi_out/; s/^key_in/LEFT/; s/^key_out/key_in/; s/^LEFT/key_out/'
}
reach() { pings "$work/ping.log" "$1" 3 "${@:3}" || fail "$2, no answer to $1: $(cat "$work/ping.log")"; } # namespace where target

in_namespace() {
  work_dir
  add_namespace $near_host $far
  # The page's commands make the namespace itself, where wan0 is the host's.
  remove_namespace $gate; spaces+=("$gate")
  ip link add wan0 netns $near_host type veth peer name wan0 netns $far
  up_with $far wan0 192.0.2.2/24; up_with $far lo 10.2.0.1/24
  block namespace >"$work/commands"
  # Not by ip netns exec, whose mounts the new namespace would be among.
  nsenter "--net=/run/netns/$near_host" sh -e "$work/commands" >"$work/commands.log" 2>&1 || fail "the commands of the page: $(cat "$work/commands.log")"
  (umask 077; cat >"$work/near.toml" <<'TOML'
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.1.0.1/32"]
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.1"]
[[tunnel]]
name = "site"
local = "192.0.2.1"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.2.0.0/24"]
esp_proposal = "aes128gcm16-esn"
[tunnel.manual]
spi_in = 0x1001
spi_out = 0x1002
key_in = "00112233445566778899aabbccddeeff00112233"
key_out = "ffeeddccbbaa99887766554433221100ffeeddcc"
TOML
  peer <"$work/near.toml" >"$work/far.toml")
  gateway near $gate; local near=$started
  gateway far $far # with the same device, table, rule and ports
  reach $near_host "from the host" 10.2.0.1
  reach $far "from the other site" -I 10.2.0.1 10.1.0.10
  ip -n $near_host rule | contains 4500 && fail "the host's rules have changed"
  in_ns $near_host "$convoy" show sa --control "$work/near.sock" | contains 0x00001002 || fail "show does not answer in another namespace"
  # Moved away, the inside interface loses the routes; what they carried is dropped.
  start_capture clear $far wan0 net 10.0.0.0/8
  ip -n $gate link set convoy0 netns $near_host
  ! pings "$work/ping.log" $near_host 3 -i 0.2 -W 1 10.2.0.1 || fail "packets pass an inside interface that was moved away"
  end_capture clear
  ! tcpdump -nr "$work/clear.pcap" 2>/dev/null | contains . || fail "packets leave in clear once the interface is moved away"
  end_process "$near"
  run_gateway near.log $gate "$work/near.toml"
  reach $near_host "after a restart" 10.2.0.1
  ok "a gateway in a namespace: the host and the other site reach each other: 9 of 9 pings; nothing in clear while convoy0 is moved away"
  clean
}

# What the guest runs.
in_vrfs() {
  work_dir
  add_namespace $ga $gb
  cable $ga wan0 192.0.2.1/24 $gb wan0 192.0.2.2/24
  local number=1 ns vrf host
  for ns in $ga $gb; do
    for vrf in blue red; do
      host=convoy-$vrf-$number; add_namespace "$host"
      cable $ns lan-$vrf 10.$number.0.1/24 "$host" eth0 10.$number.0.10/24
      ip -n "$host" route add default via 10.$number.0.1
    done
    forward $ns
    number=2
  done
  guard="guard = false"
  (umask 077; block vrf.toml >"$work/a.toml"; block vrf.toml | peer >"$work/b.toml")
  gateway a $ga; gateway b $gb
  block vrf >"$work/commands-a"; sed 's/10\.2\.0\./10.1.0./' "$work/commands-a" >"$work/commands-b"
  for ns in "a $ga" "b $gb"; do
    in_ns ${ns#* } sh -e "$work/commands-${ns% *}" >"$work/commands.log" 2>&1 || fail "the page's commands: $(cat "$work/commands.log")"
  done
  for vrf in blue red; do
    reach convoy-$vrf-1 "in $vrf" 10.2.0.10
    reach convoy-$vrf-2 "in $vrf" 10.1.0.10
  done
  # The addresses are the same in both: red's host goes, and blue's still answers.
  ip -n convoy-red-2 link set eth0 down
  reach convoy-blue-1 "in blue, without red's host" 10.2.0.10
  ! pings "$work/ping.log" convoy-red-1 3 -i 0.2 -W 1 10.2.0.10 || fail "a host of another VRF answers"
  ip -n convoy-red-2 link set eth0 up; ip -n convoy-red-2 route add default via 10.2.0.1
  reach convoy-red-1 "in red again" 10.2.0.10
  # Without the route, packets of a VRF leave by no other way.
  ip -n $ga route del 10.2.0.0/24 dev ipsec-red vrf red
  ip -n $ga route add 10.2.0.0/24 via 192.0.2.2
  start_capture clear $gb wan0 net 10.0.0.0/8
  ! pings "$work/ping.log" convoy-red-1 3 -i 0.2 -W 1 10.2.0.10 || fail "red reaches what it has no route to"
  end_capture clear
  ! tcpdump -nr "$work/clear.pcap" 2>/dev/null | contains . || fail "packets of the VRF leave in clear"
  ok "two VRFs with the same networks and a tunnel each: 18 of 18 pings, none by the other's tunnel or in clear"
}
boot() {
  work_dir
  cat >"$work/init" <<INIT
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run PATIENCE=$PATIENCE
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib
mkdir -p /run/netns /var/lib/convoy /run/modules/lib/modules
ln -s /usr/lib/uml/modules/\$(uname -r) /run/modules/lib/modules/
printf '#!/bin/sh\nexec /sbin/modprobe -d /run/modules "\$@"\n' >/run/modprobe; chmod +x /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe
for module in tun veth vrf; do /run/modprobe \$module; done
ip link set lo up
"$here/namespaces.sh" "$convoy" in-guest 2>&1
echo "ENDED \$?"
echo o >/proc/sysrq-trigger; sleep 60
INIT
  chmod +x "$work/init"
  TMPDIR=$work "$here/kernel/uml.sh" mem=768M uml_dir="$work/uml/" root=/dev/root rootfstype=hostfs rootflags=/ ro init="$work/init" \
    con=null con0=null,fd:1 quiet >"$work/console" 2>&1 &
  wait_until "the guest does not end" grep -q ENDED "$work/console"
  grep -q '^ENDED 0' "$work/console" || fail "in the guest: $(sed -n '/^FAILED/,$p' "$work/console" | head -n 40)"
  grep '^ok' "$work/console"
}
case $part in
  in-guest) in_vrfs ;;
  *)
    [ "$part" = vrf ] || in_namespace
    [ "$part" = netns ] || PATIENCE=150 boot
    ;;
esac
