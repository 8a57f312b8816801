//! Peers given by name: their addresses, which may change while the gateway runs.
//!
//! A thread asks for the names and nothing waits for it. A tunnel whose peer's name has not
//! resolved yet is down and all others are up; one whose peer's name no longer resolves keeps the
//! last address.

mod asker;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use convoy_config::{Config, TunnelConfig};
use convoy_ipsec::{Mode, TrafficSelector};
use convoy_process::supervise::Fault;
use convoy_report::events::Events;
use convoy_report::snapshot::NameRow;
use tokio::sync::mpsc;

/// The outcome of a question.
struct NameAnswer {
    name: String,
    /// The name's addresses, or why it has none.
    found: Result<Vec<IpAddr>, String>,
    asked_again: Instant,
}

/// A peer's new address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMove {
    /// The tunnel's name.
    pub tunnel: String,
    /// The peer's name.
    pub name: String,
    /// The previous address, if one was known.
    pub old: Option<IpAddr>,
    /// The new address.
    pub new: IpAddr,
}

/// A tunnel whose peer has a name.
struct NamedPeer {
    name: String,
    /// Our own outer address, if it is known: the peer's has its family and is another one.
    local: Option<IpAddr>,
    /// The networks behind the peer, but for a default route: it is in none of them.
    behind: Vec<TrafficSelector>,
    /// Its address as last known.
    address: Option<IpAddr>,
    /// Why the last question brought none.
    problem: Option<String>,
    asked_again: Option<Instant>,
}

impl NamedPeer {
    fn of(tunnel: &TunnelConfig, name: &str) -> Self {
        let local = Some(tunnel.local).filter(|local| !local.is_unspecified());
        let is_all =
            |selector: &TrafficSelector| selector.addresses.as_prefix().is_some_and(|(_, bits)| bits == 0);
        let may_be_behind = tunnel.mode == Mode::Transport;
        let behind = tunnel.remote_ts.iter().filter(|selector| !may_be_behind && !is_all(selector));
        let (name, behind) = (name.to_owned(), behind.cloned().collect());
        Self { name, local, behind, address: None, problem: None, asked_again: None }
    }

    /// Why an address cannot be the peer's, whatever a server says.
    fn objection(&self, address: IpAddr) -> Option<String> {
        let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
        if address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_broadcast {
            return Some(format!("{address} is no address of another host"));
        }
        if self.local == Some(address) {
            return Some(format!("{address} is this gateway's own"));
        }
        // One that has both ends is no network behind the peer alone.
        let has_both =
            |selector: &TrafficSelector| self.local.is_some_and(|local| selector.addresses.contains(local));
        let mut behind = self.behind.iter().filter(|selector| !has_both(selector));
        let is_behind = behind.any(|selector| selector.addresses.contains(address));
        is_behind.then(|| format!("{address} is in a network behind the tunnel"))
    }

    /// The address among these: the present one if it still is one of them, since servers give
    /// several in changing order.
    fn choose(&self, addresses: &[IpAddr]) -> Result<IpAddr, String> {
        let is_v6 = self.local.map(|local| local.is_ipv6());
        let of_family =
            addresses.iter().filter(|address| is_v6.is_none_or(|is_v6| address.is_ipv6() == is_v6));
        let refused = of_family.clone().find_map(|address| self.objection(*address));
        let mut fitting = of_family.filter(|address| self.objection(**address).is_none()).copied();
        if let Some(present) = self.address.filter(|present| fitting.clone().any(|it| it == *present)) {
            return Ok(present);
        }
        fitting.next().ok_or_else(|| {
            let family = if is_v6 == Some(true) { "IPv6" } else { "IPv4" };
            refused.unwrap_or_else(|| format!("it has no {family} address as `local` is one"))
        })
    }

    /// Takes an answer; returns the new address if it has changed.
    fn hear(&mut self, tunnel: &str, answer: &NameAnswer, events: &Events) -> Option<PeerMove> {
        self.asked_again = Some(answer.asked_again);
        match answer.found.clone().and_then(|addresses| self.choose(&addresses)) {
            Ok(new) => {
                if self.problem.take().is_some() {
                    tracing::info!("tunnel {tunnel}: {} resolves now", self.name);
                }
                let old = self.address.replace(new);
                (old != Some(new)).then(|| PeerMove {
                    tunnel: tunnel.to_owned(),
                    name: self.name.clone(),
                    old,
                    new,
                })
            }
            Err(problem) => {
                if self.problem.as_ref() != Some(&problem) {
                    self.warn(tunnel, &problem, events);
                }
                self.problem = Some(problem);
                None
            }
        }
    }

    fn warn(&self, tunnel: &str, problem: &str, events: &Events) {
        let name = &self.name;
        events.warn(match self.address {
            None => format!("tunnel {tunnel} is down: {name} does not resolve: {problem}"),
            Some(address) => format!(
                "tunnel {tunnel}: {name} no longer resolves, so its last address {address} stays in use: {problem}"
            ),
        });
    }
}

