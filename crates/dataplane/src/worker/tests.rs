pub(super) mod fixture;
mod flooded;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::waiting::SPINS;
use super::*;
use crate::clock::VirtualTime;
use crate::costs::Costs;
use crate::pipeline::{Acquire, Clock};
use convoy_engine::{Engine, FaultPlan, Faulty, InjectedFault, Multibuffer, Software};
use convoy_ipsec::MappingChange;
use convoy_packet::protocol::{AH, ESP};
use convoy_packet::{IpHeader, Offload};
use convoy_port::{
    AfXdpSettings, DpdkSettings, PortCounters, PortDescription, PortKind, RawSettings, UdpSettings, memory,
};
use convoy_scheduler::{CostModel, SchedulerConfig};
use fixture::Fixture;
use nix::sys::eventfd::EventFd;

#[test]
fn what_is_to_be_sealed_in_flight_never_reaches_a_port_that_does_not() {
    let mut pool = FramePool::new(2, 0);
    let (port, _peer) = memory::link("a", "b", 4, 1_500);
    let mut leaving = Vec::new();
    let frame = |pool: &mut FramePool| pool.take_filled(b"packet", 0).expect("a frame");
    let mut plain = frame(&mut pool);
    plain.set_offload(Offload::Seal { sa: 1, esp_start: 0, seq_high: None });
    assert_eq!(queue(plain, Some(&port), Some(&mut leaving), &mut pool), 1);
    assert_eq!((leaving.len(), pool.available(FrameSize::Small)), (0, 2));
    let sealed = frame(&mut pool);
    assert_eq!(queue(sealed, Some(&port), Some(&mut leaving), &mut pool), 0);
    assert_eq!(leaving.len(), 1);
}

/// A port of some kind through which nothing passes.
struct Still(PortDescription);

impl Port for Still {
    fn description(&self) -> &PortDescription {
        &self.0
    }

    fn receive(&mut self, _: &mut FramePool, _: usize, _: &mut Vec<Frame>) -> Result<usize, PortError> {
        Ok(0)
    }

