//! How a worker waits, in virtual time that only passes while it waits or works. Its port has
//! packets at times that a test chooses.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::super::tests::fixture::Fixture;
use super::super::*;
use crate::clock::VirtualTime;
use crate::watch::Wait;
use convoy_packet::IpHeader;
use convoy_port::{PortCounters, PortDescription};
use nix::sys::eventfd::EventFd;

const US: u64 = 1_000;
/// The worker's time for a packet.
const WORK_NS: u64 = 1_000;

/// Past and future events.
#[derive(Default)]
struct Script {
    /// Arrival times of packets, in ns.
    coming: VecDeque<u64>,
    /// For each packet read, the time and how long it had waited, in ns.
    read: Vec<(u64, u64)>,
    /// What the worker waited for, and since when.
    waits: Vec<(u64, Wait)>,
    /// How often it checked for input without waiting.
    looks: u32,
}

#[derive(Clone, Default)]
struct World {
    time: VirtualTime,
    script: Arc<Mutex<Script>>,
}

impl World {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("no panic")
    }

    /// A worker whose window holds packets back for `max_wait_ns`, and whose inside port has
    /// packets at these times.
    fn worker(&self, max_wait_ns: u64, coming: impl IntoIterator<Item = u64>) -> Worker {
        self.script().coming = coming.into_iter().collect();
        let mut fixture = Fixture::default();
        fixture.scheduler.max_wait = max_wait_ns;
        let pipeline = fixture.of_software(self.time.clock());
        let port = |world: Option<World>| -> Vec<Box<dyn Port>> {
            let description =
                PortDescription { name: "p".to_owned(), kind: convoy_port::memory::KIND, mtu: 1_500 };
            vec![Box::new(Scripted { description, world, file: EventFd::new().expect("an event file") })]
        };
        let mut worker = Worker::new(pipeline, port(Some(self.clone())), port(None));
        let world = self.clone();
        worker.watch.system = Some(Box::new(move |wait| world.wait(wait)));
        worker
    }

    fn wait(&self, wait: Wait) -> Vec<(Side, usize)> {
        let (now_ns, mut script) = (self.time.now_ns(), self.script());
        match wait {
            Wait::ForInput(Duration::ZERO) => script.looks += 1,
            _ => script.waits.push((now_ns, wait)),
        }
        let next_ns = script.coming.front().copied().unwrap_or(u64::MAX);
        let end_ns = match wait {
            Wait::Pause(time) => now_ns + time.as_nanos() as u64,
            Wait::ForInput(longest) => (now_ns + longest.as_nanos() as u64).min(next_ns.max(now_ns)),
        };
        self.time.advance_to(end_ns);
        if next_ns <= end_ns { vec![(Side::Inside, 0)] } else { Vec::new() }
    }

    /// Runs the worker, as its thread does, until that time.
    fn run(&self, worker: &mut Worker, until_ns: u64) {
        while self.time.now_ns() < until_ns {
            let moved = worker.round(true).expect("no port fails");
            if !moved || worker.is_at_rest() {
                worker.idle();
            }
        }
    }

    /// From `from_ns` on: packets read, waits including pauses, and the longest time that a packet
    /// waited.
    fn account(&self, from_ns: u64) -> (usize, usize, usize, u64) {
        let script = self.script();
        let read: Vec<u64> =
            script.read.iter().filter(|(at, _)| *at >= from_ns).map(|(_, waited)| *waited).collect();
        let waits = || script.waits.iter().filter(|(at, _)| *at >= from_ns);
        let pauses = waits().filter(|(_, wait)| matches!(wait, Wait::Pause(_))).count();
        (read.len(), waits().count(), pauses, read.into_iter().max().unwrap_or(0))
    }
}

/// A port of such a worker; the one without a world has nothing.
struct Scripted {
    description: PortDescription,
    world: Option<World>,
    file: EventFd,
}

impl Port for Scripted {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let Some(World { time, script }) = &self.world else { return Ok(0) };
        let mut script = script.lock().expect("no panic");
        let now_ns = time.now_ns();
        let mut packet = [0; 100];
        let ends = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1));
        IpHeader::new(253, ends.0.into(), ends.1.into()).write(&mut packet);
        let mut received = 0;
        while received < limit && script.coming.front().is_some_and(|at| *at <= now_ns) {
            let waited_ns = script.coming.pop_front().map_or(0, |at| now_ns - at);
            script.read.push((now_ns, waited_ns));
            burst.push(pool.take_filled(&packet, 64).expect("a frame"));
            received += 1;
        }
        time.advance_to(now_ns + received as u64 * WORK_NS);
        Ok(received)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let sent = burst.len();
        pool.give_back_burst(burst);
        Ok(sent)
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(vec![self.file.as_fd()])
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

