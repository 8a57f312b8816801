//! A device's queue pair as a port.

use std::borrow::Cow;
use std::sync::Arc;

use convoy_dpdk::{ETHERNET_BURST, EthernetCounters, EthernetQueue};
use convoy_packet::{Frame, FramePool, ethernet, ip};

use super::heard::Heard;
use crate::l2_host::{Dropped, Incoming, L2Host, OwnFrame, echo_reply};
use crate::super_packet::TAILROOM;
use crate::{Port, PortCounters, PortDescription, PortError};

/// Replies of the port's own to one burst, at most; anyone who gets none asks again.
const ANSWERS: usize = 16;

/// Packets that the port itself drops, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PortDrops {
    other_host: u64,
    other_protocol: u64,
    other_address: u64,
    malformed: u64,
    /// With a VLAN tag that the device removed, or in several segments.
    unreadable: u64,
    /// No frame was free.
    no_frame: u64,
}

/// One queue of a `dpdk` port.
pub(super) struct DpdkPort {
    queue: EthernetQueue,
    own: Own,
    number: usize,
    heard: Arc<Heard>,
}

/// A port's state beside its device.
struct Own {
    description: PortDescription,
    counters: PortCounters,
    drops: PortDrops,
    host: L2Host,
    /// Frames of the port's own, behind their headers.
    answers: Vec<([u8; ethernet::HEADER_BYTES], Vec<u8>)>,
}

impl DpdkPort {
    pub(super) fn new(
        description: PortDescription,
        host: L2Host,
        queue: EthernetQueue,
        number: usize,
        heard: Arc<Heard>,
    ) -> Self {
        let own = Own {
            description,
            counters: PortCounters::default(),
            drops: PortDrops::default(),
            host,
            answers: Vec::new(),
        };
        Self { queue, own, number, heard }
    }

    /// Processes what other queues have received, requests the addresses that packets wait for, and
    /// drops packets that have waited too long.
    fn look_after_neighbours(&mut self, pool: &mut FramePool) {
        for message in self.heard.take(self.number) {
            // The queue that received it has answered.
            let _answer = self.own.host.hear(&message);
        }
        let (queue, mac) = (&mut self.queue, self.own.host.identity.mac);
        self.own.host.due(pool, &mut |request| {
            let head = ethernet::header(request.to, mac, request.ethertype);
            queue.send([(head, &request.bytes[..])]);
        });
    }

    /// Sends packets whose next hop is known; `false` if the device has no room for all of them.
    fn flush(&mut self, pool: &mut FramePool) -> bool {
        let Self { queue, own, .. } = self;
        for (head, bytes) in own.answers.drain(..) {
            queue.send([(head, &bytes[..])]);
        }
        let mac = own.host.identity.mac;
        let outbox = &mut own.host.outbox;
        while !outbox.is_empty() {
            let frames = outbox.iter();
            let sent = queue
                .send(frames.map(|(to, frame)| (ethernet::header(*to, mac, ethertype(frame)), &frame[..])));
            for (_, frame) in outbox.drain(..sent) {
                own.counters.count_sent(frame.len());
                pool.give_back(frame);
            }
            if sent < ETHERNET_BURST {
                break;
            }
        }
        outbox.is_empty()
    }

    /// The device's counters, all queues together: reported by the first.
    fn of_device(&self) -> EthernetCounters {
        if self.number == 0 { self.queue.device_counters() } else { EthernetCounters::default() }
    }
}

impl Own {
    fn accept(
        &mut self,
        number: usize,
        heard: &Heard,
        pool: &mut FramePool,
        bytes: &[u8],
        burst: &mut Vec<Frame>,
    ) {
        if bytes.is_empty() {
            self.drops.unreadable += 1;
            return;
        }
        match Incoming::read(bytes, 0, &self.host.identity) {
            Incoming::Packet(packet, _) => match pool.take_filled(packet, TAILROOM) {
                Some(frame) => {
                    self.counters.count_received(frame.len());
                    burst.push(frame);
                }
                None => self.drops.no_frame += 1,
            },
            Incoming::Discovery(message) => {
                heard.tell(number, &message);
                if let Some(answer) = self.host.hear(&message) {
                    self.answer(answer);
                }
            }
            Incoming::Echo(from, request) => {
                if let Some(reply) = echo_reply(from, request) {
                    self.answer(reply);
                }
            }
            Incoming::Dropped(Dropped::OtherHost) => self.drops.other_host += 1,
            Incoming::Dropped(Dropped::OtherProtocol) => self.drops.other_protocol += 1,
            Incoming::Dropped(Dropped::OtherAddress) => self.drops.other_address += 1,
            Incoming::Dropped(Dropped::Malformed) => self.drops.malformed += 1,
        }
    }

    fn answer(&mut self, OwnFrame { to, ethertype, bytes }: OwnFrame) {
        if self.answers.len() < ANSWERS && bytes.len() <= self.description.mtu {
            self.answers.push((ethernet::header(to, self.host.identity.mac, ethertype), bytes));
        }
    }
}

fn ethertype(packet: &[u8]) -> u16 {
    if ip::is_v6(packet) { ethernet::IPV6 } else { ethernet::IPV4 }
}

impl Port for DpdkPort {
    fn description(&self) -> &PortDescription {
        &self.own.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        self.look_after_neighbours(pool);
        let before = burst.len();
        let mut seen = 0;
        while seen < limit {
            let Self { queue, own, number, heard } = self;
            let most = (limit - seen).min(ETHERNET_BURST);
            let count = queue.receive(most, |frame| own.accept(*number, heard, pool, frame, burst));
            seen += count;
            if count < most {
                break;
            }
        }
        self.flush(pool);
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        // The outbox has at most the rest of one burst.
        if !self.flush(pool) {
            return Ok(0);
        }
        let (now_ms, mtu) = (self.own.host.now_ms(), self.own.description.mtu);
        let count = burst.len();
        for frame in burst.drain(..) {
            self.own.host.route(frame, mtu, now_ms, pool);
        }
        self.flush(pool);
        self.look_after_neighbours(pool);
        Ok(count)
    }

    fn tick(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.look_after_neighbours(pool);
        self.flush(pool);
        Ok(())
    }

    fn counters(&self) -> PortCounters {
        let PortDrops { malformed, unreadable, no_frame, .. } = self.own.drops;
        let receive_dropped = malformed + unreadable + no_frame + self.of_device().missed;
        let send_dropped = self.own.host.drops.total();
        PortCounters { receive_dropped, send_dropped, ..self.own.counters }
    }

    fn device_counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        let (drops, device) = (self.own.drops, self.of_device());
        let counters = [
            ("other_host", drops.other_host),
            ("other_protocol", drops.other_protocol),
            ("other_address", drops.other_address),
            ("malformed", drops.malformed),
            ("unreadable", drops.unreadable),
            ("no_frame", drops.no_frame),
            ("missed", device.missed),
            ("receive_errors", device.receive_errors),
            ("send_errors", device.send_errors),
            ("no_buffer", device.no_buffer),
        ];
        let all = counters.into_iter().chain(self.own.host.drops.by_reason());
        all.map(|(name, count)| (name.into(), count)).collect()
    }
}

#[cfg(test)]
mod tests;