/// The peers with names, by tunnel.
#[derive(Default)]
pub struct Names {
    peers: HashMap<String, NamedPeer>,
    /// The tunnels of each name.
    tunnels: HashMap<String, Vec<String>>,
    thread: Option<NamesThread>,
}

/// The channels to the thread and back.
struct NamesThread {
    wanted: mpsc::UnboundedSender<HashSet<String>>,
    answers: Receiver<NameAnswer>,
}

impl Names {
    /// Follows the peers of these tunnels from now on. What is known of a peer stays known if its
    /// tunnel still has its name. A thread that it starts reports to `faults`.
    ///
    /// # Errors
    /// The system's, if it refuses the thread.
    pub fn follow(&mut self, tunnels: &[TunnelConfig], faults: &Sender<Fault>) -> io::Result<()> {
        let mut before = std::mem::take(&mut self.peers);
        self.tunnels.clear();
        for tunnel in tunnels {
            let Some(name) = &tunnel.remote_name else { continue };
            let fresh = NamedPeer::of(tunnel, name);
            let known = before.remove(&tunnel.name);
            let known = known.filter(|known| {
                (&known.name, known.local, &known.behind) == (&fresh.name, fresh.local, &fresh.behind)
            });
            self.peers.insert(tunnel.name.clone(), known.unwrap_or(fresh));
            self.tunnels.entry(name.clone()).or_default().push(tunnel.name.clone());
        }
        if self.thread.is_none() && !self.peers.is_empty() {
            let (wanted, receiver) = mpsc::unbounded_channel();
            let (sender, answers) = channel();
            asker::start(receiver, sender, faults)?;
            self.thread = Some(NamesThread { wanted, answers });
        }
        if let Some(thread) = &self.thread {
            // A thread that has ended has been reported.
            let _ = thread.wanted.send(self.tunnels.keys().cloned().collect());
        }
        Ok(())
    }

    /// The addresses that have changed since the last call. Warns of what does not resolve.
    pub fn take_moves(&mut self, events: &Events) -> Vec<PeerMove> {
        let Self { peers, tunnels, thread } = self;
        let Some(thread) = thread else { return Vec::new() };
        let mut moves = Vec::new();
        for answer in thread.answers.try_iter() {
            for tunnel in tunnels.get(&answer.name).into_iter().flatten() {
                let Some(peer) = peers.get_mut(tunnel) else { continue };
                moves.extend(peer.hear(tunnel, &answer, events));
            }
        }
        moves
    }

    /// The known addresses, by tunnel.
    pub fn known(&self) -> HashMap<String, IpAddr> {
        let known = self.peers.iter().filter_map(|(tunnel, peer)| Some((tunnel.clone(), peer.address?)));
        known.collect()
    }

    /// The known addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.peers.values().filter_map(|peer| peer.address)
    }

    /// What is known, for `convoy show` and the metrics, by tunnel.
    pub fn rows(&self) -> Vec<NameRow> {
        let now = Instant::now();
        let row = |(tunnel, peer): (&String, &NamedPeer)| NameRow {
            tunnel: tunnel.clone(),
            name: peer.name.clone(),
            address: peer.address.map(|address| address.to_string()),
            problem: peer.problem.clone().unwrap_or_default(),
            asked_again_s: peer.asked_again.map(|again| again.saturating_duration_since(now).as_secs_f64()),
        };
        let mut rows: Vec<NameRow> = self.peers.iter().map(row).collect();
        rows.sort_by(|one, other| one.tunnel.cmp(&other.tunnel));
        rows
    }
}

/// Asks once for all names of a configuration, and waits: replaces each by its address where it has
/// one, and returns a line for each tunnel where it has none.
pub fn resolve(config: &mut Config) -> Vec<String> {
    let names: HashSet<String> =
        config.tunnels.iter().filter_map(|tunnel| tunnel.remote_name.clone()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let found: HashMap<String, asker::FoundAddresses> = match asker::ask_once(names) {
        Ok(found) => found.into_iter().collect(),
        Err(error) => return vec![format!("names cannot be resolved: {error}")],
    };
    let mut problems = Vec::new();
    for tunnel in &mut config.tunnels {
        let Some(name) = &tunnel.remote_name else { continue };
        let answer = found.get(name).cloned().unwrap_or_else(|| Err("it was not asked for".to_owned()));
        match answer.and_then(|(addresses, _)| NamedPeer::of(tunnel, name).choose(&addresses)) {
            Ok(address) => tunnel.remote = address,
            Err(problem) => problems.push(format!(
                "tunnel {:?}: tunnel.remote: {name:?} does not resolve: {problem}",
                tunnel.name
            )),
        }
    }
    problems
}

#[cfg(test)]
mod tests;
