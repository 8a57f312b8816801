//! Groups the packets of a burst: those of one TCP connection or UDP flow that the kernel can take
//! as one super-packet.
//!
//! Segmenting the super-packet again (`split.rs`) yields a group byte for byte, except for the
//! identification of IPv4 packets with DF, which is meaningless (RFC 6864). A packet for which that
//! is impossible is a group of its own: other flags than ACK, PSH and ECE, an urgent pointer or
//! options that differ, ECN marks that differ, a wrong checksum, an IPv4 packet without DF whose
//! identification is not the next one. Packets of a flow keep their order.

use convoy_packet::{Frame, checksum, ip, ipv4, protocol, tcp, udp};

use super::flow::{FlowHash, Joint, flow_of};
use super::offload::{OffloadHeader, Segments};

/// UDP segments that every kernel accepts in one super-packet.
pub(crate) const MOST_PACKETS: usize = 64;
/// The maximum of a length field.
const MOST_BYTES: usize = u16::MAX as usize;
/// Room for the headers of a super-packet: of IP without options, and the longest of TCP.
pub(crate) const HEADERS_BYTES: usize = 100;
/// Marks the last of a group's chain.
const END: usize = usize::MAX;

/// Packets of one burst that leave together, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoalescedGroup {
    first: usize,
    last: usize,
    packets: usize,
    /// All payloads together, in bytes.
    payload: usize,
    /// `None` for a packet that cannot be merged.
    joint: Option<Joint>,
    flow: Option<FlowHash>,
    /// Whether another packet may follow.
    is_open: bool,
    /// Whether the first packet's checksums are known to be right.
    is_checked: bool,
}

/// What is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Joins {
    /// Nothing: each packet leaves alone.
    Nothing,
    /// Segments of TCP.
    Tcp,
    /// Datagrams of UDP, too.
    TcpAndUdp,
    /// Also datagrams without a checksum, such as ESP in UDP over IPv4: merged, they get one (RFC
    /// 3948 section 2.1 lets receivers expect neither).
    WithoutChecksum,
}

/// Groups the packets of bursts. Keeps its buffers between calls.
#[derive(Default)]
pub(crate) struct Coalescer {
    groups: Vec<CoalescedGroup>,
    /// For each packet the next of its group.
    next: Vec<usize>,
}

impl Coalescer {
    /// Groups a burst. Groups are in the order of their first packets.
    pub(crate) fn group(&mut self, burst: &[Frame], joins: Joins) {
        self.groups.clear();
        self.next.clear();
        self.next.resize(burst.len(), END);
        for (index, packet) in burst.iter().enumerate() {
            let (flow, joint) = flow_of(packet);
            let joint = joint.filter(|joint| joint.needs <= joins);
            if !self.join(burst, index, flow, joint) {
                self.begin(index, flow, joint);
            }
        }
    }

    /// The groups of the burst.
    pub(crate) fn groups(&self) -> &[CoalescedGroup] {
        &self.groups
    }

    /// The places of a group's packets in the burst.
    pub(crate) fn packets(&self, group: &CoalescedGroup) -> impl Iterator<Item = usize> {
        let mut at = group.first;
        std::iter::from_fn(move || {
            let here = (at != END).then_some(at)?;
            at = self.next[here];
            Some(here)
        })
    }

    /// Appends the packet to the group of its flow, if it continues one. Otherwise that group is
    /// closed, so that nothing of the flow overtakes the packet.
    fn join(&mut self, burst: &[Frame], index: usize, flow: Option<FlowHash>, joint: Option<Joint>) -> bool {
        let Some(flow) = flow else {
            // A packet without a known flow keeps its place among all.
            self.groups.iter_mut().for_each(|group| group.is_open = false);
            return false;
        };
        let of_flow =
            |group: &&mut CoalescedGroup| group.is_open && group.flow.is_some_and(|own| own == flow);
        let Some(group) = self.groups.iter_mut().rev().find(of_flow) else { return false };
        group.is_open = false;
        let (Some(joint), Some(first)) = (joint, group.joint) else { return false };
        let continues = group.packets < MOST_PACKETS
            && joint.header_len + group.payload + joint.payload_len <= MOST_BYTES
            && first.is_continued_by(
                &burst[group.first],
                &joint,
                &burst[index],
                group.packets,
                group.payload,
            )
            && (group.is_checked || first.has_right_checksums(&burst[group.first]))
            && joint.has_right_checksums(&burst[index]);
        if !continues {
            return false;
        }
        self.next[group.last] = index;
        group.last = index;
        group.packets += 1;
        group.payload += joint.payload_len;
        group.is_checked = true;
        group.is_open = !joint.is_end && joint.payload_len == first.payload_len;
        true
    }

    fn begin(&mut self, index: usize, flow: Option<FlowHash>, joint: Option<Joint>) {
        self.groups.push(CoalescedGroup {
            first: index,
            last: index,
            packets: 1,
            payload: joint.map_or(0, |joint| joint.payload_len),
            joint,
            flow,
            is_open: joint.is_some_and(|joint| !joint.is_end),
            is_checked: false,
        });
    }
}

impl CoalescedGroup {
    /// The place of its first packet in the burst.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Packets in it.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Length of each packet's headers, if there are several.
    pub(crate) fn header_len(&self) -> usize {
        self.joint.filter(|_| self.packets > 1).map_or(0, |joint| joint.header_len)
    }

    /// The offload header of the group, and the headers of the super-packet, whose length is also
    /// returned. A single packet leaves unchanged.
    pub(crate) fn headers(&self, burst: &[Frame]) -> (OffloadHeader, [u8; HEADERS_BYTES], usize) {
        let mut headers = [0; HEADERS_BYTES];
        let Some(joint) = self.joint.filter(|_| self.packets > 1) else {
            return (OffloadHeader::default(), headers, 0);
        };
        let (len, transport) = (joint.header_len, joint.transport);
        headers[..len].copy_from_slice(&burst[self.first][..len]);
        let packet = &mut headers[..len];
        let body = len - transport + self.payload;
        let is_v6 = ip::is_v6(packet);
        if is_v6 {
            packet[4..6].copy_from_slice(&(body as u16).to_be_bytes());
        } else {
            ipv4::set_total_length(packet, (transport + body) as u16);
            ipv4::fill_checksum(packet);
        }
        let segments = match (joint.protocol, is_v6) {
            (protocol::UDP, _) => Segments::Udp,
            (_, false) => Segments::TcpV4,
            (_, true) => Segments::TcpV6,
        };
        // The kernel adds what is behind the pseudo header.
        let pseudo = !checksum::fold(checksum::pseudo_header(packet, joint.protocol, body));
        let header = &mut packet[transport..];
        match segments {
            Segments::Udp => header[4..6].copy_from_slice(&(body as u16).to_be_bytes()),
            Segments::TcpV4 | Segments::TcpV6 => {
                header[tcp::FLAGS_AT] |= burst[self.last][transport + tcp::FLAGS_AT] & tcp::PSH;
            }
        }
        let at = segments.checksum_at();
        header[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let offload = OffloadHeader {
            segments: Some(segments),
            header_len: len as u16,
            segment_bytes: joint.payload_len as u16,
            checksum: Some((transport as u16, at as u16)),
        };
        (offload, headers, len)
    }
}

const _: () = assert!(HEADERS_BYTES >= ipv4::HEADER_BYTES + 60 && udp::HEADER_BYTES < tcp::HEADER_BYTES);
