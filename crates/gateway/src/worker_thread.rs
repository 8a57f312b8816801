//! One worker on its thread: it works, executes the gateway's commands between rounds, and stops
//! with nothing lost.

mod peers;
mod shared;
mod telling;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime};

use convoy_dataplane::costs::{CostModels, MeasuredCost};
use convoy_dataplane::drop_watch::{Climb, DropWatch};
use convoy_dataplane::ledger::{Ledger, Tally};
use convoy_dataplane::pipeline::InstallError;
use convoy_dataplane::worker::Worker;
use convoy_engine::{EngineDescription, wipe_stack};
use convoy_ike::state::ChildName;
use convoy_ipsec::{
    PolicyChange, SaConfig, SaCursor, SaDirection, SaEnds, SaIndex, SaNumber, SaView, Tables, TunnelId,
};
use convoy_port::{PortConfig, PortError, Prefix};

use crate::assemble::{self, Installed, Pair};
use crate::config::{Config, TunnelConfig};
use crate::events::Events;
use crate::snapshot::Snapshot;
use crate::state::{self, Beginning, Beginnings, Limits, Report, Reporter};
use crate::survey::{STEP, SaNote, Survey, Surveyed};

/// Time limit of packets in flight when the gateway stops.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
/// Time limit of the packets of SAs that a reload replaces.
const REPLACE: Duration = Duration::from_millis(200);
/// Rounds between two checks for commands.
const ROUNDS: u32 = 64;
/// Commands executed between two rounds, at most: so packets wait no longer, however much charon
/// asks at once.
const COMMANDS: usize = 16;

/// A command of the gateway, executed on the worker's thread.
pub(crate) type Command = Box<dyn FnOnce(&mut WorkerThread) + Send>;
/// Receives messages for the operator.
pub(crate) type Notify = Arc<dyn Fn(String) + Send + Sync>;

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

/// What a worker no longer serves after a reload.
#[derive(Debug, Default)]
pub(crate) struct LetGo {
    /// Tunnels.
    pub(crate) tunnels: usize,
    /// How far their SAs may have come at most, by the generations of their beginnings.
    pub(crate) spent: Vec<(u64, Limits)>,
}

/// What a reload changed at one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Tunnels that did not change.
    pub(crate) stayed: usize,
    /// New tunnels that this worker serves.
    pub(crate) came: usize,
    /// Tunnels of this worker that could not be installed: their names, and why.
    pub(crate) refused: Vec<(String, String)>,
}

/// Tunnels by name, of which there may be many thousands.
fn by_name<'a>(tunnels: impl IntoIterator<Item = &'a TunnelConfig>) -> HashMap<&'a str, &'a TunnelConfig> {
    tunnels.into_iter().map(|tunnel| (tunnel.name.as_str(), tunnel)).collect()
}

/// Whether this tunnel is among them, unchanged.
fn has(tunnels: &HashMap<&str, &TunnelConfig>, tunnel: &TunnelConfig) -> bool {
    tunnels.get(tunnel.name.as_str()).is_some_and(|other| *other == tunnel)
}

/// A worker with its tunnels.
pub(crate) struct WorkerThread {
    worker: Worker,
    workers: u16,
    installed: Vec<Installed>,
    next_tunnel: u32,
    costs: CostModels,
    started: SystemTime,
    config: Arc<Config>,
    /// The names of a key daemon's tunnels.
    names: HashMap<TunnelId, ChildName>,
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
}

impl WorkerThread {
    /// A worker with the tunnels of its configuration, which are installed in it.
    pub(crate) fn new(
        worker: Worker,
        config: Arc<Config>,
        installed: Vec<Installed>,
        costs: CostModels,
    ) -> Self {
        let sas = installed.iter().map(|tunnel| tunnel.sas().count()).sum();
        let mut thread = Self {
            worker,
            workers: config.workers,
            next_tunnel: installed.len() as u32,
            installed,
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
        };
        thread.take_spis();
        thread
    }

    /// Has the outside ports give the packets of all its inbound SAs to this worker.
    fn take_spis(&mut self) {
        let inbound = |view: SaView| (view.name.direction == SaDirection::Inbound).then_some(view.name.spi);
        let spis: Vec<u32> = self.tables().sas().filter_map(inbound).collect();
        self.worker.take_spis(&spis);
    }

    /// Makes it report the numbers of SAs with static keys from now on.
    pub(crate) fn report_to(&mut self, reporter: Reporter) {
        self.reporter = Some(reporter);
    }

