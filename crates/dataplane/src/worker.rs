//! One worker: ports at both ends of a pipeline, driven in bursts by one thread.

mod fenced;
mod inside;
mod monitored;
mod moves;
mod traced;
mod unsent;
mod waiting;

pub use crate::side::Side;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use convoy_ipsec::{DropReason, LifetimeEvent, MappingChange, PathChange};
use convoy_kernel::Prefix;
use convoy_packet::protocol::UDP;
use convoy_packet::{Frame, FramePool, FrameSize, ip};
use convoy_port::{Port, PortConfig, PortDescription, PortError, PortTraits};
use convoy_scheduler::Input;

use crate::adaptive_wait::AdaptiveWait;
use crate::append::append;
use crate::daemon::Daemon;
use crate::fence::Fence;
use crate::handoff::{Handoff, HandoffCounts, Waker};
use crate::interfaces::{InsidePorts, InterfaceLinks, PortList};
use crate::moderation::Moderation;
use crate::monitor::Monitors;
use crate::pipeline::{EngineEvent, Pipeline};
use crate::watch::PortPoll;
use inside::queue_by_interface;
use traced::WithoutPort;
use unsent::UnsentCounter;

/// Packets read from a port at a time.
const BURST: usize = 64;
/// Packets read at a time where the engine gains from long bursts: its vector lanes run empty at
/// the end of each. With other engines it would only delay the other direction.
const LONG_BURST: usize = 256;
/// Interval of timed work (keep-alives, lifetimes), in ns.
const TICK_NS: u64 = 100_000_000;
/// Interval of timed work, in ns, while more keep-alives are due than one call sends.
const BEHIND_NS: u64 = 1_000_000;

/// An event for the worker's owner.
#[derive(Debug)]
pub enum WorkerEvent {
    /// An engine was quarantined or came back.
    Engine(EngineEvent),
    /// An SA reached a lifetime limit.
    Lifetime(LifetimeEvent),
    /// Packets of an inbound SA come from another address or port.
    Moved(MappingChange),
    /// A path was found to carry less than assumed.
    PathMtu(PathChange),
}

/// The ports and the pipeline of one thread.
pub struct Worker {
    pipeline: Pipeline,
    inside: PortList,
    outside: Vec<Box<dyn Port>>,
    interfaces: InsidePorts,
    links: Option<Arc<InterfaceLinks>>,
    ways_out: WaysOut,
    watch: PortPoll,
    busy_poll: AdaptiveWait,
    moderation: Moderation,
    /// Packets received since the worker last waited.
    arrived: u64,
    /// Packets on their way to each port of a side, kept while the port has no room.
    leaving: [Vec<Vec<Frame>>; 2],
    /// Other workers of the gateway, if there are any.
    handoff: Option<Handoff>,
    handed_over: u64,
    daemon: Option<Arc<dyn Daemon>>,
    /// Until when it may send, in a cluster.
    fence: Option<Fence>,
    /// Monitors whose answers it takes out of what goes inside.
    monitors: Monitors,
    /// When its owner has something to do between two rounds, in ns; `u64::MAX` is never.
    owner_due_ns: u64,
    /// Lifetime events that the daemon has not accepted yet: at most the two limits of each SA.
    unreported: Vec<LifetimeEvent>,
    burst: Vec<Frame>,
    /// Packets read from a port at a time.
    most_read: usize,
    handed: [Vec<Frame>; 2],
    lifetimes: Vec<LifetimeEvent>,
    events: Vec<WorkerEvent>,
    unsent: UnsentCounter,
    next_tick_ns: u64,
    /// Whether more keep-alives are due than the last call sent.
    is_behind: bool,
    idle_rounds: u32,
}

impl Worker {
    /// A worker with these ports.
    pub fn new(pipeline: Pipeline, inside: Vec<Box<dyn Port>>, outside: Vec<Box<dyn Port>>) -> Self {
        let queues = |ports: &[Box<dyn Port>]| ports.iter().map(|_| Vec::with_capacity(BURST)).collect();
        let most_read = if pipeline.gains_by_long_bursts() { LONG_BURST } else { BURST };
        Self {
            leaving: [queues(&inside), queues(&outside)],
            interfaces: InsidePorts::new(vec![0; inside.len()]),
            links: None,
            ways_out: WaysOut::of(&outside),
            watch: PortPoll::new(&inside, &outside),
            busy_poll: AdaptiveWait::default(),
            moderation: Moderation::default(),
            arrived: 0,
            pipeline,
            inside: PortList::new(inside),
            outside,
            handoff: None,
            handed_over: 0,
            daemon: None,
            fence: None,
            monitors: Monitors::default(),
            owner_due_ns: u64::MAX,
            unreported: Vec::new(),
            burst: Vec::with_capacity(most_read),
            most_read,
            handed: Default::default(),
            lifetimes: Vec::new(),
            events: Vec::new(),
            unsent: UnsentCounter::default(),
            next_tick_ns: 0,
            is_behind: false,
            idle_rounds: 0,
        }
    }

