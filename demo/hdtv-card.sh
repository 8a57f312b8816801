#!/usr/bin/env bash
# HDTV through the GRIP card: frames of the papers' video (720p, 4:2:2, 8 bits, packets of 9000
# bytes) cross two gateways whose outside ports are cards, which encrypt and decrypt them inline;
# once with AES-128-GCM and once with AES-128-CTR and HMAC-SHA1-96. Needs root, and a convoy with
# the card built in.
# usage: hdtv-card.sh CONVOY [SECONDS]
#
# The cards are models: Verilator simulates their RTL, hundreds of times slower than a card would
# be. Frames are therefore sent one at a time, each as a stream of its own, until SECONDS (20) are
# over; every one must arrive bit for bit. The time that they take says nothing about a card: the
# table at the end has its cycles for a frame (docs/lab/results/card.md, "HDTV").
set -euo pipefail
seconds=${2:-20}
if [ -z "${3:-}" ]; then
  for proposal in aes128gcm16 aes128ctr-sha1; do "$0" "$1" "$seconds" $proposal; done
  python3 "$(dirname "$0")/hdtv_card.py" table
  exit
fi
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
# The longest packet inside, so that the packets outside have 9000 bytes with either algorithm.
inner_mtu=8946
IN_LAB=1 PORT=card ENCAP=none PROPOSALS=("$3") LINK_MTU=9000 INNER_MTU=$inner_mtu EXTRA='mtu = 9000'
source demo/sites.sh
port=5004 frame_bytes=$((1280 * 720 * 2)) most=32
ends() { # receiver
  wait_until "a receiver does not end" is_gone "$1"
  wait "$1" || fail "a receiver failed"
}
PATIENCE=300 # a card is simulated

echo "=== HDTV through two cards, which are simulated, with $3"
# The moving test picture, by the loopback interface.
ip netns exec $a "$lab" hdtv receive --delay-ms 1000 --listen 127.0.0.1:6004 --format 720p10 --frames $most \
  --output "$work/video.raw" --first-timestamp 0 --json >"$work/made.json" 2>"$work/made.log" & receiver=$!
wait_for_port $a 6004
ip netns exec $a "$lab" hdtv send --to 127.0.0.1:6004 --format 720p10 --frames $most --first-timestamp 0 --mtu 9000 >"$work/make.log"
ends $receiver
[ "$(stat -c %s "$work/video.raw")" = $((most * frame_bytes)) ] || fail "the test picture has not $most frames"

# The ports have learnt their neighbours before the first frame.
pings "$work/ping.log" $a 2 -s $((inner_mtu - 28)) 10.2.0.1 || fail "not all pings were answered"

# The receiver's frames last so long that no packet is late, however slow the simulation is.
one_frame() { # number
  tail -c +$(($1 * frame_bytes + 1)) "$work/video.raw" | head -c $frame_bytes >"$work/sent.raw" || true
  rm -f "$work/received.raw"
  ip netns exec $b "$lab" hdtv receive --listen 10.2.0.1:$port --format 1280x720p1/1000 --frames 1 --delay-ms 10000 \
    --output "$work/received.raw" --json >"$work/receive-$1.json" 2>"$work/receive.log" & receiver=$!
  wait_for_port $b $port
  ip netns exec $a "$lab" hdtv send --to 10.2.0.1:$port --source "$work/sent.raw" --format 720p10 --frames 1 --mtu $inner_mtu \
    --json >"$work/send-$1.json" 2>"$work/send.log" || fail "convoy hdtv send failed"
  ends $receiver
  cmp "$work/sent.raw" "$work/received.raw" || fail "frame $1 is another than was sent"
}
began=$EPOCHREALTIME frames=0
while [ $frames -lt $most ] && [ $((${EPOCHREALTIME%.*} - ${began%.*})) -lt "$seconds" ]; do
  one_frame $frames
  frames=$((frames + 1))
done
for site in 1 2; do "$convoy" show stats --json --control "$work/site-$site.sock" >"$work/stats-$site.json"; done
python3 demo/hdtv_card.py judge --work "$work" --frames $frames --began "$began" || fail "the cards did not do it all"
stop_gateways
