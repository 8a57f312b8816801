//! The tester measures a link with known rate, delay, loss and reordering, in virtual time.

use std::sync::Arc;

use convoy_dataplane::clock::VirtualTime;
use convoy_measure::{
    DeviceOutcome, DeviceTrial, DeviceUnderTest, End, Flow, Goal, Lengths, Phase, Rates, Shape, Tester, Time,
    Ways, search,
};
use convoy_port::memory::{self, LinkFaults, ReadNs};

const MTU: usize = 9000;
/// Capacity of the link's rings in packets: more than arrive between two rounds.
const RING: usize = 1024;

/// A tester at both ends of a link with these impairments in each direction.
fn tester(there: LinkFaults, back: LinkFaults) -> Tester {
    tester_of(there, back, flow())
}

fn tester_of(there: LinkFaults, back: LinkFaults, flow: Flow) -> Tester {
    let time = VirtualTime::new();
    let clock = time.clone();
    let now: ReadNs = Arc::new(move || clock.now_ns());
    let (near, far) = memory::faulty_link("near", "far", RING, MTU, [there, back], &now);
    let ends = [near, far].map(|port| End::new(Box::new(port)).expect("memory for frames"));
    Tester::new(ends, flow, Time::Virtual(time))
}

fn flow() -> Flow {
    let address = |text: &str| text.parse().expect("an address");
    Flow { from: address("10.1.0.1:9000"), to: address("10.2.0.1:9000"), hosts: 1 }
}

fn flow_v6() -> Flow {
    let address = |text: &str| text.parse().expect("an address");
    Flow::between(address("[fd00:1::1]:9000"), address("[fd00:2::1]:9000")).expect("of one family")
}

fn near(found: f64, known: f64) -> bool {
    (found - known).abs() <= known * 0.01
}

fn send(tester: &mut Tester, packets_per_second: f64, seconds: f64, ways: Ways) -> DeviceOutcome {
    let phases = vec![Phase { packets_per_second, seconds }];
    tester.trial(&DeviceTrial { phases, lengths: Lengths::All(64), ways }).expect("a link does not fail")
}

#[test]
fn delay_is_found_within_a_percent_and_nothing_else() {
    for delay_ns in [200_000, 1_000_000, 25_000_000] {
        let mut tester = tester(LinkFaults { delay_ns, ..LinkFaults::default() }, LinkFaults::default());
        let outcome = send(&mut tester, 50_000.0, 0.2, Ways::One);
        assert_eq!((outcome.sent, outcome.received, outcome.duplicated), (10_000, 10_000, 0));
        assert_eq!(outcome.reordering.packets + outcome.foreign, 0);
        let known_us = delay_ns as f64 / 1000.0;
        for us in [outcome.latency.least_us, outcome.latency.p50_us, outcome.latency.most_us] {
            assert!(near(us, known_us), "{us} of {known_us}");
        }
    }
}

#[test]
fn loss_and_duplication_are_found_within_a_percent() {
    for part in [0.05, 0.2] {
        let faults = LinkFaults { loss: part, duplication: part, ..LinkFaults::default() };
        let outcome = send(&mut tester(faults, LinkFaults::default()), 400_000.0, 1.0, Ways::One);
        // Statistical variation with 400,000 packets and a loss of one in twenty stays below this
        // bound.
        assert!((outcome.loss_ratio() - part).abs() < part * 0.02, "{} of {part}", outcome.loss_ratio());
        let twice = outcome.duplicated as f64 / outcome.received as f64;
        assert!((twice - part).abs() < part * 0.02, "{twice} of {part}");
    }
}

#[test]
fn what_the_link_counts_is_what_the_tester_finds_to_the_packet() {
    use convoy_packet::FramePool;
    use convoy_port::Port;
    // The tester owns its ports, so the same packets are sent through a second, identical link.
    let faults = LinkFaults {
        loss: 0.03,
        duplication: 0.02,
        reordering: 0.01,
        overtaken_by: 5,
        ..LinkFaults::default()
    };
    let outcome = send(&mut tester(faults, LinkFaults::default()), 100_000.0, 1.0, Ways::One);
    let now: ReadNs = Arc::new(|| 0);
    let (mut a, mut b) = memory::faulty_link("a", "b", RING, MTU, [faults, LinkFaults::default()], &now);
    let (mut pool, mut burst) = (FramePool::new(64, 0), Vec::new());
    for _ in 0..100_000 {
        burst.push(pool.take_filled(&[0; 64], 64).expect("a frame"));
        a.send(&mut pool, &mut burst).expect("memory does not fail");
        b.receive(&mut pool, 64, &mut burst).expect("memory does not fail");
        pool.give_back_burst(&mut burst);
    }
    let counts = b.fault_counts();
    assert_eq!((outcome.lost(), outcome.duplicated), (counts.lost, counts.duplicated));
    // A packet held back at the very end is overtaken by none.
    let at_the_end = counts.overtaken - outcome.reordering.packets;
    assert!(at_the_end <= 1, "{} of {}", outcome.reordering.packets, counts.overtaken);
}