    fn send(&mut self, _: &mut FramePool, _: &mut Vec<Frame>) -> Result<usize, PortError> {
        Ok(0)
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

#[test]
fn an_outer_packet_leaves_by_a_port_that_carries_it() {
    let mut pool = FramePool::new(1, 0);
    let mut places = |kinds: &[PortKind]| {
        let of = |kind: &PortKind| -> Box<dyn Port> {
            Box::new(Still(PortDescription { name: kind.to_string(), kind: *kind, mtu: 1_500 }))
        };
        let ways = WaysOut::of(&kinds.iter().map(of).collect::<Vec<_>>());
        [("192.0.2.1", UDP), ("192.0.2.1", ESP), ("2001:db8::1", UDP), ("2001:db8::1", AH)].map(
            |(address, protocol)| {
                let address = address.parse().expect("an address");
                let mut packet = [0; 60];
                IpHeader::new(protocol, address, address).write(&mut packet);
                let frame = pool.take_filled(&packet, 0).expect("a frame");
                let place = ways.choose(&frame);
                pool.give_back(frame);
                place
            },
        )
    };
    let (udp, raw) = (PortKind::of::<UdpSettings>(), PortKind::of::<RawSettings>());
    assert_eq!(places(&[udp, raw]), [0, 1, 0, 1]);
    assert_eq!(places(&[raw, udp]), [1, 0, 1, 0]);
    let xdp = PortKind::of::<AfXdpSettings>();
    assert_eq!(places(&[udp, xdp]), [1; 4], "one that carries all comes first");
    assert_eq!(places(&[udp]), [0; 4]);
}

/// Keeps frames like a port whose next hops do not answer, and returns them after a time.
struct Keeping {
    description: PortDescription,
    kept: Vec<Frame>,
}

impl Port for Keeping {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(&mut self, _: &mut FramePool, _: usize, _: &mut Vec<Frame>) -> Result<usize, PortError> {
        Ok(0)
    }

    fn send(&mut self, _: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let count = burst.len();
        self.kept.append(burst);
        Ok(count)
    }

    fn tick(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        pool.give_back_burst(&mut self.kept);
        Ok(())
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

#[test]
fn frames_that_a_port_keeps_come_back_though_no_port_is_read_meanwhile() {
    let mut pipeline = Fixture::default().of_software(Clock::start());
    let pool = pipeline.pool_mut();
    let mut kept = Vec::new();
    pool.take_burst(FrameSize::Small, pool.total(FrameSize::Small) - 100, &mut kept);
    let description =
        PortDescription { name: "inside".to_owned(), kind: PortKind::of::<DpdkSettings>(), mtu: 1_500 };
    let (outside, mut network) = memory::link("outside", "network", 4, 1_500);
    let mut worker =
        Worker::new(pipeline, vec![Box::new(Keeping { description, kept })], vec![Box::new(outside)]);
    worker.next_tick_ns = u64::MAX;
    let mut peers = FramePool::new(1, 0);
    let mut packet = vec![peers.take_filled(&[0xf0; 60], 0).expect("a frame")];
    network.send(&mut peers, &mut packet).expect("memory does not fail");
    let received = |worker: &Worker| worker.ports(Side::Outside)[0].counters().received_packets;
    worker.round(true).expect("no port fails");
    assert_eq!(received(&worker), 0, "with so few frames nothing is read");
    worker.next_tick_ns = 0;
    worker.round(true).expect("no port fails");
    worker.round(true).expect("no port fails");
    assert_eq!(received(&worker), 1);
}

/// Refuses this many events, then accepts.
#[derive(Default)]
struct Busy {
    refusals: AtomicU32,
    reported: Mutex<Vec<LifetimeEvent>>,
}

impl Daemon for Busy {
    fn ike(&self, _: &[u8]) -> bool {
        false
    }

    fn acquire(&self, _: Acquire) -> bool {
        false
    }

    fn expire(&self, event: &LifetimeEvent) -> bool {
        let is_busy = |left: u32| left.checked_sub(1);
        if self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_busy).is_ok() {
            return false;
        }
        self.reported.lock().expect("no panic").push(*event);
        true
    }

    fn mapping(&self, _: &MappingChange) -> bool {
        false
    }
}

#[test]
fn a_lifetime_that_the_daemon_has_no_room_for_is_reported_again_until_the_sa_is_gone() {
    let pipeline = Fixture::default().of_software(Clock::start());
    let daemon = Arc::new(Busy { refusals: AtomicU32::new(3), ..Busy::default() });
    let mut worker = Worker::new(pipeline, Vec::new(), Vec::new()).with_daemon(Arc::clone(&daemon) as _);
    let views: Vec<_> = worker.pipeline.ipsec().tables.sas().collect();
    let numbers: Vec<_> =
        views.iter().filter_map(|view| worker.pipeline.ipsec().tables.number(view.index)).collect();
    let event = |at: usize| LifetimeEvent {
        sa: numbers[at],
        name: views[at].name,
        tunnel: views[at].tunnel,
        expiry: convoy_ipsec::Expiry::Soft,
    };
    worker.unreported.extend([event(0), event(1)]);
    let tick = |worker: &mut Worker| {
        worker.next_tick_ns = 0;
        worker.tick(0).expect("no ports");
        daemon.reported.lock().expect("no panic").len()
    };
    assert_eq!(tick(&mut worker), 0, "both were refused");
    assert_eq!(tick(&mut worker), 1, "one more was refused");
    worker.unreported.push(event(0));
    worker.pipeline.ipsec_mut().remove(views[0].index);
    assert_eq!(tick(&mut worker), 1, "of an SA that is gone nothing is reported");
    assert!(worker.unreported.is_empty());
    assert_eq!(*daemon.reported.lock().expect("no panic"), [event(1)]);
}

/// Has some packets, one a call, and cannot wake a sleeper when there are more.
struct Sleepless {
    description: PortDescription,
    packets: VecDeque<Vec<u8>>,
    never_readable: EventFd,
}

impl Port for Sleepless {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        _: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let frame = self.packets.pop_front().and_then(|packet| pool.take_filled(&packet, 256));
        let received = usize::from(frame.is_some());
        burst.extend(frame);
        Ok(received)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let sent = burst.len();
        pool.give_back_burst(burst);
        Ok(sent)
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.never_readable.as_fd()])
    }

