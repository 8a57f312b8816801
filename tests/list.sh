# shellcheck shell=bash disable=SC2034,SC2154
# The system tests, sourced by run.sh: `product` or `slow`, the seconds that it takes, its name, and
# its command. `alone` before it has nothing else run meanwhile but one that is `idle`.
convoy=$programs/convoy
# The laboratory's program runs gateways with modelled and simulated devices, testers and video.
export CONVOY_LAB=$programs/convoy-lab
plugin=$programs/libstrongswan-convoy.so
[ -e "$plugin" ] || plugin=$PWD/target/charon/libstrongswan-convoy.so
examples=$programs/examples
[ -x "$examples/store" ] || examples=target/system/examples
python=target/test-venv/bin/python
# The make targets build with DPDK if it is installed, by the same check.
has_dpdk() { pkg-config --atleast-version=22.11 libdpdk 2>/dev/null; }

# The target of the unit tests, which compute while the others wait.
[ -z "${UNIT_TESTS:-}" ] || product 700 "unit tests of all crates" make -s "$UNIT_TESTS"

# Packets, ports and policies.
product 20 "scapy opens what convoy seals, and the other way round" "$python" -W ignore tests/oracle/oracle.py "$convoy"
product 40 "two gateways in namespaces: ping, TCP, tshark decrypts the outside; with IP-TFS fewer packets cross" demo/net.sh "$convoy"
product 80 "the Linux kernel as the peer: every proposal, mode, family and encapsulation" tests/kernel.sh "$convoy"
for port in udp raw; do
  product 20 "packets that the system refuses to send by $port" tests/unsent.sh "$convoy" $port
  product 10 "two workers over $port" tests/workers.sh "$convoy" $port
  for outer in 4 6; do
    product 10 "the tunnel over $port, IPv$outer" tests/outer.sh "$convoy" $port $outer
    product 45 "path MTU discovery over $port, IPv$outer: hosts behind, routers between, forged ICMP" tests/path-mtu.sh "$convoy" $port $outer
  done
done
product 10 "the tunnel over udp, IPv4, on a UDP port of its own" env UDP_PORT=5500 tests/outer.sh "$convoy" udp 4
for port in af_xdp af_packet; do
  product 20 "packets that the system refuses to send by $port" tests/unsent.sh "$convoy" $port
  for outer in 4 6; do
    product 10 "the tunnel over $port, IPv$outer, tun inside" tests/outer.sh "$convoy" $port $outer
    for encap in udp none; do
      product 60 "$port on both sides, IPv$outer, encap $encap" tests/link.sh "$convoy" $port $outer $encap
    done
  done
  product 60 "$port on both sides, IPv4, two workers" env WORKERS=2 tests/link.sh "$convoy" $port 4 udp
done
for port in udp raw af_packet; do
  product 20 "what port $port costs: CPU when idle, system calls a packet, counted by the kernel" tests/ports.sh "$convoy" $port
done
product 20 "what packets cost that are held back in the window: system calls, counted by the kernel" tests/ports.sh "$convoy" udp held
for port in tun af_packet af_xdp; do
  product 45 "the MSS of TCP through a tunnel, $port inside: in both directions, by one gateway and by two; files without ICMP" tests/mss.sh "$convoy" $port
done
product 20 "one tunnel with SAs of two workers" tests/resources.sh "$convoy"
product 20 "a policy-based and a route-based tunnel in one gateway, reloads, a killed gateway" tests/interfaces.sh "$convoy"
for kind in tun af_packet af_xdp; do
  product 20 "interfaces that vanish, and that are not there at the start, $kind: other tunnels go on, and it comes back" \
    tests/vanish.sh "$convoy" $kind