/// Times from 0 on, `gap_ns` apart.
fn every(gap_ns: u64, until_ns: u64) -> impl Iterator<Item = u64> {
    (0..until_ns).step_by(gap_ns as usize)
}

#[test]
fn a_worker_sleeps_until_the_time_is_up_for_which_its_window_holds_packets_back() {
    let world = World::default();
    let mut worker = world.worker(50 * US, [0, 20 * US, 500 * US]);
    world.run(&mut worker, 400 * US);
    let sent = worker.pipeline.stage().engines().counters(0);
    assert_eq!((sent.packets, sent.trains), (2, 1), "the second came in time");
    // For the second packet and for the end of 50 us; then for whatever comes.
    let waits: Vec<_> = world.script().waits.iter().map(|(at_ns, _)| *at_ns / US).collect();
    assert_eq!(waits, [1, 21, 50], "so many waits and no more");
    assert_eq!(world.script().looks, 0, "it does not ask meanwhile");
    assert_eq!(world.time.now_ns(), 500 * US, "it is woken by the third packet");
}

#[test]
fn packets_that_come_close_together_are_gathered_and_none_waits_longer_than_it_may() {
    let (world, end_ns) = (World::default(), 100_000 * US);
    let mut worker = world.worker(0, every(25 * US, end_ns)).moderating(Duration::from_micros(200));
    world.run(&mut worker, end_ns);
    let (packets, waits, pauses, longest_ns) = world.account(end_ns / 2);
    assert!(packets >= 7 * waits, "{packets} packets in {waits} waits");
    assert!(pauses * 10 > waits * 9, "{pauses} of {waits} waits were pauses");
    assert!((150 * US..=200 * US).contains(&longest_ns), "{longest_ns} ns");
}

#[test]
fn at_a_high_rate_a_worker_gathers_a_burst_and_no_more() {
    let (world, end_ns) = (World::default(), 100_000 * US);
    let mut worker = world.worker(0, every(4 * US, end_ns)).moderating(Duration::from_micros(1_000));
    world.run(&mut worker, end_ns);
    let (packets, waits, _, longest_ns) = world.account(end_ns / 2);
    assert!((64..256).contains(&(packets / waits)), "{packets} packets in {waits} waits");
    assert!(longest_ns < 600 * US, "{longest_ns} ns");
}

#[test]
fn traffic_that_stops_is_not_held_and_its_worker_sleeps_until_there_is_more() {
    let (world, stop_ns) = (World::default(), 50_000 * US);
    let mut worker = world.worker(0, every(25 * US, stop_ns)).moderating(Duration::from_micros(200));
    world.run(&mut worker, 1_000_000 * US);
    let (last_ns, waited_ns) = *world.script().read.last().expect("all were read");
    assert!(waited_ns <= 200 * US && last_ns <= stop_ns + 200 * US);
    assert!(world.script().coming.is_empty() && worker.is_drained());
    let (_, _, pauses, _) = world.account(last_ns);
    assert!(pauses <= 1, "{pauses} pauses after the last packet was read");
}

#[test]
fn an_overloaded_worker_never_waits() {
    let (world, end_ns) = (World::default(), 20_000 * US);
    let mut worker = world.worker(0, every(WORK_NS / 2, end_ns)).moderating(Duration::from_micros(200));
    world.run(&mut worker, end_ns);
    let (packets, waits, _, _) = world.account(100 * US);
    assert!(packets > 15_000, "{packets}");
    assert_eq!(waits, 0);
}

#[test]
fn packets_that_come_alone_and_bursts_that_another_gathered_are_not_kept_waiting() {
    let bursts = |gap_us: u64, packets: usize| {
        every(gap_us * US, 100_000 * US).flat_map(move |at| std::iter::repeat_n(at, packets))
    };
    for (gap_us, packets) in [(1_000, 1), (1_000, 30), (200, 8)] {
        let world = World::default();
        let coming = bursts(gap_us, packets);
        let mut worker = world.worker(0, coming).moderating(Duration::from_micros(200));
        world.run(&mut worker, 100_000 * US);
        let (_, _, pauses, longest_ns) = world.account(20_000 * US);
        assert_eq!((pauses, longest_ns), (0, 0), "{packets} every {gap_us} us");
    }
}
