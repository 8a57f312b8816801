//! A whole gateway, from one start to its end.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use convoy_assembly::assemble;
use convoy_assembly::change::{Change, Ranked};
use convoy_assembly::ranks;
use convoy_config::{Config, TunnelConfig};
use convoy_dataplane::clock::VirtualTime;
use convoy_dataplane::costs::Costs;
use convoy_dataplane::daemon::Daemon;
use convoy_dataplane::handoff::Handoff;
use convoy_dataplane::pipeline::{Acquire, PipelineResources};
use convoy_dataplane::worker::Worker;
use convoy_engine::{Engine, FaultPlan, Faulty, InjectedFault};
use convoy_ipsec::{
    Directory, LifetimeEvent, MappingChange, Policy, PolicyChange, PolicyRank, SaConfig, SaNumber, TunnelId,
};
use convoy_packet::FrameSize;
use convoy_report::events::Events;
use convoy_state::{SimulatedDisk, SimulatedState};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::engine::VirtualEngine;
use super::port::WorldEnd;
use super::scenario::{MTU, Scenario};
use crate::worker_thread::WorkerThread;

/// Faults that an engine has in one life of a gateway, at most.
const ENGINE_FAULTS: u32 = 3;

/// What a gateway reported to its key daemon.
pub(super) enum DaemonNote {
    Acquire(Acquire),
    Expire(LifetimeEvent),
    Mapping(MappingChange),
}

/// The daemon's end.
#[derive(Default)]
pub(super) struct Notes(Mutex<Vec<DaemonNote>>);

impl Notes {
    fn push(&self, note: DaemonNote) -> bool {
        self.0.lock().expect("one thread").push(note);
        true
    }
}

impl Daemon for Notes {
    fn ike(&self, _: &[u8]) -> bool {
        panic!("there are no IKE messages here")
    }

    fn acquire(&self, acquire: Acquire) -> bool {
        self.push(DaemonNote::Acquire(acquire))
    }

    fn expire(&self, event: &LifetimeEvent) -> bool {
        self.push(DaemonNote::Expire(*event))
    }

    fn mapping(&self, change: &MappingChange) -> bool {
        self.push(DaemonNote::Mapping(*change))
    }
}

/// Packets that entered and left a gateway.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    pub(super) entered: u64,
    pub(super) made: u64,
    pub(super) left: u64,
    pub(super) dropped: u64,
}

impl Balance {
    /// Packets that are inside.
    ///
    /// # Panics
    /// If more have left than entered: something was doubled, or counted twice.
    pub(super) fn inside(&self) -> u64 {
        let (gains, losses) = (self.entered + self.made, self.left + self.dropped);
        gains
            .checked_sub(losses)
            .unwrap_or_else(|| panic!("more came out of a gateway than went in: {self:?}"))
    }
}

/// A gateway at work.
pub(super) struct Running {
    pub(super) time: VirtualTime,
    pub(super) started_ns: u64,
    /// Those that its workers have, with the ranks of their policies.
    tunnels: Vec<TunnelConfig>,
    ranks: Vec<u64>,
    /// The wall clock at the start, in ns.
    wall_ns: u64,
    pub(super) threads: Vec<WorkerThread>,
    pub(super) inside: Vec<WorldEnd>,
    pub(super) outside: Vec<WorldEnd>,
    /// Keep-alives and fragments that it has sent.
    pub(super) made: u64,
    notes: Arc<Notes>,
    state: SimulatedState,
    events: Events,
    log: Arc<Mutex<Vec<String>>>,
}

/// What a gateway is started with.
pub(super) struct SiteStart<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) config: &'a Config,
    pub(super) policies: &'a [Policy],
    pub(super) costs: &'a Costs,
    pub(super) now_ns: u64,
    pub(super) is_calm: &'a Arc<AtomicBool>,
}

