//! The network between the gateways: what it loses, delays, doubles, damages and repeats.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::scenario::{ScenarioLink, address};
use super::wire::{SeenPacket, addresses};

/// Packets that somebody has recorded, by direction.
const RECORDED: usize = 64;

/// The fate of packets in transit, beside those that arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransitTally {
    pub(super) lost: u64,
    pub(super) cut: u64,
    pub(super) too_big: u64,
    pub(super) astray: u64,
    pub(super) doubled: u64,
    pub(super) corrupted: u64,
    pub(super) replayed: u64,
}

/// The link in the direction to one site.
pub(super) struct SimulatedLink {
    pub(super) faults: ScenarioLink,
    pub(super) mtu: usize,
    /// Nothing passes until then, in ns.
    pub(super) cut_until_ns: u64,
    recorded: Vec<Vec<u8>>,
    pub(super) tally: TransitTally,
}

/// What a link does with a packet.
pub(super) enum Fate {
    /// It arrives after these delays, in ns, perhaps changed or more than once.
    Arrives(Vec<(u64, Vec<u8>)>),
    Lost,
    /// It was too long, and the sender is notified of the MTU.
    TooBig(u16),
}

impl SimulatedLink {
    pub(super) fn new(faults: ScenarioLink, mtu: usize) -> Self {
        Self { faults, mtu, cut_until_ns: 0, recorded: Vec::new(), tally: TransitTally::default() }
    }

    /// Only delays remain.
    pub(super) fn calm(&mut self) {
        let ScenarioLink { delay_ns, jitter_ns, .. } = self.faults;
        self.faults =
            ScenarioLink { loss: 0.0, duplicate: 0.0, corrupt: 0.0, replay: 0.0, delay_ns, jitter_ns };
        self.cut_until_ns = 0;
    }

    pub(super) fn carry(&mut self, packet: Vec<u8>, now_ns: u64, dice: &mut Xoshiro256PlusPlus) -> Fate {
        let ScenarioLink { loss, duplicate, corrupt, replay, delay_ns, jitter_ns } = self.faults;
        if packet.len() > self.mtu {
            self.tally.too_big += 1;
            return Fate::TooBig(self.mtu as u16);
        }
        if now_ns < self.cut_until_ns {
            self.tally.cut += 1;
            return Fate::Lost;
        }
        if dice.random_bool(loss) {
            self.tally.lost += 1;
            return Fate::Lost;
        }
        if self.recorded.len() < RECORDED {
            self.recorded.push(packet.clone());
        } else {
            let at = dice.random_range(0..RECORDED);
            self.recorded[at].clone_from(&packet);
        }
        let mut arriving = Vec::new();
        let delay = |dice: &mut Xoshiro256PlusPlus| {
            delay_ns + if jitter_ns > 0 { dice.random_range(0..jitter_ns) } else { 0 }
        };
        if dice.random_bool(duplicate) {
            self.tally.doubled += 1;
            arriving.push((delay(dice), packet.clone()));
        }
        if dice.random_bool(replay) {
            self.tally.replayed += 1;
            let at = dice.random_range(0..self.recorded.len());
            arriving.push((delay(dice), self.recorded[at].clone()));
        }
        let mut packet = packet;
        if dice.random_bool(corrupt) {
            self.tally.corrupted += 1;
            let at = dice.random_range(0..packet.len());
            packet[at] ^= dice.random_range(1..=255_u8);
        }
        arriving.push((delay(dice), packet));
        Fate::Arrives(arriving)
    }
}

/// Another place of site 1 as a NAT shows it to site 0.
pub(super) fn another_mapping(dice: &mut Xoshiro256PlusPlus) -> SocketAddr {
    let address = Ipv4Addr::new(198, 51, 100, dice.random_range(1..200));
    SocketAddr::new(address.into(), dice.random_range(1024..65_000))
}

/// A NAT in front of site 1: it changes the source of outgoing packets, and the destination of
/// incoming ones. Returns `false` for a destination that it does not have.
pub(super) fn translate(
    packet: &mut [u8],
    to_site: usize,
    mapping: Option<SocketAddr>,
    seen: SeenPacket,
) -> bool {
    let (Some(mapping), SeenPacket::Esp { in_udp: true, .. }) = (mapping, seen) else { return true };
    let IpAddr::V4(inside) = address(1, false) else { return true };
    let IpAddr::V4(outside) = mapping.ip() else { return true };
    if to_site == 0 {
        packet[12..16].copy_from_slice(&outside.octets());
        packet[20..22].copy_from_slice(&mapping.port().to_be_bytes());
    } else {
        let port = u16::from_be_bytes([packet[22], packet[23]]);
        if addresses(packet)[1] != mapping.ip() || port != mapping.port() {
            return false;
        }
        packet[16..20].copy_from_slice(&inside.octets());
        packet[22..24].copy_from_slice(&4500_u16.to_be_bytes());
    }
    write_checksum(packet);
    true
}

/// Recomputes the checksum of an IPv4 header (RFC 791).
fn write_checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let words = packet[..20].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
