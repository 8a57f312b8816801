//! Keeps the kernel's rules and routes as planned, by netlink.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::{Stream, StreamExt, TryStreamExt};
use rtnetlink::packet_core::ErrorMessage;
use rtnetlink::packet_route::link::LinkFlags;
use rtnetlink::packet_route::route::{RouteMessage, RouteProtocol};
use rtnetlink::sys::AsyncSocket as _;
use rtnetlink::{Error, Handle, IpVersion, MulticastGroup};
use socket2::{SockFilter, SockRef};
use tokio::sync::mpsc;

use super::message::{self, connected, destination, question};
use super::plan::{KernelRoute, PROTOCOL, RoutePlan, Routing, Rule, Target};
use super::source::HostAddress;
use super::{Removed, RouteError};
use crate::prefix::Prefix;

/// Events that may remove routes: an interface that goes down or loses an address, and network
/// managers that remove unknown rules.
const GROUPS: [MulticastGroup; 5] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];
/// Events of routes, of which only the removal of our own is let through.
const ROUTE_GROUPS: [MulticastGroup; 2] = [MulticastGroup::Ipv4Route, MulticastGroup::Ipv6Route];
/// Where a message has its type's lower byte, and a message about a route its protocol
/// (`rtmsg.rtm_protocol`).
const TYPE_AT: u32 = if cfg!(target_endian = "little") { 4 } else { 5 };
const PROTOCOL_AT: u32 = 21;
const FAMILIES: [bool; 2] = [false, true];
/// The kernel's main table.
const MAIN: u32 = 254;

/// Keeps one plan in the kernel.
pub struct RouteKeeper {
    handle: Handle,
    plan: Option<RoutePlan>,
}

/// Events after which the routes should be checked.
pub struct RouteEvents(mpsc::Receiver<()>);

impl RouteEvents {
    /// Waits for the next event; `None` if the kernel sends no more.
    pub async fn next(&mut self) -> Option<()> {
        self.0.recv().await
    }
}

/// Opens a netlink connection. Call it in a tokio runtime, with CAP_NET_ADMIN for later changes.
///
/// # Errors
/// What the system refused.
pub fn keep_routes() -> io::Result<(RouteKeeper, RouteEvents)> {
    let (mut connection, handle, mut messages) = rtnetlink::new_multicast_connection(&GROUPS)?;
    // Without it (Linux before 4.20) the kernel lists all routes, and others are filtered out here.
    let _ = connection.socket_mut().socket_mut().set_netlink_get_strict_chk(true);
    tokio::spawn(connection);
    let (mut of_routes, handle_of_routes, mut removals) = rtnetlink::new_multicast_connection(&ROUTE_GROUPS)?;
    only_removals(of_routes.socket_mut().socket_mut())?;
    tokio::spawn(of_routes);
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        // The connection lasts as long as its handle.
        let _handle = handle_of_routes;
        loop {
            let event = select(messages.next(), removals.next()).await;
            if let Either::Left((None, _)) | Either::Right((None, _)) = event {
                break;
            }
            // One pending event stands for all.
            if let Err(mpsc::error::TrySendError::Closed(())) = sender.try_send(()) {
                break;
            }
        }
    });
    Ok((RouteKeeper { handle, plan: None }, RouteEvents(receiver)))
}

/// Lets only the removal of our own routes come to a netlink socket: a router may have a million of
/// others, which must neither wake this process nor fill the socket.
fn only_removals(socket: &impl AsFd) -> io::Result<()> {
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    SockRef::from(socket).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, TYPE_AT),
        SockFilter::new(IF_EQUAL, 0, 3, libc::RTM_DELROUTE.into()),
        SockFilter::new(LOAD_BYTE, 0, 0, PROTOCOL_AT),
        SockFilter::new(IF_EQUAL, 0, 1, PROTOCOL.into()),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ])
}

/// The entries of a list requested from the kernel; none if there is no such table.
async fn list<T>(answers: impl Stream<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    match pin!(answers).try_collect().await {
        Err(Error::NetlinkError(error)) if is(&error, libc::ENOENT) => Ok(Vec::new()),
        result => result,
    }
}

fn is(error: &ErrorMessage, code: i32) -> bool {
    error.raw_code().abs() == code
}

