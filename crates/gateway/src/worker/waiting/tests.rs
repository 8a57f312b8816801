//! How a worker waits, in time that only passes while it waits or works. Its port has packets at times that a test chooses.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::super::tests::{TUNNEL, of_software};
use super::super::*;
use crate::clock::VirtualTime;
use crate::config::Config;
use crate::costs::Costs;
use crate::watch::Wait;
use convoy_packet::IpHeader;
use convoy_port::{PortCounters, PortDescription, PortKind};
use nix::sys::eventfd::EventFd;

const US: u64 = 1_000;
/// What a packet takes of the worker's core.
const WORK_NS: u64 = 1_000;

/// What was and will be.
#[derive(Default)]
struct Script {
    /// When packets arrive, in ns.
    coming: VecDeque<u64>,
    /// What the worker waited for, and from when on.
    waits: Vec<(u64, Wait)>,
    /// How often it asked for input without waiting.
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

    /// A worker whose port inside has packets at these times.
    fn worker(&self, scheduler: &str, coming: impl IntoIterator<Item = u64>) -> Worker {
        self.script().coming = coming.into_iter().collect();
        let config = Config::parse("test.toml", &format!("{scheduler}\n{TUNNEL}")).expect("good");
        let pipeline = of_software(&config, &mut Costs::new(), self.time.clock());
        let port = |world: Option<World>| -> Vec<Box<dyn Port>> {
            let description = PortDescription { name: "p".to_owned(), kind: PortKind::Memory, mtu: 1_500 };
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

    /// Has the worker work, as its thread does, until that time.
    fn run(&self, worker: &mut Worker, until_ns: u64) {
        while self.time.now_ns() < until_ns {
            let moved = worker.round(true).expect("no port fails");
            if !moved || worker.is_at_rest() {
                worker.idle();
            }
        }
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
            script.coming.pop_front();
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

#[test]
fn a_worker_sleeps_until_the_time_is_up_for_which_its_window_holds_packets_back() {
    let world = World::default();
    let mut worker = world.worker("[scheduler]\nmax_wait_us = 50", [0, 20 * US, 500 * US]);
    world.run(&mut worker, 400 * US);
    let sent = worker.pipeline.stage().engines().counters(0);
    assert_eq!((sent.packets, sent.multi_packets), (2, 1), "the second came in time");
    // For the second packet and for the end of 50 us; then for whatever comes.
    let waits: Vec<_> = world.script().waits.iter().map(|(at_ns, _)| *at_ns / US).collect();
    assert_eq!(waits, [1, 21, 50], "so many waits and no more");
    assert_eq!(world.script().looks, 0, "it does not ask meanwhile");
    assert_eq!(world.time.now_ns(), 500 * US, "it is woken by the third packet");
}
