//! The hosts behind both gateways: what they send, and what they hold against it when it arrives.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_packet::protocol::UDP;
use convoy_packet::{IpHeader, udp};

use super::wire::addresses;

/// Bytes before a packet's number: magic.
const MAGIC: [u8; 4] = *b"vopr";
/// Headers of UDP over IPv6, magic and number, and a little more: no packet is shorter.
pub(super) const LEAST_BYTES: usize = 64;
/// UDP's port that distinguishes hosts' packets from ICMP errors.
const PORT: u16 = 7;

/// The address of a host behind a site, in a tunnel's network.
pub(super) fn host(site: usize, tunnel: usize, is_v6: bool) -> IpAddr {
    let (site, tunnel) = (site as u8 + 1, tunnel as u8);
    if is_v6 {
        Ipv6Addr::new(0xfd00, site.into(), tunnel.into(), 0, 0, 0, 0, 9).into()
    } else {
        Ipv4Addr::new(10, site, tunnel, 9).into()
    }
}

/// One host that sends to its opposite number.
#[derive(Clone, Debug)]
pub(super) struct HostFlow {
    /// The site it sends from: 0 or 1.
    pub(super) site: usize,
    pub(super) tunnel: usize,
    /// Its own address and the other's.
    pub(super) ends: [IpAddr; 2],
    pub(super) is_transport: bool,
    pub(super) traffic_class: u8,
    /// The longest packet that it knows to arrive.
    pub(super) path_bytes: usize,
    /// The worker whose queue its packets come in by.
    pub(super) queue: usize,
    /// The number of its last packet that arrived.
    pub(super) last_delivered: Option<u64>,
}

struct SentPacket {
    bytes: Vec<u8>,
    flow: usize,
    /// When it was delivered last.
    delivered_ns: Option<u64>,
}

/// All hosts.
pub(super) struct HostPairs {
    pub(super) flows: Vec<HostFlow>,
    sent: HashMap<u64, SentPacket>,
    next: u64,
    pub(super) delivered: u64,
    pub(super) delivered_again: u64,
    pub(super) reported_too_big: u64,
}

/// What a delivery was.
pub(super) enum Delivery {
    /// A host's packet: its flow, its number, and when the same was delivered before.
    Packet { flow: usize, number: u64, before_ns: Option<u64> },
    /// An ICMP error.
    TooBig { flow: usize, bytes: usize },
}

impl HostPairs {
    pub(super) fn new(flows: Vec<HostFlow>) -> Self {
        Self { flows, sent: HashMap::new(), next: 0, delivered: 0, delivered_again: 0, reported_too_big: 0 }
    }

    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    /// The next packet of a flow.
    pub(super) fn send(&mut self, flow: usize, bytes: usize) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        let of = &self.flows[flow];
        let mut packet = vec![0; bytes.min(of.path_bytes).max(LEAST_BYTES)];
        let header = IpHeader {
            traffic_class: of.traffic_class,
            identification: number as u16,
            dont_fragment: true,
            ..IpHeader::new(UDP, of.ends[0], of.ends[1])
        };
        header.write(&mut packet);
        let body = &mut packet[header.header_len()..];
        udp::write(body, PORT, PORT);
        let payload = &mut body[udp::HEADER_BYTES..];
        let mut filler = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        payload.fill_with(|| {
            filler = filler.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (filler >> 56) as u8
        });
        payload[..4].copy_from_slice(&MAGIC);
        payload[4..12].copy_from_slice(&number.to_be_bytes());
        self.sent.insert(number, SentPacket { bytes: packet.clone(), flow, delivered_ns: None });
        packet
    }

    /// Takes what a gateway brought to the hosts of `site`.
    ///
    /// # Panics
    /// If it is nothing that anybody has sent there.
    pub(super) fn take(&mut self, site: usize, packet: &[u8], now_ns: u64) -> Delivery {
        let is_v6 = packet[0] >> 4 == 6;
        let head = if is_v6 { 40 } else { 20 };
        let protocol = if is_v6 { packet[6] } else { packet[9] };
        if protocol != UDP {
            return self.take_too_big(site, packet, is_v6);
        }
        let payload = &packet[head + udp::HEADER_BYTES..];
        assert_eq!(payload[..4], MAGIC, "hosts got a packet that no host has sent");
        let number = u64::from_be_bytes(payload[4..12].try_into().expect("8 bytes"));
        let sent = self.sent.get_mut(&number).unwrap_or_else(|| panic!("packet {number} was never sent"));
        let flow = &self.flows[sent.flow];
        assert_eq!(flow.site, 1 - site, "packet {number} came back to where it was sent");
        let is_same = if flow.is_transport {
            without_mutable(packet) == without_mutable(&sent.bytes)
        } else {
            packet == sent.bytes
        };
        assert!(is_same, "packet {number} is not what was sent");
        let before_ns = sent.delivered_ns.replace(now_ns);
        self.delivered += 1;
        self.delivered_again += u64::from(before_ns.is_some());
        Delivery::Packet { flow: sent.flow, number, before_ns }
    }

    /// "Too big" (RFC 792, RFC 4443): the sender sends shorter ones from then on.
    fn take_too_big(&mut self, site: usize, packet: &[u8], is_v6: bool) -> Delivery {
        let (head, kind, mtu_at) = if is_v6 { (40, 2, 6) } else { (20, 3, 6) };
        let message = &packet[head..];
        assert_eq!(message[0], kind, "hosts got an ICMP error that is no \"too big\"");
        let bytes = usize::from(u16::from_be_bytes([message[mtu_at], message[mtu_at + 1]]));
        let quoted = &message[8..];
        let ends = addresses(quoted);
        let is_meant = |flow: &HostFlow| flow.site == site && flow.ends == ends;
        let flow = self.flows.iter().position(is_meant).expect("it quotes a packet of a host's");
        for flow in self.flows.iter_mut().filter(|flow| is_meant(flow)) {
            flow.path_bytes = flow.path_bytes.min(bytes).max(LEAST_BYTES);
        }
        self.reported_too_big += 1;
        Delivery::TooBig { flow, bytes }
    }
}

/// A packet without what no ICV covers in transport mode: the fields of its IP header that the
/// network may damage unseen.
fn without_mutable(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 6 {
        // Traffic class, flow label, hop limit.
        packet[0] &= 0xf0;
        packet[1..4].fill(0);
        packet[7] = 0;
    } else {
        // DSCP and ECN, identification, flags, TTL, checksum.
        packet[1] = 0;
        packet[4..9].fill(0);
        packet[10..12].fill(0);
    }
    packet
}
