#!/usr/bin/env bash
# Two gateways in network namespaces that use the GRIP card, whose RTL runs in Verilator: ping, HTTP
# in both directions, and scapy decrypts the captured packets. Needs root, and a convoy with the
# card built in.
# usage: card.sh CONVOY [inline|lookaside|inline6 [FUNCTION]]
#
# inline: the card is the outside port; it encrypts packets as they leave and decrypts them as they
# arrive; inline6 is the same over IPv6. lookaside: the card is an engine behind a kernel port.
# Without an argument, runs all, and the first two with the function 3des-sha1 as well. A second
# tunnel has an algorithm that the card lacks, for which there is the engine `software`.
set -euo pipefail
if [ $# = 1 ]; then
  for round in inline lookaside inline6 "inline 3des-sha1" "lookaside 3des-sha1"; do
    # shellcheck disable=SC2086 # one word or two
    "$0" "$1" $round
  done
  exit
fi
convoy=$(realpath "$1") round=$2 FUNCTION=${3:-}
cd "$(dirname "$0")/.."
python=target/test-venv/bin/python
IN_LAB=1 TUNNELS=2 PROPOSALS=(aes128gcm16 chacha20poly1305)
# A card with another function leaves AES-GCM to software.
[ -z "$FUNCTION" ] || PROPOSALS=("$FUNCTION" aes128gcm16)
EXTRA=$'allow_weak = true\n'
case $round in
  inline6) OUTER=6 PORT=card EXTRA+=$'[[engine]]\nkind = "software"' ;;
  inline) PORT=card EXTRA+=$'[[engine]]\nkind = "software"' ;;
  lookaside) PORT=raw EXTRA+=$'[scheduler]\npolicy = "first-capable"\n[[engine]]\nkind = "card"\n'"${FUNCTION:+function = \"$FUNCTION\"}"$'\n[[engine]]\nkind = "software"' ;;
  *) echo "card.sh: $round: expected inline, inline6 or lookaside" >&2; exit 2 ;;
esac
echo "=== the card $round${FUNCTION:+, with the function $FUNCTION}"
source demo/sites.sh

start_capture outside $a va

echo "--- ping, three sizes through the card and one through what it lacks"
for ping in "10.2.0.1 56" "10.2.0.1 512" "10.2.0.1 1350" "10.2.1.1 56"; do
  read -r host size <<<"$ping"
  pings "$work/ping.log" $a 3 -s "$size" "$host" || fail "not all pings of $size bytes to $host were answered"
  echo "$host, $size bytes: $(tail -1 "$work/ping.log")"
done

# 3DES takes more cycles.
bytes=1000000
[ -z "$FUNCTION" ] || bytes=250000
echo "--- HTTP through the card, $bytes bytes each way"
serve() { # namespace address port file
  mkdir "$work/$4" && head -c $bytes /dev/urandom >"$work/$4/file"
  serve_files "$1" "$work/$4" "$3" "$2"
}
serve $b 10.2.0.1 8001 from-b
serve $a 10.1.0.1 8002 from-a
fetch() { # namespace address port file
  wait_until "no answer from $2:$3" ip netns exec "$1" curl -s -m 5 -o /dev/null "http://$2:$3/"
  ip netns exec "$1" curl -s -m 120 -o "$work/copy" -w '%{size_download} bytes in %{time_total} s, ' "http://$2:$3/file"
  cmp "$work/$4/file" "$work/copy" || fail "what came from $2 is not what was served"
  sha256sum <"$work/copy"
}
fetch $a 10.2.0.1 8001 from-b
fetch $b 10.1.0.1 8002 from-a

echo "--- which engine took what"
# all_taken SITE: what the card can do it has done, and software the rest.
all_taken() {
  "$convoy" show stats --json --control "$work/site-$1.sock" >"$work/stats"
  "$python" - "$work/stats" "${PROPOSALS[@]}" <<'END'
import json, sys
stats = json.load(open(sys.argv[1]))
taken = {engine["kind"]: engine["packets"] for engine in stats["engines"]}
# Packets that the card decrypts inline never reach an engine, so the port counts them.
taken["card"] += sum(port["device"].get("decrypted", 0) for port in stats["ports"])
for kind, proposal in zip(("card", "software"), sys.argv[2:]):
    of = sum(sa["packets"] for sa in stats["sas"] if sa["transform"] == proposal)
    print(f"{kind}: {taken[kind]} packets, of {of} of the SAs with {proposal}")
    if not 0 < taken[kind] == of:
        sys.exit(1)
END
}
for site in 1 2; do
  "$convoy" show engine --control "$work/site-$site.sock"
  "$convoy" show port --control "$work/site-$site.sock"
  # The last packets may still be in it, and its counts are not read at one moment.
  wait_until "the card did not take all that it can do" all_taken $site
  cat "$work/waited"
done

echo "--- the outside, decrypted by scapy"
end_capture outside
grep -q '^0 packets dropped by kernel' "$work/outside.log" || fail "the capture is not whole"
sas=()
for t in 0 1; do
  sas+=("$((0x1002 + 16 * t)):$(proposal $t):${key_ab[t]}" "$((0x1001 + 16 * t)):$(proposal $t):${key_ba[t]}")
done
"$python" -W ignore tests/oracle/capture.py "$work/outside.pcap" "${sas[@]}" "$work/from-b/file=8001" "$work/from-a/file=8002" ||
  fail "scapy does not find what was sent"
stop_gateways
echo "done, $round: what crossed of the card's algorithm was encrypted by one card and decrypted by the other"
