#!/usr/bin/env bash
# Tunnels in transport mode between two hosts: what their selectors select leaves as ESP and nothing
# else, without a rule or a route of the operator's, and nothing of it is accepted unprotected. All
# traffic, and one UDP port; native and in UDP; IPv4 and IPv6. Needs root.
# usage: transport.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
source "$(dirname "$0")/lib.sh"
need_root
work_dir
a=convoy-transport-a b=convoy-transport-b
add_namespace $a $b
for ns in $a $b; do in_ns $ns sysctl -qw net.ipv4.conf.all.rp_filter=2 net.ipv6.conf.all.accept_dad=0; done
cable $a wan "192.0.2.1/24 2001:db8::1/64" $b wan "192.0.2.2/24 2001:db8::2/64"
umask 077

# configure NAMESPACE LOCAL REMOTE SPI_IN SPI_OUT KEY_IN KEY_OUT: with $encap and $ports.
configure() {
  local port=udp
  [ "$encap" = udp ] || port=raw
  cat >"$work/$1.toml" <<TOML
[gateway]
control = "$work/$1.sock"
state = "$work/$1.state"
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
[[port]]
name = "outside"
kind = "$port"
address = ["$2"]
[[tunnel]]
name = "peer"
mode = "transport"
local = "$2"
remote = "$3"
local_ts = ["$2$ports"]
remote_ts = ["$3$ports"]
esp_proposal = "aes128gcm16"
encap = "$encap"
[tunnel.manual]
spi_in = $4
spi_out = $5
key_in = "$6"
key_out = "$7"
TOML
}
gateways=()
begin() { # local remote
  local ab ba
  ab=$(random_key) ba=$(random_key)
  configure $a "$1" "$2" 4097 4098 "$ba" "$ab"
  configure $b "$2" "$1" 4098 4097 "$ab" "$ba"
  for ns in $a $b; do
    "$convoy" check -c "$work/$ns.toml" >"$work/check.log" 2>&1 || fail "convoy check refuses transport mode: $(cat "$work/check.log")"
    run_gateway "$ns.log" $ns "$work/$ns.toml"
    gateways+=("$started")
  done
}
end() {
  local one
  for one in "${gateways[@]}"; do end_well "$one" "a gateway"; done
  gateways=()
}
capture() { start_capture wire $a wan "host $1"; }
seen() { end_capture wire; tshark -r "$work/wire.pcap" -Y "$1" 2>/dev/null | wc -l; }
# send FROM TO PORT: five datagrams, from the same port.
send() { in_ns "$1" python3 -c "
import socket, sys
to, port = sys.argv[1], int(sys.argv[2])
sender = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM)
sender.bind(('::' if ':' in to else '0.0.0.0', port))
for _ in range(5): sender.sendto(b'datagram', (to, port))" "$2" "$3"; }
# hears NAMESPACE ADDRESS PORT: counts datagrams into $work/heard until it is ended.
hears() {
  start heard "$1" python3 -c "
import socket, sys
to, port = sys.argv[1], int(sys.argv[2])
receiver = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind((to, port))
print('listening', flush=True)
while receiver.recv(2048): print('heard', flush=True)" "$2" "$3"
  hearing=$started
  wait_for_line listening "$work/heard" "nothing listens"
}

