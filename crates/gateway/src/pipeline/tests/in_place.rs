//! Bursts that are done where they lie.

use convoy_engine::InPlace;

use super::*;

/// `software`, but of each burst it leaves every packet from the third on.
struct Lazy(Software);

impl InPlace for Lazy {
    fn process(&mut self, packets: &mut [Prepared]) {
        let done = packets.len().min(2);
        self.0.in_place().expect("software works in place").process(&mut packets[..done]);
    }
}

impl Engine for Lazy {
    fn description(&self) -> &EngineDescription {
        self.0.description()
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.0.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.0.remove_key(sa);
    }

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

/// Gives a burst to a stage as a pipeline does; what comes out, with the SA of each packet.
fn give(stage: &mut CryptoStage, pool: &mut FramePool, count: u32) -> Vec<(u32, Vec<u8>)> {
    let mut burst = (0..count).map(|number| packet(pool, number % SAS, number)).collect();
    let mut released = Released::default();
    stage.process_in_place(0, &mut burst, &mut released);
    for packet in burst.drain(..) {
        assert!(stage.push(0, packet).is_ok(), "the window has room for all");
    }
    stage.pump(Input::Ended, pool, &mut released);
    assert!(stage.is_empty());
    let packets = released.outbound.drain(..).map(|packet| {
        assert_eq!(packet.status, CryptoStatus::Done);
        let bytes = (packet.sa.0, packet.frame.to_vec());
        pool.give_back(packet.frame);
        bytes
    });
    packets.collect()
}

fn of_sa(packets: &[(u32, Vec<u8>)], sa: u32) -> Vec<&[u8]> {
    packets.iter().filter(|packet| packet.0 == sa).map(|packet| &packet.1[..]).collect()
}

#[test]
fn what_an_engine_leaves_undone_in_place_is_done_by_another_and_nothing_overtakes() {
    let mut pool = FramePool::new(FRAMES, 0);
    let expected =
        give(&mut stage(vec![Box::new(Software::new("good"))], Policy::FinishingTime), &mut pool, 8);
    // The same cost, so that the first is chosen.
    let engines: Vec<Box<dyn Engine>> =
        vec![Box::new(Lazy(Software::new("lazy"))), Box::new(Software::new("good"))];
    let mut stage = stage(engines, Policy::FinishingTime);
    let packets = give(&mut stage, &mut pool, 8);
    assert_eq!(packets.len(), 8);
    for sa in 0..SAS {
        assert_eq!(of_sa(&packets, sa), of_sa(&expected, sa), "SA {sa}");
    }
    let lazy = stage.engines().counters(0);
    assert_eq!((lazy.failures, lazy.retried_packets, lazy.packets), (1, 6, 0));
    assert!(matches!(stage.engines().health(0), Health::Down { .. }));
    assert_eq!(stage.engines().counters(1).packets, 6, "what was done is not done again");
    assert_eq!(pool.available(FrameSize::Small), FRAMES);
}

#[test]
fn a_burst_in_place_is_counted_with_the_time_that_it_took() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = stage(vec![Box::new(Software::new("good"))], Policy::FinishingTime);
    for bursts in 1..=20 {
        give(&mut stage, &mut pool, 8);
        let counters = stage.engines().counters(0);
        assert_eq!((counters.packets, counters.multi_packets), (8 * bursts, bursts));
        // Nearly all of these are not measured, and count as predicted.
        assert!(counters.service_ns >= bursts * 1_000, "{counters:?}");
    }
    assert_eq!(stage.scheduler().snapshot().engines[0].packets, 160);
}

#[test]
fn packets_are_scheduled_where_the_window_is_one_or_holds_back_or_an_engine_is_elsewhere() {
    let mut pool = FramePool::new(FRAMES, 0);
    let is_done_at_once = |stage: &mut CryptoStage, pool: &mut FramePool| {
        let mut burst = vec![packet(pool, 0, 0)];
        let mut released = Released::default();
        stage.process_in_place(0, &mut burst, &mut released);
        !released.is_empty()
    };
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    assert!(is_done_at_once(&mut stage(vec![good()], Policy::RoundRobin), &mut pool), "there is one engine");
    assert!(!is_done_at_once(&mut stage(vec![good(), good()], Policy::RoundRobin), &mut pool));
    let one = SchedulerConfig { window: 1, ..SchedulerConfig::default() };
    assert!(!is_done_at_once(&mut stage_by(vec![good()], one), &mut pool));
    let holding = SchedulerConfig { max_wait: 1, ..SchedulerConfig::default() };
    assert!(!is_done_at_once(&mut stage_by(vec![good()], holding), &mut pool));
    let queued = Faulty::new(good(), FaultPlan::none());
    assert!(!is_done_at_once(&mut stage(vec![Box::new(queued)], Policy::FinishingTime), &mut pool));
}
