//! ICMP errors to the senders of dropped packets, and decrementing the hop limit, which causes
//! some.

use std::net::{IpAddr, Ipv4Addr};

use convoy_packet::{Frame, FramePool, Layout, ip};

use super::Tables;
use crate::drops::DropReason;
use crate::icmp::{self, IcmpError};
use crate::job::SaIndex;

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
    /// "Too big" comes from the packet's destination. It may reach its receiver through a kernel
    /// that has our inside address as its own, and Linux drops packets that arrive from one of its
    /// own addresses as martians; the destination, however, is routed to us, so that a reverse path
    /// filter accepts it too. "Time exceeded" names the router it comes from, or traceroute would
    /// take us for its destination.
    fn error_source(&self, error: IcmpError, packet: &[u8], layout: &Layout) -> Option<IpAddr> {
        match error {
            IcmpError::TooBig(_) => Some(layout.addresses(packet).1),
            IcmpError::TimeExceeded if layout.is_v6 => self.config.inside_v6.map(IpAddr::V6),
            IcmpError::TimeExceeded => Some(self.config.inside_v4.unwrap_or(DUMMY_V4).into()),
        }
    }

    /// Decrements TTL or hop limit if configured; a packet that expires is dropped and its sender
    /// told.
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
