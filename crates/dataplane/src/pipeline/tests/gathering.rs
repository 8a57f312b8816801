//! Engines that gather multi-packets before they start.

use super::*;

/// It starts only when it is polled.
fn gathering() -> Box<dyn Engine> {
    Box::new(ScriptedEngine::new("gathering").describe(|description| {
        (description.gathers, description.depth) = (32, 32);
        description.takes = Takes::MultiPackets;
    }))
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
