//! One worker on its thread: it works, executes the gateway's commands between rounds, and stops
//! with nothing lost.

mod daemon;
mod monitors;
mod peers;
mod reload;
mod shared;
mod slices;
mod surveys;
mod telling;
mod tunnels;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime};

use convoy_assembly::assemble::InstalledTunnel;
use convoy_config::Config;
use convoy_dataplane::costs::{CostModels, MeasuredCost};
use convoy_dataplane::drop_watch::{Climb, DropWatch};
use convoy_dataplane::ledger::Ledger;
use convoy_dataplane::worker::Worker;
use convoy_engine::EngineDescription;
use convoy_ipsec::{SaDirection, SaIndex, SaView, TunnelId};
use convoy_port::PortError;
use convoy_report::events::Events;
use convoy_report::survey::{Survey, Surveyed};
use convoy_reservation::Limits;
use convoy_state::{Pair, Reporter, StartId, WorkerReport};

pub(crate) use self::daemon::TunnelName;
use self::monitors::OwnMonitors;
pub(crate) use self::reload::{LetGo, Reloaded};
use self::shared::PairsOfWorker;
use self::shared::Places;
use self::tunnels::InstalledTunnels;

/// Time limit of packets in flight when the gateway stops.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
/// Rounds between two checks for commands.
const ROUNDS: u32 = 64;
/// Commands executed between two rounds, at most: so packets wait no longer, however much charon
/// asks at once.
const COMMANDS: usize = 16;

/// A command of the gateway, executed on the worker's thread.
pub(crate) type WorkerCommand = Box<dyn FnOnce(&mut WorkerThread) + Send>;
/// State shared by all workers of a gateway.
#[derive(Default)]
pub(crate) struct Common {
    /// Set when it stops.
    pub(crate) is_stopping: AtomicBool,
    /// Workers that will hand nothing over any more.
    votes: AtomicUsize,
}

/// A worker's vote that it will hand nothing over any more: cast when it drains, or when it ends in
/// whatever way, so that no other waits for it.
struct HandoffVote<'a> {
    common: &'a Common,
    is_cast: bool,
}

