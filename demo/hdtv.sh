#!/usr/bin/env bash
# Uncompressed HDTV through two gateways, as in the GRIP papers but with software ciphers: sender
# and receiver in network namespaces, jumbo frames, AES-128-GCM and AES-128-CTR with HMAC-SHA1-96.
# Prints rate, loss and CPU use, and writes a picture as sent and as received. Needs root.
# usage: hdtv.sh CONVOY [SECONDS]           the demonstration, SECONDS (60) each way
#        hdtv.sh CONVOY sweep [SECONDS]     the highest rate without loss for the MTUs in $MTUS (1500 to 9000), windows 1 and 32; SECONDS (1) a trial
#        hdtv.sh CONVOY profile [SECONDS]   where processor time goes with HDTV and with iperf3, on two cores and on one; SECONDS (20) each; and the
#                                           account of memory
set -euo pipefail
convoy=$(realpath "$1") what=${2:-60}
here=$(dirname "$0")
out=${OUT:-target/hdtv}
mkdir -p "$out"
TUNNELS=2 PROPOSALS=(aes128gcm16 aes128ctr-sha1) LINK_MTU=9300 INNER_MTU=9000 EXTRA='mtu = 9200'
measure() { # what seconds out [more]: between two gateways
  source "$here/sites.sh"
  python3 "$here/hdtv.py" "$1" --convoy "$lab" --seconds "$2" --work "$work" --out "$3" --gateways "${gateways[@]}" "${@:4}"
  stop_gateways
}
case $what in
sweep)
  rm -f "$out/sweep.json"
  for window in 1 32; do
    (EXTRA+=$'\n[scheduler]\nwindow = '$window
    measure sweep "${3:-1}" "$out/sweep.json" --window $window ${MTUS:+--mtus $MTUS})
  done
  python3 "$here/hdtv.py" table --out "$out/sweep.json" | tee "$out/sweep.md"
  "$lab" hdtv figure "$out/sweep.json" --svg "$out/hdtv-01.svg"
  echo "done: sweep.json, sweep.md and hdtv-01.svg are in $out"
  ;;
profile)
  rm -f "$out/profile.json"
  for cores in 0,1 0; do
    (taskset -cp "$cores" $BASHPID >/dev/null
    measure profile "${3:-20}" "$out/profile.json")
  done
  python3 "$here/hdtv.py" load --out "$out/profile.json" | tee "$out/profile.md"
  echo "done: profile.json and profile.md are in $out"
  ;;
*)
  measure show "$what" "$out"
  echo "done: pictures and figures are in $out"
  ;;
esac
