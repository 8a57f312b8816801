//! A packet's path through the gateway, without ports; `path.rs` has its steps from burst to
//! departure.
//!
//! [`Pipeline`] joins [`convoy_ipsec::Ipsec`] to a [`CryptoStage`], which joins the scheduler to an
//! [`EngineSet`]. A worker puts ports at both ends, `replay` captures, and the demo a link.

mod acquire;
mod engine_set;
mod engine_slot;
mod in_flight;
mod iv_source;
mod path;
mod resources;
mod rounds;
mod stage;
#[cfg(test)]
mod tests;
mod traced;
mod train;
mod window_cost;
mod worker_overhead;

pub use crate::clock::Clock;
pub use acquire::Acquire;
pub use engine_set::{EngineEvent, EngineSet};
pub use engine_slot::{Health, SlotCounters, Timeouts};
pub use path::Classified;
pub use resources::PipelineResources;
pub(crate) use stage::WINDOW_NS;
pub use stage::{CryptoStage, Released, StageConfig, StageContext, StageError};
pub use window_cost::window_cost_ns;

use acquire::AcquireQueue;
use convoy_engine::{AlgorithmCost, Binding, EngineDescription};
use convoy_ipsec::{
    Direction, InboundBurst, Ipsec, LifetimeEvent, Mode, OutboundBurst, SaConfig, SaDirection, SaIndex,
    SaProtocol, SaView, Transform, WithoutSa,
};
use convoy_packet::{Frame, FramePool};
use iv_source::IvSource;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rounds::BusyRounds;
use worker_overhead::OverheadAverage;

/// Packets that may wait for room in the window while ports are read regardless; further ones are
/// dropped. The pool has 512 frames for long packets.
const MOST_WAITING: usize = 256;
/// As [`MOST_WAITING`] where packets have classes and ports are read always: these wait here in
/// place of their port's ring.
const MOST_CLASSED_WAITING: usize = 1024;
/// How long packets must have waited without a break before ports are read regardless, in ns: until
/// then a burst is better off in the port's queue, which is longer.
const BEHIND_NS: u64 = 10_000_000;

/// Packets ready to leave a pipeline, by destination.
#[derive(Debug, Default)]
pub struct Departures {
    /// Inner packets and ICMP errors for the plaintext side.
    pub to_inside: Vec<Frame>,
    /// Outer packets for the protected side.
    pub to_outside: Vec<Frame>,
    /// Packets for the protected side that policy bypasses.
    pub bypass_out: Vec<Frame>,
    /// Packets for the plaintext side that policy bypasses.
    pub bypass_in: Vec<Frame>,
    /// IKE messages from the protected side.
    pub ike: Vec<Frame>,
    /// Packets of SAs that another worker owns, as received: (worker, outbound?, frame).
    pub for_others: Vec<(u16, bool, Frame)>,
    /// Requests for SAs to a key daemon.
    pub acquires: Vec<Acquire>,
}

/// IPsec, scheduler and engines of one worker, without ports.
pub struct Pipeline {
    ipsec: Ipsec,
    stage: CryptoStage,
    pool: FramePool,
    ivs: IvSource,
    clock: Clock,
    /// The time of the current round. Reading the clock for each burst and each step would cost a
    /// short packet a fifth more.
    round_ns: Option<u64>,
    worker_overhead: OverheadAverage,
    rounds: BusyRounds,
    outbound: OutboundBurst,
    inbound: InboundBurst,
    /// Since when packets have continuously waited for room in the window, in ns. Ports are not
    /// read until they are in, or until that has taken too long and [`sheds`](Self::shed_excess)
    /// allows reading on.
    behind_since_ns: Option<u64>,
    /// Whether packets without room are dropped when reading goes on.
    sheds: bool,
    /// Packets without an SA so far.
    acquiring: AcquireQueue,
    given_up: Vec<WithoutSa>,
    /// Final state of SAs of this worker that have been removed.
    departed: Vec<SaView>,
    released: Released,
    /// The oldest train that an engine had gathered at the end of the last [`pump`](Self::pump).
    gathered: Option<u64>,
    /// Packets ready to leave; the owner drains them.
    pub departures: Departures,
}