impl HandoffVote<'_> {
    fn cast(&mut self) {
        if !std::mem::replace(&mut self.is_cast, true) {
            self.common.votes.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for HandoffVote<'_> {
    fn drop(&mut self) {
        self.cast();
    }
}

/// A worker with its tunnels.
pub(crate) struct WorkerThread {
    worker: Worker,
    workers: u16,
    installed: InstalledTunnels,
    next_tunnel: u32,
    costs: CostModels,
    started: SystemTime,
    /// Without tunnels.
    config: Arc<Config>,
    /// The names of a key daemon's tunnels.
    names: HashMap<TunnelId, TunnelName>,
    /// The totals of the tunnels, whatever happens to their SAs.
    ledger: Ledger,
    drop_watch: DropWatch,
    /// Warnings of dropped packets that were not given yet.
    climbs: Vec<Climb>,
    /// The walk over the SAs in progress, if any.
    survey: Option<Survey>,
    /// The channel to the keeper of the state file, if there is one.
    reporter: Option<Reporter>,
    /// A key daemon's SAs that other gateways of the cluster may go on with, each with its numbers.
    shared: HashMap<SaIndex, Pair>,
    /// Where the pairs of both are.
    places: Places,
    /// The monitors whose probes it sends.
    own_monitors: OwnMonitors,
}

impl WorkerThread {
    /// A worker with the tunnels that are installed in it, and the rest of its configuration.
    pub(crate) fn new(
        worker: Worker,
        config: Arc<Config>,
        installed: Vec<InstalledTunnel>,
        costs: CostModels,
    ) -> Self {
        let sas = installed.iter().map(|tunnel| tunnel.sas().count()).sum();
        let mut thread = Self {
            worker,
            workers: config.workers,
            next_tunnel: installed.len() as u32,
            installed: InstalledTunnels::default(),
            costs,
            started: SystemTime::now(),
            config,
            names: HashMap::new(),
            ledger: Ledger::for_sas(sas),
            drop_watch: DropWatch::default(),
            climbs: Vec::new(),
            survey: None,
            reporter: None,
            shared: HashMap::new(),
            places: Places::default(),
            own_monitors: OwnMonitors::default(),
        };
        installed.iter().for_each(|tunnel| thread.take_sas(tunnel));
        thread.installed = InstalledTunnels::new(installed);
        thread
    }

    /// Has the outside ports give the packets of a tunnel's inbound SAs to this worker, and reports
    /// their numbers from now on.
    fn take_sas(&mut self, tunnel: &InstalledTunnel) {
        self.places.add_tunnel(tunnel);
        let inbound = |view: SaView| (view.name.direction == SaDirection::Inbound).then_some(view.name.spi);
        let views = tunnel.sas().filter_map(|sa| self.tables().sa(sa));
        let spis: Vec<u32> = views.filter_map(inbound).collect();
        self.worker.take_spis(&spis);
        self.reporter.iter_mut().for_each(|reporter| reporter.begin(&tunnel.pairs));
    }

    /// Makes it report the numbers of SAs with static keys from now on.
    pub(crate) fn report_to(&mut self, mut reporter: Reporter) {
        // What moves is noted from now on.
        self.worker.pipeline_mut().ipsec_mut().tables.take_moved(0);
        reporter.begin(self.pairs());
        self.reporter = Some(reporter);
    }

    /// Works until the gateway stops, or every port has ended (captures).
    ///
    /// # Errors
    /// If a port failed as a whole.
    pub(crate) fn work(
        &mut self,
        commands: &Receiver<WorkerCommand>,
        common: &Common,
        events: &Events,
    ) -> Result<(), PortError> {
        self.worker.prepare_thread();
        let mut vote = HandoffVote { common, is_cast: false };
        let (mut rounds, mut has_more) = (0_u32, false);
        while !common.is_stopping.load(Ordering::Acquire) && !self.worker.is_finished() {
            let moved = self.worker.round(true)?;
            rounds = rounds.wrapping_add(1);
            let is_surveying = self.survey();
            if has_more {
                // There are more commands than there was time for.
            } else if !is_surveying && (!moved || self.worker.is_at_rest()) {
                // Before it sleeps: nothing else might wake it until they are given up.
                self.ask_for_held();
                self.worker.idle();
            } else if !rounds.is_multiple_of(ROUNDS) {
                continue;
            }
            self.look_around(events);
            has_more = self.follow(commands);
        }
        self.drain(&mut vote)?;
        self.tell_events(events);
        self.report_end();
        Ok(())
    }

    /// Executes up to [`COMMANDS`] commands; returns whether there may be more.
    fn follow(&mut self, commands: &Receiver<WorkerCommand>) -> bool {
        for _ in 0..COMMANDS {
            let Ok(command) = commands.try_recv() else { return false };
            command(self);
        }
        true
    }

    /// The work between two rounds: messages for the operator, and reports to the keeper of the
    /// state file.
    pub(crate) fn look_around(&mut self, events: &Events) {
        self.tell_events(events);
        self.watch_drops();
        self.watch_monitors(events);
        self.ask_for_held();
        self.report_numbers();
    }

    /// Reports to the keeper of the state file that it sends nothing more.
    pub(crate) fn report_end(&self) {
        if let Some(reporter) = &self.reporter {
            reporter.end(self.pairs(), self.tables());
        }
    }

    /// Asks for more numbers at once if packets have begun to wait for them.
    fn ask_for_held(&mut self) {
        if !self.worker.pipeline_mut().ipsec_mut().inbound.has_held_more() {
            return;
        }
        if let Some(reporter) = &mut self.reporter {
            reporter.hurry();
        }
        self.report_numbers();
    }

    fn report_numbers(&mut self) {
        if let Some(reporter) = &mut self.reporter {
            let (installed, shared, places) = (&mut self.installed, &mut self.shared, &self.places);
            let pipeline = self.worker.pipeline_mut();
            let now_ns = pipeline.clock().now_ns();
            let pairs = PairsOfWorker { installed, shared, places };
            reporter.look(now_ns, pairs, &mut pipeline.ipsec_mut().tables);
        }
    }

    /// The last numbers of its SAs with static keys.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> WorkerReport {
        convoy_state::report(self.pairs(), self.tables())
    }

    /// The last numbers of the SAs of these tunnels.
    pub(crate) fn numbers_of(&self, tunnels: &[String]) -> WorkerReport {
        let tunnels = tunnels.iter().filter_map(|name| self.installed.named(name));
        convoy_state::report(tunnels.flat_map(|tunnel| &tunnel.pairs), self.tables())
    }

    /// Lets SAs with static keys go on up to these numbers.
    pub(crate) fn extend_numbers(&mut self, granted: &HashMap<StartId, Limits>) {
        let tables = &mut self.worker.pipeline_mut().ipsec_mut().tables;
        let (installed, shared, places) = (&mut self.installed, &mut self.shared, &self.places);
        convoy_state::extend(PairsOfWorker { installed, shared, places }, tables, granted);
        self.worker.pipeline_mut().ipsec_mut().inbound.retry_held();
    }

    /// Lets packets in flight leave. It waits for what others may still hand over, as they wait for
    /// it.
    fn drain(&mut self, vote: &mut HandoffVote<'_>) -> Result<(), PortError> {
        let began = Instant::now();
        while began.elapsed() < DRAIN {
            let moved = self.worker.round(false)?;
            // What it received it has handed over in that round, or dropped.
            vote.cast();
            let all_voted = vote.common.votes.load(Ordering::Acquire) >= usize::from(self.workers);
            if all_voted && self.worker.is_drained() {
                break;
            }
            if !moved {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        self.worker.pipeline_mut().give_up_held();
        Ok(())
    }

    /// The name of a tunnel of the configuration.
    fn configured_name(&self, tunnel: TunnelId) -> Option<&str> {
        Some(&self.installed.get(tunnel)?.config.name)
    }

    /// All tunnels that have names, with them: that for people, and charon's.
    pub(crate) fn tunnel_names(&self) -> impl Iterator<Item = (TunnelId, &str, &str)> {
        let configured = self.installed.iter().map(|tunnel| (tunnel.id, &*tunnel.config.name, ""));
        configured.chain(self.names.iter().map(|(id, name)| (*id, &*name.shown, &*name.child)))
    }

    /// The name of a tunnel; `None` while it has none.
    pub(crate) fn name_of(&self, tunnel: TunnelId) -> Option<&str> {
        let daemons = || self.names.get(&tunnel).map(|name| &*name.shown);
        self.configured_name(tunnel).or_else(daemons)
    }

    /// A key daemon's own name of a tunnel; empty if it has none.
    pub(crate) fn child_of(&self, tunnel: TunnelId) -> String {
        self.names.get(&tunnel).map(|name| name.child.clone()).unwrap_or_default()
    }

    /// Applies the measured cost of an engine, which was estimated so far.
    pub(crate) fn learn_cost(&mut self, measured: &MeasuredCost) {
        self.costs.learn(measured);
        let news = |engine: &EngineDescription| self.costs.news(engine, measured);
        self.worker.pipeline_mut().set_costs(measured.transform, &news);
    }

    /// The cost of an engine.
    #[cfg(test)]
    pub(crate) fn cost_of(
        &self,
        engine: &EngineDescription,
        transform: convoy_ipsec::Transform,
    ) -> convoy_engine::AlgorithmCost {
        self.costs.of(engine, transform)
    }

    /// The worker.
    pub(crate) fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }
}

#[cfg(test)]
mod tests;