for ends in "192.0.2.1 192.0.2.2" "2001:db8::1 2001:db8::2"; do
  read -r one other <<<"$ends"
  for encap in none udp; do
    # All traffic.
    ports=
    begin "$one" "$other"
    capture "$other"
    for from in "$a $other" "$b $one"; do
      read -r ns to <<<"$from"
      in_ns $ns ping -q -c 5 -i 0.2 -W 2 -s 1200 "$to" >"$work/ping" || fail "$encap, $ends: no answer in transport mode: $(cat "$work/ping")"
    done
    serve_files $b "$work" 8000 "$other"
    head -c 1000000 /dev/urandom >"$work/file"
    url=$other; [[ $url != *:* ]] || url="[$other]"
    in_ns $a curl -s -m $PATIENCE -o "$work/copy" "http://$url:8000/file" || fail "$encap, $ends: no TCP in transport mode"
    cmp "$work/file" "$work/copy"
    kill_and_wait "$started"
    clear=$(seen '!esp && !udpencap && !arp && !(icmpv6.type >= 133 && icmpv6.type <= 137)')
    [ "$clear" = 0 ] || fail "$encap, $ends: $clear packets crossed unprotected: $(tshark -r "$work/wire.pcap" -Y '!esp' 2>/dev/null | head -5)"
    [ "$(tshark -r "$work/wire.pcap" -Y esp 2>/dev/null | wc -l)" -gt 20 ] || fail "$encap, $ends: hardly any ESP crossed"

    # The other end has stopped: nothing leaves in the clear, and nothing clear is accepted.
    kill_and_wait "${gateways[1]}"
    ip netns exec $b "$convoy" unblock -c "$work/$b.toml" >/dev/null || true
    wait_until "the processes of b do not end" no_gateway_in $b
    ip netns exec $b "$convoy" unblock -c "$work/$b.toml" >/dev/null
    capture "$other"
    in_ns $a ping -q -c 3 -i 0.2 -W 1 "$other" >/dev/null && fail "$encap, $ends: pings are answered without the other gateway"
    clear=$(seen 'icmp.type == 8 || icmpv6.type == 128')
    [ "$clear" = 0 ] || fail "$encap, $ends: $clear pings left unprotected"
    hears $a "$one" 5000
    send $b "$one" 5000
    sleep 1
    ! grep -q heard "$work/heard" || fail "$encap, $ends: unprotected datagrams were accepted"
    kill_and_wait $hearing
    # Nor while the gateway itself is stopped.
    kill_and_wait "${gateways[0]}"
    gateways=()
    wait_until "the processes of a do not end" no_gateway_in $a
    capture "$other"
    in_ns $a ping -q -c 3 -i 0.2 -W 1 "$other" >/dev/null 2>&1 || true
    clear=$(seen 'icmp.type == 8 || icmpv6.type == 128')
    [ "$clear" = 0 ] || fail "$encap, $ends: $clear pings left unprotected after the gateway was killed"
    ip netns exec $a "$convoy" unblock -c "$work/$a.toml" >/dev/null
    in_ns $a ping -q -c 1 -W 5 "$other" >/dev/null || fail "$encap, $ends: the hosts do not reach each other after convoy unblock"
    ok "$encap, $ends: all traffic in transport mode, pings and TCP; nothing unprotected either way, also without gateways"

    # One port of UDP, as VXLAN has it: all else passes as before.
    ports="[udp/4789]"
    begin "$one" "$other"
    capture "$other"
    hears $b "$other" 4789
    send $a "$other" 4789
    heard_all() { [ "$(grep -c heard "$work/heard")" = 5 ]; }
    wait_until "$encap, $ends: datagrams to the selected port do not arrive" heard_all
    kill_and_wait $hearing
    in_ns $a ping -q -c 2 -i 0.2 -W 2 "$other" >"$work/ping" || fail "$encap, $ends: what is not selected does not pass: $(cat "$work/ping")"
    clear=$(seen 'udp.port == 4789 && !esp')
    [ "$clear" = 0 ] || fail "$encap, $ends: $clear selected datagrams crossed unprotected"
    # UDP takes the five as one datagram to be segmented, which a veth passes on whole.
    tshark -r "$work/wire.pcap" -Y esp 2>/dev/null | contains . || fail "$encap, $ends: no ESP crossed"
    end
    ip netns exec $a "$convoy" unblock -c "$work/$a.toml" >/dev/null; ip netns exec $b "$convoy" unblock -c "$work/$b.toml" >/dev/null
    ok "$encap, $ends: UDP port 4789 alone in transport mode, all else as before"
  done
done