    /// Works until the gateway stops, or every port has ended (captures).
    ///
    /// # Errors
    /// If a port failed as a whole.
    pub(crate) fn work(
        &mut self,
        commands: &Receiver<Command>,
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
    fn follow(&mut self, commands: &Receiver<Command>) -> bool {
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
            let pipeline = self.worker.pipeline();
            let pairs = shared::all(&mut self.installed, &mut self.shared);
            reporter.look(pipeline.clock().now_ns(), pairs, &pipeline.ipsec().tables);
        }
    }

    /// How far its SAs with static keys have come.
    pub(crate) fn numbers(&self) -> Report {
        state::report(self.pairs(), self.tables())
    }

    /// Lets SAs with static keys go on up to these numbers.
    pub(crate) fn extend_numbers(&mut self, granted: &HashMap<u64, Limits>) {
        let tables = &mut self.worker.pipeline_mut().ipsec_mut().tables;
        state::extend(shared::all(&mut self.installed, &mut self.shared), tables, granted);
        self.worker.pipeline_mut().ipsec_mut().inbound.retry_held();
    }

    /// The tunnels of a configuration that a reload would install, by name.
    pub(crate) fn missing(&self, config: &Config) -> Vec<String> {
        let old = by_name(self.installed.iter().map(|old| &old.config));
        let new = config.tunnels.iter().filter(|tunnel| !has(&old, tunnel));
        new.map(|tunnel| tunnel.name.clone()).collect()
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

    /// Reports the state of this worker step by step from now on. A survey in progress is
    /// abandoned: its requester has given up.
    pub(crate) fn begin_survey(&mut self, survey: Survey) {
        self.survey = Some(survey);
    }

    /// Takes one step of the survey in progress; `false` if there is none.
    pub(crate) fn survey(&mut self) -> bool {
        let Some(mut survey) = self.survey.take() else { return false };
        if survey.step(self) {
            self.survey = Some(survey);
        } else if !survey.is_told() {
            self.find_climbs(survey.drops_before());
        }
        true
    }

    /// Updates the totals by tunnel at once; call it before tunnels change their names.
    fn update_totals(&mut self) {
        self.close_departed();
        let mut cursor = Some(SaCursor::default());
        while let Some(at) = cursor {
            let mut views = Vec::new();
            cursor = self.tables().walk_sas(at, STEP as u32, &mut |view| views.push(view));
            views.iter().for_each(|view| self.note(view));
        }
        self.note_without_sa(0, usize::MAX);
    }

    /// The name of a tunnel of the configuration. Tunnels are sorted by their numbers there.
    fn configured_name(&self, tunnel: TunnelId) -> Option<&str> {
        let place = self.installed.binary_search_by_key(&tunnel, |installed| installed.id).ok()?;
        Some(&self.installed[place].config.name)
    }

    /// All tunnels that have names, with them.
    pub(crate) fn tunnel_names(&self) -> impl Iterator<Item = (TunnelId, String)> {
        let configured = self.installed.iter().map(|tunnel| (tunnel.id, tunnel.config.name.clone()));
        configured.chain(self.names.iter().map(|(id, name)| (*id, name.to_string())))
    }

    /// The name of a tunnel; `None` while it has none.
    pub(crate) fn name_of(&self, tunnel: TunnelId) -> Option<Cow<'_, str>> {
        let daemons = || self.names.get(&tunnel).map(|name| Cow::Owned(name.to_string()));
        self.configured_name(tunnel).map(Cow::Borrowed).or_else(daemons)
    }

    /// The first step to another configuration: removes the tunnels that are gone or changed, so
    /// that their SPIs are free at all workers before the second, [`take_up`](Self::take_up).
    /// Unchanged ones keep their SAs, and with them their sequence numbers and replay windows.
    /// Returns how many were removed, and how far their SAs may have come.
    pub(crate) fn let_go(&mut self, config: &Arc<Config>) -> LetGo {
        self.update_totals();
        self.config = Arc::clone(config);
        let wanted = by_name(&config.tunnels);
        let (kept, gone): (Vec<_>, Vec<_>) =
            self.installed.drain(..).partition(|tunnel| has(&wanted, &tunnel.config));
        self.installed = kept;
        // Policies first: no packet may be prepared for an SA that is being removed.
        self.decide();
        let spent = state::spent(&gone, self.tables());
        let pipeline = self.worker.pipeline_mut();
        for tunnel in &gone {
            tunnel.sas().for_each(|sa| pipeline.retire(sa));
        }
        self.let_retire();
        LetGo { tunnels: gone.len(), spent }
    }

