//! The last steps of traced packets: by which port they left, or why they did not.

use std::collections::HashSet;

use convoy_ipsec::DropReason;
use convoy_packet::Frame;

use super::Worker;
use crate::trace::{Departing, PacketPlace};

/// How many packets of a round had no port to leave by.
#[derive(Clone, Copy)]
pub(super) struct WithoutPort {
    /// No port at their interface.
    pub(super) no_interface: u64,
    /// No port that carries them unencrypted.
    pub(super) unencrypted: u64,
}

impl Worker {
    /// Ends the traces of packets that ports have taken, and of those without a port.
    #[cold]
    pub(super) fn trace_departures(&mut self, mut departing: Vec<Departing>, lost: WithoutPort) {
        let queued = || self.leaving.iter().flatten().flatten();
        let unsent: HashSet<u32> = queued().map(Frame::id).collect();
        departing.retain(|packet| !unsent.contains(&packet.frame));
        let mut refused = Vec::new();
        let now_ns = self.pipeline.clock().now_ns();
        let tables = &mut self.pipeline.ipsec_mut().tables;
        self.unsent.count_each(now_ns, &mut self.outside, tables, &mut |unsent, reason| {
            refused.push((unsent.sa.map_or(0, |sa| sa.spi), reason, unsent.packets));
        });
        let Some(tracer) = self.pipeline.tracer() else { return };
        for packet in departing {
            tracer.left(packet, |spi| {
                let (_, reason, left) = refused.iter_mut().find(|(of, _, left)| *of == spi && *left > 0)?;
                *left -= 1;
                Some(*reason)
            });
        }
        let loss = match (lost.no_interface, lost.unencrypted) {
            (1.., _) => Some((None, DropReason::NoInterface)),
            (0, 1..) => Some((None, DropReason::Unencrypted)),
            (0, 0) => None,
        };
        let queued = self.leaving.iter().flatten().flatten();
        if let Some(tracer) = self.pipeline.tracer() {
            tracer.end_missing(PacketPlace::Leaving, queued, loss, &|_| None);
        }
    }
}
