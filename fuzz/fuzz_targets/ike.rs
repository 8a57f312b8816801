//! Any bytes from charon, or of an SA in the store, either are a message that encodes to the same
//! bytes, or are refused.
#![no_main]

use convoy_ike::protocol::{CharonReply, CharonRequest, Datagram, Hello, SaEvent, SaRecord, Welcome};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((id, request)) = CharonRequest::decode(bytes) {
        assert_eq!(&request.encode(id)[..], bytes);
    }
    if let Ok((id, reply)) = CharonReply::decode(bytes) {
        let kind = u16::from_le_bytes([bytes[0], bytes[1]]) & !0x80;
        assert_eq!(&reply.encode(kind, id)[..], bytes);
    }
    if let Ok(event) = SaEvent::decode(bytes) {
        assert_eq!(&event.encode()[..], bytes);
    }
    if let Ok(datagram) = Datagram::decode(bytes) {
        assert_eq!(&datagram.encode()[..], bytes);
    }
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(&hello.encode()[..], bytes);
    }
    if let Ok(record) = SaRecord::decode(bytes) {
        assert_eq!(&record.encode()[..], bytes);
    }
    if let Ok(welcome) = Welcome::decode(bytes) {
        assert_eq!(&welcome.encode()[..], bytes);
    }
});