#[test]
fn reordering_and_its_extent_are_found_within_a_percent() {
    for (part, overtaken_by) in [(0.02, 3), (0.005, 20)] {
        let faults = LinkFaults { reordering: part, overtaken_by, ..LinkFaults::default() };
        let outcome = send(&mut tester(faults, LinkFaults::default()), 500_000.0, 0.8, Ways::One);
        assert_eq!(outcome.lost(), 0);
        let found = outcome.reordering;
        let ratio = found.packets as f64 / outcome.sent as f64;
        // Statistical variation with some thousand reordered packets of 400,000 stays below this
        // bound.
        assert!((ratio - part).abs() < part * 0.06, "{ratio} of {part}");
        // The packets that overtake may include ones that were held back themselves.
        let extent = f64::from(overtaken_by) * (1.0 + part);
        assert!((found.mean_extent - extent).abs() < extent * 0.06, "{} of {extent}", found.mean_extent);
        assert!(found.greatest_extent >= u64::from(overtaken_by));
    }
}

#[test]
fn a_way_is_learned_where_there_is_one_each_way() {
    let lossy = LinkFaults { loss: 0.7, ..LinkFaults::default() };
    let lost = LinkFaults { loss: 1.0, ..LinkFaults::default() };
    for (there, back, is_learned) in
        [(LinkFaults::default(), lossy, true), (LinkFaults::default(), lost, false)]
    {
        assert_eq!(tester(there, back).learn().expect("a link does not fail"), is_learned);
    }
}

#[test]
fn packets_of_ipv6_find_what_those_of_ipv4_do() {
    let faults = LinkFaults {
        packets_per_second: 90_000.0,
        queue_packets: 8,
        delay_ns: 300_000,
        loss: 0.03,
        duplication: 0.02,
        reordering: 0.01,
        ..LinkFaults::default()
    };
    let found = |flow, lengths| {
        let phases = vec![Phase { packets_per_second: 100_000.0, seconds: 0.2 }];
        let trial = DeviceTrial { phases, lengths, ways: Ways::Both };
        tester_of(faults, faults, flow).trial(&trial)
    };
    let [v4, v6] =
        [flow(), flow_v6()].map(|flow| found(flow, Lengths::All(72)).expect("a link does not fail"));
    assert_eq!(v4, v6);
    assert!(v6.lost() > 0 && v6.duplicated > 0 && v6.reordering.packets > 0 && v6.foreign == 0);
    for lengths in [Lengths::All(71), Lengths::Imix] {
        let error = found(flow_v6(), lengths).expect_err("a stamp does not fit").to_string();
        assert!(error.contains("72 bytes"), "{error}");
    }
}

#[test]
fn the_rate_is_found_within_a_percent_one_way_and_both() {
    let goal = Goal { loss_ratio: 0.0, width: 0.004, trial_s: 0.2, sum_s: 0.2, exceed_ratio: 0.0 };
    let goals = [goal, Goal { loss_ratio: 0.005, ..goal }];
    for (rate, ways) in [(37_000.0, Ways::One), (290_000.0, Ways::One), (83_000.0, Ways::Both)] {
        let faults = LinkFaults { packets_per_second: rate, queue_packets: 8, ..LinkFaults::default() };
        // The reverse direction is not a bottleneck.
        let back = LinkFaults { packets_per_second: rate * 3.0, ..faults };
        let shape = Shape { lengths: Lengths::All(64), ways };
        let rates = Rates { least: 1000.0, most: 900_000.0 };
        let mut device = tester(faults, back);
        let searched =
            search(&mut device, shape, rates, &goals, None, &mut |_| ()).expect("a link does not fail");
        // Half of all packets pass the bottleneck.
        let lossy = if ways == Ways::Both { rate / (1.0 - 0.01) } else { rate / (1.0 - 0.005) };
        for (found, known) in searched.found.iter().zip([rate, lossy]) {
            let found = found.packets_per_second.expect("some rate passes");
            assert!(near(found, known), "{found} of {known}, {ways:?}");
        }
        assert!(searched.most_received_per_second > rate * 0.98);
    }
}

#[test]
fn an_overloaded_link_recovers_once_its_queue_is_empty() {
    let queue_packets = 4_000;
    let faults = LinkFaults { packets_per_second: 100_000.0, queue_packets, ..LinkFaults::default() };
    let mut tester = tester(faults, LinkFaults::default());
    let phase = |packets_per_second, seconds| Phase { packets_per_second, seconds };
    let phases = vec![phase(110_000.0, 1.0), phase(50_000.0, 0.5)];
    let trial = DeviceTrial { phases, lengths: Lengths::All(64), ways: Ways::One };
    let outcome = tester.trial(&trial).expect("a link does not fail");
    let [over, after] = outcome.phases[..] else { panic!("two phases") };
    // The excess is a tenth of the rate, and the queue takes 4000 packets of it.
    assert!(near(over.lost as f64, 10_000.0 - queue_packets as f64), "{}", over.lost);
    // The first packet may still find the queue full.
    assert!(after.lost <= 1, "{after:?}");
    // The longest delay is that of a full queue.
    assert!(near(outcome.latency.most_us, queue_packets as f64 * 10.0), "{}", outcome.latency.most_us);
}

#[test]
fn a_tester_that_cannot_keep_the_rate_stops_in_time() {
    // A round takes a microsecond and sends a burst of at most 32 packets: 32,000,000 packets/s.
    let mut tester = tester(LinkFaults::default(), LinkFaults::default());
    let outcome = send(&mut tester, 320_000_000.0, 0.08, Ways::One);
    assert!(outcome.is_behind(320_000_000.0));
    // In 80 ms, an eighth of that and another 100 ms, at the tester's highest rate.
    assert!((5_500_000..6_200_000).contains(&outcome.sent), "{}", outcome.sent);
    assert_eq!(outcome.phases[0].sent, outcome.sent, "what was not sent is not lost");
    assert_eq!(outcome.lost(), outcome.phases[0].lost);
}
