//! ICMP errors to the senders of dropped packets, and decrementing the hop limit, which causes
//! some.

use std::net::{IpAddr, Ipv4Addr};

use convoy_packet::{Frame, FramePool, Layout, ip};

use super::{IpsecConfig, Tables};
use crate::drops::DropReason;
use crate::icmp::{self, IcmpError};
use crate::sa::id::SaIndex;

/// Source of "time exceeded" of a gateway without an IPv4 address inside (RFC 7600 section 4.8).
const DUMMY_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

impl Tables {
    /// Appends an ICMP error about `packet` to `to_sender`, if the rate limit admits one.
    pub(super) fn tell_sender(
        &mut self,
        error: IcmpError,
        packet: &Frame,
        layout: &Layout,
        pool: &mut FramePool,
        to_sender: &mut Vec<Frame>,
    ) {
        let Some(source) = self.error_source(error, packet, layout) else { return };
        if !self.icmp_sent.admits(self.now_ns) {
            return;
        }
        if let Some(mut frame) = icmp::build(error, packet, layout, source, pool) {
            frame.set_interface(packet.interface());
            self.totals.icmp_sent += 1;
            to_sender.push(frame);
        }
    }

    /// The source of an ICMP error about `packet`.
    ///
    /// It is our inside address, as a router's (RFC 1812 section 4.3.2.4), with two exceptions:
    ///
    /// - Behind a kernel that forwards, "too big" comes from the packet's destination. That kernel
    ///   has our inside address as its own, and Linux drops packets that arrive from one of its own
    ///   addresses as martians; the destination, however, is routed to us, so that a reverse path
    ///   filter accepts it too. "Time exceeded" names the router nevertheless, or traceroute would
    ///   take us for its destination.
    /// - Without an address of the family, "too big" comes from the destination, since path MTU
    ///   discovery depends on it, and "time exceeded" from RFC 7600's address, or is not sent.
    fn error_source(&self, error: IcmpError, packet: &[u8], layout: &Layout) -> Option<IpAddr> {
        let IpsecConfig { inside_v4, inside_v6, decrement_ttl, .. } = self.config;
        let ours = if layout.is_v6 { inside_v6.map(IpAddr::V6) } else { inside_v4.map(IpAddr::V4) };
        match error {
            IcmpError::TooBig(_) => {
                Some(ours.filter(|_| decrement_ttl).unwrap_or_else(|| layout.addresses(packet).1))
            }
            IcmpError::TimeExceeded => ours.or_else(|| (!layout.is_v6).then(|| DUMMY_V4.into())),
        }
    }

    /// Decrements TTL or hop limit if configured; a packet that expires is dropped and its sender
    /// notified.
    pub(super) fn count_hop_down(
        &mut self,
        mut frame: Frame,
        layout: &Layout,
        sa: Option<SaIndex>,
        pool: &mut FramePool,
        to_sender: &mut Vec<Frame>,
    ) -> Option<Frame> {
        if !self.config.decrement_ttl {
            return Some(frame);
        }
        if layout.hops <= 1 {
            self.tell_sender(IcmpError::TimeExceeded, &frame, layout, pool, to_sender);
            self.drop_frame(pool, frame, sa, DropReason::TtlExpired);
            return None;
        }
        ip::decrement_hop_limit(&mut frame);
        Some(frame)
    }
}
