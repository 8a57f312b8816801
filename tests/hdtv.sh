#!/usr/bin/env bash
# Video through a tunnel between two gateways: from convoy to GStreamer, from GStreamer to convoy,
# and Y4M from ffmpeg to convoy, all compared bit for bit. Needs root.
# usage: hdtv.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
LINK_MTU=9300 INNER_MTU=9000 EXTRA='mtu = 9200'
source "$(dirname "$0")/../demo/sites.sh"
port=5004
in_a() { ip netns exec $a "$@"; }
in_b() { ip netns exec $b "$@"; }
listens() { wait_for_port "$1" $port; } # namespace
ends() { wait_until "process $1 does not end" is_gone "$1"; }
caps() { # sampling depth width height rate
  echo "application/x-rtp,media=video,clock-rate=90000,encoding-name=RAW,sampling=$1,depth=(string)$2,width=(string)$3,height=(string)$4,colorimetry=BT709-2,payload=96"
}
tenths() { case $1 in UYVY) echo 20 ;; UYVP) echo 25 ;; RGB | IYU2) echo 30 ;; esac; } # bytes of ten pixels
# A jitter buffer of a second, so that delays on a busy machine do not matter, only the bits.
frames=12
# name, sampling, depth, GStreamer's sampling and pixel format
# GStreamer receives and sends 4:4:4 as AYUV, whose bytes but for the alpha are those of IYU2.
formats=(
  "320x180p25 ycbcr 8 YCbCr-4:2:2 UYVY"
  "320x180p25 ycbcr 10 YCbCr-4:2:2 UYVP"
  "320x180p25 rgb 8 RGB RGB"
  "320x180p25 ycbcr444 8 YCbCr-4:4:4 IYU2"
  "1280x720p10 ycbcr 8 YCbCr-4:2:2 UYVY"
)
for format in "${formats[@]}"; do
  read -r name sampling depth gst_sampling gst_format <<<"$format"
  size=${name%p*} rate=${name#*p}
  width=${size%x*} height=${size#*x}
  # Raw frames that convoy writes over the loopback interface: GStreamer sends them, and received
  # frames are compared with them.
  ip netns exec $a "$lab" hdtv receive --delay-ms 1000 --listen 127.0.0.1:6004 --format "$name" --sampling "$sampling" --depth "$depth" \
    --frames $frames --output "$work/sent.raw" --first-timestamp 0 --json >"$work/raw.log" 2>&1 & receiver=$!
  wait_for_port $a 6004
  in_a "$lab" hdtv send --to 127.0.0.1:6004 --format "$name" --sampling "$sampling" --depth "$depth" --source-depth "$depth" \
    --frames $frames --first-timestamp 0 --mtu 9000 >"$work/send.log"
  ends $receiver
  bytes=$(stat -c %s "$work/sent.raw")
  [ "$bytes" = $((frames * width * height * $(tenths "$gst_format") / 10)) ] || fail "$name $gst_format: $bytes bytes are not $frames frames"

  # From convoy to GStreamer, through the tunnel.
  ip netns exec $b gst-launch-1.0 -q udpsrc port=$port buffer-size=20000000 caps="$(caps "$gst_sampling" "$depth" "$width" "$height")" ! \
    rtpjitterbuffer latency=200 ! rtpvrawdepay ! videoconvert ! "video/x-raw,format=$gst_format" ! filesink location="$work/shown.raw" buffer-mode=2 >"$work/gst.log" 2>&1 & gst=$!
  listens $b
  in_a "$lab" hdtv send --to 10.2.0.1:$port --format "$name" --sampling "$sampling" --depth "$depth" --source-depth "$depth" \
    --frames $frames --mtu 9000 >"$work/send.log" || fail "convoy did not send"
  is_shown() { [ "$(stat -c %s "$work/shown.raw")" -ge "$bytes" ]; }
  wait_until "GStreamer does not show all of $name $gst_format" is_shown
  kill -INT $gst; ends $gst
  cmp "$work/sent.raw" "$work/shown.raw" || fail "GStreamer shows another $name $gst_format than convoy sent"

  # From GStreamer to convoy. GStreamer does not pace packets but sends each frame at once, so with
  # HDTV a busy machine loses packets.
  [ "$width" -le 640 ] || { echo "$name $gst_format: $frames frames to GStreamer, bit for bit"; continue; }
  ip netns exec $b "$lab" hdtv receive --delay-ms 1000 --listen 10.2.0.1:$port --format "$name" --sampling "$sampling" --depth "$depth" \
    --frames $frames --output "$work/back.raw" --json >"$work/receive.log" 2>&1 & receiver=$!
  listens $b
  in_a gst-launch-1.0 -q filesrc location="$work/sent.raw" blocksize=$((bytes / frames)) ! \
    rawvideoparse width="$width" height="$height" format="${gst_format,,}" framerate="$rate/1" colorimetry=bt709 ! \
    identity sync=true ! videoconvert ! rtpvrawpay mtu=8900 pt=96 ! udpsink host=10.2.0.1 port=$port sync=false >"$work/gst.log" 2>&1 || fail "GStreamer did not send"
  # GStreamer sends no RTCP BYE.
  sleep 1; kill -TERM $receiver 2>/dev/null || true; ends $receiver
  cmp "$work/sent.raw" "$work/back.raw" || fail "convoy received another $name $gst_format than GStreamer sent"
  echo "$name $gst_format: $frames frames to GStreamer and back, bit for bit"
done

# Y4M from ffmpeg, by an SDP file; ffmpeg reads what convoy writes.
for pixels in yuv422p yuv422p10le yuv422p12le yuv444p yuv444p10le yuv444p12le; do
  ffmpeg -v error -f lavfi -i testsrc2=size=320x180:rate=25 -frames:v $frames -pix_fmt $pixels -strict -1 -y "$work/in.y4m"
  rm -f "$work/video.sdp"
  in_a "$lab" hdtv send --to 10.2.0.1:$port --source "$work/in.y4m" --mtu 9000 --frames 0 --sdp "$work/video.sdp" >"$work/send.log"
  ip netns exec $b "$lab" hdtv receive --delay-ms 1000 --sdp "$work/video.sdp" --output "$work/out.y4m" >"$work/receive.log" 2>&1 & receiver=$!
  listens $b
  in_a "$lab" hdtv send --to 10.2.0.1:$port --source "$work/in.y4m" --mtu 9000 >"$work/send.log" || fail "convoy did not send"
  ends $receiver
  for file in in out; do ffmpeg -v error -i "$work/$file.y4m" -f framemd5 - | grep -v '^#' >"$work/$file.md5"; done
  [ "$(wc -l <"$work/out.md5")" = $frames ] || fail "ffmpeg reads $(wc -l <"$work/out.md5") frames of $frames"
  cmp "$work/in.md5" "$work/out.md5" || fail "ffmpeg reads another video than it wrote, $pixels"
  grep -q ' 0 lost' "$work/receive.log" || fail "packets were lost"
  echo "$pixels: $frames frames from ffmpeg to ffmpeg, bit for bit"
done
grep -q 'the receiver reported' "$work/send.log" || echo "(no receiver report within so short a stream)"

# Interlaced pictures, and ten bits per sample sent as eight. The receiver knows the test picture.
in_b "$lab" hdtv receive --delay-ms 1000 --listen 10.2.0.1:$port --format 320x180i50 --compare --first-timestamp 9 --snapshot "5:$work/received.png" >"$work/receive.log" 2>&1 & receiver=$!
listens $b
in_a "$lab" hdtv send --to 10.2.0.1:$port --format 320x180i50 --first-timestamp 9 --frames 80 --mtu 1400 --snapshot "5:$work/sent.png" >"$work/send.log"
ends $receiver
grep -q '^80 of 80 frames bit for bit as sent' "$work/receive.log" || fail "interlaced pictures are others"
grep -q 'the receiver reported 0 packets lost' "$work/send.log" || fail "the receiver did not report"
psnr=$(ffmpeg -v info -i "$work/sent.png" -i "$work/received.png" -lavfi psnr -f null - 2>&1 | grep -o 'average:[^ ]*')
[ "$psnr" = average:inf ] || fail "the snapshots differ: $psnr"
echo "320x180i50: 80 frames bit for bit, snapshots the same to ffmpeg ($psnr)"

# GStreamer numbers the lines of both fields from the top of the frame. Its receiver does not
# support interlaced video, so it only sends.
head -c $((frames * 320 * 180 * 2)) /dev/urandom >"$work/sent.raw"
ip netns exec $b "$lab" hdtv receive --delay-ms 1000 --listen 10.2.0.1:$port --format 320x180i50 --line-numbers frame --frames $frames \
  --output "$work/back.raw" --json >"$work/receive.log" 2>&1 & receiver=$!
listens $b
in_a gst-launch-1.0 -q filesrc location="$work/sent.raw" blocksize=$((320 * 180 * 2)) ! \
  rawvideoparse width=320 height=180 format=uyvy framerate=25/1 colorimetry=bt709 interlaced=true top-field-first=true ! \
  identity sync=true ! rtpvrawpay mtu=1400 pt=96 ! udpsink host=10.2.0.1 port=$port sync=false >"$work/gst.log" 2>&1 || fail "GStreamer did not send"
sleep 1; kill -TERM $receiver 2>/dev/null || true; ends $receiver
cmp "$work/sent.raw" "$work/back.raw" || fail "convoy received other interlaced pictures than GStreamer sent"
echo "320x180i50 UYVY: $frames interlaced frames from GStreamer, bit for bit"
