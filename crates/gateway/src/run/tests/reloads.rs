//! A worker's policies over reloads, and how long packets wait for one.

use std::collections::HashSet;
use std::sync::Mutex;

use convoy_assembly::change::{Change, Ranked};
use convoy_assembly::ranks;
use convoy_ipsec::DropCounters;
use convoy_packet::IpHeader;
use convoy_port::{PortCounters, PortDescription, PortError};
use convoy_report::survey::Survey;
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use super::*;

/// The longest time between two rounds of a worker, in processor time of its thread: others that
/// use the processor meanwhile do not count.
#[derive(Clone)]
struct Waits(Arc<Mutex<(Duration, Duration)>>);

fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

impl Waits {
    fn note(&self) {
        let mut waits = self.0.lock().expect("one thread");
        let now = processor_time();
        *waits = (now, waits.1.max(now - waits.0));
    }

    /// The longest during this.
    fn during(&self, what: impl FnOnce()) -> Duration {
        // The allocator sorts what this thread has freed so far, as the worker's never does.
        drop(std::hint::black_box(vec![0_u8; 1 << 14]));
        *self.0.lock().expect("one thread") = (processor_time(), Duration::ZERO);
        what();
        self.note();
        self.0.lock().expect("one thread").1
    }
}

/// A port that notes when it is read.
struct Noting(Memory, Waits);

impl Port for Noting {
    fn description(&self) -> &PortDescription {
        self.0.description()
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        self.1.note();
        self.0.receive(pool, limit, burst)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        self.0.send(pool, burst)
    }

    fn counters(&self) -> PortCounters {
        self.0.counters()
    }
}

/// A worker of its own, whose rounds the test runs.
struct OneWorker {
    thread: WorkerThread,
    config: Config,
    ranks: Vec<u64>,
    waits: Waits,
    /// The test's ends of its ports, and frames.
    inside: Memory,
    _outside: Memory,
    pool: FramePool,
}

impl OneWorker {
    fn new(config: Config) -> Self {
        let mut costs = costs();
        let engines = assemble::engines(&config, &mut costs).expect("software is everywhere").remove(0);
        let made = assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited);
        let (pipeline, installed) = made.expect("good");
        let ((in_port, inside), (out_port, outside)) =
            (link("inside", "hosts", LINK, 1_500), link("outside", "network", LINK, 1_500));
        let waits = Waits(Arc::default());
        let in_port = Noting(in_port, waits.clone());
        let worker = Worker::new(pipeline, vec![Box::new(in_port)], vec![Box::new(out_port)]);
        let thread = WorkerThread::new(worker, without_tunnels(&config), installed, costs.models());
        let (ranks, pool) = (ranks::of(&config.tunnels), FramePool::new(64, 0));
        Self { thread, config, ranks, waits, inside, _outside: outside, pool }
    }

    /// A reload, from a worker that has all tunnels; `is_known` says whether its requester knows.
    fn reload(&mut self, config: Config, is_known: bool) -> (Change, Duration) {
        let old = Ranked { tunnels: &self.config.tunnels, ranks: &self.ranks };
        let (change, ranks) = Change::between(old, &config, is_known);
        (self.config, self.ranks) = (config, ranks);
        let thread = &mut self.thread;
        let gone = self.waits.during(|| {
            thread.numbers_of(&change.gone);
            thread.let_go(&change);
        });
        let came = self.waits.during(|| {
            let refused = thread.take_up(&change, &Starts::Unlimited).refused;
            assert!(refused.is_empty(), "{refused:?}");
        });
        (change, gone.max(came))
    }

    /// The policies in their order, by name, selector and priority, with the packets of each.
    fn policies(&mut self) -> Vec<(String, u64)> {
        let tables = &self.thread.worker_mut().pipeline().ipsec().tables;
        let view = |view: convoy_ipsec::PolicyView| {
            let Policy { name, priority, selector, .. } = view.policy;
            (format!("{name} {priority} {selector:?}"), view.packets)
        };
        tables.policies().map(view).collect()
    }

    /// The policy that a packet from the inside finds.
    fn finds(&mut self, [source, destination]: [Ipv4Addr; 2]) -> Option<String> {
        let before = self.policies();
        let mut packet = [0; 60];
        IpHeader::new(253, source.into(), destination.into()).write(&mut packet);
        let mut frames = vec![self.pool.take_filled(&packet, 64).expect("a frame")];
        self.inside.send(&mut self.pool, &mut frames).expect("memory does not fail");
        self.thread.worker_mut().round(true).expect("memory does not fail");
        let now = self.policies();
        let found = before.iter().zip(now).find(|((_, before), (_, now))| before != now);
        found.map(|((policy, _), _)| policy.clone())
    }
}

const TUNNELS: u32 = 10_000;

