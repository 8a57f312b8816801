//! Switching a running gateway to another configuration.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use convoy_assembly::change::{Change, Ranked};
use convoy_config::{Config, ConfigErrors, Problem, TunnelConfig, counted, unserved};
use convoy_host::networks;
use convoy_host::ports;
use convoy_kernel::Prefix;
use convoy_report::events::{Events, What};
use convoy_state::{Starts, State, StateError};
use serde::{Deserialize, Serialize};

use super::{Gateway, Order, Reply, static_news, watch_by};
use crate::error::WorkerNumbers;
use crate::monitors::AllMonitors;
use crate::worker_thread::{LetGo, Reloaded};

/// Tunnels that a refused reload names.
const NAMED_TUNNELS: usize = 10;

/// Reads the configuration for a reload.
pub type Load = Arc<dyn Fn() -> Result<Box<Config>, ConfigErrors> + Send + Sync>;

/// The result of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Tunnels that did not change.
    pub stayed: usize,
    /// New tunnels.
    pub came: usize,
    /// Removed tunnels.
    pub went: usize,
    /// Messages for the operator, such as changes that require a restart.
    pub notes: Vec<String>,
    /// Tunnels that could not be installed, and why.
    pub refused: Vec<String>,
}

impl fmt::Display for ReloadReport {
    /// In one line, without notes and refusals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stayed, came, went, .. } = self;
        write!(f, "{came} added, {went} removed, {stayed} unchanged")
    }
}

/// The outcome of a reload: its report, or why it was refused as a whole.
pub type Reloading = Result<ReloadReport, String>;

/// Why a configuration was refused.
fn stays(errors: &str) -> String {
    format!("the configuration is unchanged:\n{errors}")
}

/// Makes a running gateway read its configuration again and switch to it, without waiting: `reply`
/// receives the outcome. Errors are also reported to `events`.
///
/// # Errors
/// What is wrong with the configuration, which stays as it was; or that the gateway is stopping.
pub fn reload(
    load: &Load,
    orders: &Sender<Order>,
    events: &Events,
    reply: Reply<Reloading>,
) -> Result<(), String> {
    let config = load().map_err(|errors| {
        events.reload_refused(&errors);
        stays(&errors.to_string())
    })?;
    let sent = orders.send(Order::Reload(config, reply)).map_err(|_| "the gateway is stopping".to_owned());
    sent.inspect_err(|error| events.tell(What::ReloadRefused, format!("reload: {error}")))
}

/// What became of the tunnels of another configuration.
#[derive(Default)]
struct Switched {
    stayed: usize,
    came: usize,
    went: usize,
    /// Why tunnels were not installed.
    refused: Vec<String>,
    /// Their names.
    names: Arc<HashSet<String>>,
    /// Whether all with static keys could begin.
    is_whole: bool,
}

impl Gateway {
    /// Switches to another configuration as far as that needs no restart. One with tunnels that the
    /// running ports cannot serve changes nothing: all their packets would be lost.
    ///
    /// # Errors
    /// Those tunnels, each with the reason.
    pub(super) fn reload(&mut self, config: &Config) -> Reloading {
        self.are_served(config).inspect_err(|errors| {
            self.events.tell(What::ReloadRefused, format!("reload: {errors}"));
        })?;
        let (reported, rest) = convoy_config::reported(&config.warnings);
        reported.iter().for_each(|warning| self.events.reload_warning(warning));
        let warnings = reported.into_iter().map(Problem::in_one_line);
        let mut notes: Vec<String> = rest.into_iter().collect();
        let restart = needs_restart(&self.config, config).into_iter();
        notes.extend(restart.map(|what| format!("a change of {what} needs a restart and was not applied")));
        self.take_port_settings(config);
        let before = self.config.tunnels.clone();
        let stays = self.has_all_tunnels && self.is_as_running(config);
        let Switched { stayed, came, went, refused, names, is_whole } = if stays {
            // No worker need look at each of its tunnels, which would keep packets waiting.
            Switched { stayed: self.led_tunnels(&before).len(), is_whole: true, ..Switched::default() }
        } else {
            self.switch_tunnels(config, &mut notes)
        };
        self.configured_s = super::since_1970_s();
        self.config.bypass.clone_from(&config.bypass);
        (self.config.on_stop, self.config.guard) = (config.on_stop, config.guard);
        notes.extend(self.name_peers());
        self.follow_monitors(config);
        notes.extend(self.take_networks());
        self.charon.iter().for_each(|charon| charon.configure(&self.config));
        self.blocked.cover(networks::covered(&self.config));
        self.cover(true);
        let routed = self.route_again();
        self.blocked.asked(routed.is_ok());
        notes.extend(routed.err().map(|error| error.to_string()));
        notes.iter().chain(&refused).for_each(|what| self.events.warn(format!("reload: {what}")));
        let notes = warnings.chain(notes).collect();
        let report = ReloadReport { stayed, came, went, notes, refused };
        let what = What::Reload { unchanged: stayed, added: came, removed: went };
        self.events.tell(what, format!("reload of tunnels: {report}"));
        if is_whole {
            let (before, now) = (self.led_tunnels(&before), self.led_tunnels(&config.tunnels));
            static_news::tell(&self.events, &before, &now, &names);
        }
        Ok(report)
    }