impl Running {
    pub(super) fn start(start: &SiteStart<'_>, disk: SimulatedDisk, dice: &mut Xoshiro256PlusPlus) -> Self {
        let SiteStart { scenario, config, policies, costs, now_ns, is_calm } = *start;
        let time = VirtualTime::new();
        let mut state = SimulatedState::open(disk);
        // 2026, later at each start unless the clock has no battery.
        let wall_ns = 1_767_300_000_000_000_000 + if scenario.has_stuck_clock { 0 } else { now_ns };
        let starts = state.start(&config.tunnels, wall_ns, 0);
        let notes = Arc::new(Notes::default());
        let shared = Arc::new(config.clone());
        let workers = usize::from(config.workers);
        let ends = || (0..workers).map(|_| WorldEnd::default()).collect::<Vec<_>>();
        let (inside, outside) = (ends(), ends());
        let directory = Arc::new(Directory::new(config.workers));
        let mut threads = Vec::new();
        for (number, handoff) in (0..config.workers).zip(Handoff::between(workers).expect("event files")) {
            let engines = engines(scenario, &time, dice, is_calm);
            let resources = PipelineResources {
                frames: scenario.frames,
                directory: Arc::clone(&directory),
                ..PipelineResources::simulated(&time, dice.random())
            };
            let (pipeline, installed) =
                assemble::pipeline(config, number, engines, costs, resources, &starts)
                    .expect("a good configuration");
            let at = usize::from(number);
            let ports = [(&inside[at], "inside"), (&outside[at], "outside")]
                .map(|(end, name)| vec![end.port(name, MTU)]);
            let [inside, outside] = ports;
            let daemon = Arc::clone(&notes) as Arc<dyn Daemon>;
            let worker = Worker::new(pipeline, inside, outside).among(handoff).with_daemon(daemon);
            let mut thread = WorkerThread::new(worker, Arc::clone(&shared), installed, costs.models());
            thread.report_to(state.reporter());
            let changes = (0..).zip(policies).map(|(rank, policy)| PolicyChange {
                gone: None,
                came: Some((PolicyRank::of_daemon(rank), policy.clone())),
            });
            thread.change_policies(&changes.collect::<Vec<_>>());
            threads.push(thread);
        }
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&log);
        let events = Events::new(move |line| lines.lock().expect("one thread").push(line));
        Self {
            time,
            started_ns: now_ns,
            tunnels: config.tunnels.clone(),
            ranks: ranks::of(&config.tunnels),
            wall_ns,
            threads,
            inside,
            outside,
            made: 0,
            notes,
            state,
            events,
            log,
        }
    }

    pub(super) fn set_time(&self, now_ns: u64) {
        self.time.advance_to(now_ns - self.started_ns);
    }

    /// One round of a worker.
    pub(super) fn round(&mut self, worker: usize, is_reading: bool) {
        let thread = &mut self.threads[worker];
        thread.worker_mut().round(is_reading).expect("virtual ports do not fail");
        thread.survey();
        thread.look_around(&self.events);
    }

    /// Executes the tasks of the state file's keeper.
    pub(super) fn keep(&mut self, is_writable: bool) {
        for grant in self.state.keep(self.time.now_ns(), is_writable) {
            self.threads[grant.worker].extend_numbers(&[(grant.id, grant.limits)].into());
        }
    }

    /// Whether SAs that were let go still have packets inside.
    pub(super) fn is_retiring(&mut self) -> bool {
        self.threads.iter_mut().any(|thread| thread.worker_mut().pipeline().is_retiring())
    }

    /// Whether packets wait for room in a port.
    pub(super) fn has_unsent(&mut self) -> bool {
        self.threads.iter_mut().any(|thread| thread.worker_mut().has_unsent())
    }

    /// Executes a reload.
    pub(super) fn reload(&mut self, config: Config) {
        let old = Ranked { tunnels: &self.tunnels, ranks: &self.ranks };
        let (change, ranks) = Change::between(old, &config, true);
        (self.tunnels, self.ranks) = (config.tunnels, ranks);
        self.threads.iter().for_each(|thread| self.state.note(&thread.numbers_of(&change.gone)));
        let new = change.came.iter().map(|tunnel| tunnel.config.clone());
        let now_ns = self.time.now_ns();
        let starts = self.state.start(&new.collect::<Vec<_>>(), self.wall_ns + now_ns, now_ns);
        for thread in &mut self.threads {
            thread.let_go(&change);
        }
        for thread in &mut self.threads {
            let refused = thread.take_up(&change, &starts).refused;
            assert!(refused.is_empty(), "{refused:?}");
        }
    }

    pub(super) fn take_notes(&self) -> Vec<DaemonNote> {
        std::mem::take(&mut *self.notes.0.lock().expect("one thread"))
    }

    /// Takes its messages to the operator.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().expect("one thread"))
    }

    /// The worker that has an SA.
    pub(super) fn thread_of(&mut self, sa: SaNumber) -> &mut WorkerThread {
        &mut self.threads[usize::from(sa.owner)]
    }

    /// Installs an SA at the worker that serves its tunnel.
    pub(super) fn install(&mut self, sa: &SaConfig) -> SaNumber {
        let owner = sa.tunnel.owner(self.threads.len() as u16);
        self.threads[usize::from(owner)].install(sa, None).expect("its SPI is new")
    }

    pub(super) fn retire(&mut self, sa: SaNumber) {
        self.thread_of(sa).retire(sa);
    }

    pub(super) fn is_drained(&mut self) -> bool {
        self.threads.iter_mut().all(|thread| thread.worker_mut().is_drained())
    }

    /// The counters of all ports and workers.
    pub(super) fn balance(&mut self) -> Balance {
        let mut balance = Balance { made: self.made, ..Balance::default() };
        for end in self.inside.iter().chain(&self.outside) {
            let counters = end.lock().counters;
            balance.entered += counters.received_packets;
            balance.left += counters.sent_packets + counters.send_dropped;
        }
        for thread in &mut self.threads {
            let counters = thread.worker_mut().pipeline().ipsec().counters();
            balance.made += counters.icmp_sent;
            // A packet that is cut is cut in two here, as no path is so narrow.
            balance.dropped += counters.drops.total() + counters.reassembled;
            let (packed, unpacked) = (counters.aggregation, counters.unpacking);
            balance.made += packed.payloads + packed.all_padding + unpacked.packets + unpacked.lost;
            balance.left += packed.packets + unpacked.payloads;
        }
        balance
    }

    /// Its counters, in words.
    pub(super) fn describe(&mut self) -> String {
        let mut text = format!("{:?}", self.balance());
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let pipeline = thread.worker_mut().pipeline();
            let counters = pipeline.ipsec().counters();
            let engines = pipeline.stage().engines();
            let health: Vec<_> = (0..engines.len()).map(|engine| engines.health(engine)).collect();
            let (inside, acquiring) = (pipeline.stage().len(), pipeline.acquiring());
            let drops: Vec<_> =
                counters.drops.met().map(|(reason, count)| format!("{reason} {count}")).collect();
            text += &format!(
                "\n  worker {number}: {} protected, {} opened, {inside} at engines, {acquiring} without an SA, drops: {}, {health:?}",
                counters.protected,
                counters.opened,
                drops.join(", ")
            );
        }
        text
    }

    /// Checks that every frame has been returned.
    pub(super) fn check_frames(&mut self) {
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let engines = thread.worker_mut().pipeline().stage().in_flight();
            let engines = format!("{engines} multi-packets at engines");
            let pool = thread.worker_mut().pipeline_mut().pool_mut();
            for size in FrameSize::ALL {
                let (free, all) = (pool.available(size), pool.total(size));
                assert_eq!(
                    free, all,
                    "worker {number}: {size:?} frames are missing, and nothing is under way; {engines}"
                );
            }
        }
    }

    /// Ends it in good order.
    pub(super) fn stop(self) -> SimulatedDisk {
        self.threads.iter().for_each(WorkerThread::report_end);
        self.state.end(self.time.now_ns())
    }

    /// Ends the process, or the machine's power.
    pub(super) fn kill(self, is_power_cut: bool) -> SimulatedDisk {
        let disk = self.state.killed();
        if is_power_cut { disk.after_power_cut() } else { disk }
    }
}

fn engines(
    scenario: &Scenario,
    time: &VirtualTime,
    dice: &mut Xoshiro256PlusPlus,
    is_calm: &Arc<AtomicBool>,
) -> Vec<Box<dyn Engine>> {
    let mut engine = |(character, faults): &(_, Option<u64>)| -> Box<dyn Engine> {
        let engine = VirtualEngine::new(character, time, dice.random(), is_calm);
        if faults.is_none() {
            return Box::new(engine);
        }
        let kinds = vec![
            InjectedFault::Error,
            InjectedFault::Hang,
            InjectedFault::Vanish,
            InjectedFault::Slow { polls: 20 },
        ];
        let (seed, times) = (dice.random(), dice.random_range(0..=ENGINE_FAULTS));
        let plan =
            FaultPlan { seed, faults: kinds, after: 0..=60, times, probes: Some(dice.random_range(0..3)) };
        Box::new(Faulty::new(Box::new(engine), plan))
    };
    scenario.engines.iter().map(&mut engine).collect()
}

/// The tunnel id of negotiated SAs.
pub(super) fn negotiated(tunnel: usize) -> TunnelId {
    TunnelId(1000 + tunnel as u32)
}
