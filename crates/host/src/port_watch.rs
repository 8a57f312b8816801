//! Ports whose interface or address is not there: they wait, while all others go on. The operator
//! is notified, and a port is opened again once it can be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use convoy_config::ThisMachine;
use convoy_port::{InterfaceNews, PortError, Reopen, Reopening, TunDevice, TunFiles};
use convoy_report::events::{Events, What};
use convoy_settings::HostEnvironment;
use nix::net::if_::if_nametoindex;

use crate::helper::Helper;

/// Interval between two attempts to open ports again, if the kernel has no news meanwhile.
const RETRY: Duration = Duration::from_secs(1);

/// A port that may have to wait.
#[derive(Clone, Debug)]
pub struct WatchedPort {
    /// Its name.
    pub name: String,
    /// The addresses that it needs.
    pub addresses: Vec<IpAddr>,
    /// How it goes on at an interface that is back.
    pub reopening: Option<Reopening>,
}

/// What a port waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// An interface of this name.
    Interface(String),
    /// An address that no interface has.
    Address(IpAddr),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => write!(f, "interface {name}"),
            Self::Address(address) => write!(f, "address {address}"),
        }
    }
}

/// By port: what it waits for.
type AllMissing = BTreeMap<String, BTreeSet<Missing>>;

/// Watches the ports of a gateway.
pub struct PortWatch {
    ports: Vec<WatchedPort>,
    /// Without it the ports are looked at each [`RETRY`].
    news: Option<InterfaceNews>,
    missing: AllMissing,
    /// Why a port that has its interface could not be opened at the last attempt.
    refused: BTreeMap<String, String>,
    /// When ports that wait are looked at again.
    next: Instant,
    /// Whether it has not looked yet.
    is_new: bool,
}

impl PortWatch {
    /// Watches these ports.
    pub fn new(ports: Vec<WatchedPort>) -> Self {
        let news = InterfaceNews::open().inspect_err(|error| {
            tracing::warn!("netlink: {error}; interfaces that vanish are noticed within a second");
        });
        Self {
            ports,
            news: news.ok(),
            missing: BTreeMap::new(),
            refused: BTreeMap::new(),
            next: Instant::now(),
            is_new: true,
        }
    }

    /// The TUN interfaces of the ports.
    pub fn devices(&self) -> Vec<TunDevice> {
        self.tuns().map(|(_, tun)| tun.device.clone()).collect()
    }

    /// What a port waits for; empty if it has all that it needs.
    pub fn missing(&self, port: &str) -> Vec<String> {
        self.missing.get(port).into_iter().flatten().map(ToString::to_string).collect()
    }

    /// Notifies the operator of ports that have begun or ceased to wait, and opens those again that
    /// can be. `has_link` says whether an interface of certain tunnels has a link.
    ///
    /// # Errors
    /// A port has no sockets left for an interface that is back.
    pub fn look(
        &mut self,
        helper: Option<&Helper>,
        has_link: &dyn Fn(&str) -> bool,
        events: &Events,
    ) -> Result<(), PortError> {
        let has_news = self.news.as_mut().is_some_and(InterfaceNews::take);
        let is_waiting = !self.missing.is_empty() || self.news.is_none();
        let now = Instant::now();
        let is_due = self.is_new || has_news || is_waiting && now >= self.next;
        if !is_due {
            return Ok(());
        }
        self.is_new = false;
        self.next = now + RETRY;
        let detached = self.notify(events);
        self.open_devices(&detached, helper, has_link, events);
        if self.open_links(events)? || !detached.is_empty() {
            self.notify(events);
        }
        Ok(())
    }

    fn tuns(&self) -> impl Iterator<Item = (&str, &TunFiles)> + Clone {
        self.ports.iter().filter_map(|port| match &port.reopening {
            Some(Reopening::Tun(tun)) => Some((port.name.as_str(), tun)),
            _ => None,
        })
    }

    fn links(&self) -> impl Iterator<Item = (&str, &dyn Reopen)> {
        self.ports.iter().filter_map(|port| match &port.reopening {
            Some(Reopening::Link(link)) => Some((port.name.as_str(), link.as_ref())),
            _ => None,
        })
    }

