use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::format::{Depth, Rate, Sampling, Scan};
use crate::layout::PAYLOAD_TYPE;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn described(to: &str, name: &str) -> Description {
    let to: SocketAddr = to.parse().expect("an address");
    let is_group = to.ip().is_multicast();
    let source = if to.is_ipv4() { "192.0.2.1" } else { "2001:db8::2" };
    Description {
        to,
        ttl: (is_group && to.is_ipv4()).then_some(64),
        sources: if is_group { vec![ip(source)] } else { Vec::new() },
        payload_type: PAYLOAD_TYPE,
        format: name.parse().expect("a name"),
    }
}

fn announcement() -> Announcement {
    Announcement {
        from: ip("192.0.2.1"),
        number: 7,
        hardware_address: Some([0x1c, 0x34, 0xda, 0x5a, 0xbe, 0x34]),
        is_clocked: true,
        max_udp_bytes: None,
        profile: Some(TrafficProfile::Wide),
    }
}

#[test]
fn what_is_written_is_read() {
    for to in ["[2001:db8::1]:5004", "[ff35::1]:5004", "239.1.2.3:5004", "192.0.2.2:5004"] {
        for name in ["720p60", "1080i59.94", "64x36p25"] {
            let mut description = described(to, name);
            let of = [
                (Sampling::Ycbcr422, Depth::Ten),
                (Sampling::Rgb, Depth::Eight),
                (Sampling::Ycbcr444, Depth::Twelve),
            ];
            for (sampling, depth) in of {
                description.format = description.format.with_sampling(sampling).with_depth(depth);
                let text = description.write(&announcement());
                assert_eq!(Description::read(&text, None), Ok(description.clone()), "{text}");
            }
        }
    }
}

#[test]
fn a_description_stands_as_st_2110_has_it() {
    let text = described("239.1.2.3:5004", "1080i59.94").write(&announcement());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "v=0",
            "o=- 7 7 IN IP4 192.0.2.1",
            "s=convoy hdtv",
            "t=0 0",
            "m=video 5004 RTP/AVP 96",
            "c=IN IP4 239.1.2.3/64",
            "a=source-filter:incl IN IP4 239.1.2.3 192.0.2.1",
            "a=rtpmap:96 raw/90000",
            "a=fmtp:96 sampling=YCbCr-4:2:2; width=1920; height=1080; exactframerate=30000/1001; depth=8; \
             TCS=SDR; colorimetry=BT709; interlace; PM=2110GPM; SSN=ST2110-20:2017; TP=2110TPW",
            "a=framerate:29.970030",
            "a=ts-refclk:localmac=1c-34-da-5a-be-34",
            "a=mediaclk:direct=0",
        ]
    );
}

#[test]
fn what_the_sender_does_not_know_is_not_described() {
    let sent = Announcement { hardware_address: None, is_clocked: false, profile: None, ..announcement() };
    let text = described("192.0.2.2:5004", "720p60").write(&sent);
    assert!(text.contains("a=ts-refclk:local\r\n") && text.contains("a=mediaclk:sender\r\n"), "{text}");
    assert!(!text.contains("TP=") && !text.contains("MAXUDP"), "{text}");
}

const GSTREAMER: &str = "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=x\r\nc=IN IP4 10.0.0.2\r\nt=0 0\r\nm=audio 5002 RTP/AVP 0\r\n\
    m=video 5004 RTP/AVP 97 96\r\na=rtpmap:97 H264/90000\r\na=rtpmap:96 RAW/90000\r\na=framerate:59.94\r\n\
    a=fmtp:96 sampling=YCbCr-4:2:2;depth=8;width=1280;height=720;colorimetry=BT709-2\r\n";

/// As ffmpeg 5.1 writes it, which states no frame rate.
const FFMPEG: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=No Name\r\nc=IN IP4 239.1.2.4/8\r\nt=0 0\r\n\
    a=tool:libavformat\r\nm=video 5004 RTP/AVP 96\r\na=rtpmap:96 raw/90000\r\n\
    a=fmtp:96 sampling=YCbCr-4:2:2; width=320; height=180; depth=8\r\n";

/// As a broadcaster's encoder writes it.
const BROADCAST: &str = "v=0\r\no=- 3826217993 3826217993 IN IP4 10.0.0.198\r\ns=Output\r\nt=0 0\r\nm=video 50000 RTP/AVP 96\r\n\
    c=IN IP4 239.9.8.7/64\r\nb=AS:2568807\r\na=source-filter: incl IN IP4 239.9.8.7 10.0.0.2\r\na=rtpmap:96 raw/90000\r\n\
    a=fmtp:96 sampling=YCbCr-4:2:2; width=1920; height=1080; exactframerate=30000/1001; depth=10; TCS=SDR; colorimetry=BT709; \
    interlaced; PM=2110GPM; SSN=ST2110-20:2017; TP=2110TPN; PAR=1:1; \r\na=mediaclk:direct=0\r\na=ts-refclk:localmac=1c-34-da-5a-be-34\r\n";

