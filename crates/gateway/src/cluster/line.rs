//! The gateway's end of the line to its agent: it follows the orders that come.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoy_cluster::messages::{FromAgent, ToAgent};
use convoy_cluster::{ClusterStatus, GroupEvent, Report, SaFingerprint, Seen};
use convoy_config::{ClusterConfig, SharedText};
use convoy_dataplane::fence::Fence;
use convoy_process::monotonic_ns;
use convoy_process::supervise::{self, Fault};
use convoy_report::events::What;
use convoy_reservation::Limits;
use convoy_state::{Note, StartId};

use super::Place;
use super::StoredSas;
use super::etcd_version;
use super::led::{Led, LedSas, Stopped};
use super::program::FRAMING;
use super::view::ClusterView;

/// Announcements of service addresses after a takeover, one with each renewal of the lease.
const ANNOUNCEMENTS: u32 = 5;

/// Where messages to the agent go.
pub(super) struct AgentLine(Mutex<Sending>);

struct Sending {
    socket: UnixStream,
    /// The last numbers of all groups, once the gateway ends.
    stopped: Option<Stopped>,
    /// Why it gives its groups away: the operator wants it, or an interface has no carrier.
    is_drained: bool,
    is_cut: bool,
    /// Whether the agent still took what was sent last.
    is_open: bool,
}

impl AgentLine {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self(Mutex::new(Sending { socket, stopped: None, is_drained: false, is_cut: false, is_open: true }))
    }

    fn lock(&self) -> MutexGuard<'_, Sending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports something; anyone who reads the line notices that the agent is gone.
    pub(super) fn report(&self, report: Report) {
        let _ = FRAMING.send(&mut self.lock().socket, &ToAgent::Report(report));
    }

    /// Passes on that the gateway and all its parts worked at this time; `false` once the agent is
    /// gone.
    pub(super) fn beat(&self, at_ns: u64) -> bool {
        let mut sending = self.lock();
        sending.is_open &= FRAMING.send(&mut sending.socket, &ToAgent::Beat { at_ns }).is_ok();
        sending.is_open
    }

    /// Whether the agent took the latest heartbeat.
    pub(super) fn is_open(&self) -> bool {
        self.lock().is_open
    }

    /// Has the agent give its groups away and lead none, or lead groups again, as the operator
    /// wants.
    pub(super) fn drain(&self, is_drained: bool) {
        self.give_away(|sending| sending.is_drained = is_drained);
    }

    /// Has the agent give its groups away and lead none while interfaces have no carrier.
    fn cut(&self, is_cut: bool) {
        self.give_away(|sending| sending.is_cut = is_cut);
    }

    fn give_away(&self, change: impl FnOnce(&mut Sending)) {
        let mut sending = self.lock();
        let before = sending.is_drained || sending.is_cut;
        change(&mut sending);
        let is_away = sending.is_drained || sending.is_cut;
        if is_away != before {
            let message = if is_away { ToAgent::Drain } else { ToAgent::Serve };
            let _ = FRAMING.send(&mut sending.socket, &message);
        }
    }

    /// Has the agent give everything away and end.
    pub(super) fn end(&self, stopped: Stopped) {
        let mut sending = self.lock();
        sending.stopped = Some(stopped);
        let _ = FRAMING.send(&mut sending.socket, &ToAgent::End);
    }

    fn is_ending(&self) -> bool {
        self.lock().stopped.is_some()
    }

    fn stopped(&self) -> Option<Stopped> {
        self.lock().stopped.clone()
    }
}

/// Passes the workers' reports on until they have ended.
pub(super) fn report(notes: &Receiver<Note>, led: &LedSas, line: &AgentLine) {
    for note in notes {
        let Note::Report(report) = note else { continue };
        led.progress(report.progress()).into_iter().for_each(|report| line.report(report));
    }
}

/// Follows the agent's orders.
pub(super) struct Follower {
    pub(super) config: ClusterConfig,
    pub(super) fence: Fence,
    pub(super) led: Arc<LedSas>,
    pub(super) line: Arc<AgentLine>,
    pub(super) view: Arc<ClusterView>,
    /// Where what the member has seen of the store is noted, if it is.
    pub(super) memory: Option<Sender<Seen>>,
    pub(super) place: Place,
}