done
product 20 "interfaces that vanish, af_packet with two workers" env WORKERS=2 tests/vanish.sh "$convoy" af_packet
product 60 "BGP and BFD over two tunnels with interfaces of their own: a path is cut, a gateway killed; nothing in clear" tests/routing.sh "$convoy"
product 50 "transport mode between two hosts: all traffic and one port, native and in UDP, IPv4 and IPv6; nothing in clear" tests/transport.sh "$convoy"
product 10 "a gateway in a network namespace, as docs/operation/namespaces.md has it" tests/namespaces.sh "$convoy" netns
slow 60 "two VRFs with the same networks and a tunnel each, as docs/operation/namespaces.md has them" tests/namespaces.sh "$convoy" vrf
product 10 "a hub between two sites: the kernel sends no ICMP redirects" tests/hub.sh "$convoy"
product 30 "peers with static keys that roam, native and through a NAT" tests/roaming.sh "$convoy"
product 20 "two sites with the same network, and a gateway behind a NAT, as docs/guide/nat.md has them" tests/nat-overlap.sh "$convoy"
product 40 "peers by name: no server, no such name, a changed address under traffic" tests/names.sh "$convoy"
if has_dpdk; then
  for outer in 4 6; do
    for encap in udp none; do
      product 60 "dpdk on both sides, IPv$outer, encap $encap" env OUTER=$outer tests/dpdk.sh "$convoy" $encap
    done
  done
  product 60 "dpdk on both sides, two workers" env WORKERS=2 tests/dpdk.sh "$convoy" udp
  for device in crypto_aesni_mb0 crypto_aesni_gcm0 crypto_openssl0; do
    slow 40 "the Linux kernel as the peer of a gateway with $device: what that does, every length" env DEVICE=$device tests/kernel.sh "$convoy"
  done
  slow 30 "strongSwan as the peer of a gateway with crypto_openssl0: proposals, rekeying" env DEVICE=crypto_openssl0 \
    tests/charon/stock.sh "$convoy" "$plugin" "proposal aes128gcm16" "proposal aes128-sha1" "proposal aes128-sha256" \
    "child_rekey without-PFS aes128gcm16" "child_rekey with-PFS aes128-sha256-ecp256"
else
  echo "=== DPDK is not on this machine, so its ports and crypto devices are not tested"
fi

# What a gateway leaves, keeps, blocks and outlives.
product 45 "routes: a full tunnel, and what every exit leaves" tests/routes.sh "$convoy"
product 40 "on-stop: nothing unencrypted while stopped, restarted, killed; unblock" tests/on-stop.sh "$convoy"
for kind in tun af_packet af_xdp; do
  product 20 "the guard: nothing of the tunnels' networks passes by the kernel, $kind inside" tests/guard.sh "$convoy" $kind
done
product 20 "privileges, a second gateway, keys in memory after a reload, a helper that is killed" tests/privileges.sh "$convoy"
product 20 "keys in memory after reloads, with engines on cores of their own" tests/keys.sh "$convoy"
slow 20 "keys in memory after reloads, with a modelled device as well" env MODEL=1 tests/keys.sh "$convoy"
product 30 "static keys over restarts, with a clock that begins again: nothing replayed, no IV twice" tests/restart.sh "$convoy"
product 25 "a reload under traffic loses nothing, also among ten thousand tunnels" tests/reload.sh "$convoy"
product 15 "what a running gateway outlives: no reader of the log, a full disk, little memory" tests/resilience.sh "$convoy" log terminal disk memory
slow 90 "two traffic classes under overload: hosts behind both gateways, junk that claims the higher class" tests/classes.sh "$convoy"
alone slow 30 "what a running gateway outlives: floods" tests/resilience.sh "$convoy" flood
alone slow 30 "ten times the packets that two gateways carry: goodput, memory, pings afterwards" tests/overload.sh "$convoy" udp