    /// The same worker as one of several, connected by `handoff`.
    ///
    /// Engines that can do so wake it as other workers do.
    pub fn among(mut self, handoff: Handoff) -> Self {
        self.pipeline.stage_mut().wake_by(&handoff.waker().into());
        // What a worker has no room for is best left in the ports' queues, unless these hold
        // packets of others.
        if handoff.has_others() {
            self.pipeline.shed_excess();
        }
        if let Err(error) = self.watch.add_waker(handoff.fd()) {
            tracing::warn!(
                "epoll does not watch a worker's eventfd, so packets handed to it may wait: {error}"
            );
        }
        Self { handoff: Some(handoff), ..self }
    }

    /// The same worker with a key daemon, which receives IKE messages, requests for SAs, and their
    /// events.
    pub fn with_daemon(self, daemon: Arc<dyn Daemon>) -> Self {
        Self { daemon: Some(daemon), ..self }
    }

    /// The same worker with inside ports of these interfaces, by port; 0 is the one that tunnels
    /// share. The links of the others follow the tunnels of all workers.
    pub fn with_interfaces(self, interfaces: Vec<u16>, links: Arc<InterfaceLinks>) -> Self {
        Self { interfaces: InsidePorts::new(interfaces), links: Some(links), ..self }
    }

    /// The same worker polling its ports for up to this long before it sleeps, while packets arrive
    /// no further apart than that.
    pub fn busy_polling(self, longest: Duration) -> Self {
        Self { busy_poll: AdaptiveWait::new(longest.as_nanos() as u64), ..self }
    }

    /// The same worker gathering packets for up to this long before it reads them, where several
    /// would otherwise wake it.
    pub fn moderating(self, time: Duration) -> Self {
        Self { moderation: Moderation::new(time.as_nanos() as u64), ..self }
    }

    /// Wakes this worker, if it is one of several.
    pub fn waker(&self) -> Option<Arc<Waker>> {
        self.handoff.as_ref().map(Handoff::waker)
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The pipeline, to change SAs and policies between rounds.
    pub fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }

    /// The ports of one side.
    pub fn ports(&self, side: Side) -> &[Box<dyn Port>] {
        match side {
            Side::Inside => &self.inside,
            Side::Outside => &self.outside,
        }
    }

    /// The outside port by which outer packets leave, in UDP or not.
    pub fn outside_port(&self, in_udp: bool) -> Option<&PortDescription> {
        let place = if in_udp { self.ways_out.udp } else { self.ways_out.native };
        self.outside.get(place).map(|port| port.description())
    }

    /// Sets the networks to which the inside ports take packets, where ports need to know; returns
    /// the errors.
    pub fn take_networks(&mut self, networks: &BTreeSet<Prefix>) -> Vec<String> {
        let refused = |port: &mut Box<dyn Port>| {
            let error = port.set_networks(networks).err()?;
            let name = &port.description().name;
            Some(format!("port {name} cannot take the networks of new tunnels until a restart: {error}"))
        };
        self.inside.iter_mut().filter_map(refused).collect()
    }

    /// Has the ports take over what a reload changes of their settings.
    pub fn take_port_settings(&mut self, configs: &[PortConfig]) {
        for port in self.inside.iter_mut().chain(&mut self.outside) {
            let own = configs.iter().find(|config| config.name == port.description().name);
            if let Some(config) = own {
                port.take_settings(&config.settings);
            }
        }
    }

