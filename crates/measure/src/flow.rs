//! The packets of a stream: UDP between two addresses.

use std::net::SocketAddrV4;

use crate::lengths::Lengths;
use crate::stamp::{HEADER_LENGTH, LEAST_LENGTH, Stamp};

const TTL: u8 = 64;
const UDP: u8 = 17;
/// What fills packets behind the stamp.
const FILLER: u8 = 0x5c;

/// From where to where a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its sender.
    pub from: SocketAddrV4,
    /// Its receiver.
    pub to: SocketAddrV4,
    /// How many receivers' addresses follow one another, one packet to each in turn. With a tunnel for each host, as many SAs.
    pub hosts: u16,
}

impl Flow {
    /// The stream back.
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }
}

/// Whole packets of a stream, whose stamps alone are still to be written.
pub(crate) struct Packets {
    templates: Vec<Vec<u8>>,
}

/// No more templates than these are made, so that they stay in a cache.
const MOST_TEMPLATES: usize = 4096;

impl Packets {
    pub(crate) fn new(flow: Flow, lengths: Lengths) -> Self {
        let cycle = lengths.cycle();
        let hosts = usize::from(flow.hosts.max(1));
        // So many that every host gets every length in turn, where that is not too many.
        let count = (hosts * cycle.len()).min(MOST_TEMPLATES);
        let templates =
            (0..count).map(|at| packet(flow, (at % hosts) as u16, cycle[at % cycle.len()])).collect();
        Self { templates }
    }

    /// The packet of this number, unstamped.
    #[inline]
    pub(crate) fn of(&self, sequence: u64) -> &[u8] {
        &self.templates[(sequence % self.templates.len() as u64) as usize]
    }
}

/// A UDP packet without checksum of UDP (RFC 768): the stamps change, and IPv4 needs none.
fn packet(flow: Flow, host: u16, length: u16) -> Vec<u8> {
    let length = length.max(LEAST_LENGTH);
    let mut bytes = vec![FILLER; usize::from(length)];
    bytes[..usize::from(HEADER_LENGTH)].fill(0);
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes[8] = TTL;
    bytes[9] = UDP;
    bytes[12..16].copy_from_slice(&flow.from.ip().octets());
    let to = u32::from(*flow.to.ip()).wrapping_add(u32::from(host));
    bytes[16..20].copy_from_slice(&to.to_be_bytes());
    let sum = convoy_packet::checksum::of(&bytes[..20], 0);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[20..22].copy_from_slice(&flow.from.port().to_be_bytes());
    bytes[22..24].copy_from_slice(&flow.to.port().to_be_bytes());
    bytes[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    Stamp { stream: 0, sequence: 0, sent_ns: 0 }.write(&mut bytes);
    bytes
}
