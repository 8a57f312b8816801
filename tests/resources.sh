#!/usr/bin/env bash
# One tunnel with SAs of its own for each of two workers (RFC 9611): which packets each one carries,
# by which UDP ports, and that none changes its worker on the way. openssl derives the keys, by
# which scapy decrypts what crossed. Then the second site has a single worker. Needs root.
# usage: resources.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1") WORKERS=2 RESOURCES=2
python=$(cd "$(dirname "$0")/.." && pwd)/target/test-venv/bin/python
source "$(dirname "$0")/../demo/sites.sh"
ask() { "$convoy" show "$2" --json --control "$work/site-$1.sock"; }
# The key of one of the tunnel's SAs, by docs/reference/configuration.md.
derived() { # key spi
  local info
  info=$(printf 'convoy resource' | od -An -v -tx1 | tr -d ' \n')$(printf %08x "$2")
  openssl kdf -binary -keylen 20 -kdfopt digest:SHA256 -kdfopt "hexkey:$1" -kdfopt "hexinfo:$info" HKDF |
    od -An -v -tx1 | tr -d ' \n'
}
sa() { echo "$(($2)):aes128gcm16:$(derived "$1" $(($2)))"; }

head -c 1000000 /dev/urandom >"$work/file"
servers() {
  for site in "$a 1" "$b 2"; do
    read -r ns host <<<"$site"
    serve_files $ns "$work" 8000 "10.$host.0.1"
  done
}
# Twelve flows, of which each worker gets some.
transfer() {
  local copy one transfers=()
  rm -f "$work"/to-*
  for copy in 1 2 3 4 5 6; do
    ip netns exec $a curl -s -m $PATIENCE -o "$work/to-a-$copy" http://10.2.0.1:8000/file & transfers+=($!)
    ip netns exec $b curl -s -m $PATIENCE -o "$work/to-b-$copy" http://10.1.0.1:8000/file & transfers+=($!)
  done
  for one in "${transfers[@]}"; do wait "$one" || fail "a transfer failed: curl says $?"; done
  for copy in "$work"/to-?-?; do cmp "$work/file" "$copy"; done
}
all_used() { ask 1 sa | python3 -c 'import json, sys; sys.exit(any(sa["packets"] <= 100 for sa in json.load(sys.stdin)))'; }
check() { # workers of the second site
  for site in 1 2; do
    ask $site sa >"$work/sa-$site.json"
    ask $site stats >"$work/stats-$site.json"
  done
  python3 - "$work" "$1" <<'CHECK' || fail "the SAs did not share the tunnel's packets as they should"
import json, sys
work, workers = sys.argv[1], [2, int(sys.argv[2])]
for site in (1, 2):
    sas, stats = (json.load(open(f"{work}/{what}-{site}.json")) for what in ("sa", "stats"))
    assert len(sas) == 4, sas
    outbound = [sa for sa in sas if sa["direction"] == "outbound"]
    assert len({sa["worker"] for sa in outbound}) == workers[site - 1], sas
    assert not any(sa["drops"] for sa in sas), sas
    used = [sa["spi"] for sa in outbound if sa["packets"] > 100]
    if workers == [2, 2]:
        assert all(sa["packets"] > 100 for sa in sas), sas
    elif site == 2:
        assert used == [0x1001], sas
    assert stats["handed_over"] == 0, stats["handed_over"]
    packets = {f"{sa['direction']} {sa['spi']:#x}": sa["packets"] for sa in sas}
    print(f"site {site}: worker and packets by SA {packets}, none handed over, dropped {stats['drops']}")
CHECK
}

# Each packet by itself, so that the capture has it as it is.
for end in "$a va" "$b vb"; do
  read -r ns dev <<<"$end"
  ip netns exec $ns ethtool -K $dev gso off gro off tso off tx-udp-segmentation off >/dev/null
done
start_capture outside $a va udp or esp
servers
# A flow stays with the worker to which the kernel gave its first packet: chance decides how many
# each has.
for _ in $(seq 10); do
  transfer
  if all_used; then break; fi
done
check 2
end_capture outside
grep -q '^0 packets dropped by kernel' "$work/outside.log" || fail "the capture is not whole"
ports=$(tshark -r "$work/outside.pcap" -T fields -e udp.srcport -e udp.dstport 2>/dev/null | sort -u | tr '\t\n' '> ')
[ "$ports" = "4501>4500 4502>4500 " ] || fail "packets went by the UDP ports $ports"
# By direction, as the two have an SPI in common.
decrypted() { # source key spi...
  local spi sas=() from=$1 key=$2
  shift 2
  for spi in "$@"; do sas+=("$(sa "$key" "$spi")"); done
  tcpdump -Z root -r "$work/outside.pcap" -w "$work/$from.pcap" src host "$from" 2>/dev/null
  "$python" -W ignore "$(dirname "$0")/oracle/capture.py" "$work/$from.pcap" "${sas[@]}" ||
    fail "scapy does not decrypt what crossed"
}
decrypted 192.0.2.1 "${key_ab[0]}" 0x1002 0x1003
decrypted 192.0.2.2 "${key_ba[0]}" 0x1001 0x1002
stop_gateways

# The second site sends by the first SA alone, and receives by both.
sed -i 's/^workers = 2/workers = 1/' "$work/site-2.toml"
begin_gateways
transfer
check 1
stop_gateways
echo "one tunnel with the SAs of two workers: at least 24 files of 1,000,000 bytes the same"
