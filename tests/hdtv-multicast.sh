#!/usr/bin/env bash
# Video to multicast groups: from and to convoy, GStreamer and ffmpeg, with the descriptions (SDP)
# that each of them writes, all compared bit for bit. Two cameras send to one switch. The viewer has
# a second interface, which its routes choose for groups. Needs root.
#
#   camera1 10.9.0.1 --+
#                      +-- switch -- net0 10.9.0.3 [viewer] side0 10.8.0.3
#   camera2 10.9.0.2 --+
# usage: hdtv-multicast.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
# shellcheck source=tests/lib.sh
source "$(dirname "$0")/lib.sh"
need_root
work_dir
for program in gst-launch-1.0 ffmpeg tcpdump; do
  command -v $program >/dev/null || fail "$program is missing"
done

add_namespace switch camera1 camera2 viewer
ip -n switch link add bridge type bridge mcast_snooping 0
ip -n switch link set bridge up
host=1
for space in camera1 camera2 viewer; do
  cable $space net0 "10.9.0.$host/24 2001:db8:9::$host/64" switch "port$host" ""
  ip -n switch link set "port$host" master bridge
  host=$((host + 1))
done
cable viewer side0 "10.8.0.3/24 2001:db8:8::3/64" switch side1 ""
ip -n viewer route add 224.0.0.0/4 dev side0
ip -n viewer -6 route add ff00::/8 dev side0 table local metric 1

# Random frames, so that no frame is taken for another.
name=160x90p10 width=160 height=90 rate=10 frames=12 port=5004
bytes=$((frames * width * height * 2))
head -c $bytes /dev/urandom >"$work/sent.raw"

is_joined() { ip -n "$1" maddr show dev "$2" | contains -F " $3"; } # namespace interface group
joined() { wait_until "$1 does not join $3 on $2" is_joined "$@"; }
# receive LOG GROUP OPTION...: as the process $receiver, once it has joined the group on net0.
receive() {
  rm -f "$work/back.raw"
  start "$1" viewer "$lab" hdtv receive --delay-ms 1000 --interface net0 --frames $frames --output "$work/back.raw" \
    --json "${@:3}"
  receiver=$started
  joined viewer net0 "$2"
  ! is_joined viewer side0 "$2" || fail "convoy joins $2 on side0 too"
}
received() { # LOG WHAT
  wait_until "the receiver of $2 does not end" is_gone "$receiver"
  wait "$receiver" || fail "the receiver of $2 failed"
  cmp "$work/sent.raw" "$work/back.raw" || fail "convoy received another video than $2 sent"
}
send() { # LOG CAMERA GROUP OPTION...
  ip netns exec "$2" "$lab" hdtv send --to "$3:$port" --interface net0 --source "${source:-$work/sent.raw}" \
    --format $name "${@:4}" >"$work/$1" 2>&1 || fail "convoy does not send to $3"
}
raw_source() { echo "filesrc location=$work/sent.raw blocksize=$((bytes / frames)) ! rawvideoparse width=$width height=$height format=uyvy framerate=$rate/1 colorimetry=bt709"; }

# From convoy to GStreamer. Neither has a route to the group that leads to its interface.
group=239.1.1.1
start gst-in.log viewer gst-launch-1.0 -q udpsrc address=$group port=$port multicast-iface=net0 buffer-size=2000000 \
  caps="application/x-rtp,media=video,clock-rate=90000,encoding-name=RAW,sampling=YCbCr-4:2:2,depth=(string)8,width=(string)$width,height=(string)$height,colorimetry=BT709,payload=96" ! \
  rtpjitterbuffer latency=1000 ! rtpvrawdepay ! video/x-raw,format=UYVY ! filesink location="$work/shown.raw" buffer-mode=2