/// Ignores errors that mean that a change was not necessary.
pub(crate) fn done(result: Result<(), Error>, also: &[i32]) -> Result<(), Error> {
    match result {
        Err(Error::NetlinkError(error)) if also.iter().any(|code| is(&error, *code)) => Ok(()),
        result => result,
    }
}

impl RouteKeeper {
    /// The connection to the kernel.
    pub fn handle(&self) -> &rtnetlink::Handle {
        &self.handle
    }

    /// The plan that is kept.
    pub fn plan(&self) -> Option<&RoutePlan> {
        self.plan.as_ref()
    }

    /// Sets the kernel's rules and routes to a plan, and keeps it. What an earlier gateway with the
    /// same numbers left is reused.
    ///
    /// # Errors
    /// [`RouteError`]; what was set until then stays until [`undo`](Self::undo).
    pub async fn set(&mut self, plan: RoutePlan) -> Result<(), RouteError> {
        self.tables_are_ours(&plan).await?;
        let before = self.plan.replace(plan).map_or_else(BTreeSet::new, |before| before.virtual_ips);
        self.release_virtual_ips(&before).await?;
        self.restore().await.map(drop)
    }

    /// Adds what is missing of the plan and removes what is not in it; returns the number of
    /// changes, without those of source addresses.
    ///
    /// # Errors
    /// What the kernel refused.
    pub async fn restore(&mut self) -> Result<usize, RouteError> {
        let Some(mut plan) = self.plan.clone() else { return Ok(0) };
        let device = self.device(&plan.device).await?;
        if let Some(index) = device {
            self.set_virtual_ips(index, &plan.virtual_ips).await?;
        }
        if plan.needs_sources() {
            plan.choose_sources(&self.addresses().await?, device);
        }
        let connected = if plan.may_contain_others() { self.connected(device).await? } else { Vec::new() };
        let (wanted, rules) = (plan.entries(device, &connected), plan.rules());
        let (have, have_rules) = (self.entries(plan.routing).await?, self.rules(plan.routing).await?);
        let is_device = |entry: &&KernelRoute| entry.target.is_device();
        let missing = |entry: &&KernelRoute| !have.contains(entry);
        let missing_rules = || rules.iter().filter(|rule| !have_rules.contains(rule));
        let mut changes = 0;
        // Blackholes and exceptions first, so that no packet passes between two changes.
        for entry in wanted.iter().filter(missing).filter(|entry| !is_device(entry)) {
            self.add(entry).await?;
            changes += 1;
        }
        for rule in missing_rules() {
            self.add_rule(rule).await?;
            changes += 1;
        }
        let into: Vec<&KernelRoute> = wanted.iter().filter(missing).filter(is_device).collect();
        if let (Some(index), false) = (device, into.is_empty()) {
            self.set_addresses(index, &plan.addresses).await?;
        }
        // Another source is no change that anything else has made.
        let has_same_way = |all: &BTreeSet<KernelRoute>, entry: &KernelRoute| {
            let [first, last] =
                [Target::Throw, Target::Blackhole].map(|target| KernelRoute { target, ..*entry });
            entry.target.is_device() && all.range(first..=last).any(|other| other.differs_by_source(entry))
        };
        for entry in into {
            self.add(entry).await?;
            changes += usize::from(!has_same_way(&have, entry));
        }
        for rule in have_rules.iter().filter(|rule| !rules.contains(rule)) {
            self.remove_rule(rule).await?;
            changes += 1;
        }
        for entry in have.iter().filter(|entry| !wanted.contains(entry)) {
            self.remove(entry).await?;
            changes += usize::from(!has_same_way(&wanted, entry));
        }
        Ok(changes)
    }

    /// Removes all rules and routes of the plan that was kept; without one there is nothing to do.
    ///
    /// # Errors
    /// What the kernel refused.
    pub async fn undo(&mut self) -> Result<(), RouteError> {
        match self.plan.take() {
            Some(plan) => self.remove_all(plan.routing).await.map(drop),
            None => Ok(()),
        }
    }