    fn has_waiting(&self) -> bool {
        !self.packets.is_empty()
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

/// An engine that cannot wake its worker finishes, and turns late, unnoticed.
#[test]
fn a_worker_does_not_sleep_while_its_window_waits_for_an_engine_that_hangs() {
    let scheduler = SchedulerConfig { late_margin: Some(1_000_000), ..SchedulerConfig::default() };
    let fixture = Fixture { scheduler, ..Fixture::default() };
    let mut costs = Costs::without_cache();
    costs.set_fixed("wanted", CostModel { t_init: 1_000.0, t_block: 1.0 });
    costs.set_fixed("other", CostModel { t_init: 1e9, t_block: 1.0 });
    let wanted = Faulty::new(Box::new(Software::new("wanted")), FaultPlan::once(InjectedFault::Hang, 0));
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(wanted), Box::new(Software::new("other"))];
    let pipeline = fixture.pipeline(engines, &costs, Clock::start());
    let mut packet = vec![0; 100];
    let ends = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1));
    IpHeader::new(253, ends.0.into(), ends.1.into()).write(&mut packet);
    let port = |packets: &[Vec<u8>]| -> Vec<Box<dyn Port>> {
        vec![Box::new(Sleepless {
            description: PortDescription { name: "p".to_owned(), kind: memory::KIND, mtu: 1_500 },
            packets: packets.iter().cloned().collect(),
            never_readable: EventFd::new().expect("an event file"),
        })]
    };
    let mut worker = Worker::new(pipeline, port(&[packet.clone(), packet]), port(&[]));
    for _ in 0..10_000_000 {
        if !worker.round(true).expect("no port fails") {
            worker.idle();
        }
        // On a host that stands still meanwhile, the first goes elsewhere in the same round.
        if worker.pipeline.stage().engines().counters(1).packets > 0 {
            break;
        }
    }
    assert!(worker.pipeline.stage().engines().counters(1).packets > 0, "the second went elsewhere");
    assert_eq!(worker.watch.sleeps, 0);
    // Once no timed work is left, it may.
    let mut idle = Worker::new(fixture.of_software(Clock::start()), port(&[]), port(&[]));
    idle.idle();
    assert_eq!(idle.watch.sleeps, 1, "this test can fail");
}

#[test]
fn a_worker_tells_its_scheduler_what_a_packet_costs_its_core_and_forgets_it_when_idle() {
    let mut costs = Costs::without_cache();
    costs.set_fixed("other", CostModel { t_init: 16_000.0, t_block: 0.0 });
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("other"))];
    let time = VirtualTime::new();
    let pipeline = Fixture::default().pipeline(engines, &costs, time.clock());
    let (inside, mut lan) = memory::link("inside", "lan", 4 * BURST, 1_500);
    let (outside, mut internet) = memory::link("outside", "internet", 4 * BURST, 1_500);
    let mut worker = Worker::new(pipeline, vec![Box::new(inside)], vec![Box::new(outside)]);
    let mut packet = vec![0; 100];
    let ends = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1));
    IpHeader::new(253, ends.0.into(), ends.1.into()).write(&mut packet);
    let mut pool = FramePool::new(4 * BURST, 0);
    let mut round = |packets: usize, took_ns: u64| {
        let mut frames: Vec<Frame> =
            (0..packets).map(|_| pool.take_filled(&packet, 0).expect("a frame")).collect();
        assert_eq!(lan.send(&mut pool, &mut frames).expect("it has room"), packets);
        worker.round(true).expect("no port fails");
        let mut sent = Vec::new();
        assert_eq!(internet.receive(&mut pool, BURST, &mut sent).expect("it is there"), packets);
        pool.give_back_burst(&mut sent);
        time.advance_to(time.now_ns() + took_ns);
        worker.pipeline.stage().worker_overhead()
    };
    assert_eq!(round(BURST, 64_000), 0, "the round has not ended");
    // The engine took no virtual time in the first burst, which was measured, and is predicted to
    // take a sixteenth less for the second.
    assert_eq!(round(BURST, 64_000 + 15_000), 1_000);
    assert_eq!(round(0, 10_000), 1_000, "what was predicted is the engine's");
    assert_eq!(round(0, 2_000_000_000), 1_000, "nothing moved");
    assert_eq!(round(0, 0), 0, "long ago");
}

