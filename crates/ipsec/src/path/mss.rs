//! The maximum segment size of TCP connections through a tunnel: lowered where they begin, in both
//! directions, so that their packets fit the tunnel even if a host gets no ICMP.

use convoy_packet::protocol::TCP;
use convoy_packet::{Frame, Layout, Plain, PlainFamily, ipv4, ipv6, tcp};

use super::plain_inner::is_plain_syn;
use super::{IpsecConfig, Tables};
use crate::sa::id::OutboundId;
use crate::sad::path_mtu::LEAST_V6;

/// To what the maximum segment size of TCP connections is lowered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MssClamp {
    /// It stays as the hosts announce it.
    #[default]
    Off,
    /// To what fits the inside interface and the tunnel: the MTU of each inside interface in bytes,
    /// by [`Policy::interface`](crate::Policy::interface).
    Auto(Vec<u16>),
    /// To this number of bytes.
    To(u16),
}

impl MssClamp {
    /// Whether segments that begin connections have to be looked at.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// Whether a packet begins a TCP connection, and is not cut.
#[inline]
pub(super) fn is_syn(packet: &[u8], layout: &Layout) -> bool {
    layout.protocol == TCP
        && layout.fragment.is_none()
        && tcp::is_syn(packet.get(layout.payload..).unwrap_or_default())
}

impl IpsecConfig {
    /// Whether a plain inner packet that was read from `packet` may have to be changed: it begins a
    /// TCP connection that is clamped, or hops are counted.
    #[inline(always)]
    pub(super) fn may_change<A: PlainFamily>(&self, inner: &Plain<A>, packet: &[u8]) -> bool {
        self.decrement_ttl || self.mss_clamp.is_on() && is_plain_syn(packet, inner)
    }
}

impl Tables {
    /// Lowers what a packet through a tunnel announces, if it begins a TCP connection. `interface`
    /// is that of the tunnel, and `sa` its outbound SA, if it has one: what comes in by the tunnel
    /// announces what may go out by it.
    #[inline]
    pub(super) fn clamp_mss(
        &self,
        frame: &mut Frame,
        layout: &Layout,
        interface: u16,
        sa: Option<OutboundId>,
    ) {
        if self.config.mss_clamp.is_on() && is_syn(frame, layout) {
            self.clamp(frame, layout, interface, sa);
        }
    }

    #[cold]
    fn clamp(&self, frame: &mut Frame, layout: &Layout, interface: u16, sa: Option<OutboundId>) {
        let header_len = if layout.is_v6 { ipv6::HEADER_BYTES } else { ipv4::HEADER_BYTES };
        // Other headers leave less room, which their sender has to count (RFC 6691 section 3).
        if layout.payload != header_len {
            return;
        }
        let most = match &self.config.mss_clamp {
            MssClamp::Off => return,
            MssClamp::To(bytes) => *bytes,
            MssClamp::Auto(inside) => {
                let inside = inside.get(usize::from(interface)).copied().unwrap_or(u16::MAX);
                let mtu = usize::from(inside).min(self.tunnel_mtu(layout, sa));
                // IPv6 has no MTU below 1280: on a smaller path the outer packet is cut.
                let mtu = if layout.is_v6 { mtu.max(LEAST_V6.into()) } else { mtu };
                mtu.saturating_sub(header_len + tcp::HEADER_BYTES) as u16
            }
        };
        if let Some(segment) = frame.get_mut(layout.payload..layout.total_len) {
            tcp::clamp_mss(segment, most);
        }
    }

    /// The longest packet that the path of a tunnel carries in one piece, in bytes; in AGGFRAG
    /// mode, which cuts packets anyway, any.
    fn tunnel_mtu(&self, layout: &Layout, sa: Option<OutboundId>) -> usize {
        let found = sa.and_then(|id| self.sad.outbound.hot_and_cold(id.0)).filter(|(sa, _)| !sa.is_iptfs);
        found.map_or(usize::MAX, |(sa, cold)| cold.inner_mtu(sa.path_mtu.into(), layout.unfragmentable))
    }
}
