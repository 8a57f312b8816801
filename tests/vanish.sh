#!/usr/bin/env bash
# Interfaces that vanish under a running gateway, and that are not there when it starts: its other
# tunnels go on, the log and `convoy show` name what is missing, and traffic comes back by itself.
# KIND is tun (a device inside and one of a tunnel's own, udp ports outside), or af_packet or af_xdp
# on both sides. Needs root.
#
#   host 10.1.0.10 --lan0-- gateway --wan1-- peer 1, 10.2.0.1
#                                   --wan2-- peer 2, 10.3.0.1
# usage: vanish.sh CONVOY KIND    WORKERS is optional
set -euo pipefail
convoy=$(realpath "$1") kind=$2
source "$(dirname "$0")/lib.sh"
need_root
work_dir
gate=convoy-vanish host=convoy-vanish-host peers=(- convoy-vanish-1 convoy-vanish-2)
add_namespace $gate $host "${peers[@]:1}"
lan() {
  cable $gate lan0 "10.1.0.1/24" $host eth0 "10.1.0.10/24"
  ip -n $host route add default via 10.1.0.1
  plain $host eth0; queues lan0
}
wan() { cable $gate "wan$1" "192.0.$1.1/24" "${peers[$1]}" eth0 "192.0.$1.2/24"; plain "${peers[$1]}" eth0; queues "wan$1"; }
# af_xdp gets what a veth's other end leaves to hardware, and has a queue for each worker.
plain() { [ $kind != af_xdp ] || in_ns "$1" ethtool -K "$2" tx off >/dev/null; }
queues() { [ $kind != af_xdp ] || in_ns $gate ethtool -L "$1" rx "${WORKERS:-1}" tx "${WORKERS:-1}" 2>/dev/null || true; }
[ $kind = af_xdp ] || forward $gate

