//! The inside interfaces of a worker: their links, and the ports by which their packets leave.

use convoy_packet::{Frame, FramePool};

use super::Worker;
use super::monitored::set_link;
use crate::interfaces::InsidePorts;

impl Worker {
    /// Has the links of its interfaces follow its tunnels.
    pub(super) fn set_links(&mut self) {
        let changes = self.pipeline.ipsec_mut().tables.take_link_changes();
        let Some(links) = &self.links else { return };
        for (interface, can_send) in changes {
            let Some(port) = self.interfaces.port(interface).and_then(|port| self.inside.get_mut(port))
            else {
                continue;
            };
            links.change(interface, can_send, |is_up| set_link(port.as_mut(), is_up));
        }
    }
}

/// Queues packets for the ports of their inside interfaces; returns how many were returned to the
/// pool because there is none.
#[inline(never)]
pub(super) fn queue_by_interface(
    frames: &mut Vec<Frame>,
    interfaces: &InsidePorts,
    leaving: &mut [Vec<Frame>],
    pool: &mut FramePool,
) -> u64 {
    let mut without_port = 0;
    for frame in frames.drain(..) {
        // Nothing in plain may leave inside that still has to be sealed; a port inside seals
        // nothing.
        let port = interfaces.port(frame.interface()).filter(|_| !frame.offload().is_unsealed());
        match port.and_then(|port| leaving.get_mut(port)) {
            Some(leaving) => leaving.push(frame),
            None => {
                without_port += 1;
                pool.give_back(frame);
            }
        }
    }
    without_port
}
