#!/usr/bin/env bash
# Runs the tests against other implementations and in network namespaces. They need root, and a
# missing implementation is a failure. JOBS (2) run at a time, each with a separate /run, which
# contains the names of network namespaces; those that load the machine to its limits run alone.
# usage: run.sh CONVOY PLUGIN [PATTERN]: all, or those whose names match
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2") pattern=${3:-}
cd "$(dirname "$0")/.."
python=target/test-venv/bin/python
passed=0 failed=() count=0 logs=$(mktemp -d)
declare -A names=() began=()
trap 'kill "${!names[@]}" 2>/dev/null || true; wait; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM HUP
finish() { # waits for one
  local pid status=0 word=passed
  wait -n -p pid "${!names[@]}" || status=$?
  local log="$logs/${began[$pid]% *}"
  if [ $status = 0 ]; then passed=$((passed + 1)); else failed+=("$log ${names[$pid]}") word=FAILED; fi
  echo "=== $word in $((SECONDS - ${began[$pid]#* })) s: ${names[$pid]}"
  cat "$log"
  unset "names[$pid]"
}
begin() { # name command...
  local name=$1; shift
  count=$((count + 1))
  tests/own-run.sh "$@" >"$logs/$count" 2>&1 &
  names[$!]=$name began[$!]="$count $SECONDS"
}
run() { # name command...
  [[ $1 =~ $pattern ]] || return 0
  while [ ${#names[@]} -ge "${JOBS:-2}" ]; do finish; done
  begin "$@"
}
alone() { # name command...
  [[ $1 =~ $pattern ]] || return 0
  while [ ${#names[@]} -gt 0 ]; do finish; done
  begin "$@"
  finish
}
run "scapy opens what convoy seals, and the other way round" "$python" -W ignore tests/oracle/oracle.py "$convoy"
run "two gateways in namespaces: ping, TCP, tshark decrypts the outside; with IP-TFS fewer packets cross" demo/net.sh "$convoy"
run "video through two gateways, to and from GStreamer, bit for bit; ffmpeg reads and writes what convoy sends" tests/hdtv.sh "$convoy"
run "two gateways whose cryptography is the card, inline and lookaside: ping, HTTP, scapy decrypts the outside" demo/card.sh "$convoy"
run "the firewall, checksums and signatures of the card: reloads under traffic, counters, every kind of packet against a reference" tests/card-filter.sh "$convoy"
run "the card as an interface of the kernel: ping, TCP, charon, SAs of both modes without a gateway" tests/card-nic.sh "$convoy"
run "frames of HDTV through two gateways whose outside ports are cards: nothing lost, bit for bit" demo/hdtv-card.sh "$convoy" 10
run "the Linux kernel as the peer: every proposal, mode, family and encapsulation" tests/kernel.sh "$convoy"
run "strongSwan as the peer of convoy and its charon: roles, proposals, certificates, NAT, rekeying, hostile peers" \
  tests/charon/stock.sh "$convoy" "$plugin"
# `make test-iptfs` runs all cases.
run "Linux' IP-TFS as the peer: native and in UDP, IPv4 and IPv6, lengths, MTUs" tests/iptfs.sh "$convoy" '^aes128gcm16|600 bytes|65,535'
run "IP-TFS negotiated by charon: two convoys, a peer without it, Linux with a charon of its own" tests/charon/iptfs.sh "$convoy"
run "make charon installs no IKE daemon" tests/packages.sh
run "strongSwan as docs/guide/strongswan.md has it" tests/charon/documented.sh "$convoy" "$plugin"
run "100 road warriors as docs/guide/road-warriors.md has them: certificates, passwords, a pool, one revoked" \
  tests/charon/road-warriors.sh "$convoy" "$plugin"
run "ML-KEM by strongSwan 6 as docs/guide/strongswan.md has it: two convoys, rekeyed" tests/charon/post-quantum.sh "$convoy"
run "a peer of charon's by name: a changed address, no such name" tests/charon/names.sh "$convoy" "$plugin"
run "the systemd units as docs/guide/strongswan.md has them, under a real systemd: order, restarts, privileges, AppArmor" \
  tests/systemd.sh "$convoy" "$plugin"
run "two gateways with charon: every algorithm, ESN, modes, native ESP, IPv6, MOBIKE, two workers" \
  tests/charon/two.sh "$convoy" "$plugin"
run "charon by every kind of outside port: IKE in its rings, IPv4 and IPv6, native and in UDP, one worker and two" \
  tests/charon/ports.sh "$convoy" "$plugin"
run "IKE and its SAs by one card: inline, rekeyed under traffic, against a card and strongSwan, through a router and a NAT" \
  tests/charon/card.sh "$convoy" "$plugin"
run "a virtual IP that no [[tunnel]] covers: a warning, and no answer in clear" tests/charon/uncovered.sh "$convoy" "$plugin"
alone "rekeying under load, restarts of gateway and charon, strangers at charon's socket" \
  tests/charon/load.sh "$convoy" "$plugin"
alone "restarts of the gateway under charon with MOBIKE: how long traffic stops, both kinds of peers, IPv6" \
  tests/charon/restart.sh "$convoy" "$plugin"
run "libreswan as the peer of convoy and its charon" tests/charon/libreswan.sh "$convoy" "$plugin"
run "the plugin and convoy-ike alone: keys, names, policies, traps that wait, a gateway that hangs" \
  crates/ike/examples/control_path.sh target/debug/examples/control_path "$plugin"
run "the cluster's store over three members of etcd: transactions, leases, watches, a killed leader, no quorum, no room" \
  tests/cluster-store.sh target/debug/examples/store
run "two gateways of a cluster: one is stopped, drained, killed, stands still, is cut off; no number comes twice" \
  tests/cluster.sh "$convoy"
run "the tunnels of a cluster in its store: put, refused, rolled back" tests/cluster-config.sh "$convoy"
run "two gateways of a cluster with charon: one is stopped, killed; its SAs go on until new ones are negotiated" \
  tests/charon/cluster.sh "$convoy" "$plugin"
run "two groups spread over two gateways of a cluster: one is killed, comes back, is given its group" \
  tests/cluster-groups.sh "$convoy"
run "a cluster of two gateways: cut cables, no majority of etcd, both killed, one that drains" \
  tests/cluster-failures.sh "$convoy"
run "two sites with hosts behind as docs/guide/site-to-site.md has them, and new static keys under traffic" tests/site-to-site.sh "$convoy"
alone "what a running gateway outlives: no reader of the log, floods, a full disk, little memory" tests/resilience.sh "$convoy"
alone "ten times the packets that two gateways carry: goodput, memory, pings afterwards" tests/overload.sh "$convoy" udp
alone "ten thousand CHILD_SAs come and go one by one: time, pings meanwhile" tests/charon/many.sh "$convoy"
alone "100,000 flows to a trap whose peer does not answer" tests/charon/acquires.sh "$convoy" "$plugin"
run "peers by name: no server, no such name, a changed address under traffic" tests/names.sh "$convoy"
run "peers with static keys that roam, native and through a NAT" tests/roaming.sh "$convoy"
run "a reload under traffic loses nothing" tests/reload.sh "$convoy"
alone "convoy bench throughput between namespaces: two gateways, every kind of end through a router of a known rate, and no way" tests/tester.sh "$convoy"
alone "scrapers at a gateway of ten thousand tunnels: pings and memory" tests/scrapes.sh "$convoy"
run "metrics: Prometheus' own parser, clients that mean harm" tests/metrics.sh "$convoy"
run "Prometheus' rules and Grafana's dashboard: each alert by promtool, each query on a scrape of two gateways" tests/dashboards.sh "$convoy"
run "what an operator looks at: log, show, events, warnings" tests/operation.sh "$convoy"
run "a log in JSON: start, reloads, stop, errors of every kind, a killed helper" tests/log-format.sh "$convoy"
run "convoy top in tmux at two sizes: rates, keys, a gateway that stops and comes back" tests/top.sh "$convoy"
run "twelve faults between two gateways, named by explain and by trace; the keys for Wireshark" tests/explain.sh "$convoy"
run "routes: a full tunnel, and what every exit leaves" tests/routes.sh "$convoy"
run "BGP and BFD over two tunnels with interfaces of their own: a path is cut, a gateway killed; nothing in clear" tests/routing.sh "$convoy"
run "on-stop: nothing unencrypted while stopped, restarted, killed; unblock" tests/on-stop.sh "$convoy"
for kind in tun af_packet af_xdp; do
  run "the guard: nothing of the tunnels' networks passes by the kernel, $kind inside" tests/guard.sh "$convoy" $kind
done
run "privileges, a second gateway, keys in memory after a reload, a helper that is killed" tests/privileges.sh "$convoy"
run "keys in memory after reloads, with engines on cores of their own" tests/keys.sh "$convoy"
run "static keys over restarts, with a clock that begins anew: nothing replayed, no IV twice" tests/restart.sh "$convoy"
run "the simulator as a Python wheel: without Rust, on Dask and on Ray" tests/python.sh
alone "what packets cost that are held back in the window: system calls, counted by the kernel" tests/ports.sh "$convoy" udp held
run "convoy init: by questions and by options, static keys and charon, gateways run from its files" tests/init.sh "$convoy" "$plugin"
run "the packages in a clean Debian: two sites by init, one upgraded, removed" tests/install.sh "$convoy" "$plugin"
run "a policy-based and a route-based tunnel in one gateway, reloads, a killed gateway" tests/interfaces.sh "$convoy"
run "one tunnel with SAs of two workers" tests/resources.sh "$convoy"
run "SAs of two workers by charon: two convoys, Linux and its per-CPU SAs" tests/charon/resources.sh "$convoy"
for port in udp raw; do
  run "packets that the system refuses to send by $port" tests/unsent.sh "$convoy" $port
  run "two workers over $port" tests/workers.sh "$convoy" $port
  alone "what port $port costs: CPU when idle, system calls a packet, counted by the kernel" tests/ports.sh "$convoy" $port
  for outer in 4 6; do
    run "the tunnel over $port, IPv$outer" tests/outer.sh "$convoy" $port $outer
    run "path MTU discovery over $port, IPv$outer: hosts behind, routers between, forged ICMP" tests/path-mtu.sh "$convoy" $port $outer
  done
done
for port in af_xdp af_packet; do
  run "packets that the system refuses to send by $port" tests/unsent.sh "$convoy" $port
  for outer in 4 6; do
    run "the tunnel over $port, IPv$outer, tun inside" tests/outer.sh "$convoy" $port $outer
    for encap in udp none; do
      run "$port on both sides, IPv$outer, encap $encap" tests/link.sh "$convoy" $port $outer $encap
    done
  done
  run "$port on both sides, IPv4, two workers" env WORKERS=2 tests/link.sh "$convoy" $port 4 udp
done
# The make targets build with DPDK if it is installed, by the same check.
if pkg-config --atleast-version=22.11 libdpdk 2>/dev/null; then
  for outer in 4 6; do
    for encap in udp none; do
      run "dpdk on both sides, IPv$outer, encap $encap" env OUTER=$outer tests/dpdk.sh "$convoy" $encap
    done
  done
  run "dpdk on both sides, two workers" env WORKERS=2 tests/dpdk.sh "$convoy" udp
  for device in crypto_aesni_mb0 crypto_aesni_gcm0 crypto_openssl0; do
    run "the Linux kernel as the peer of a gateway with $device: what that does, every length" env DEVICE=$device tests/kernel.sh "$convoy"
  done
  run "strongSwan as the peer of a gateway with crypto_openssl0: proposals, rekeying" env DEVICE=crypto_openssl0 \
    tests/charon/stock.sh "$convoy" "$plugin" "proposal aes128gcm16" "proposal aes128-sha1" "proposal aes128-sha256" \
    "child_rekey without-PFS aes128gcm16" "child_rekey with-PFS aes128-sha256-ecp256"
else
  echo "=== DPDK is not on this machine, so its ports and crypto devices are not tested"
fi
alone "what port af_packet costs: CPU when idle, system calls a packet, counted by the kernel" tests/ports.sh "$convoy" af_packet
run "the tunnel over udp, IPv4, on a UDP port of its own" env UDP_PORT=5500 tests/outer.sh "$convoy" udp 4
while [ ${#names[@]} -gt 0 ]; do finish; done
# Whoever sees only the end of the output learns what failed, and by which check.
for test in "${failed[@]}"; do
  echo "=== FAILED: ${test#* }"
  tail -n 8 "${test%% *}"
done
echo "system tests: $passed passed, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ]
