//! An engine that is elsewhere, and brings back what it was given when a test says so.

use convoy_engine::{Placement, Takes, lay_out, open_up};

use super::stand_in::StandIn;
use super::*;

/// Whether what the engine has leaves it now, after so many polls since it came.
type IsDone = Box<dyn FnMut(u32) -> bool + Send>;

/// What an engine elsewhere was given.
pub(super) struct Given {
    /// Multi-packets, each with the number of polls since it came.
    multi_packets: Vec<(u32, MultiPacket)>,
    is_done: IsDone,
}

/// `software` as if it were elsewhere.
pub(super) type Elsewhere = StandIn<Given>;

impl Elsewhere {
    /// What it is given comes back at the second poll.
    pub(super) fn at_second_poll() -> Self {
        Self::until("elsewhere", 3, |polls| polls == 2)
    }

    pub(super) fn until(name: &str, depth: usize, is_done: impl FnMut(u32) -> bool + Send + 'static) -> Self {
        let given = Given { multi_packets: Vec::new(), is_done: Box::new(is_done) };
        Self::new(name, given, |like| EngineDescription {
            placement: Placement::Lookaside,
            takes: Takes::Trains,
            needs_input_kept: true,
            depth,
            ..like
        })
    }
}

impl EngineQueue for Elsewhere {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.queue.multi_packets.push((0, multi_packet));
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        let Given { multi_packets, is_done } = &mut self.queue;
        multi_packets.iter_mut().for_each(|(polls, _)| *polls += 1);
        for (_, mut multi_packet) in multi_packets.extract_if(.., |(polls, _)| is_done(*polls)) {
            let MultiPacket { packets, templates, .. } = &mut multi_packet;
            lay_out(templates, packets, &mut |iv| iv.fill(0x77));
            self.engine.in_place().expect("software works in place").process(packets);
            open_up(templates, packets);
            completions.push(Completion { multi_packet, outcome: Outcome::Done, service_ns: Some(1_000) });
        }
    }

    fn in_flight(&self) -> usize {
        self.queue.multi_packets.len()
    }
}