for number in 1 2 3; do to_gate[number]=$(random_key) from_gate[number]=$(random_key); done
# tunnel NAME PEER NUMBER HERE THERE: at the gateway if HERE is its LAN, else at the peer.
tunnel() {
  local ends=("192.0.$2.1" "192.0.$2.2") selectors="local_ts = [\"$4\"]"$'\n'"remote_ts = [\"$5\"]"
  local own=("0x200$3" "0x100$3" "${to_gate[$3]}" "${from_gate[$3]}")
  [ "$4" = 10.1.0.0/24 ] || {
    ends=("192.0.$2.2" "192.0.$2.1") own=("0x100$3" "0x200$3" "${from_gate[$3]}" "${to_gate[$3]}")
  }
  [ "$1" != routed ] || selectors='interface = "ipsec-b"'
  printf '[[tunnel]]\nname = "%s"\nlocal = "%s"\nremote = "%s"\n%s\nesp_proposal = "aes128gcm16"\nencap = "udp"
[tunnel.manual]\nspi_in = %s\nspi_out = %s\nkey_in = "%s"\nkey_out = "%s"\n' \
    "$1" "${ends[@]}" "$selectors" "${own[@]}"
}
general() { printf '[gateway]\ncontrol = "%s"\nstate = "%s"\nworkers = %s\n' "$work/$1.sock" "$work/$1.state" "$2"; }
port() { printf '[[port]]\nname = "%s"\nkind = "%s"\nside = "%s"\naddress = [%s]\n%s\n' "$@"; }
interface() { printf '[[interface]]\nname = "ipsec-b"\naddress = ["169.254.1.%s/30"]\n' "$1"; }
configure() {
  local peer both='"192.0.1.1", "192.0.2.1"'
  umask 077
  {
    general gate "${WORKERS:-1}"
    if [ $kind = tun ]; then
      port inside tun inside '"10.1.9.1/32"' 'device = "convoy0"'; interface 1
      port outside udp outside "$both" ''
      tunnel routed 1 3 10.1.0.0/24 -
    else
      port lan $kind inside '"10.1.0.1"' 'interface = "lan0"'
      for peer in 1 2; do port "wan$peer" $kind outside "$both" "interface = \"wan$peer\""; done
    fi
    for peer in 1 2; do tunnel "peer-$peer" $peer $peer 10.1.0.0/24 "10.$((peer + 1)).0.0/24"; done
  } >"$work/gate.toml"
  for peer in 1 2; do
    {
      general "peer-$peer" 1
      port inside tun inside "\"10.$((peer + 1)).0.1/24\"" 'device = "convoy0"'; port outside udp outside "\"192.0.$peer.2\"" ''
      tunnel gate $peer $peer "10.$((peer + 1)).0.0/24" 10.1.0.0/24
      [ $kind$peer != tun1 ] || { interface 2; tunnel routed 1 3 - -; }
    } >"$work/peer-$peer.toml"
  done
}
answers() { in_ns "$1" ping -c 1 -W 1 "$2"; } # namespace destination
goes_on() { # namespace destination what
  pings "$work/ping" "$1" 5 "$2" || fail "$3: not all pings to $2 are answered: $(tail -n 3 "$work/ping")"
}
comes_back() { wait_until "$3: $2 does not answer" answers "$1" "$2"; goes_on "$1" "$2" "$3"; } # namespace destination what
shown() { # port: what `convoy show` says is missing
  "$convoy" show port --json --control "$work/gate.sock" |
    python3 -c 'import json, sys; print(next(port for port in json.load(sys.stdin) if port["name"] == sys.argv[1])["missing"])' "$1"
}
is_shown() { shown "$1" | contains -F "'$2'"; }
is_there() { shown "$1" | contains -vF "'$2'"; }
is_named() { # port what: in the log, and by show, as a table and in JSON
  wait_for_line "port $1 waits for the $2" "$work/gate.log" "the log does not say that port $1 waits for $2"
  wait_until "show does not say that $2 is missing" is_shown "$1" "$2"
  "$convoy" show port --wide --control "$work/gate.sock" | contains "$2" || fail "the table of ports does not name $2"
  "$convoy" show --control "$work/gate.sock" | contains "$2" || fail "convoy show does not name $2"
}
is_running_still() { is_running "$gateway" || fail "$1: the gateway has ended: $(tail -n 3 "$work/gate.log")"; }
has_returned() { # port what
  wait_for_line "port $1 no longer waits for the $2" "$work/gate.log" "the log does not say that port $1 has the $2 again"
  wait_until "show still says that port $1 lacks the $2" is_there "$1" "$2"
}
# way_out PEER: the port and what it lacks without the way to that peer.
way_out() { if [ $kind = tun ]; then way=(outside "address 192.0.$1.1"); else way=("wan$1" "interface wan$1"); fi; }
begin_gateway() { run_gateway gate.log $gate "$work/gate.toml"; gateway=$started; }
# busy NAMESPACE DESTINATION: pings in the background, which may be lost.
busy() { start busy.log "$1" ping -q -i 0.02 -W 1 "$2"; }

wan 1; wan 2; lan
configure
for peer in 1 2; do run_gateway "peer-$peer.log" "${peers[$peer]}" "$work/peer-$peer.toml"; done
begin_gateway
for there in 10.2.0.1 10.3.0.1; do comes_back $host $there "at the start"; done
if [ $kind = tun ]; then
  ip -n "${peers[1]}" addr add 10.9.0.1/32 dev lo
  # What a routing daemon does.
  route() { ip -n $gate route replace 10.9.0.0/24 dev ipsec-b src 169.254.1.1; }
  route; comes_back $gate 10.9.0.1 "at the start"
fi
busy $host 10.3.0.1