#[test]
fn others_descriptions_are_read() {
    let read = Description::read(GSTREAMER, None).expect("one of GStreamer's caps");
    assert_eq!((read.to.to_string().as_str(), read.payload_type), ("10.0.0.2:5004", 96));
    assert_eq!((read.format, read.ttl), ("720p59.94".parse().expect("a name"), None));
    let read = Description::read(BROADCAST, None).expect("an encoder's");
    assert_eq!((read.to.to_string().as_str(), read.ttl), ("239.9.8.7:50000", Some(64)));
    assert_eq!(read.sources, [ip("10.0.0.2")]);
    let format: Format = "1080i59.94".parse().expect("a name");
    assert_eq!(read.format, format.with_depth(Depth::Ten));
    assert_eq!(read.format.scan, Scan::Interlaced);
}

#[test]
fn a_missing_rate_is_reported_or_given() {
    let error = Description::read(FFMPEG, None).expect_err("no rate").to_string();
    assert!(error.contains("`exactframerate`") && error.contains("--rate"), "{error}");
    let rate = Rate::parse("25");
    let read = Description::read(FFMPEG, rate).expect("a rate was given");
    assert_eq!((read.format, read.ttl), ("320x180p25".parse().expect("a name"), Some(8)));
    let read = Description::read(GSTREAMER, rate).expect("a rate was given");
    assert_eq!(Some(read.format.rate), rate);
}

#[test]
fn source_filters_are_read_by_destination_and_level() {
    let sources = |media: &str, session: &str| {
        let text = FFMPEG.replace("a=tool:libavformat\r\n", session) + media;
        Description::read(&text, Rate::parse("25")).map(|read| read.sources)
    };
    let (one, two) = (ip("10.0.0.1"), ip("10.0.0.2"));
    let session = "a=source-filter: incl IN IP4 * 10.0.0.1\r\n";
    assert_eq!(sources("", session), Ok(vec![one]));
    assert_eq!(
        sources("a=source-filter: incl IN IP4 239.1.2.4 10.0.0.2 10.0.0.1\r\n", session),
        Ok(vec![two, one])
    );
    assert_eq!(sources("a=source-filter: incl IN IP4 239.1.2.5 10.0.0.2\r\n", ""), Ok(vec![]));
    let error = |media| sources(media, "").expect_err("wrong").to_string();
    assert!(error("a=source-filter: excl IN IP4 * 10.0.0.2\r\n").contains("sources cannot be excluded"));
    assert!(
        error("a=source-filter: incl IN IP4 * camera.example\r\n").contains("`camera.example` is not an IP")
    );
    assert!(error("a=source-filter: incl IN IP4\r\n").contains("malformed; expected `incl IN IP4|IP6 GROUP"));
}

#[test]
fn errors_are_reported() {
    let with = |from: &str, to: &str| {
        Description::read(&GSTREAMER.replace(from, to), None).expect_err("wrong").to_string()
    };
    assert!(with("RAW/", "VP8/").contains("no stream in it is uncompressed video"));
    assert!(
        with("4:2:2", "4:2:0")
            .contains("`sampling` of the video is `YCbCr-4:2:0`, but only YCbCr-4:2:2, YCbCr-4:4:4 and RGB")
    );
    assert!(with("depth=8", "depth=16f").contains("`depth` of the video is `16f`, but only 8, 10 and 12"));
    assert!(with("width=", "w=").contains("`width` of the video (a=fmtp) is missing"));
    assert!(with("BT709-2", "BT709-2; interlace; segmented").contains("`segmented`"));
    assert!(with("a=framerate:59.94\r\n", "").contains("frame rate is missing"));
    assert!(with("c=IN IP4 10.0.0.2\r\n", "").contains("(c=)"));
    assert!(with("v=0", "x").contains("not a session description"));
    assert!(with("1280", "1281").contains("groups of 2"));
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(at in 0..700_usize, text in ".{0,12}") {
        for whole in [GSTREAMER, BROADCAST] {
            let at = at.min(whole.len());
            let mut broken = whole.to_owned();
            broken.replace_range(at.., &text);
            let _ = Description::read(&broken, None);
            let mut broken = whole.to_owned();
            broken.insert_str(at, &text);
            let _ = Description::read(&broken, None);
        }
    }
}
