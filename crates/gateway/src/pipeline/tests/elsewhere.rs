//! An engine that is elsewhere, and brings back what it was given when a test says so.

use convoy_engine::{Placement, Takes, lay_out, open_up};

use super::*;

/// Whether what the engine has leaves it now, after so many polls since it came.
type IsDone = Box<dyn FnMut(u32) -> bool + Send>;

/// `software` as if it were elsewhere.
pub(super) struct Elsewhere {
    engine: Software,
    description: EngineDescription,
    /// What it has, and how often it was polled since.
    has: Vec<(u32, MultiPacket)>,
    is_done: IsDone,
}

impl Elsewhere {
    /// What it is given comes back at the second poll.
    pub(super) fn new() -> Self {
        Self::until("elsewhere", 3, |polls| polls == 2)
    }

    pub(super) fn until(name: &str, depth: usize, is_done: impl FnMut(u32) -> bool + Send + 'static) -> Self {
        let engine = Software::new(name);
        let description = EngineDescription {
            placement: Placement::Lookaside,
            takes: Takes::Trains,
            needs_input_kept: true,
            depth,
            ..engine.description().clone()
        };
        Self { engine, description, has: Vec::new(), is_done: Box::new(is_done) }
    }
}

impl EngineControl for Elsewhere {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.engine.remove_key(sa);
    }
}

impl EngineQueue for Elsewhere {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.has.push((0, multi_packet));
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.has.iter_mut().for_each(|(polls, _)| *polls += 1);
        for (_, mut multi_packet) in self.has.extract_if(.., |(polls, _)| (self.is_done)(*polls)) {
            let MultiPacket { packets, templates, .. } = &mut multi_packet;
            lay_out(templates, packets, &mut |iv| iv.fill(0x77));
            self.engine.in_place().expect("software works in place").process(packets);
            open_up(templates, packets);
            completions.push(Completion { multi_packet, outcome: Outcome::Done, service_ns: Some(1_000) });
        }
    }

    fn in_flight(&self) -> usize {
        self.has.len()
    }
}
