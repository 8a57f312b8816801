#!/usr/bin/env bash
# Uncompressed HDTV through two gateways, as the GRIP papers show it: sender and receiver in network namespaces, jumbo frames, AES-128-GCM and
# AES-128-CTR with HMAC-SHA1-96. Prints rate, loss and what the processor does, and writes a picture as sent and as received. Needs root.
# usage: hdtv.sh CONVOY [SECONDS]     the demonstration
#        hdtv.sh CONVOY sweep [SECONDS]   the highest rate without loss for MTUs from 1500 to 9000, SECONDS (4) a trial
set -euo pipefail
convoy=$(realpath "$1") what=${2:-60}
here=$(dirname "$0")
out=${OUT:-target/hdtv}
mkdir -p "$out"
TUNNELS=2 PROPOSALS=(aes128gcm16 aes128ctr-sha1) LINK_MTU=9300 INNER_MTU=9000 EXTRA='mtu = 9200'
if [ "$what" = sweep ]; then
  for window in 1 32; do
    EXTRA=$'mtu = 9200\n[scheduler]\nwindow = '$window
    (source "$here/sites.sh"
    echo "--- window $window"
    python3 "$here/hdtv.py" sweep --convoy "$convoy" --seconds "${3:-4}" --work "$work" --out "$out/sweep-$window.json" \
      --gateways "${running[0]}" "${running[1]}")
  done
  exit
fi
source "$here/sites.sh"
python3 "$here/hdtv.py" show --convoy "$convoy" --seconds "$what" --work "$work" --out "$out" --gateways "${running[0]}" "${running[1]}"
kill "${running[0]}" "${running[1]}"
wait "${running[0]}" && wait "${running[1]}" || { tail -n 20 "$work"/?.log >&2; echo "a gateway did not stop well" >&2; exit 1; }
echo "done: pictures and figures are in $out"
