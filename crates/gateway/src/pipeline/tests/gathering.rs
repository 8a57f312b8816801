//! Engines that gather multi-packets before they begin.

use super::stand_in::StandIn;
use super::*;

/// `software`, but it begins only when it is polled.
struct Gathering(Vec<MultiPacket>);

fn gathering() -> Box<dyn Engine> {
    let describe = |like| EngineDescription { gathers: 32, depth: 32, takes: Takes::MultiPackets, ..like };
    Box::new(StandIn::new("gathering", Gathering(Vec::new()), describe))
}

impl EngineQueue for StandIn<Gathering> {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.queue.0.push(multi_packet);
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        for multi_packet in self.queue.0.drain(..) {
            self.engine.submit(multi_packet).expect("its SA has keys");
        }
        self.engine.poll(completions);
    }

    fn in_flight(&self) -> usize {
        self.queue.0.len() + self.engine.in_flight()
    }

    fn gathered(&self) -> usize {
        self.queue.0.len()
    }
}

/// A gateway whose window holds one packet, and its outbound SA.
fn pipeline() -> Pipeline {
    let (mut pipeline, _) = leaving::end_with(1, SaDirection::Outbound, vec![gathering()], 1);
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