    /// Removes the routes to the interface of the plan. Its rules stay, and so do the blackhole
    /// routes, which have been behind the others all along: at no moment does a packet find another
    /// route.
    ///
    /// # Errors
    /// What the kernel refused.
    pub async fn block(&mut self) -> Result<(), RouteError> {
        let Some(plan) = self.plan.take() else { return Ok(()) };
        for entry in self.entries(plan.routing).await?.iter().filter(|entry| entry.target.is_device()) {
            self.remove(entry).await?;
        }
        Ok(())
    }

    /// Removes all rules and routes with these numbers, no matter who set them.
    ///
    /// # Errors
    /// What the kernel refused.
    pub async fn remove_all(&mut self, routing: Routing) -> Result<Removed, RouteError> {
        let mut removed = Removed::default();
        for rule in self.rules(routing).await? {
            self.remove_rule(&rule).await?;
            removed.rules += 1;
        }
        for entry in self.entries(routing).await? {
            self.remove(&entry).await?;
            removed.routes += 1;
            if entry.target == Target::Blackhole {
                removed.networks.push(entry.prefix);
            }
        }
        Ok(removed)
    }

    /// The index of an interface to which routes with these numbers lead, which only a running
    /// gateway has.
    ///
    /// # Errors
    /// What the kernel refused.
    pub async fn in_use(&self, routing: Routing) -> Result<Option<u32>, RouteError> {
        let entries = self.entries(routing).await?;
        Ok(entries.iter().find_map(|entry| match entry.target {
            Target::Device { index, .. } => Some(index),
            Target::Throw | Target::Blackhole => None,
        }))
    }

    /// The index of the interface, if it exists and is up.
    async fn device(&self, name: &str) -> Result<Option<u32>, RouteError> {
        let answer = pin!(self.handle.link().get().match_name(name).execute()).next().await;
        match answer {
            Some(Ok(link)) => Ok(link.header.flags.contains(LinkFlags::Up).then_some(link.header.index)),
            Some(Err(Error::NetlinkError(error))) if is(&error, libc::ENODEV) => Ok(None),
            Some(Err(error)) => Err(RouteError::refused(format!("find the interface {name}"), &error)),
            None => Ok(None),
        }
    }

    /// The networks of this host on other interfaces than the inside one.
    ///
    /// # Errors
    /// What the kernel refused.
    pub async fn networks_beside(&self, device: Option<&str>) -> Result<Vec<Prefix>, RouteError> {
        let index = match device {
            Some(name) => self.device(name).await?,
            None => None,
        };
        self.connected(index).await
    }

    /// The networks on the host's other interfaces.
    async fn connected(&self, device: Option<u32>) -> Result<Vec<Prefix>, RouteError> {
        let mut networks = Vec::new();
        for is_v6 in FAMILIES {
            let answers = self.handle.route().get(question(is_v6, MAIN, RouteProtocol::Kernel)).execute();
            let routes = list(answers)
                .await
                .map_err(|error| RouteError::refused("list the host's networks", &error))?;
            let of_others = routes.iter().filter(|route| message::table(route) == MAIN);
            let of_others =
                of_others.filter(|route| connected(route).is_some_and(|index| Some(index) != device));
            networks.extend(of_others.filter_map(destination));
        }
        Ok(networks)
    }

    /// The host's addresses that a route may have as its source.
    async fn addresses(&self) -> Result<Vec<HostAddress>, RouteError> {
        let answers = list(self.handle.address().get().execute()).await;
        let answers = answers.map_err(|error| RouteError::refused("list the host's addresses", &error))?;
        Ok(answers.iter().filter_map(HostAddress::read).collect())
    }

    /// All routes in the tables.
    async fn all_routes(
        &self,
        routing: Routing,
        protocol: RouteProtocol,
    ) -> Result<Vec<RouteMessage>, RouteError> {
        let mut routes = Vec::new();
        let tables = routing.tables();
        for (is_v6, table) in FAMILIES.into_iter().flat_map(|is_v6| tables.map(|table| (is_v6, table))) {
            let answers = self.handle.route().get(question(is_v6, table, protocol)).execute();
            let what = || format!("list the routes of table {table}");
            let answers = list(answers).await.map_err(|error| RouteError::refused(what(), &error))?;
            routes.extend(answers.into_iter().filter(|route| message::table(route) == table));
        }
        Ok(routes)
    }