    /// Whether a configuration has the tunnels and bypasses of the running one.
    fn is_as_running(&self, config: &Config) -> bool {
        self.config.tunnels == config.tunnels && self.config.bypass == config.bypass
    }

    /// What a switch to a configuration is for the workers. The next one goes on from its ranks.
    fn change_to(&mut self, config: &Config) -> Arc<Change> {
        // A member of a cluster only has the tunnels of groups that it leads.
        let is_known = self.has_all_tunnels && self.cluster.is_none();
        let old = Ranked { tunnels: &self.config.tunnels, ranks: &self.ranks };
        let (change, ranks) = Change::between(old, config, is_known);
        self.ranks = ranks;
        Arc::new(change)
    }

    /// Has all workers switch to the tunnels of another configuration.
    fn switch_tunnels(&mut self, config: &Config, notes: &mut Vec<String>) -> Switched {
        let (tunnels, bypass) = (config.tunnels.clone(), config.bypass.clone());
        let config = Config { tunnels, bypass, ..self.config.clone() };
        let change = self.change_to(&config);
        self.has_all_tunnels = true;
        let begun = self.cluster.is_none().then(|| self.begin_missing(&change, &config));
        let released = Arc::clone(&change);
        // All remove before any installs: an SPI may move from a tunnel of one worker to a tunnel
        // of another.
        let gone = self.handles.tell(move |thread| thread.let_go(&released));
        let gone: Vec<LetGo> = gone.into_iter().flatten().collect();
        let went = gone.iter().map(|gone| gone.tunnels).max();
        self.config.tunnels.clone_from(&config.tunnels);
        let (starts, left_out) = begun.unwrap_or_else(|| {
            let spent: Vec<_> = gone.iter().flat_map(|gone| gone.spent.clone()).collect();
            (self.begin_in_cluster(&change, &spent), None)
        });
        let starts = Arc::new(starts);
        let taken_up = Arc::clone(&change);
        let answers = self.handles.tell(move |thread| thread.take_up(&taken_up, &starts));
        let silent: Vec<usize> = (0..answers.len()).filter(|worker| answers[*worker].is_none()).collect();
        if !silent.is_empty() {
            let workers = WorkerNumbers(&silent);
            notes.push(format!("{workers} did not answer in time; the change is applied there later"));
        }
        let done: Vec<Reloaded> = answers.into_iter().flatten().collect();
        let names: HashSet<String> =
            done.iter().flat_map(|worker| &worker.refused).map(|(name, _)| name.clone()).collect();
        let names = Arc::new(names);
        if !names.is_empty() {
            let names = Arc::clone(&names);
            self.handles.tell(move |thread| thread.leave_out(&names));
        }
        let is_whole = left_out.is_none();
        let stayed = done.first().map_or(0, |worker| worker.stayed);
        let came = done.iter().map(|worker| worker.came).sum();
        let went = went.unwrap_or_default();
        let mut refused: Vec<String> =
            done.into_iter().flat_map(|worker| worker.refused).map(|(_, why)| why).chain(left_out).collect();
        refused.sort();
        refused.dedup();
        self.has_all_tunnels &= is_whole && refused.is_empty() && silent.is_empty();
        Switched { stayed, came, went, refused, names, is_whole }
    }

    /// The tunnels among these that are up here: in a cluster, those of groups that it leads.
    fn led_tunnels(&self, tunnels: &[TunnelConfig]) -> Vec<TunnelConfig> {
        let is_led = |tunnel: &&TunnelConfig| self.cluster.is_none() || self.led.contains_key(&tunnel.group);
        tunnels.iter().filter(is_led).cloned().collect()
    }

    /// Whether the running ports can serve all tunnels of a configuration, whose own ports may
    /// differ.
    fn are_served(&self, config: &Config) -> Result<(), String> {
        let why = |tunnel: &TunnelConfig| {
            let what = match self.config.interface_number(tunnel.interface.as_deref()) {
                None => {
                    format!("there is no interface {:?} yet", tunnel.interface.as_deref().unwrap_or_default())
                }
                Some(_) => unserved(tunnel, &self.config.ports)?.to_owned(),
            };
            Some(format!("tunnel {:?}: {what}", tunnel.name))
        };
        let mut errors: Vec<String> = config.tunnels.iter().filter_map(why).collect();
        if errors.is_empty() {
            return Ok(());
        }
        let more = errors.len().saturating_sub(NAMED_TUNNELS);
        errors.truncate(NAMED_TUNNELS);
        if more > 0 {
            errors.push(format!("and {}", counted(more, "more tunnel")));
        }
        let errors = errors.join("\n");
        Err(stays(&format!(
            "{errors}\na running gateway keeps its ports and interfaces; a change of [[port]] or a new \
             interface needs a restart"
        )))
    }

