//! Writes the gateway's messages to charon's plugin as inputs of `charon/fuzz`, in the gateway's
//! own encoding: a byte for the operation, then messages, each preceded by its length. usage:
//! messages FOLDER

use std::net::SocketAddr;
use std::path::Path;

use convoy_ike::protocol::{
    CharonReply, Datagram, Message, ReplyBody, ReplyStatus, SaEvent, SaProtocolId, Welcome, WireSelector,
};

/// What `charon/fuzz/harness.c` does with an input.
const GREET: u8 = 0;
const HEAR: u8 = 1;
const GET_SPI: u8 = 2;
const QUERY_SA: u8 = 3;
const QUERY_POLICY: u8 = 4;
const FLUSH: u8 = 5;
const RECEIVE: u8 = 6;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).ok_or_else(|| std::io::Error::other("usage: messages FOLDER"))?;
    let mut inputs = vec![greeting(""), greeting("another charon is connected")];
    for (ours, peers, nat) in [
        ("192.0.2.1:4500", "192.0.2.2:4500", "203.0.113.9:61234"),
        ("[2001:db8::1]:0", "[2001:db8::2]:500", "[2001:db8::9]:1"),
    ] {
        let [ours, peers, nat] = [ours, peers, nat].map(|end| end.parse().expect("an end"));
        inputs.push(events(ours, peers, nat));
        let payload = b"\0\0\0\0 an IKE message".to_vec();
        let datagram = Datagram { source: peers, destination: ours, payload };
        inputs.push(input(RECEIVE, &[datagram.encode()]));
    }
    inputs.extend(replies());
    std::fs::create_dir_all(&folder)?;
    for (number, bytes) in inputs.iter().enumerate() {
        std::fs::write(Path::new(&folder).join(format!("gateway-{number:02}")), bytes)?;
    }
    Ok(())
}

fn input(what: u8, messages: &[Message]) -> Vec<u8> {
    let mut bytes = vec![what];
    for message in messages {
        bytes.extend(u16::try_from(message.len()).expect("a short message").to_le_bytes());
        bytes.extend_from_slice(message);
    }
    bytes
}

fn greeting(reason: &str) -> Vec<u8> {
    let status = if reason.is_empty() { ReplyStatus::Ok } else { ReplyStatus::Failed };
    let welcome = Welcome {
        status,
        generation: 0x0123_4567_89ab_cdef,
        ike_port: 500,
        natt_port: 4500,
        text: reason.to_owned(),
    };
    input(GREET, &[welcome.encode(), welcome.encode(), welcome.encode()])
}

fn events(ours: SocketAddr, peers: SocketAddr, nat: SocketAddr) -> Vec<u8> {
    let end = |end: SocketAddr| WireSelector::of_packet(end.ip(), 17, end.port());
    let expire =
        |protocol, is_hard| SaEvent::Expire { spi: 0xc0ff_ee01, protocol, destination: ours, is_hard };
    let events = [
        expire(SaProtocolId::Esp, false),
        expire(SaProtocolId::Ah, true),
        SaEvent::Acquire { reqid: 7, resource: None, source: end(ours), destination: end(peers) },
        SaEvent::Mapping { spi: 0xc0ff_ee01, protocol: SaProtocolId::Esp, destination: ours, source: nat },
    ];
    input(HEAR, &events.map(|event| event.encode()))
}

/// Replies to the first request of a connection.
fn replies() -> Vec<Vec<u8>> {
    let good = |what, kind, body| input(what, &[CharonReply::Good(body).encode(kind, 1)]);
    let mut all = vec![
        good(GET_SPI, 16, ReplyBody::Spi(0xc0ff_ee01)),
        good(QUERY_SA, 19, ReplyBody::SaUse { bytes: 1 << 40, packets: 12, idle_s: Some(3) }),
        good(QUERY_SA, 19, ReplyBody::SaUse { bytes: 0, packets: 0, idle_s: None }),
        good(QUERY_POLICY, 23, ReplyBody::PolicyUse { idle_s: Some(3) }),
        good(FLUSH, 21, ReplyBody::Done),
    ];
    for status in [ReplyStatus::Failed, ReplyStatus::NotFound, ReplyStatus::NotSupported] {
        all.push(input(GET_SPI, &[CharonReply::refused(status, "no SPI is left").encode(16, 1)]));
    }
    all
}
