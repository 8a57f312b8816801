//! Any bytes, taken as RTP packets of a stream, as RTCP and as a stream description, cause no
//! panic, and all bytes that are reported as received lie within the frame.
#![no_main]

use convoy_hdtv::{Assembler, Description, Format, PAYLOAD_TYPE, rtcp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = rtcp::read(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Description::read(text, None);
    }
    let format: Format = if data.first().is_some_and(|byte| byte & 1 == 1) { "64x8i50" } else { "64x8p25" }
        .parse()
        .expect("a name");
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 4, 0);
    let from = ([192, 0, 2, 1], 5004).into();
    // A length byte precedes each packet.
    let mut rest = data;
    let mut now_ns = 0;
    while let Some((len, behind)) = rest.split_first() {
        let (packet, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        now_ns += 1_000_000;
        // The most common header, so that the code behind it is reached.
        let mut stream = vec![0x80, PAYLOAD_TYPE, 0, *len, 0, 0, 0, len & 3, 0, 0, 0, 7];
        stream.extend(packet);
        let slots = assembler.plan(3);
        for slot in 0..slots {
            assembler.accept(slot, &stream, None, now_ns);
        }
        assembler.settle();
        assembler.take(packet, from, now_ns);
        assembler.take(&stream, from, now_ns);
        while let Some(frame) = assembler.poll(now_ns) {
            assert_eq!(frame.bytes.len(), format.frame_bytes());
            assert!(frame.holes.iter().all(|hole| hole.start < hole.end && hole.end <= format.frame_bytes()));
            assembler.give_back(frame.bytes);
        }
        rest = behind;
    }
});
