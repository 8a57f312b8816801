//! Engines that gather multi-packets before they begin.

use super::*;

/// `software`, but it begins only when it is polled.
struct Gathering {
    engine: Software,
    description: EngineDescription,
    gathered: Vec<MultiPacket>,
}

impl Gathering {
    fn new() -> Self {
        let engine = Software::new("gathering");
        let description = EngineDescription {
            gathers: 32,
            depth: 32,
            takes: Takes::MultiPackets,
            ..engine.description().clone()
        };
        Self { engine, description, gathered: Vec::new() }
    }
}

impl EngineControl for Gathering {
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

impl EngineQueue for Gathering {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.gathered.push(multi_packet);
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        for multi_packet in self.gathered.drain(..) {
            self.engine.submit(multi_packet).expect("its SA has keys");
        }
        self.engine.poll(completions);
    }

    fn in_flight(&self) -> usize {
        self.gathered.len() + self.engine.in_flight()
    }

    fn gathered(&self) -> usize {
        self.gathered.len()
    }
}

/// A gateway whose window holds one packet, and its outbound SA.
fn pipeline() -> Pipeline {
    let (mut pipeline, _) = leaving::end_with(1, SaDirection::Outbound, vec![Box::new(Gathering::new())], 1);
    let mut burst = leaving::packets(&mut pipeline, 1);
    pipeline.outbound(&mut burst);
    pipeline
}

#[test]
fn with_more_at_hand_what_is_gathered_waits_for_the_next_call_and_no_longer() {
    let mut pipeline = pipeline();
    pipeline.pump(Input::More);
    assert!(pipeline.departures.to_outside.is_empty(), "it gathers");
    pipeline.pump(Input::More);
    assert_eq!(pipeline.departures.to_outside.len(), 1);
}

#[test]
fn with_nothing_more_at_hand_what_is_gathered_begins_at_once() {
    let mut pipeline = pipeline();
    pipeline.pump(Input::Paused);
    assert_eq!(pipeline.departures.to_outside.len(), 1);
}