impl Pipeline {
    /// A pipeline without SAs. Its clock must also be its stage's.
    pub fn new(
        ipsec: Ipsec,
        mut stage: CryptoStage,
        pool: FramePool,
        resources: impl Into<PipelineResources>,
    ) -> Self {
        let PipelineResources { clock, mut random, .. } = resources.into();
        stage.ivs = IvSource::new(StdRng::from_rng(&mut random));
        Self {
            ipsec,
            stage,
            pool,
            ivs: IvSource::new(random),
            clock,
            round_ns: None,
            worker_overhead: OverheadAverage::default(),
            rounds: BusyRounds::default(),
            outbound: OutboundBurst::default(),
            inbound: InboundBurst::default(),
            behind_since_ns: None,
            sheds: false,
            acquiring: AcquireQueue::default(),
            given_up: Vec::new(),
            departed: Vec::new(),
            released: Released::default(),
            gathered: None,
            departures: Departures::default(),
        }
    }

    /// IPsec, to read its tables.
    pub fn ipsec(&self) -> &Ipsec {
        &self.ipsec
    }

    /// IPsec, to change policies.
    pub fn ipsec_mut(&mut self) -> &mut Ipsec {
        &mut self.ipsec
    }

    /// Scheduler and engines.
    pub fn stage(&self) -> &CryptoStage {
        &self.stage
    }

    /// Scheduler and engines, for their events.
    pub fn stage_mut(&mut self) -> &mut CryptoStage {
        &mut self.stage
    }