#[test]
fn bursts_are_long_where_the_only_engines_gain_by_that() {
    let costs = Costs::without_cache();
    let most_read = |engines: Vec<Box<dyn Engine>>| {
        let pipeline = Fixture::default().pipeline(engines, &costs, VirtualTime::new().clock());
        Worker::new(pipeline, Vec::new(), Vec::new()).most_read
    };
    let software = || -> Box<dyn Engine> { Box::new(Software::new("software")) };
    assert_eq!(most_read(vec![software()]), BURST);
    // Where the library is not installed there is nothing more to look at.
    let Ok(multibuffer) = Multibuffer::inline("multibuffer") else { return };
    assert_eq!(most_read(vec![software(), Box::new(multibuffer)]), LONG_BURST);
    let here = Multibuffer::inline("here").expect("the library is there");
    let elsewhere = Multibuffer::on_core("elsewhere", None).expect("the library is there");
    assert_eq!(most_read(vec![Box::new(here), Box::new(elsewhere)]), BURST);
}

/// With a packet at an engine on a thread of its own; whether the worker may sleep until that wakes
/// it.
fn may_sleep_beside(engine: impl Engine + 'static) -> bool {
    let mut costs = Costs::without_cache();
    costs.set_fixed(&engine.description().name, CostModel { t_init: 1_000.0, t_block: 1.0 });
    let mut pipeline = Fixture::default().pipeline(vec![Box::new(engine)], &costs, Clock::start());
    let mut packet = vec![0; 100];
    let ends = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1));
    IpHeader::new(253, ends.0.into(), ends.1.into()).write(&mut packet);
    let mut burst = vec![pipeline.pool_mut().take_filled(&packet, 64).expect("a frame")];
    let handoff = Handoff::between(1).expect("an event file").remove(0);
    let mut worker = Worker::new(pipeline, Vec::new(), Vec::new()).among(handoff);
    worker.pipeline.outbound(&mut burst);
    worker.pipeline.pump(Input::Paused);
    let may_sleep = worker.may_sleep_ns().is_some();
    let began = std::time::Instant::now();
    while worker.pipeline.departures.to_outside.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never finished");
        worker.idle_rounds = SPINS + 1;
        worker.idle();
        worker.pipeline.pump(Input::Paused);
    }
    may_sleep
}

#[test]
fn a_worker_sleeps_until_an_engine_on_a_thread_of_its_own_wakes_it() {
    if cfg!(target_arch = "x86_64") {
        let engine = Multibuffer::on_core("multibuffer0", 0).expect("make test installs libipsec-mb-dev");
        assert!(may_sleep_beside(engine));
    }
    let (slow, polls) = (Software::new("slow"), 3);
    let plan = FaultPlan::once(InjectedFault::Slow { polls }, 0);
    assert!(!may_sleep_beside(Faulty::new(Box::new(slow), plan)), "it wakes no worker");
}

#[test]
fn a_worker_that_polls_for_a_moment_is_woken_once() {
    let handoff = Handoff::between(1).expect("an event file").remove(0);
    let pipeline = Fixture::default().of_software(Clock::start());
    let mut worker = Worker::new(pipeline, Vec::new(), Vec::new())
        .busy_polling(Duration::from_micros(1_000))
        .among(handoff);
    let polls = |worker: &mut Worker| {
        worker.idle();
        worker.watch.sleeps == 0
    };
    worker.waker().expect("it has one").wake();
    assert!(polls(&mut worker), "it was woken while it polled");
    assert!(!polls(&mut worker), "it is no longer wanted, so it sleeps");
}