#[test]
fn a_reload_of_one_tunnel_among_ten_thousand_changes_its_policy_alone() {
    let mut worker = OneWorker::new(config(TUNNELS, 1, 1));
    assert!(worker.finds([host(1, 17, 9), host(2, 17, 9)]).is_some());
    // Memory for totals is there once they have been counted, as is soon the case.
    worker.thread.begin_survey(Survey::of_totals(DropCounters::default()));
    while worker.thread.survey() {}
    let mut longest = Duration::ZERO;
    for step in 0..10 {
        let mut changed = config(TUNNELS, 1, 1);
        changed.tunnels[7_000].name = format!("another{step}");
        changed.tunnels[3_000].replay_window = 64 << (step % 2);
        let (change, wait) = worker.reload(changed, true);
        assert_eq!((change.gone.len(), change.came.len(), change.moved.len()), (2, 2, 0));
        longest = longest.max(wait);
    }
    println!("two of {TUNNELS} tunnels changed: no round for {longest:?}");
    let changed = Config { tunnels: worker.config.tunnels[1..].to_vec(), ..config(1, 1, 1) };
    let (change, wait) = worker.reload(changed, false);
    assert_eq!((change.gone.len(), change.came.len()), (1, TUNNELS as usize - 1));
    println!("one removed, and each of the others looked at: no round for {wait:?}");
    let policies = worker.policies();
    assert_eq!(policies.len(), TUNNELS as usize - 1);
    assert_eq!(policies[16].1, 1, "the policy of a tunnel that stayed keeps its counters");
}

/// Tunnels without SAs, and bypasses. A tunnel is a number for its name, and a variant.
fn drawn(tunnels: &[(u8, u8)], bypasses: &[u8]) -> Config {
    let mut config = config(1, 1, 1);
    let template = config.tunnels.remove(0);
    let mut names = HashSet::new();
    for (name, variant) in tunnels.iter().filter(|(name, _)| names.insert(*name)) {
        let mut tunnel = template.clone();
        tunnel.manual.clear();
        tunnel.name = format!("t{name}");
        tunnel.priority = u32::from(variant % 2);
        tunnel.local_ts = vec!["0.0.0.0/0".parse().expect("a selector")];
        let networks = ["10.0.0.0/8", "10.2.0.0/23", "10.2.1.0/24", "10.2.0.128/25"];
        let chosen = networks.iter().skip(usize::from((name + variant) % 4)).take(1 + usize::from(name % 2));
        tunnel.remote_ts = chosen.map(|network| network.parse().expect("a selector")).collect();
        config.tunnels.push(tunnel);
    }
    let side = |text: &str| text.parse().expect("a selector");
    let bypass = |host: &u8| (side("0.0.0.0/0"), side(&format!("10.2.{host}.0/26")));
    let mut hosts = HashSet::new();
    config.bypass = bypasses.iter().filter(|host| hosts.insert(**host)).map(bypass).collect();
    config
}

fn any_config() -> impl Strategy<Value = Config> {
    let tunnels = proptest::collection::vec((0u8..7, 0u8..8), 0..8);
    let bypasses = proptest::collection::vec(0u8..3, 0..3);
    (tunnels, bypasses).prop_map(|(tunnels, bypasses)| drawn(&tunnels, &bypasses))
}

/// Whether a policy's tunnel is the same in both.
fn is_same(policy: &str, old: &[TunnelConfig], new: &[TunnelConfig]) -> bool {
    let name = policy.split(' ').next().unwrap_or_default();
    let named = |tunnels: &[TunnelConfig]| tunnels.iter().find(|tunnel| tunnel.name == name).cloned();
    name == "bypass" || named(old) == named(new)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn after_reloads_a_packet_finds_the_policy_that_it_would_after_a_start_and_counters_stay(
        first in any_config(),
        configs in proptest::collection::vec((any_config(), any::<bool>()), 1..5),
        hosts in proptest::collection::vec((0u8..3, any::<u8>()), 4),
    ) {
        let mut reloaded = OneWorker::new(first);
        for (config, is_known) in configs {
            let (before, old) = (reloaded.policies(), reloaded.config.tunnels.clone());
            reloaded.reload(config.clone(), is_known);
            let now = reloaded.policies();
            for (policy, packets) in now.iter().filter(|(policy, _)| is_same(policy, &old, &config.tunnels)) {
                let known = before.iter().find(|(known, _)| known == policy);
                prop_assert_eq!(*packets, known.map_or(0, |(_, packets)| *packets), "{}", policy);
            }
            let mut fresh = OneWorker::new(config);
            let names = |policies: Vec<(String, u64)>| -> Vec<_> { policies.into_iter().map(|(policy, _)| policy).collect() };
            prop_assert_eq!(names(now), names(fresh.policies()));
            for (network, host) in &hosts {
                let ends = [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, *network, *host)];
                prop_assert_eq!(reloaded.finds(ends), fresh.finds(ends));
            }
        }
    }
}
