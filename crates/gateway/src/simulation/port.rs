//! A port between a gateway and the simulated world.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortCounters, PortDescription, PortError};

/// Room behind a packet for what ESP adds, in bytes.
const TAIL: usize = 64;

/// The world's view of a port.
#[derive(Default)]
pub(super) struct PortQueues {
    pub(super) incoming: VecDeque<Vec<u8>>,
    pub(super) outgoing: Vec<Vec<u8>>,
    /// Packets that it still takes; `None` is any number.
    pub(super) room: Option<usize>,
    /// Path MTUs that the system has found out.
    pub(super) findings: VecDeque<(IpAddr, u16)>,
    pub(super) counters: PortCounters,
}

/// The world's end of a port.
#[derive(Clone, Default)]
pub(super) struct WorldEnd(Arc<Mutex<PortQueues>>);

impl WorldEnd {
    pub(super) fn lock(&self) -> MutexGuard<'_, PortQueues> {
        self.0.lock().expect("one thread")
    }

    /// The gateway's end.
    pub(super) fn port(&self, name: &str, mtu: usize) -> Box<dyn Port> {
        let description = PortDescription { name: name.to_owned(), kind: convoy_port::memory::KIND, mtu };
        Box::new(VirtualPort { description, end: self.clone() })
    }
}

struct VirtualPort {
    description: PortDescription,
    end: WorldEnd,
}

impl Port for VirtualPort {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let mut queues = self.end.lock();
        let before = burst.len();
        while burst.len() - before < limit {
            let Some(frame) = queues.incoming.front().and_then(|packet| pool.take_filled(packet, TAIL))
            else {
                break;
            };
            queues.incoming.pop_front();
            burst.push(frame);
        }
        let received = burst.len() - before;
        queues.counters.received_packets += received as u64;
        Ok(received)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let mut queues = self.end.lock();
        let count = queues.room.unwrap_or(usize::MAX).min(burst.len());
        queues.room = queues.room.map(|room| room - count);
        for frame in burst.drain(..count) {
            if frame.len() > self.description.mtu {
                queues.counters.send_dropped += 1;
            } else {
                queues.counters.sent_packets += 1;
                queues.outgoing.push(frame.to_vec());
            }
            pool.give_back(frame);
        }
        Ok(count)
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.end.lock().findings.pop_front()
    }

    fn counters(&self) -> PortCounters {
        self.end.lock().counters
    }
}