    /// Has the outside ports give packets of ESP with these SPIs to this worker, where they can.
    pub fn take_spis(&mut self, spis: &[u32]) {
        for port in &mut self.outside[..] {
            spis.iter().for_each(|spi| port.take_spi(*spi));
        }
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<WorkerEvent> {
        std::mem::take(&mut self.events)
    }

    /// Whether every port has ended and nothing is in flight: captures read to their end.
    pub fn is_finished(&self) -> bool {
        self.inside.iter().chain(&self.outside).all(|port| port.is_ended()) && self.is_drained()
    }

    /// Whether no packet is in flight.
    pub fn is_drained(&self) -> bool {
        self.handoff.as_ref().is_none_or(Handoff::is_empty) && self.pipeline.is_empty() && !self.has_unsent()
    }

    /// Whether departing packets wait for room in a port.
    pub fn has_unsent(&self) -> bool {
        !self.leaving.iter().flatten().all(Vec::is_empty)
    }

    /// Packets handed to other workers.
    pub fn handed_over(&self) -> u64 {
        self.handed_over
    }

    /// One round: read, prepare, schedule, finish, send. Returns whether anything moved. `read` is
    /// false while the gateway drains.
    ///
    /// # Errors
    /// [`PortError`] if a port failed as a whole.
    pub fn round(&mut self, read: bool) -> Result<bool, PortError> {
        let now_ns = self.pipeline.begin_round();
        let moved = self.round_at(now_ns, read);
        self.pipeline.end_round(matches!(moved, Ok(true)));
        moved
    }

    fn round_at(&mut self, now_ns: u64, read: bool) -> Result<bool, PortError> {
        if self.pipeline.ipsec_mut().tables.has_link_changes() {
            self.set_links();
        }
        let mut moved = self.take_handed();
        let mut more = false;
        if read {
            self.watch.look();
        }
        for side in [Side::Outside, Side::Inside] {
            for port in 0..self.ports(side).len() {
                if read && self.watch.is_ready(side, port) && self.may_read(side) {
                    let received = self.read(now_ns, side, port)?;
                    moved |= received > 0;
                    if received == self.most_read {
                        more = true;
                        self.read_on(now_ns, side, port)?;
                    }
                }
            }
        }
        let input = if more { Input::More } else { Input::Paused };
        moved |= self.pipeline.pump(if read { input } else { Input::Ended });
        if !self.monitors.is_empty() {
            self.take_answers(now_ns);
        }
        moved |= self.send()?;
        if moved {
            self.look_into_rings();
        }
        self.tick(now_ns)?;
        self.idle_rounds = if moved { 0 } else { self.idle_rounds.saturating_add(1) };
        Ok(moved)
    }

    /// Whether a side may be read. Packets are read only if there is room for them all the way: in
    /// the window, at the ports by which they will leave, and in the pool, if engines that may
    /// disappear need a copy of each. Each side considers only the other side's ports, so that two
    /// gateways with a full link between them cannot both stop reading it. Other workers are not
    /// considered: an overloaded one would stop this one too. With several workers, one whose
    /// window stays full reads on, since the kernel puts packets of other workers' tunnels into its
    /// queues.
    fn may_read(&mut self, side: Side) -> bool {
        let ways_out = match side {
            Side::Inside => &self.leaving[1],
            Side::Outside => &self.leaving[0],
        };
        let blocked = ways_out.iter().any(|queue| queue.len() > BURST);
        let pool = self.pipeline.pool_mut();
        let reserve = pool.total(FrameSize::Small) / 4;
        let has_frames = pool.has_more_than(FrameSize::Small, reserve);
        !blocked && has_frames && self.pipeline.may_read()
    }

    /// Where packets have classes, reads more from a port that had a full burst, so that a packet
    /// of a high class is found behind those of lower ones.
    #[inline(never)]
    fn read_on(&mut self, now_ns: u64, side: Side, port: usize) -> Result<(), PortError> {
        if self.pipeline.has_classes() && self.may_read(side) {
            self.read(now_ns, side, port)?;
        }
        Ok(())
    }

    /// Takes in packets of its own SAs that other workers received.
    fn take_handed(&mut self) -> bool {
        let Some(handoff) = &mut self.handoff else { return false };
        let most = self.pipeline.room_for_handed(self.most_read);
        let [outbound, inbound] = &mut self.handed;
        let taken = handoff.take(most, outbound, inbound);
        self.arrived += taken as u64;
        if let Some(tracer) = self.pipeline.tracer() {
            tracer.arrived(Side::Inside, None, outbound);
            tracer.arrived(Side::Outside, None, inbound);
        }
        if !outbound.is_empty() {
            self.pipeline.outbound(outbound);
        }
        if !inbound.is_empty() {
            self.pipeline.inbound(inbound);
        }
        taken > 0
    }

    /// Finds input that is visible without a system call, so that the worker goes on without one.
    fn look_into_rings(&mut self) {
        for (side, ports) in [(Side::Inside, &self.inside[..]), (Side::Outside, &self.outside[..])] {
            for (at, _) in ports.iter().enumerate().filter(|(_, port)| port.has_input()) {
                self.watch.set_ready(side, at, true);
            }
        }
    }

    fn read(&mut self, now_ns: u64, side: Side, port: usize) -> Result<usize, PortError> {
        let ports = match side {
            Side::Inside => &mut self.inside,
            Side::Outside => &mut self.outside,
        };
        let received = ports[port].receive(self.pipeline.pool_mut(), self.most_read, &mut self.burst)?;
        self.watch.set_ready(side, port, received == self.most_read || ports[port].has_waiting());
        if received == 0 {
            self.watch.follow(side, port, ports[port].as_ref());
            return Ok(0);
        }
        self.arrived += received as u64;
        for frame in &mut self.burst {
            frame.set_received_ns(now_ns);
        }
        if let Some(tracer) = self.pipeline.tracer() {
            tracer.arrived(side, Some(&ports[port].description().name), &self.burst);
        }
        match side {
            Side::Inside => {
                let interface = self.interfaces.interface(port);
                if interface != 0 {
                    self.burst.iter_mut().for_each(|frame| frame.set_interface(interface));
                }
                self.pipeline.outbound(&mut self.burst);
            }
            Side::Outside => self.pipeline.inbound(&mut self.burst),
        }
        Ok(received)
    }

    fn send(&mut self) -> Result<bool, PortError> {
        if self.is_fenced() {
            self.drop_departures();
        }
        let (pool, departures, tracer) = self.pipeline.leaving_parts();
        let [to_inside, to_outside] = &mut self.leaving;
        let (ways, is_shared) = (self.ways_out, self.interfaces.is_shared_only());
        // All inside traffic of the shared interface leaves through its first port.
        let (first, only) = (&self.inside[..self.inside.len().min(1)], WaysOut::default());
        let (mut unencrypted, mut without_port) = (0, 0);
        // Most rounds have packets of one kind only. These checks save the calls for a packet that
        // arrives alone.
        for frames in [&mut departures.to_outside, &mut departures.bypass_out] {
            if !frames.is_empty() {
                unencrypted += queue_all(frames, ways, &self.outside, to_outside, pool);
            }
        }
        for frames in [&mut departures.to_inside, &mut departures.bypass_in] {
            if !frames.is_empty() && is_shared {
                unencrypted += queue_all(frames, only, first, &mut to_inside[..first.len()], pool);
            } else if !frames.is_empty() {
                without_port += queue_by_interface(frames, &self.interfaces, to_inside, pool);
            }
        }
        let mut unheard = 0;
        if let Some(daemon) = &self.daemon {
            unheard = departures.ike.iter().filter(|frame| !daemon.ike(frame)).count() as u64;
            // The daemon counts requests that it loses: an acquire is no packet.
            for acquire in departures.acquires.drain(..) {
                daemon.acquire(acquire);
            }
        }
        if !departures.ike.is_empty() {
            pool.give_back_burst(&mut departures.ike);
        }
        let given = match &mut self.handoff {
            Some(handoff) => handoff.give(&mut departures.for_others, pool),
            None => HandoffCounts::default(),
        };
        self.handed_over += given.handed_over;
        let (mut sent, mut departing) = (0, Vec::new());
        for (ports, queues) in [(&mut self.inside[..], to_inside), (&mut self.outside[..], to_outside)] {
            for (port, queue) in ports.iter_mut().zip(queues).filter(|(_, queue)| !queue.is_empty()) {
                if let Some(tracer) = &tracer {
                    departing.extend(tracer.departing(queue, &port.description().name));
                }
                sent += port.send(pool, queue)?;
            }
        }
        if tracer.is_some() {
            self.trace_departures(departing, WithoutPort { no_interface: without_port, unencrypted });
        }
        if unencrypted + unheard + given.dropped + without_port > 0 {
            let tables = &mut self.pipeline.ipsec_mut().tables;
            tables.count_dropped(DropReason::NoInterface, without_port);
            tables.count_dropped(DropReason::Unencrypted, unencrypted);
            tables.count_dropped(DropReason::IkeQueueFull, unheard);
            tables.count_dropped(DropReason::HandoffFull, given.dropped);
        }
        Ok(sent > 0)
    }

    /// Sends a whole IP packet outside: a key daemon's, cut if it exceeds the MTU. Without a free
    /// frame it is lost, as on any network.
    pub fn send_outside(&mut self, packet: &[u8]) {
        self.pipeline.send_own(packet);
    }

    fn tick(&mut self, now_ns: u64) -> Result<(), PortError> {
        if now_ns < self.next_tick_ns {
            return Ok(());
        }
        self.next_tick_ns = now_ns + TICK_NS;
        for (side, ports) in [(Side::Inside, &mut self.inside[..]), (Side::Outside, &mut self.outside)] {
            for (at, port) in ports.iter_mut().enumerate() {
                self.watch.follow(side, at, port.as_ref());
                port.tick(self.pipeline.pool_mut())?;
                self.watch.follow(side, at, port.as_ref());
            }
        }
        for port in &mut self.outside {
            while let Some((peer, mtu)) = port.take_path_mtu() {
                self.pipeline.ipsec_mut().tables.learn_path_mtu(now_ns, peer, mtu);
            }
        }
        self.unsent.count(now_ns, &mut self.outside, &mut self.pipeline.ipsec_mut().tables);
        self.is_behind = self.pipeline.tick(&mut self.lifetimes);
        if self.is_behind {
            self.next_tick_ns = now_ns + BEHIND_NS;
        }
        let ipsec = self.pipeline.ipsec_mut();
        if let Some(daemon) = &self.daemon {
            self.unreported.extend_from_slice(&self.lifetimes);
            // An SA that was removed meanwhile is known to have ended.
            self.unreported.retain(|event| ipsec.tables.place(event.sa).is_some() && !daemon.expire(event));
        }
        self.tell_moves();
        let ipsec = self.pipeline.ipsec_mut();
        self.events.extend(ipsec.tables.take_path_changes().into_iter().map(WorkerEvent::PathMtu));
        self.events.extend(self.lifetimes.drain(..).map(WorkerEvent::Lifetime));
        let engines = self.pipeline.stage_mut().take_events();
        self.events.extend(engines.into_iter().map(WorkerEvent::Engine));
        Ok(())
    }
}

/// Queues packets for their ports; returns how many were returned to the pool because their port
/// would have sent in plain what was to be sealed.
#[inline(never)]
fn queue_all(
    frames: &mut Vec<Frame>,
    ways: WaysOut,
    ports: &[Box<dyn Port>],
    leaving: &mut [Vec<Frame>],
    pool: &mut FramePool,
) -> u64 {
    if let [queue] = leaving
        && !frames.iter().any(|frame| frame.offload().is_unsealed())
    {
        append(frames, queue);
        return 0;
    }
    let mut unencrypted = 0;
    for frame in frames.drain(..) {
        let port = ways.choose(&frame);
        unencrypted += queue(frame, ports.get(port).map(Box::as_ref), leaving.get_mut(port), pool);
    }
    unencrypted
}

/// Queues a packet for its port, or returns it to the pool; returns 1 for one that the port would
/// have sent in plain although it was to be sealed. Every departing packet passes here.
fn queue(
    frame: Frame,
    port: Option<&dyn Port>,
    leaving: Option<&mut Vec<Frame>>,
    pool: &mut FramePool,
) -> u64 {
    let is_unsealed = frame.offload().is_unsealed() && !port.is_some_and(Port::seals);
    match leaving {
        Some(leaving) if !is_unsealed => leaving.push(frame),
        _ => pool.give_back(frame),
    }
    u64::from(is_unsealed)
}

/// The ports by which outer packets leave, by index among the outside ports. A port that carries
/// all of them comes first; otherwise ESP in UDP leaves by one that carries that, protocols 50 and
/// 51 by one that carries those; without such a port, by the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WaysOut {
    udp: usize,
    native: usize,
}

impl WaysOut {
    fn of(ports: &[Box<dyn Port>]) -> Self {
        let first = |carries: &dyn Fn(&PortTraits) -> bool| {
            ports.iter().position(|port| carries(port.description().kind.traits()))
        };
        let all = first(&|port| port.carries_udp && port.carries_native);
        Self {
            udp: all.or_else(|| first(&|port| port.carries_udp)).unwrap_or(0),
            native: all.or_else(|| first(&|port| port.carries_native)).unwrap_or(0),
        }
    }

    /// The port for a packet.
    fn choose(self, frame: &Frame) -> usize {
        if ip::first_protocol(frame) == Some(UDP) { self.udp } else { self.native }
    }
}

#[cfg(test)]
mod tests;