    /// Stops protecting the tunnels of a group, lets their packets leave, and removes their SAs as
    /// well as charon's, whose tunnels are of the only group; returns how far these have come.
    pub(crate) fn stand_by(&mut self, group: &str) -> Report {
        self.update_totals();
        let (gone, others): (Vec<_>, Vec<_>) =
            self.installed.drain(..).partition(|tunnel| tunnel.config.group == group);
        self.installed = others;
        // Policies first: no packet may be prepared for an SA that is being removed.
        self.decide();
        let began = Instant::now();
        while !self.worker.is_drained() && began.elapsed() < REPLACE {
            // A port that fails reports it again in the next round of work.
            if self.worker.round(false).is_err() {
                break;
            }
        }
        let shared = std::mem::take(&mut self.shared);
        let pairs = gone.iter().flat_map(|tunnel| &tunnel.pairs).chain(shared.values());
        let report = state::report(pairs.clone(), self.tables());
        let sas: Vec<SaIndex> = pairs.flat_map(|pair| pair.sas.iter().copied()).collect();
        let pipeline = self.worker.pipeline_mut();
        // While their SAs are there, which count them.
        pipeline.give_up_held();
        sas.into_iter().for_each(|sa| pipeline.retire(sa));
        self.let_retire();
        report
    }

    /// The second step: installs new tunnels. One with static keys that has no beginning is left
    /// out.
    pub(crate) fn take_up(&mut self, config: &Arc<Config>, beginnings: &Beginnings) -> Reloaded {
        let done = self.install_new(config, beginnings);
        wipe_stack();
        done
    }

    /// Has the inside ports take packets to these networks; returns errors.
    pub(crate) fn take_networks(&mut self, networks: &[Prefix]) -> Vec<String> {
        self.worker.take_networks(networks)
    }

    /// Has the ports take over what a reload changes of their settings.
    pub(crate) fn take_port_settings(&mut self, ports: &[PortConfig]) {
        self.worker.take_port_settings(ports);
    }

    /// Never inlined: what it leaves on the stack, keys included, must be below its caller's frame.
    #[inline(never)]
    fn install_new(&mut self, config: &Arc<Config>, beginnings: &Beginnings) -> Reloaded {
        let mut done = Reloaded { stayed: self.installed.len(), ..Reloaded::default() };
        let old = by_name(self.installed.iter().map(|old| &old.config));
        let new: Vec<_> = config.tunnels.iter().filter(|tunnel| !has(&old, tunnel)).cloned().collect();
        let pipeline = self.worker.pipeline_mut();
        for tunnel in new {
            let beginning = beginnings.of(&tunnel);
            if tunnel.has_static_keys() && beginning.is_none() {
                continue;
            }
            let id = TunnelId(self.next_tunnel);
            self.next_tunnel += 1;
            match assemble::install(pipeline, &tunnel, id, config, &self.costs, beginning) {
                Ok(installed) => {
                    self.installed.push(installed);
                    done.came += usize::from(pipeline.ipsec().tables.serves(id));
                }
                Err(error) => done.refused.push((tunnel.name, error.to_string())),
            }
        }
        self.decide();
        self.take_spis();
        done
    }

    /// Removes tunnels of which another worker could not install SAs: their traffic must not be
    /// handed to it.
    pub(crate) fn leave_out(&mut self, refused: &HashSet<String>) {
        let pipeline = self.worker.pipeline_mut();
        self.installed.retain(|tunnel| {
            let stays = !refused.contains(&tunnel.config.name);
            if !stays {
                tunnel.sas().for_each(|sa| pipeline.retire(sa));
            }
            stays
        });
        self.decide();
    }

    /// Lets the packets of removed SAs leave, so that their SPIs are free for new ones.
    fn let_retire(&mut self) {
        let began = Instant::now();
        while self.worker.pipeline().is_retiring() && began.elapsed() < REPLACE {
            // A port that fails reports it again in the next round of work.
            if self.worker.round(false).is_err() {
                break;
            }
        }
    }

    /// Sets the policies of the configuration; the key daemon's stay.
    fn decide(&mut self) {
        let policies = assemble::policies(&self.config, &self.installed);
        self.worker.pipeline_mut().ipsec_mut().set_policies(policies);
    }

    /// Changes a key daemon's policies. They follow the configuration's of the same priority.
    pub(crate) fn change_policies(&mut self, changes: &[PolicyChange]) {
        self.worker.pipeline_mut().ipsec_mut().change_policies(changes);
    }

    /// Sets or clears the name of a key daemon's tunnel. Its totals until now stay with the
    /// previous name.
    pub(crate) fn name_tunnel(&mut self, tunnel: TunnelId, name: Option<&ChildName>) {
        self.close_departed();
        let views: Vec<SaView> = self.tables().sas_of(tunnel).collect();
        views.iter().for_each(|view| self.note(view));
        let lost = self.tables().dropped_without_sa_by(tunnel);
        if lost > 0 {
            let known = self.name_of(tunnel).map(Cow::into_owned);
            self.ledger.note_without_sa(known.as_deref(), tunnel, lost);
        }
        match name {
            Some(name) => self.names.insert(tunnel, name.clone()),
            None => self.names.remove(&tunnel),
        };
    }