    /// Has the ports take over what of their settings needs no restart.
    fn take_port_settings(&mut self, config: &Config) {
        let ports = ports::reloaded(&self.config.ports, &config.ports);
        if ports != self.config.ports {
            self.config.ports.clone_from(&ports);
            self.handles.tell(move |thread| thread.take_port_settings(&ports));
        }
    }

    /// Has the inside ports take packets to the networks that are now behind the tunnels; returns
    /// errors.
    fn take_networks(&mut self) -> HashSet<String> {
        let networks: BTreeSet<Prefix> = networks::networks(&self.config).into_iter().collect();
        if self.networks.as_deref() == Some(&networks) {
            return HashSet::new();
        }
        let networks = Arc::new(networks);
        let taken = Arc::clone(&networks);
        let answers = self.handles.tell(move |thread| thread.take_networks(&taken));
        let are_taken = answers.iter().all(|errors| errors.as_ref().is_some_and(Vec::is_empty));
        self.networks = are_taken.then_some(networks);
        answers.into_iter().flatten().flatten().collect()
    }

    /// Takes the monitors of another configuration over.
    fn follow_monitors(&mut self, config: &Config) {
        if self.config.monitors != config.monitors {
            self.config.monitors.clone_from(&config.monitors);
            self.monitors = AllMonitors::of(&self.config, &self.monitors);
            watch_by(&self.handles, &self.monitors);
        }
    }

    /// How tunnels start that a change to this configuration installs, and the errors
    /// that prevent those of static keys.
    fn begin_missing(&mut self, change: &Arc<Change>, config: &Config) -> (Starts, Option<String>) {
        match self.try_begin(change, config) {
            Ok(starts) => (starts, None),
            Err(error) => {
                let left_out = format!("new tunnels with static keys were not added: {error}");
                (Starts::Kept(HashMap::new()), Some(left_out))
            }
        }
    }

    fn try_begin(&mut self, change: &Arc<Change>, config: &Config) -> Result<Starts, StateError> {
        let Some(state) = &self.state else {
            State::do_without(config, self.began_with_static_keys, &self.events.notify())?;
            return Ok(Starts::Unlimited);
        };
        // The keys of these may be those of tunnels that begin.
        let gone = Arc::clone(change);
        let reports = self.handles.ask(move |thread| thread.numbers_of(&gone.gone));
        reports.iter().flatten().for_each(|report| state.note(report));
        let missing = self.missing(change);
        let begun = config.tunnels.iter().filter(|tunnel| missing.contains(&tunnel.name));
        state.start(begun, &config.tunnels)
    }

    /// The names of the tunnels that a change installs.
    pub(super) fn missing(&self, change: &Arc<Change>) -> HashSet<String> {
        if change.is_exact {
            return change.came.iter().map(|tunnel| tunnel.config.name.clone()).collect();
        }
        let change = Arc::clone(change);
        let missing = self.handles.ask(move |thread| thread.missing(&change));
        missing.into_iter().flatten().flatten().collect()
    }
}

/// Settings that differ and require a restart.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let changes = [
        ("gateway.control", old.control != new.control),
        ("gateway.charon", old.charon != new.charon),
        ("gateway.charon_user", old.charon_user != new.charon_user),
        ("gateway.verify_one_in", old.verify_one_in != new.verify_one_in),
        ("gateway.user", old.user != new.user),
        ("gateway.route_table, rule_priority, mark", old.routing != new.routing),
        ("gateway.state", old.state != new.state),
        ("gateway.allow_weak, fips", old.admitted != new.admitted),
        ("gateway.check_icmp", old.check_icmp != new.check_icmp),
        ("gateway.mss_clamp", old.mss_clamp != new.mss_clamp),
        ("gateway.flow_cache", old.flow_cache != new.flow_cache),
        ("gateway.busy_poll_us", old.busy_poll_us != new.busy_poll_us),
        ("gateway.moderation_us", old.moderation_us != new.moderation_us),
        ("gateway.metrics", old.metrics != new.metrics),
        ("gateway.metrics_per_tunnel", old.metrics_per_tunnel != new.metrics_per_tunnel),
        ("gateway.metrics_page", old.metrics_page != new.metrics_page),
        ("gateway.workers", old.workers != new.workers),
        ("gateway.mtu", old.mtu != new.mtu),
        ("[cluster], [[group]]", old.cluster != new.cluster),
        ("[scheduler]", old.scheduler != new.scheduler || old.ordered != new.ordered),
        ("scheduler.classes", old.classes != new.classes),
        ("[[engine]]", old.engines != new.engines),
        ("[[bus]]", old.buses != new.buses),
        ("[[port]]", ports::reloaded(&old.ports, &new.ports) != new.ports),
        ("[[interface]]", old.interfaces != new.interfaces),
    ];
    changes.into_iter().filter(|(_, has_changed)| *has_changed).map(|(what, _)| what).collect()
}