/// What a follower keeps between messages.
#[derive(Default)]
struct FollowerState {
    /// The groups that are led, each with the announcements of its addresses that are left.
    groups: BTreeMap<String, u32>,
    /// The interfaces of service addresses that have no carrier.
    without_carrier: Vec<String>,
}

impl Follower {
    /// Follows all that comes, until the agent is gone.
    pub(super) fn follow(self, receiving: UnixStream) {
        let (sender, received) = channel();
        let read = supervise::spawn("cluster's line", &self.place.faults, move || {
            let mut receiving = receiving;
            while let Ok(Some(message)) = FRAMING.receive(&mut receiving) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        if read.is_ok() {
            self.work(&received);
        }
        self.fence.open_until(0);
        if !self.line.is_ending() {
            let _ = self.place.faults.send(Fault::Thread("the cluster's agent".to_owned()));
        }
    }

    fn work(&self, received: &Receiver<FromAgent>) {
        let mut kept = FollowerState::default();
        while let Ok(message) = received.recv() {
            let mut granted = HashMap::new();
            // Grants come in great numbers after a takeover, and the workers take them together.
            for message in std::iter::once(message).chain(received.try_iter()) {
                match message {
                    FromAgent::Order(convoy_cluster::MemberOrder::Granted { group, sa, limits }) => {
                        self.grant(&group, sa, limits, &mut granted);
                    }
                    message => {
                        self.give(std::mem::take(&mut granted));
                        self.obey(message, &mut kept);
                    }
                }
            }
            self.give(granted);
        }
    }

    fn grant(&self, group: &str, sa: SaFingerprint, limits: Limits, granted: &mut HashMap<StartId, Limits>) {
        if let Some(start) = self.led.start_of(group, sa) {
            granted.insert(start, limits);
        }
    }

    fn give(&self, granted: HashMap<StartId, Limits>) {
        if granted.is_empty() {
            return;
        }
        let granted = Arc::new(granted);
        for worker in 0..self.place.handles.len() {
            let granted = Arc::clone(&granted);
            self.place.handles.send(worker, move |thread| thread.extend_numbers(&granted));
        }
    }

    fn obey(&self, message: FromAgent, kept: &mut FollowerState) {
        match message {
            FromAgent::Order(convoy_cluster::MemberOrder::Until { deadline_ns }) => {
                self.open(deadline_ns);
                self.look_at_carriers(&mut kept.without_carrier);
                for (group, left) in &mut kept.groups {
                    self.hold_addresses(group, *left > 0);
                    *left = left.saturating_sub(1);
                }
            }
            FromAgent::Order(convoy_cluster::MemberOrder::Lead { group, term, sas, unreadable }) => {
                self.lead(&group, term, StoredSas { sas, unreadable });
                self.hold_addresses(&group, true);
                kept.groups.insert(group, ANNOUNCEMENTS);
            }
            FromAgent::Order(convoy_cluster::MemberOrder::StepDown { group }) => {
                kept.groups.remove(&group);
                self.step_down(&group);
            }
            FromAgent::Order(convoy_cluster::MemberOrder::Granted { .. }) | FromAgent::Ended => {}
            FromAgent::Status(status) => self.learn(*status),
            FromAgent::Seen(seen) => {
                if let Some(memory) = &self.memory {
                    let _ = memory.send(seen);
                }
            }
            FromAgent::Config(text) => self.take_config(*text),
            FromAgent::Store(reached) => self.reached(reached),
        }
    }

    /// Switches to another version of the configuration that the cluster shares.
    fn take_config(&self, text: SharedText) {
        let Place { shared, events, gateway, .. } = &self.place;
        let message = format!("cluster: version {} of the configuration, by {}", text.version, text.by);
        events.tell(What::SharedConfig { version: text.version, by: text.by.clone() }, message);
        shared.set(text);
        gateway.reload();
    }

    /// Gives the groups away while an interface with service addresses has no carrier and another
    /// member may lead: hosts at that interface do not reach this gateway.
    fn look_at_carriers(&self, known: &mut Vec<String>) {
        let Some(helper) = self.place.helper.as_ref().filter(|_| self.config.addresses().next().is_some())
        else {
            return;
        };
        let Ok(cut) = helper.without_carrier() else { return };
        self.line.cut(!cut.is_empty() && self.view.has_another());
        if cut == *known {
            return;
        }
        self.place.events.warn(if cut.is_empty() {
            "cluster: the interfaces of all service addresses have a carrier again".to_owned()
        } else {
            format!("cluster: no carrier at {}; another gateway leads, if there is one", cut.join(", "))
        });
        *known = cut;
    }

    /// Takes note of the cluster's state, and says what an operator must know of it.
    fn learn(&self, status: ClusterStatus) {
        let events = &self.place.events;
        let before = self.view.learn(status.clone());
        if let Some(fault) = status.store_fault.filter(|fault| before.store_fault != Some(*fault)) {
            let reason = fault.to_string();
            let message = format!("cluster: {reason}; this gateway leads nothing. {}", self.view.remedy());
            events.tell(What::StoreDistrusted { reason }, message);
        }
        for group in &status.groups {
            let known = before.groups.iter().find(|known| known.name == group.name);
            if group.locked > 0 && known.is_none_or(|known| known.locked == 0) {
                events.warn(format!(
                    "cluster: this gateway does not lead group {}: {} sealed by a key that {} does not have; \
                     add that key to the file, and restart",
                    group.name,
                    if group.locked == 1 {
                        "1 SA is".to_owned()
                    } else {
                        format!("{} SAs are", group.locked)
                    },
                    self.config.secret.display()
                ));
            }
        }
    }

    fn reached(&self, reached: Result<String, String>) {
        match &reached {
            Ok(version) => {
                self.place.events.tell(What::StoreBack, "cluster: the store can be reached");
                if let Some(warning) = etcd_version::warning(version) {
                    self.place.events.warn(format!("cluster: {warning}"));
                }
            }
            Err(reason) => {
                let message = format!("cluster: the store cannot be reached: {reason}");
                self.place.events.tell(What::StoreLost { reason: reason.clone() }, message);
            }
        }
        self.view.reached(reached);
    }

    /// Opens the fence until a time of the agent's clock, which is that of the machine.
    fn open(&self, deadline_ns: u64) {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        let until_ns = if left_ns == 0 { 0 } else { self.place.clock.now_ns() + left_ns };
        self.fence.open_until(until_ns);
        self.view.may_lead_until(deadline_ns);
    }

    fn lead(&self, group: &str, term: u64, sas: StoredSas) {
        let gateway = &self.place.gateway;
        let Some(Led { starts, reported }) = gateway.lead(group, sas) else { return };
        self.led.begin(group, term, starts);
        for event in reported {
            self.line.report(self.led.report(group, event));
        }
        gateway.term_has_begun();
    }

    fn step_down(&self, group: &str) {
        let stopped = self.line.stopped().or_else(|| self.place.gateway.stand_by(group));
        self.with_addresses(group, |helper, addresses| helper.release_addresses(addresses));
        let sas = self.led.stopped(group, &stopped.unwrap_or_default());
        self.line.report(self.led.report(group, GroupEvent::Stopped { sas }));
        self.led.end(group);
    }

    fn hold_addresses(&self, group: &str, announce: bool) {
        // One second more than the lease, as the kernel counts whole ones.
        let lifetime = self.config.lease + Duration::from_secs(1);
        self.with_addresses(group, |helper, addresses| helper.hold_addresses(addresses, lifetime, announce));
    }

    fn with_addresses(
        &self,
        group: &str,
        ask: impl FnOnce(
            &convoy_host::helper::Helper,
            &[super::ServiceAddress],
        ) -> Result<(), convoy_host::helper::HelperError>,
    ) {
        let addresses = self.config.addresses_of(group);
        let Some(helper) = self.place.helper.as_ref().filter(|_| !addresses.is_empty()) else { return };
        if let Err(error) = ask(helper, addresses) {
            self.place.events.warn(format!("cluster: group {group}: {error}"));
        }
    }
}