    /// The frames, for ports.
    pub fn pool_mut(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// IPsec and the frames, for callers that use nothing else.
    pub fn ipsec_and_pool(&mut self) -> (&mut Ipsec, &mut FramePool) {
        (&mut self.ipsec, &mut self.pool)
    }

    /// The frames and the packets ready to leave, for ports that send.
    pub fn pool_and_departures(&mut self) -> (&mut FramePool, &mut Departures) {
        (&mut self.pool, &mut self.departures)
    }

    /// The time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Reads the clock, once until [`end_round`](Self::end_round); returns the time in ns.
    pub fn begin_round(&mut self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.round_ns = Some(now_ns);
        let overhead = self.worker_overhead.begin_round(now_ns, self.stage.engines().inline_ns());
        self.stage.scheduler.set_worker_overhead(overhead.per_packet_ns);
        self.stage.scheduler.set_overhead_ahead(overhead.ahead_ns);
        self.rounds.begin();
        now_ns
    }

    /// Ends the round: the clock is read again whenever the time is needed. `moved` says whether
    /// the round moved anything; if not, the owner may sleep.
    pub fn end_round(&mut self, moved: bool) {
        self.round_ns = None;
        self.worker_overhead.end_round(moved);
    }

    fn now_ns(&self) -> u64 {
        self.round_ns.unwrap_or_else(|| self.clock.now_ns())
    }

    /// Whether longer bursts cost less per packet.
    pub(crate) fn gains_by_long_bursts(&self) -> bool {
        self.stage.engines().gains_by_long_bursts()
    }

    /// Whether the window has room for all that is read.
    pub fn has_room(&self) -> bool {
        self.stage.in_line() == 0
    }

    /// From now on ports are read even without room in the window, once that has lasted too long:
    /// packets that belong to other workers are handed over, and excess packets of its own are
    /// dropped. Used with several workers, since a port's queue may hold packets of any of them.
    pub fn shed_excess(&mut self) {
        self.sheds = true;
    }

    /// Whether packets have classes.
    pub fn has_classes(&self) -> bool {
        self.stage.has_classes()
    }

    /// Whether ports may be read. With several classes always: a packet of a high class must not
    /// wait at its port behind those of lower ones, of which the excess is dropped.
    pub fn may_read(&self) -> bool {
        self.has_room() || self.is_shedding() || self.stage.has_classes()
    }

    /// How many of at most `most` packets may be taken that other workers have handed over. When
    /// room is short they get half of it, and packets from the ports the other half.
    pub fn room_for_handed(&self, most: usize) -> usize {
        let half = || MOST_WAITING.saturating_sub(self.stage.in_line()).div_ceil(2).min(most);
        match (self.has_room() || self.stage.has_classes(), self.is_shedding()) {
            (true, _) => most,
            (false, true) => half(),
            (false, false) => 0,
        }
    }

    fn is_shedding(&self) -> bool {
        let now_ns = self.now_ns();
        let is_long = |since_ns: u64| now_ns.saturating_sub(since_ns) >= BEHIND_NS;
        self.sheds && self.behind_since_ns.is_some_and(is_long)
    }

    /// Whether no packet is inside.
    pub fn is_empty(&self) -> bool {
        self.stage.is_empty() && self.released.is_empty() && !self.ipsec.outbound.has_open_payloads()
    }

    /// When payloads of AGGFRAG mode have to be looked at again, in ns; 0 is as soon as no more
    /// input is at hand, `u64::MAX` is never. It may be too early.
    pub(crate) fn payloads_due_ns(&self) -> u64 {
        self.ipsec.outbound.payloads_due_ns().min(self.ipsec.inbound.payloads_due_ns())
    }

    /// The deadline until which the window, or a payload of AGGFRAG mode, holds all packets inside
    /// back to grow, in ns: only input or that deadline moves them. `None` if other packets are
    /// inside, or none.
    pub fn held_until_ns(&self) -> Option<u64> {
        let in_payloads = self.ipsec.outbound.has_open_payloads();
        if !self.released.is_empty() {
            None
        } else if in_payloads && self.stage.is_empty() {
            Some(self.payloads_due_ns())
        } else {
            self.stage.held_until_ns().map(|until_ns| until_ns.min(self.payloads_due_ns()))
        }
    }

    /// Installs an SA of a tunnel that this worker serves in the SAD and in the engines. `cost`
    /// returns an engine's cost for a transform that is new here.
    ///
    /// # Errors
    /// [`SaInstallError`] says which of the two refused it; it is then in neither.
    pub fn install(
        &mut self,
        sa: &SaConfig,
        cost: &dyn Fn(&EngineDescription, Transform) -> AlgorithmCost,
    ) -> Result<SaIndex, SaInstallError> {
        let direction = match sa.direction {
            SaDirection::Outbound => Direction::Seal,
            SaDirection::Inbound => Direction::Open,
        };
        let index = self.ipsec.install(sa.clone())?;
        if let Err(error) = self.stage.install(index, direction, &sa.keys, cost) {
            self.ipsec.remove(index);
            return Err(error.into());
        }
        if let Some(binding) = binding(sa, direction) {
            self.stage.bind(index, binding, &sa.keys, cost);
        }
        if sa.direction == SaDirection::Outbound {
            let mut frames = Vec::new();
            self.acquiring.release(sa.tunnel, &mut frames);
            self.outbound(&mut frames);
        }
        Ok(index)
    }

    /// Replaces the costs of engines for a transform: `cost` returns an engine's new cost, if it
    /// has one.
    pub fn set_costs(
        &mut self,
        transform: Transform,
        cost: &dyn Fn(&EngineDescription) -> Option<AlgorithmCost>,
    ) {
        self.stage.set_costs(transform, cost);
    }

    /// Removes an SA once its last packet has left. From now on no packet gets it, whatever
    /// policies name its tunnel.
    pub fn retire(&mut self, sa: SaIndex) {
        // A packet of an SA that the stage has forgotten would be lost.
        self.ipsec.withdraw(sa);
        self.close_payloads_of(sa);
        self.stage.retire(sa);
        // Finished packets leave while their SA still exists.
        self.finish();
    }

    /// Drops the packets that wait for sequence numbers to be reserved: none will be.
    pub fn give_up_held(&mut self) {
        let Self { ipsec, pool, .. } = self;
        ipsec.inbound.give_up_held(&mut ipsec.tables, pool);
    }

    /// Whether SAs that are being removed still have packets inside.
    pub fn is_retiring(&self) -> bool {
        self.stage.is_retiring()
    }

    fn remove_retired(&mut self) {
        for sa in self.stage.take_retired() {
            self.departed.extend(self.ipsec.tables.sa(sa));
            self.ipsec.remove(sa);
        }
    }

    /// Takes the final state of this worker's SAs that were removed since the last call.
    pub fn take_departed(&mut self) -> Vec<SaView> {
        std::mem::take(&mut self.departed)
    }

    /// Handles the packets of a burst from inside that are not to be protected.
    fn sort_unprotected(&mut self, now_ns: u64) {
        self.departures.bypass_out.append(&mut self.outbound.bypass);
        self.departures.to_inside.append(&mut self.outbound.to_inside);
        self.departures
            .for_others
            .extend(self.outbound.for_others.drain(..).map(|(to, frame)| (to, true, frame)));
        let worker = Some(self.ipsec.tables.worker());
        let own_sa = self.outbound.own_sa.drain(..);
        self.departures.acquires.extend(own_sa.map(|(tunnel, flow)| Acquire { tunnel, worker, flow }));
        for packet in self.outbound.without_sa.drain(..) {
            let (lost, acquire) = self.acquiring.keep(now_ns, packet);
            self.departures.acquires.extend(acquire);
            if let Some(lost) = lost {
                self.ipsec.tables.give_up(&mut self.pool, lost);
            }
        }
    }

    /// Handles the packets of a burst from outside that are not to be opened.
    fn sort_unopened(&mut self) {
        self.departures.bypass_in.append(&mut self.inbound.bypass);
        self.departures.to_outside.append(&mut self.inbound.to_outside);
        self.departures.ike.append(&mut self.inbound.ike);
        self.departures
            .for_others
            .extend(self.inbound.for_others.drain(..).map(|(to, frame)| (to, false, frame)));
    }

    /// Timed work: keep-alives, expiries, timeouts of fragments. Returns whether more keep-alives
    /// are due.
    pub fn tick(&mut self, events: &mut Vec<LifetimeEvent>) -> bool {
        let now_ns = self.now_ns();
        let Self { ipsec, pool, departures, acquiring, given_up, outbound, .. } = self;
        ipsec.inbound.expire_fragments(&mut ipsec.tables, now_ns, pool);
        let mut packets = std::mem::take(&mut outbound.protect);
        let out = &mut departures.to_outside;
        let more = ipsec.upkeep.keepalives(&mut ipsec.tables, now_ns, pool, out, &mut packets);
        ipsec.upkeep.expire(&mut ipsec.tables, now_ns, events);
        acquiring.expire(now_ns, given_up);
        given_up.drain(..).for_each(|packet| ipsec.tables.give_up(pool, packet));
        if self.is_tracing() {
            self.trace_given_up();
        }
        if packets.is_empty() {
            self.outbound.protect = packets;
        } else {
            self.take_own_in(packets, now_ns);
        }
        more
    }

    /// Takes a whole IP packet of a key daemon's to be sent outside. Without a free frame it is
    /// lost, as on any network.
    pub(crate) fn send_own(&mut self, packet: &[u8]) {
        let Self { ipsec, pool, departures, .. } = self;
        if let Some(frame) = pool.take_filled(packet, 0) {
            ipsec.outbound.send_own(&mut ipsec.tables, frame, pool, &mut departures.to_outside);
        }
    }

    /// The number of packets that wait for an SA.
    pub fn acquiring(&self) -> usize {
        self.acquiring.len()
    }
}

/// How the device of a port would process an SA in flight, if the device supports it: ESP and,
/// inbound, without extended sequence numbers.
fn binding(sa: &SaConfig, direction: Direction) -> Option<Binding> {
    let is_whole = direction == Direction::Seal || !sa.esn;
    let fits = sa.protocol == SaProtocol::Esp && is_whole;
    fits.then_some(Binding { direction, spi: sa.spi, is_tunnel: sa.mode == Mode::Tunnel })
}

/// Why an SA was not installed.
#[derive(Debug, thiserror::Error)]
pub enum SaInstallError {
    /// The SAD refused it.
    #[error(transparent)]
    Sad(#[from] convoy_ipsec::InstallError),
    /// The engines or the scheduler refused it.
    #[error(transparent)]
    Stage(#[from] StageError),
}