# Operation.
product 15 "metrics: Prometheus' own parser, clients that mean harm" tests/metrics.sh "$convoy"
product 60 "the page for browsers in Chromium: a cut path and a silent gateway within 2 s, two widths; answers of ten thousand tunnels" tests/page.sh "$convoy"
product 30 "Prometheus' rules and Grafana's dashboard: each alert by promtool, each query on a scrape of two gateways" tests/dashboards.sh "$convoy"
product 30 "what an operator looks at: log, show, events, warnings" tests/operation.sh "$convoy"
product 20 "monitors: pings and ESP echoes, a path that is cut silently, a forged echo" tests/monitor.sh "$convoy"
product 20 "monitors with two workers" env WORKERS=2 tests/monitor.sh "$convoy"
product 20 "monitors of tunnels in IP-TFS mode" env MODE=iptfs tests/monitor.sh "$convoy"
product 20 "a log in JSON: start, reloads, stop, errors of every kind, a killed helper" tests/log-format.sh "$convoy"
product 15 "completion in bash, zsh and fish: commands, files, the names of a running gateway, one that hangs" tests/completion.sh "$convoy"
product 20 "convoy top in tmux at two sizes: rates, keys, a gateway that stops and comes back" tests/top.sh "$convoy"
product 70 "fourteen faults between two gateways, named by explain, trace and check; the keys for Wireshark" tests/explain.sh "$convoy"
product 40 "convoy init: by questions and by options, static keys and charon, gateways run from its files" tests/init.sh "$convoy" "$plugin"
product 40 "convoy import: swanctl.conf, ipsec.conf, WireGuard and AWS become gateways whose pings pass" tests/import.sh "$convoy" "$plugin"
product 20 "two sites with hosts behind as docs/guide/site-to-site.md has them, and new static keys under traffic" tests/site-to-site.sh "$convoy"
slow 60 "scrapers at a gateway of ten thousand tunnels: pings and memory" tests/scrapes.sh "$convoy"
slow 150 "the packages in a clean Debian: two sites by init, one upgraded, removed" tests/install.sh "$convoy" "$plugin"
slow 150 "the systemd units as docs/guide/strongswan.md has them, under a real systemd: order, restarts, privileges, AppArmor" \
  tests/systemd.sh "$convoy" "$plugin"
product 5 "make charon installs no IKE daemon" tests/packages.sh

# charon.
product 90 "strongSwan as the peer of convoy and its charon: roles, proposals, certificates, NAT, rekeying, hostile peers" \
  tests/charon/stock.sh "$convoy" "$plugin"
product 20 "strongSwan as docs/guide/strongswan.md has it" tests/charon/documented.sh "$convoy" "$plugin"
product 60 "100 road warriors as docs/guide/road-warriors.md has them: certificates, passwords, a pool, one revoked" \
  tests/charon/road-warriors.sh "$convoy" "$plugin"
product 20 "AWS, Azure and VyOS as docs/guide/clouds.md has them: files and proposals, with a strongSwan as the peer" \
  tests/charon/clouds.sh "$convoy" "$plugin"
product 20 "convoy as a client with a virtual IP: the source of this host's packets" tests/charon/virtual-ip.sh "$convoy" "$plugin"
product 10 "a peer of charon's by name: a changed address, no such name" tests/charon/names.sh "$convoy" "$plugin"
product 100 "two gateways with charon: every algorithm" tests/charon/two.sh "$convoy" "$plugin" algorithms
product 60 "two gateways with charon: ESN, events, modes, native ESP, IPv6, MOBIKE, monitors, two workers, interfaces" \
  tests/charon/two.sh "$convoy" "$plugin" long_sequence_numbers events native transport ipv6 mobike monitors two_workers interfaces
for kind in udp raw af_packet af_xdp; do
  product 50 "charon by an outside port $kind: IKE in its rings, IPv4 and IPv6, native and in UDP, one worker and two" \
    tests/charon/ports.sh "$convoy" "$plugin" $kind
done
! has_dpdk || product 50 "charon by an outside port dpdk: IKE in its rings, IPv4 and IPv6, native and in UDP, one worker and two" \
  tests/charon/ports.sh "$convoy" "$plugin" dpdk
product 10 "a virtual IP that no [[tunnel]] covers: a warning, and no answer in clear" tests/charon/uncovered.sh "$convoy" "$plugin"
product 15 "the plugin and convoy-ike alone: keys, names, policies, traps that wait, a gateway that hangs" \
  crates/ike/examples/control_path.sh "$examples/control_path" "$plugin"
product 15 "native ESP from charon by a udp port is refused, and works with encap = yes" tests/charon/native.sh "$convoy" "$plugin"
product 40 "why charon fails, by show, explain, events and log: key, proposals, networks, no answer" tests/charon/refusals.sh "$convoy" "$plugin"
product 60 "what each tool says of sixteen faults, and after how long: IKE, firewalls, path, kernel, keys, names, NAT, the dead" \
  tests/charon/faults.sh "$convoy" "$plugin"
product 20 "100,000 flows to a trap whose peer does not answer" tests/charon/acquires.sh "$convoy" "$plugin"
product 60 "rekeying under traffic, restarts of gateway and charon, strangers at charon's socket" \
  env RATE=500 tests/charon/load.sh "$convoy" "$plugin" 10
