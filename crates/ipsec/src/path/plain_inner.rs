//! The plain inner packet of either family, as the short way of delivery sees it: TCP or UDP right
//! behind the IP header.

use convoy_packet::aggfrag::HEADER_BYTES as AGGFRAG_HEADER;
use convoy_packet::protocol::{AGGFRAG, IPV4, IPV6, TCP};
use convoy_packet::{Aggfrag, DataBlock, PlainV4, PlainV6, ip, ipv4, ipv6, tcp};

use crate::esp::job::CryptoJob;
use crate::esp::trailer::unpadded;
use crate::ip::tos::Ecn;
use crate::spd::tunnels::Tunnels;

/// Whether a plain packet with this protocol behind its header of `header_len` bytes begins a TCP
/// connection.
#[inline]
pub(super) fn is_plain_syn(packet: &[u8], header_len: usize, protocol: u8) -> bool {
    protocol == TCP && tcp::is_syn(packet.get(header_len..).unwrap_or_default())
}

/// A plain packet of one family.
pub(super) trait PlainInner: Sized {
    /// The next header of ESP before it.
    const NEXT_HEADER: u8;
    /// Length of its IP header, in bytes.
    const HEADER_BYTES: usize;

    /// Reads a packet; `None` if it is of another family or not plain.
    fn parse(packet: &[u8]) -> Option<Self>;

    /// As the header says, in bytes; never more than there is.
    fn total_len(&self) -> usize;

    fn traffic_class(&self) -> u8;

    fn protocol(&self) -> u8;

    /// The inside interface by which it leaves, if the fast check admits it to the tunnel with this
    /// number.
    fn admitted(&self, tunnels: &Tunnels, tunnel: u32) -> Option<u16>;

    /// Whether `packet`, which it was read from, begins a TCP connection.
    #[inline(always)]
    fn is_syn(&self, packet: &[u8]) -> bool {
        is_plain_syn(packet, Self::HEADER_BYTES, self.protocol())
    }

    /// The packet inside an opened one of ESP in AGGFRAG mode, if it is plain, begins the payload
    /// and has nothing but padding behind it, the padding of ESP is valid, and the outer packet met
    /// no congestion.
    #[inline(always)]
    fn alone_in_payload(packet: &[u8], job: &CryptoJob) -> Option<Self> {
        let body = packet.get(usize::from(job.cipher_start)..usize::from(job.icv_start))?;
        let (payload_len, next) = unpadded(body)?;
        let payload = Aggfrag::parse(body.get(..payload_len)?).ok()?;
        let inner = Self::parse(payload.data())?;
        let behind = payload.data().get(inner.total_len()..)?;
        let is_alone = payload.header_len() == AGGFRAG_HEADER
            && payload.block_offset() == 0
            && (behind.is_empty() || DataBlock::of(behind) == Ok(DataBlock::Padding));
        let is_ce = Ecn::of(ip::traffic_class(packet)) == Ecn::Ce;
        (is_alone && next == AGGFRAG && !is_ce).then_some(inner)
    }

    /// The packet inside an opened one of ESP in tunnel mode, if it is plain, its padding valid,
    /// and its ECN field one that the outer one does not change.
    #[inline(always)]
    fn opened(packet: &[u8], job: &CryptoJob) -> Option<Self> {
        let body = packet.get(usize::from(job.cipher_start)..usize::from(job.icv_start))?;
        let inner = Self::parse(body)?;
        let (payload_len, next) = unpadded(body)?;
        let is_ecn_same = Ecn::of(ip::traffic_class(packet)) == Ecn::of(inner.traffic_class());
        (is_ecn_same && next == Self::NEXT_HEADER && inner.total_len() <= payload_len).then_some(inner)
    }
}

impl PlainInner for PlainV4 {
    const NEXT_HEADER: u8 = IPV4;
    const HEADER_BYTES: usize = ipv4::HEADER_BYTES;

    #[inline(always)]
    fn parse(packet: &[u8]) -> Option<Self> {
        Self::parse(packet)
    }

    #[inline(always)]
    fn total_len(&self) -> usize {
        self.total_len
    }

    #[inline(always)]
    fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    #[inline(always)]
    fn protocol(&self) -> u8 {
        self.protocol
    }

    #[inline(always)]
    fn admitted(&self, tunnels: &Tunnels, tunnel: u32) -> Option<u16> {
        tunnels.admits_v4(tunnel, self.addresses, self.protocol)
    }
}

impl PlainInner for PlainV6 {
    const NEXT_HEADER: u8 = IPV6;
    const HEADER_BYTES: usize = ipv6::HEADER_BYTES;

    #[inline(always)]
    fn parse(packet: &[u8]) -> Option<Self> {
        Self::parse(packet)
    }

    #[inline(always)]
    fn total_len(&self) -> usize {
        self.total_len
    }

    #[inline(always)]
    fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    #[inline(always)]
    fn protocol(&self) -> u8 {
        self.protocol
    }

    #[inline(always)]
    fn admitted(&self, tunnels: &Tunnels, tunnel: u32) -> Option<u16> {
        tunnels.admits_v6(tunnel, self.source, self.destination, self.protocol)
    }
}