# Tunnels' devices are created again, with addresses and routes.
if [ $kind = tun ]; then
  # A way by which packets would leave unprotected.
  ip -n $gate route add default via 192.0.2.2
  start_capture plain $gate wan2 net 10.0.0.0/8
  ip -n $gate link del convoy0
  wait_for_line "port inside waits for the interface convoy0" "$work/gate.log" "the log does not say that convoy0 is missing"
  goes_on $gate 10.9.0.1 "without convoy0"
  has_returned inside "interface convoy0"
  for there in 10.2.0.1 10.3.0.1; do comes_back $host $there "with convoy0 again"; done
  ip -n $gate addr show dev convoy0 | contains 10.1.9.1/32 || fail "convoy0 has lost its address"
  # One to an address behind no tunnel, which shows that the capture has what leaves.
  ! answers $gate 10.99.0.1 >/dev/null || fail "10.99.0.1 answers"
  end_capture plain
  plain=$(tcpdump -nr "$work/plain.pcap" 2>/dev/null)
  [ "$(wc -l <<<"$plain")" = 1 ] && contains 10.99.0.1 <<<"$plain" || fail "packets left unprotected without convoy0: $plain"
  is_running_still "without convoy0"
  echo "a tun device that is deleted is created again, with its address and routes; other tunnels go on, and nothing leaves unprotected"

  # Not while another interface has its name.
  ip -n $gate link add other type veth peer name others
  take_name() { printf 'link del ipsec-b\nlink set other name ipsec-b\n' | ip -n $gate -batch -; }
  wait_until "no other interface gets the name ipsec-b" take_name
  is_named ipsec-b "interface ipsec-b"
  for there in 10.2.0.1 10.3.0.1; do goes_on $host $there "without ipsec-b"; done
  is_running_still "without ipsec-b"
  ip -n $gate link del ipsec-b
  has_returned ipsec-b "interface ipsec-b"
  route_is_set() { route; }
  wait_until "ipsec-b takes no route" route_is_set
  comes_back $gate 10.9.0.1 "with ipsec-b again"
  echo "an [[interface]] waits while another has its name, and goes on when that is gone"
fi

# One of two ways out, then the other.
for vanished in 2 1; do
  other=$((3 - vanished))
  ip -n $gate link del wan$vanished
  way_out $vanished
  is_named "${way[@]}"
  goes_on $host 10.$((other + 1)).0.1 "without wan$vanished"
  ! answers $host 10.$((vanished + 1)).0.1 >/dev/null || fail "peer $vanished answers without wan$vanished"
  is_running_still "without wan$vanished"
  wan $vanished
  has_returned "${way[@]}"
  comes_back $host 10.$((vanished + 1)).0.1 "with wan$vanished again"
  goes_on $host 10.$((other + 1)).0.1 "with wan$vanished again"
done
echo "each of two ways out vanishes and comes back; the other tunnel goes on"

if [ $kind != tun ]; then
  ip -n $gate link del lan0
  is_named lan "interface lan0"
  is_running_still "without lan0"
  lan
  has_returned lan "interface lan0"
  for there in 10.2.0.1 10.3.0.1; do comes_back $host $there "with lan0 again"; done
  echo "the interface of the LAN vanishes and comes back"
fi
kill_and_wait "$started" # the pings in the background
end_well "$gateway" "the gateway"

# A start without them.
ip -n $gate link del wan2
begin_gateway
way_out 2
is_named "${way[@]}"
comes_back $host 10.2.0.1 "started without wan2"
wan 2
has_returned "${way[@]}"
comes_back $host 10.3.0.1 "with wan2, which was not there at the start"
end_well "$gateway" "the gateway"
if [ $kind != tun ]; then
  ip -n $gate link del lan0
  begin_gateway
  is_named lan "interface lan0"
  lan
  has_returned lan "interface lan0"
  for there in 10.2.0.1 10.3.0.1; do comes_back $host $there "with lan0, which was not there at the start"; done
  end_well "$gateway" "the gateway"
fi
echo "a gateway starts without an interface or an address, says so, and goes on when it is there"