    async fn entries(&self, routing: Routing) -> Result<BTreeSet<KernelRoute>, RouteError> {
        let routes = self.all_routes(routing, RouteProtocol::Other(PROTOCOL)).await?;
        Ok(routes.iter().filter_map(KernelRoute::read).collect())
    }

    /// Whether no other program has routes in the tables.
    async fn tables_are_ours(&self, plan: &RoutePlan) -> Result<(), RouteError> {
        let routes = self.all_routes(plan.routing, RouteProtocol::Unspec).await?;
        match routes.iter().find(|route| route.header.protocol != RouteProtocol::Other(PROTOCOL)) {
            Some(other) => Err(RouteError::Taken(message::table(other))),
            None => Ok(()),
        }
    }

    async fn rules(&self, routing: Routing) -> Result<Vec<Rule>, RouteError> {
        let mut rules = Vec::new();
        for version in [IpVersion::V4, IpVersion::V6] {
            let answers = list(self.handle.rule().get(version).execute()).await;
            rules.extend(answers.map_err(|error| RouteError::refused("list the routing rules", &error))?);
        }
        Ok(rules.iter().filter_map(Rule::read).filter(|rule| routing.owns(rule)).collect())
    }

    async fn add(&self, entry: &KernelRoute) -> Result<(), RouteError> {
        let added = self.handle.route().add(entry.message()).replace().execute().await;
        let Prefix { address, bits } = entry.prefix;
        added.map_err(|error| RouteError::refused(format!("set a route to {address}/{bits}"), &error))
    }

    async fn remove(&self, entry: &KernelRoute) -> Result<(), RouteError> {
        let removed = self.handle.route().del(entry.message()).execute().await;
        let Prefix { address, bits } = entry.prefix;
        done(removed, &[libc::ESRCH, libc::ENOENT, libc::ENODEV])
            .map_err(|error| RouteError::refused(format!("remove the route to {address}/{bits}"), &error))
    }

    async fn add_rule(&self, rule: &Rule) -> Result<(), RouteError> {
        let mut request = self.handle.rule().add();
        *request.message_mut() = rule.message();
        done(request.execute().await, &[libc::EEXIST])
            .map_err(|error| RouteError::refused(format!("set the routing rule {}", rule.priority), &error))
    }

    async fn remove_rule(&self, rule: &Rule) -> Result<(), RouteError> {
        let removed = self.handle.rule().del(rule.message()).execute().await;
        done(removed, &[libc::ENOENT]).map_err(|error| {
            RouteError::refused(format!("remove the routing rule {}", rule.priority), &error)
        })
    }

    /// Takes those of these addresses from the interface that are no longer in the plan.
    async fn release_virtual_ips(&self, before: &BTreeSet<IpAddr>) -> Result<(), RouteError> {
        let Some(plan) = &self.plan else { return Ok(()) };
        let Some(index) = self.device(&plan.device).await? else { return Ok(()) };
        for address in before.difference(&plan.virtual_ips) {
            let removed = self.handle.address().del(message::host_address(index, *address)).execute().await;
            done(removed, &[libc::EADDRNOTAVAIL])
                .map_err(|error| RouteError::refused(format!("remove the virtual IP {address}"), &error))?;
        }
        Ok(())
    }

    async fn set_virtual_ips(&self, index: u32, addresses: &BTreeSet<IpAddr>) -> Result<(), RouteError> {
        for address in addresses {
            let mut request = self.handle.address().add(index, *address, 0);
            *request.message_mut() = message::host_address(index, *address);
            done(request.execute().await, &[libc::EEXIST])
                .map_err(|error| RouteError::refused(format!("set the virtual IP {address}"), &error))?;
        }
        Ok(())
    }

    /// An interface that goes down loses its IPv6 addresses, and with them routes that have them as
    /// their source.
    async fn set_addresses(&self, index: u32, addresses: &[(IpAddr, u8)]) -> Result<(), RouteError> {
        for (address, bits) in addresses {
            let IpAddr::V6(v6) = address else { continue };
            let mut request = self.handle.address().add(index, *address, *bits);
            *request.message_mut() = message::address(index, *v6, *bits);
            done(request.execute().await, &[libc::EEXIST])
                .map_err(|error| RouteError::refused(format!("set the address {address}/{bits}"), &error))?;
        }
        Ok(())
    }
}