    /// Finds what is missing, and notifies the operator of what has changed; returns the TUN
    /// interfaces that were deleted, by port.
    fn notify(&mut self, events: &Events) -> Vec<(String, TunFiles)> {
        let mut now = AllMissing::new();
        let mut add = |port: &str, missing| {
            now.entry(port.to_owned()).or_default().insert(missing);
        };
        for port in &self.ports {
            let is_missing = |address: &&IpAddr| ThisMachine.has_address(**address) == Some(false);
            let addresses = port.addresses.iter().filter(is_missing);
            addresses.for_each(|address| add(&port.name, Missing::Address(*address)));
        }
        let are_detached = TunFiles::are_detached(self.tuns().map(|(_, tun)| tun));
        let detached = self.tuns().zip(are_detached).filter(|(_, is_detached)| *is_detached);
        let detached: Vec<(String, TunFiles)> =
            detached.map(|((port, tun), _)| (port.to_owned(), tun.clone())).collect();
        for (port, tun) in &detached {
            add(port, Missing::Interface(tun.device.name.clone()));
        }
        for (port, link) in
            self.links().filter(|(_, link)| number(*link).is_none_or(|now| link.number() != Some(now)))
        {
            add(port, Missing::Interface(link.interface().to_owned()));
        }
        let before = std::mem::replace(&mut self.missing, now);
        for (port, missing) in each(&self.missing).filter(|(port, missing)| !has(&before, port, missing)) {
            let then = match missing {
                Missing::Interface(_) => "; its packets are dropped meanwhile",
                Missing::Address(_) => ", which no interface has",
            };
            let message = format!("port {port} waits for the {missing}{then}");
            events.tell(What::PortWaits { port: port.to_owned(), missing: missing.to_string() }, message);
        }
        for (port, missing) in each(&before).filter(|(port, missing)| !has(&self.missing, port, missing)) {
            let message = format!("port {port} no longer waits for the {missing}");
            events.tell(What::PortBack { port: port.to_owned(), missing: missing.to_string() }, message);
        }
        self.refused.retain(|port, _| self.missing.contains_key(port));
        detached
    }

    /// Has the helper create TUN interfaces again.
    fn open_devices(
        &mut self,
        detached: &[(String, TunFiles)],
        helper: Option<&Helper>,
        has_link: &dyn Fn(&str) -> bool,
        events: &Events,
    ) {
        let Some(helper) = helper else { return };
        for (port, tun) in detached {
            if let Err(error) = helper.attach(tun, has_link(port)) {
                let reason = format!("cannot create the interface {} again: {error}", tun.device.name);
                self.refuse(port, reason, events);
            }
        }
    }

    /// Opens ports at interfaces that are back; returns whether there was one.
    fn open_links(&mut self, events: &Events) -> Result<bool, PortError> {
        let back = self.links().filter_map(|(port, link)| {
            let number = number(link).filter(|number| link.number() != Some(*number))?;
            if !link.has_reserve() {
                let reason = format!(
                    "the interface {} is back, but no sockets are left for it; the gateway has to start again",
                    link.interface()
                );
                return Some(Err(PortError::Invalid { port: port.to_owned(), reason }));
            }
            Some(Ok((port.to_owned(), link.reopen(number))))
        });
        let back: Vec<_> = back.collect::<Result<_, _>>()?;
        let is_any = !back.is_empty();
        for (port, opened) in back {
            if let Err(error) = opened {
                self.refuse(&port, error.to_string(), events);
            }
        }
        Ok(is_any)
    }

    /// Warns of a port that could not be opened, unless it was for the same reason before.
    fn refuse(&mut self, port: &str, reason: String, events: &Events) {
        if self.refused.get(port) != Some(&reason) {
            events.warn(format!("{reason}; it is tried again"));
            self.refused.insert(port.to_owned(), reason);
        }
    }
}

/// The number that the interface of a port has now.
fn number(link: &dyn Reopen) -> Option<u32> {
    if_nametoindex(link.interface()).ok()
}

fn each(all: &AllMissing) -> impl Iterator<Item = (&str, &Missing)> {
    all.iter().flat_map(|(port, missing)| missing.iter().map(move |one| (port.as_str(), one)))
}

fn has(all: &AllMissing, port: &str, missing: &Missing) -> bool {
    all.get(port).is_some_and(|of_port| of_port.contains(missing))
}
