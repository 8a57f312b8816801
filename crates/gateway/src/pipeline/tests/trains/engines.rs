//! Engines that take trains: one that leaves work undone, and one that is elsewhere.

use convoy_engine::{InPlace, Placement, Takes, lay_out, open_up};

use crate::pipeline::tests::*;

/// `software`, but of each burst it leaves every packet from the third on.
pub(super) struct Lazy(pub(super) Software);

impl InPlace for Lazy {
    fn process(&mut self, packets: &mut [Prepared]) {
        let done = packets.len().min(2);
        self.0.in_place().expect("software works in place").process(&mut packets[..done]);
    }
}

impl EngineControl for Lazy {
    fn description(&self) -> &EngineDescription {
        self.0.description()
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.0.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.0.remove_key(sa);
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        let reason = "it is as lazy as before".to_owned();
        Err(EngineError::Device { engine: self.description().name.clone(), reason })
    }
}

impl EngineQueue for Lazy {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.0.submit(multi_packet)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.0.poll(completions);
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }
}

/// `software` as if it were elsewhere: what it is given comes back at the second poll.
pub(super) struct Elsewhere {
    engine: Software,
    description: EngineDescription,
    /// What it has, and how often it was polled since.
    has: Vec<(u32, MultiPacket)>,
}

impl Elsewhere {
    pub(super) fn new() -> Self {
        let engine = Software::new("elsewhere");
        let like = engine.description().clone();
        let description = EngineDescription {
            placement: Placement::Lookaside,
            takes: Takes::Trains,
            needs_input_kept: true,
            depth: 3,
            ..like
        };
        Self { engine, description, has: Vec::new() }
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
        for (_, mut multi_packet) in self.has.extract_if(.., |(polls, _)| *polls == 2) {
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