gst=$started
joined viewer net0 $group
start_capture sent viewer net0 "udp port $port"
# One packet a burst, since a capture shows what the kernel takes as one message as one packet.
send send.log camera1 $group --burst 1
is_shown() { [ "$(stat -c %s "$work/shown.raw")" -ge $bytes ]; }
wait_until "GStreamer does not show what convoy sends to $group" is_shown
end_process $gst
cmp "$work/sent.raw" "$work/shown.raw" || fail "GStreamer shows another video than convoy sent to $group"
end_capture sent
captured() { tcpdump -nvr "$work/sent.pcap" "$@" 2>/dev/null; }
captured | contains 'ttl 64,' || fail "packets to a group have another TTL than 64"
[ -z "$(captured 'udp[4:2] > 1460')" ] || fail "datagrams are longer than ST 2110-10 allows"
[ -z "$(captured 'udp[8] & 0x20 != 0')" ] || fail "packets have RTP padding"
ok "$frames frames from convoy to GStreamer by $group, bit for bit"

# From GStreamer to convoy, described as GStreamer's own library makes SDP of these caps: with
# a=framerate and no exactframerate.
group=239.1.1.2
# shellcheck disable=SC2046 # several words
caps=$(gst-launch-1.0 -v $(raw_source) ! rtpvrawpay pt=96 ! fakesink 2>&1 | grep -o -m 1 'application/x-rtp, .*' || true)
value() { sed -n "s/.*[ ,]$1=([a-z]*)\([^,]*\).*/\1/p" <<<"$caps"; } # field of the caps
[ "$(value encoding-name)" = RAW ] || fail "GStreamer has other caps: $caps"
cat >"$work/gst.sdp" <<SDP
v=0
o=- 1188340656180883 1 IN IP4 10.9.0.1
s=Session streamed with GStreamer
t=0 0
m=video $port RTP/AVP 96
c=IN IP4 $group/4
a=rtpmap:96 RAW/90000
a=framerate:$(value a-framerate)
a=fmtp:96 sampling=$(value sampling);depth=$(value depth);width=$(value width);height=$(value height);colorimetry=$(value colorimetry)
SDP
[ -n "$(value a-framerate)" ] || sed -i '/^a=framerate/d' "$work/gst.sdp"
given=(); grep -q '^a=framerate' "$work/gst.sdp" || given=(--rate "$rate")
receive gst-out.log $group --sdp "$work/gst.sdp" "${given[@]}"
# shellcheck disable=SC2046 # several words
in_ns camera1 gst-launch-1.0 -q $(raw_source) ! identity sync=true ! rtpvrawpay mtu=1400 pt=96 ! \
  udpsink host=$group port=$port multicast-iface=net0 ttl-mc=4 sync=false >"$work/gst.log" 2>&1 || fail "GStreamer does not send"
received gst-out.log GStreamer
ok "$frames frames from GStreamer to convoy by $group, bit for bit"

# From convoy to ffmpeg, by convoy's description with its source filter. ffmpeg joins by a route.
group=239.1.1.3
ip -n viewer route add $group/32 dev net0
send write.log camera1 $group --frames 0 --sdp "$work/convoy.sdp"
for line in "c=IN IP4 $group/64" "a=source-filter:incl IN IP4 $group 10.9.0.1" "a=mediaclk:direct=0"; do
  contains -F "$line" "$work/convoy.sdp" || fail "the description has no $line: $(cat "$work/convoy.sdp")"
done
contains "^a=ts-refclk:localmac=$(in_ns camera1 cat /sys/class/net/net0/address | tr : -)" "$work/convoy.sdp" ||
  fail "the description has another clock than camera1: $(cat "$work/convoy.sdp")"
start ffmpeg-in.log viewer ffmpeg -nostdin -v error -protocol_whitelist file,udp,rtp -i "$work/convoy.sdp" -frames:v $frames \
  -vsync passthrough -f rawvideo -y "$work/shown.raw"
ffmpeg=$started
joined viewer net0 $group
# ffmpeg ends at the sender's RTCP BYE, even if it has not read all packets before; so it gets more.
cat "$work/sent.raw" "$work/sent.raw" >"$work/twice.raw"
source=$work/twice.raw send send.log camera1 $group
wait_until "ffmpeg does not show what convoy sends to $group" is_gone $ffmpeg
cmp "$work/sent.raw" "$work/shown.raw" || fail "ffmpeg shows another video than convoy sent to $group"
ok "$frames frames from convoy to ffmpeg by $group and its SDP, bit for bit"