    /// Sets whether a key daemon negotiates an SA of this worker's own for a tunnel that another
    /// one serves.
    pub(crate) fn set_own_sas(&mut self, tunnel: TunnelId, are_wanted: bool) {
        self.worker.pipeline_mut().ipsec_mut().tables.set_own_sas(tunnel, are_wanted);
    }

    /// Installs a key daemon's SA, of a tunnel that this worker serves or has a resource of. With a
    /// beginning, its numbers are reported.
    ///
    /// # Errors
    /// Why it was refused; it is installed nowhere then.
    pub(crate) fn install(
        &mut self,
        sa: &SaConfig,
        beginning: Option<&Beginning>,
    ) -> Result<SaNumber, InstallError> {
        let done = self.install_sa(sa);
        wipe_stack();
        if let (Ok(number), Some(beginning)) = (&done, beginning) {
            self.share(number.index, beginning);
        }
        done
    }

    /// Never inlined, so that [`wipe_stack`] covers its frame.
    #[inline(never)]
    fn install_sa(&mut self, sa: &SaConfig) -> Result<SaNumber, InstallError> {
        let pipeline = self.worker.pipeline_mut();
        let index = pipeline.install(sa, &|engine, transform| self.costs.of(engine, transform))?;
        let number = pipeline.ipsec().tables.number(index).expect("it was installed");
        if sa.direction == SaDirection::Inbound {
            self.worker.take_spis(&[sa.spi]);
        }
        Ok(number)
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

    /// Removes an SA once its last packet has left. One that is already gone is no error.
    pub(crate) fn retire(&mut self, sa: SaNumber) {
        let pipeline = self.worker.pipeline_mut();
        if let Some(sa) = pipeline.ipsec().tables.place(sa) {
            self.shared.remove(&sa);
            pipeline.retire(sa);
        }
    }

    /// Gives an SA other ends; returns the previous ones, or `None` if the new ones are invalid for
    /// it.
    pub(crate) fn move_sa(&mut self, sa: SaNumber, ends: &SaEnds) -> Option<SaEnds> {
        let ipsec = self.worker.pipeline_mut().ipsec_mut();
        let sa = ipsec.tables.place(sa)?;
        let old = ipsec.tables.ends(sa)?;
        ipsec.upkeep.move_sa(&mut ipsec.tables, sa, ends).then_some(old)
    }

    /// The state of an SA.
    pub(crate) fn view(&self, sa: SaNumber) -> Option<SaView> {
        self.tables().sa(self.tables().place(sa)?)
    }

    /// The worker.
    pub(crate) fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }
}

impl Surveyed for WorkerThread {
    fn tables(&self) -> &Tables {
        &self.worker.pipeline().ipsec().tables
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn close_departed(&mut self) {
        for view in self.worker.pipeline_mut().take_departed() {
            let name = self.name_of(view.tunnel).map(Cow::into_owned);
            self.ledger.close(view.index, name.as_deref(), view.name.direction, Tally::of(&view));
        }
    }

    fn note(&mut self, view: &SaView) {
        let name = self.name_of(view.tunnel).map(Cow::into_owned);
        self.ledger.note(view.index, name.as_deref(), view.name.direction, Tally::of(view));
    }

    fn note_without_sa(&mut self, first: usize, most: usize) -> bool {
        let Some(losers) = self.tables().dropped_without_sa_of(first, most) else { return false };
        let losers: Vec<_> = losers.collect();
        for (tunnel, packets) in losers {
            let name = self.name_of(tunnel).map(Cow::into_owned);
            self.ledger.note_without_sa(name.as_deref(), tunnel, packets);
        }
        true
    }

    fn describe(&self, view: SaView) -> SaNote {
        let stage = self.worker.pipeline().stage();
        let by = |engine: usize| stage.engines().description(engine).name.clone();
        SaNote {
            tunnel: self.ledger.tunnel_of(view.index).to_owned(),
            child: self.names.get(&view.tunnel).map(|name| name.child.clone()).unwrap_or_default(),
            inline_by: stage.bound_to(view.index).map(by).unwrap_or_default(),
            view,
        }
    }

    fn rest(&self) -> Snapshot {
        Snapshot::of_all_but_lists(&self.worker, self.started)
    }
}

#[cfg(test)]
mod tests;
