//! The plain inner packet of either family, as the short way of delivery sees it: TCP or UDP right
//! behind the IP header.

use convoy_packet::aggfrag::HEADER_BYTES as AGGFRAG_HEADER;
use convoy_packet::protocol::{AGGFRAG, TCP};
use convoy_packet::{Aggfrag, DataBlock, Plain, PlainFamily, ip, tcp};

use crate::esp::job::CryptoJob;
use crate::esp::trailer::unpadded;
use crate::ip::tos::Ecn;
use crate::spd::tunnels::Tunnels;

/// Whether `packet`, of which `plain` was read, begins a TCP connection.
#[inline]
pub(super) fn is_plain_syn<A: PlainFamily>(packet: &[u8], plain: &Plain<A>) -> bool {
    plain.protocol == TCP && tcp::is_syn(packet.get(A::HEADER_BYTES..).unwrap_or_default())
}

/// A family of plain inner packets.
pub(super) trait InnerFamily: PlainFamily {
    /// The inside interface by which a packet leaves, if the fast check admits it to the tunnel
    /// with this number.
    fn admitted(inner: &Plain<Self>, tunnels: &Tunnels, tunnel: u32) -> Option<u16>;
}

impl InnerFamily for u64 {
    #[inline(always)]
    fn admitted(inner: &Plain<Self>, tunnels: &Tunnels, tunnel: u32) -> Option<u16> {
        tunnels.admits_v4(tunnel, inner.addresses, inner.protocol)
    }
}

impl InnerFamily for [u128; 2] {
    #[inline(always)]
    fn admitted(inner: &Plain<Self>, tunnels: &Tunnels, tunnel: u32) -> Option<u16> {
        tunnels.admits_v6(tunnel, inner.addresses, inner.protocol)
    }
}

/// The packet inside an opened one of ESP in tunnel mode, if it is plain, its padding valid, and
/// its ECN field one that the outer one does not change.
#[inline(always)]
pub(super) fn inner_of_tunnel<A: PlainFamily>(packet: &[u8], job: &CryptoJob) -> Option<Plain<A>> {
    let body = packet.get(usize::from(job.cipher_start)..usize::from(job.icv_start))?;
    let inner = Plain::<A>::parse(body)?;
    let (payload_len, next) = unpadded(body)?;
    let is_ecn_same = Ecn::of(ip::traffic_class(packet)) == Ecn::of(inner.traffic_class);
    (is_ecn_same && next == A::PROTOCOL && inner.total_len <= payload_len).then_some(inner)
}

/// The packet inside an opened one of ESP in AGGFRAG mode, if it is plain, begins the payload and
/// has nothing but padding behind it, the padding of ESP is valid, and the outer packet met no
/// congestion.
#[inline(always)]
pub(super) fn alone_in_payload<A: PlainFamily>(packet: &[u8], job: &CryptoJob) -> Option<Plain<A>> {
    let body = packet.get(usize::from(job.cipher_start)..usize::from(job.icv_start))?;
    let (payload_len, next) = unpadded(body)?;
    let payload = Aggfrag::parse(body.get(..payload_len)?).ok()?;
    let inner = Plain::<A>::parse(payload.data())?;
    let behind = payload.data().get(inner.total_len..)?;
    let is_alone = payload.header_len() == AGGFRAG_HEADER
        && payload.block_offset() == 0
        && (behind.is_empty() || DataBlock::of(behind) == Ok(DataBlock::Padding));
    let is_ce = Ecn::of(ip::traffic_class(packet)) == Ecn::Ce;
    (is_alone && next == AGGFRAG && !is_ce).then_some(inner)
}