# From ffmpeg to convoy, by ffmpeg's description.
group=239.1.1.4
ip -n camera1 route add $group/32 dev net0
ffmpeg_sends() { # OPTION...
  in_ns camera1 ffmpeg -nostdin -v error -re -f rawvideo -pix_fmt uyvy422 -s ${width}x$height -r $rate -i "$work/sent.raw" "$@" \
    -c:v rawvideo -f rtp "rtp://$group:$port?ttl=8&pkt_size=1400" >"$work/ffmpeg.log" 2>&1 || fail "ffmpeg does not send"
}
ffmpeg_sends -frames:v 1 -sdp_file "$work/ffmpeg.sdp"
given=()
if ! contains 'exactframerate\|^a=framerate' "$work/ffmpeg.sdp"; then
  if in_ns viewer "$lab" hdtv receive --sdp "$work/ffmpeg.sdp" >"$work/refused.log" 2>&1; then fail "a missing frame rate is accepted"; fi
  contains 'the frame rate is missing' "$work/refused.log" || fail "no error for a missing frame rate"
  given=(--rate "$rate")
fi
receive ffmpeg-out.log $group --sdp "$work/ffmpeg.sdp" "${given[@]}"
ffmpeg_sends
received ffmpeg-out.log ffmpeg
ok "$frames frames from ffmpeg to convoy by $group and its SDP, bit for bit"

# Both cameras send to one group. A viewer of any source gets what comes first; one of a source gets
# only that, as the kernel drops the other's packets: to the receiver, none is foreign.
other() { # CAMERA GROUP: sends the test picture to it until $other is ended
  start other.log "$1" "$lab" hdtv send --to "$2:$port" --interface net0 --format $name --ttl 3
  other=$started
}
chosen() { # GROUP WHAT OPTION...: receives camera1's video, and nothing of camera2's
  other camera2 "$1"
  start any.log viewer "$lab" hdtv receive --delay-ms 100 --listen "$1:$port" --interface net0 --format $name --frames 3 --json
  wait_until "nothing of camera2 arrives by $1" is_gone "$started"
  contains '"frames": 3' "$work/any.log" || fail "a viewer of any source does not show camera2's frames"
  receive chosen.log "$(tr -d '[]' <<<"$1")" "${@:3}"
  send send.log camera1 "$1"
  received chosen.log camera1
  contains '"foreign": 0,' "$work/chosen.log" || fail "packets of camera2 reach a viewer of camera1"
  is_running $other || fail "camera2 did not send all the time"
  end_process $other
  ok "$frames frames of one of two cameras by $1, $2"
}
chosen 239.1.1.5 "by an option" --listen 239.1.1.5:$port --format $name --from 10.9.0.1
send write.log camera1 239.1.1.6 --frames 0 --sdp "$work/six.sdp"
chosen 239.1.1.6 "by the source filter of the SDP" --sdp "$work/six.sdp"
send write.log camera1 '[ff35::8001]' --frames 0 --sdp "$work/v6.sdp"
chosen '[ff35::8001]' "by the source filter of the SDP, IPv6" --sdp "$work/v6.sdp"
chosen '[ff15::8002]' "by an option, IPv6" --listen "[ff15::8002]:$port" --format $name --from 2001:db8:9::1

# Errors.
refused() { # TEXT ARGUMENT...
  if in_ns camera2 "$lab" hdtv "${@:2}" >"$work/refused.log" 2>&1; then fail "accepted: ${*:2}"; fi
  contains -F "$1" "$work/refused.log" || fail "no \"$1\" for: ${*:2}"
}
refused 'no network interface `net7`' receive --listen 239.1.1.7:$port --interface net7
refused '10.9.0.2 is not a multicast group' receive --listen 10.9.0.2:$port --from 10.9.0.1
refused 'no route leads to the group 239.1.1.7' receive --listen 239.1.1.7:$port
refused 'no route leads to the group 239.1.1.7' receive --listen 239.1.1.7:$port --from 10.9.0.1
refused 'no route leads to the group 239.1.1.7' send --to 239.1.1.7:$port --frames 1
ok "unknown interfaces, sources of no group and groups without a route are reported"