alone slow 90 "rekeying under load" tests/charon/load.sh "$convoy" "$plugin" 20 rekey_under_load charon_restart
idle slow 120 "restarts of the gateway under charon with MOBIKE: how long traffic stops, both kinds of peers, IPv6" \
  env TRIES=1 tests/charon/restart.sh "$convoy" "$plugin"
alone slow 30 "ten thousand CHILD_SAs come and go one by one: time, pings meanwhile" tests/charon/many.sh "$convoy"
slow 60 "libreswan as the peer of convoy and its charon" tests/charon/libreswan.sh "$convoy" "$plugin"
slow 60 "ML-KEM by strongSwan 6 as docs/guide/strongswan.md has it: two convoys, rekeyed" tests/charon/post-quantum.sh "$convoy"
slow 60 "SAs of two workers by charon: two convoys, Linux and its per-CPU SAs" tests/charon/resources.sh "$convoy"
slow 60 "IP-TFS negotiated by charon: two convoys, a peer without it, Linux with a charon of its own" tests/charon/iptfs.sh "$convoy"
# `make test-iptfs` runs all cases.
slow 60 "Linux' IP-TFS as the peer: native and in UDP, IPv4 and IPv6, lengths, MTUs" tests/iptfs.sh "$convoy" '^aes128gcm16|600 bytes|65,535'

# Clusters.
product 35 "the cluster's store over three members of etcd: transactions, leases, watches, a killed leader, no quorum, no room" \
  tests/cluster-store.sh "$examples/store"
product 30 "two gateways of a cluster: one is stopped, drained, killed, stands still, is cut off; no number comes twice" \
  tests/cluster.sh "$convoy"
product 60 "a part of a cluster's leader hangs; a store that goes back, is emptied, has damaged and foreign records" \
  tests/cluster-distrust.sh "$convoy"
product 30 "the tunnels of a cluster in its store: put, refused, rolled back" tests/cluster-config.sh "$convoy"
product 30 "two groups spread over two gateways of a cluster: one is killed, comes back, is given its group" \
  tests/cluster-groups.sh "$convoy"
product 35 "two gateways of a cluster with charon: one is stopped, killed; its SAs go on until new ones are negotiated" \
  tests/charon/cluster.sh "$convoy" "$plugin"
slow 60 "a cluster of two gateways: cut cables, no majority of etcd, both killed, one that drains" \
  tests/cluster-failures.sh "$convoy"

# The laboratory: the card, video, the tester, the simulator.
slow 250 "two gateways whose cryptography is the card, inline and lookaside: ping, HTTP, scapy decrypts the outside" demo/card.sh "$convoy"
slow 60 "the firewall, checksums and signatures of the card: reloads under traffic, counters, every kind of packet against a reference" \
  tests/card-filter.sh "$convoy"
slow 60 "the card as an interface of the kernel: ping, TCP, charon, SAs of both modes without a gateway" tests/card-nic.sh "$convoy"
slow 240 "IKE and its SAs by one card: inline, rekeyed under traffic, against a card and strongSwan, through a router and a NAT" \
  tests/charon/card.sh "$convoy" "$plugin"
slow 60 "charon by an outside port card: IKE in its rings, IPv4 and IPv6, native and in UDP" tests/charon/ports.sh "$convoy" "$plugin" card
slow 90 "frames of HDTV through two gateways whose outside ports are cards: nothing lost, bit for bit" demo/hdtv-card.sh "$convoy" 10
slow 60 "video through two gateways, to and from GStreamer, bit for bit; ffmpeg reads and writes what convoy sends" tests/hdtv.sh "$convoy"
slow 20 "video by multicast groups, to and from GStreamer and ffmpeg with their SDP; of two sources one is received" tests/hdtv-multicast.sh "$convoy"
alone slow 60 "the tester between namespaces: two gateways, every kind of end through a router of a known rate, and no way" tests/tester.sh "$convoy"
slow 230 "the card's rows and functions in cocotb, the quick ones" make -s card-quick
slow 80 "the card's proofs, the quick ones" make -s card-formal-quick
slow 300 "the simulator as a Python wheel: without Rust, on Dask and on Ray" tests/python.sh
