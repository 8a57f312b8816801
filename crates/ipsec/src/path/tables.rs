//! What a worker's outbound path, inbound path and upkeep share.

use std::net::IpAddr;
use std::sync::Arc;

use convoy_packet::{Frame, FramePool, IpHeader, IpTemplate, Ipv4};

use super::IpsecConfig;
use super::frame_notes::{FrameNote, FrameNotes};
use super::policies::{PolicyUse, Verdict};
use crate::drops::{DropCounters, DropReason};
use crate::esp::identification::{Identifications, OuterFlow};
use crate::icmp::rate_limit::RateLimit;
use crate::ip::flow::FlowKey;
use crate::iptfs::{AggregationCounts, ReassemblyCounts};
use crate::path::own_addresses::OwnAddresses;
use crate::sa::config::SaEnds;
use crate::sa::id::{OutboundId, SaId, SaIndex, SaProtocol, TunnelId};
use crate::sad::Sad;
use crate::sad::directory::Directory;
use crate::sad::outbound_sa::OutboundSa;
use crate::spd::Spd;
use crate::spd::tunnels::Tunnels;

/// One worker's state: its SAs, policies, tunnels and counters. [`Outbound`](super::Outbound),
/// [`Inbound`](super::Inbound) and [`Upkeep`](super::Upkeep) work on it.
pub struct Tables {
    pub(super) config: IpsecConfig,
    pub(super) sad: Sad,
    pub(super) tunnels: Tunnels,
    pub(super) spd: Spd,
    /// By the policy's slot in the SPD, like `uses`.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) uses: Vec<PolicyUse>,
    /// How often the gateway's own policies were replaced.
    pub(super) policy_changes: u64,
    pub(super) totals: Totals,
    pub(super) drops: DropCounters,
    pub(super) icmp_sent: RateLimit,
    /// The latest time given by a caller.
    pub(super) now_ns: u64,
    pub(super) own: OwnAddresses,
    pub(super) identifications: Identifications,
    /// SAs that have reached a limit since the last call of [`expire`](super::Upkeep::expire).
    pub(super) limits_reached: Vec<SaIndex>,
    /// SAs whose numbers have moved since the last call of [`take_moved`](Self::take_moved).
    moved: Vec<SaIndex>,
    /// Two more than the time of that call; 0 before the first: nothing is noted then.
    moved_after_ns: u64,
    /// What becomes of frames, while packets are traced.
    pub(super) notes: FrameNotes,
    /// Since the last call of [`take_path_changes`](Self::take_path_changes).
    path_changes: Vec<PathChange>,
}

/// A path was found to carry less than assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The tunnel of an SA that uses the path.
    pub tunnel: TunnelId,
    /// The peer at its end.
    pub peer: IpAddr,
    /// The largest outer packet that it carries, in bytes.
    pub mtu: u16,
}

/// A packet whose tunnel has no SA yet, as received.
#[derive(Debug)]
pub struct WithoutSa {
    /// The tunnel that its policy names.
    pub tunnel: TunnelId,
    /// Its flow, for the negotiation of the SA.
    pub flow: FlowKey,
    /// The packet.
    pub frame: Frame,
}

/// Changes of paths that wait to be taken; further ones are not reported.
const PATH_CHANGES: usize = 64;

/// Counters beside those of drops.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) protected: u64,
    pub(super) opened: u64,
    pub(super) bypassed_out: u64,
    pub(super) bypassed_in: u64,
    pub(super) icmp_sent: u64,
    pub(super) cut: u64,
    pub(super) reassembled: u64,
    pub(super) echoes: u64,
    pub(super) aggregation: AggregationCounts,
    pub(super) unpacking: ReassemblyCounts,
}

impl Tables {
    pub(super) fn new(config: IpsecConfig, directory: Arc<Directory>) -> Self {
        let identifications = Identifications::new(config.worker, directory.workers(), config.seed);
        Self {
            sad: Sad::new(config.worker, directory),
            tunnels: Tunnels::new(config.acquire),
            spd: Spd::default(),
            verdicts: Vec::new(),
            uses: Vec::new(),
            policy_changes: 0,
            totals: Totals::default(),
            drops: DropCounters::default(),
            icmp_sent: RateLimit::new(config.icmp_per_second, 10),
            now_ns: 0,
            own: OwnAddresses::new(config.outside.iter().copied()),
            identifications,
            limits_reached: Vec::new(),
            moved: Vec::new(),
            moved_after_ns: 0,
            notes: FrameNotes::default(),
            path_changes: Vec::new(),
            config,
        }
    }

    /// An identification that no other packet with these ends and this protocol has for long.
    pub(super) fn next_v4_id(&mut self, header: &Ipv4<'_>) -> u16 {
        let outer = IpHeader::new(header.protocol(), header.source().into(), header.destination().into());
        self.identifications.take_one(OuterFlow(IpTemplate::new(&outer).address_sum()))
    }

    /// This worker's number.
    pub fn worker(&self) -> u16 {
        self.config.worker
    }

    /// The directory of all workers' SAs.
    pub fn directory(&self) -> &Arc<Directory> {
        self.sad.directory()
    }

    /// Whether this worker serves a tunnel: it has its SAs, but for those of other resources (RFC
    /// 9611), and protects the packets of workers that have none of them.
    pub fn serves(&self, tunnel: TunnelId) -> bool {
        self.directory().owner_of(tunnel) == self.config.worker
    }

    /// The other worker that serves a tunnel, by its number here; `None` if this one does.
    pub(super) fn other_server(&self, tunnel: u32) -> Option<u16> {
        let server = self.directory().owner_of(self.tunnels.id(tunnel));
        (server != self.config.worker).then_some(server)
    }

    /// Sets whether this worker asks for an SA of its own once it has packets of a tunnel that
    /// another worker serves (RFC 9611), by [`OutboundBurst::own_sa`](super::OutboundBurst).
    pub fn set_own_sas(&mut self, tunnel: TunnelId, are_wanted: bool) {
        let number = self.tunnels.number(tunnel);
        self.tunnels.set_own_sas(number, are_wanted);
    }

    /// Whether [`take_link_changes`](Self::take_link_changes) might return something.
    #[inline]
    pub fn has_link_changes(&mut self) -> bool {
        self.tunnels.links_mut().has_changes()
    }

    /// The inside interfaces, by [`Policy::interface`](crate::Policy::interface), of which tunnels
    /// of this worker can send since the last call (`true`), or no longer can.
    pub fn take_link_changes(&mut self) -> Vec<(u16, bool)> {
        self.tunnels.links_mut().take_changes()
    }

    /// Evaluates an SA's limits and path again.
    pub(super) fn renew(&mut self, id: OutboundId) {
        let (now_ns, mtu) = (self.now_ns, self.config.mtu);
        if let Some((sa, cold)) = self.sad.outbound.hot_and_cold_mut(id.0) {
            sa.renew(cold, now_ns, mtu);
        }
    }

    /// Learns from a port that packets to `peer` longer than `mtu` bytes do not arrive. For a time
    /// no outbound SA of this worker sends longer ones there.
    pub fn learn_path_mtu(&mut self, now_ns: u64, peer: IpAddr, mtu: u16) {
        let port_mtu = self.config.mtu;
        let places: Vec<u32> = self.sad.outbound.places().collect();
        for place in places {
            let found = self.sad.outbound.hot_and_cold_mut(place);
            if let Some((sa, cold)) = found.filter(|(_, cold)| cold.common.facts.name.remote == peer) {
                let has_changed = cold.path.learn(now_ns, port_mtu, mtu, peer.is_ipv6());
                sa.renew(cold, now_ns, port_mtu);
                if has_changed {
                    self.note_path(OutboundId(place));
                }
            }
        }
    }

    /// Records an SA's new path MTU, unless that of the same path is known to have changed.
    pub(super) fn note_path(&mut self, id: OutboundId) {
        let Some(cold) = self.sad.outbound.cold(id.0) else { return };
        let (peer, mtu) = (cold.common.facts.name.remote, cold.path.current(self.now_ns, self.config.mtu));
        let is_known = |change: &PathChange| (change.peer, change.mtu) == (peer, mtu);
        if self.path_changes.len() < PATH_CHANGES && !self.path_changes.iter().any(is_known) {
            let tunnel = self.tunnels.id(cold.common.tunnel);
            self.path_changes.push(PathChange { tunnel, peer, mtu });
        }
    }

    /// Takes the SAs that have sent, received or held back packets since the last call, each once.
    /// From the first call on they are noted. `now_ns` is the time of the last packets.
    pub fn take_moved(&mut self, now_ns: u64) -> Vec<SaIndex> {
        self.moved_after_ns = now_ns.saturating_add(2);
        std::mem::take(&mut self.moved)
    }

    /// Notes that an SA has moved, unless it was noted before, by when it was used the last time
    /// before; an SA that was never used has [`NEVER_NS`](crate::sad::cached_limits::NEVER_NS).
    #[inline]
    pub(super) fn note_moved(&mut self, index: SaIndex, used_before_ns: u64) {
        if used_before_ns.wrapping_add(1) < self.moved_after_ns {
            self.moved.push(index);
        }
    }

    /// Notes that an SA has held a packet back, which counts as moving.
    pub(super) fn note_held(&mut self, index: SaIndex) {
        if self.moved_after_ns > 0 && self.moved.last() != Some(&index) {
            self.moved.push(index);
        }
    }

    /// Takes the paths that were found to carry less since the last call, each once.
    pub fn take_path_changes(&mut self) -> Vec<PathChange> {
        std::mem::take(&mut self.path_changes)
    }

    /// The ends of an SA as [`move_sa`](super::Upkeep::move_sa) takes them; `None` if it is
    /// unknown.
    pub fn ends(&self, index: SaIndex) -> Option<SaEnds> {
        let facts = self.sad.common(index)?.facts;
        Some(SaEnds { local: facts.name.local, remote: facts.name.remote, encap: facts.encap })
    }

    /// Sets the last sequence number that an outbound SA counts as sent: a standby that takes over
    /// continues after it. A number that was already sent changes nothing. An unknown SA is no
    /// error.
    pub fn set_sequence(&mut self, id: OutboundId, sequence: u64) {
        if let Some((sa, cold)) = self.sad.outbound.hot_and_cold_mut(id.0) {
            sa.set_sequence(cold, sequence);
            self.limits_reached.push(id.into());
        }
    }

    /// Allows an SA to send or accept the sequence numbers up to `last`, like those
    /// [reserved](crate::SaConfig::sequence_reserved) before. An unknown SA is no error.
    pub fn reserve_sequence(&mut self, index: SaIndex, last: u64) {
        match index.id() {
            SaId::Outbound(id) => {
                if let Some((sa, cold)) = self.sad.outbound.hot_and_cold_mut(id.0) {
                    sa.reserve_sequence(cold, last);
                }
            }
            SaId::Inbound(id) => {
                if let Some(sa) = self.sad.inbound.hot_mut(id.0) {
                    sa.reserve_sequence(last);
                }
            }
        }
    }

    /// The last sequence number that an SA has sent, or the highest that it has received.
    pub fn sequence(&self, index: SaIndex) -> Option<u64> {
        match index.id() {
            SaId::Outbound(id) => self.sad.outbound.hot(id.0).map(OutboundSa::sequence),
            SaId::Inbound(id) => self.sad.inbound.hot(id.0).map(|sa| sa.replay().highest()),
        }
    }

    /// The last sequence number that an SA has sent, or the highest authentic one that has come to
    /// it, even if it was not [reserved](crate::SaConfig::sequence_reserved).
    pub fn sequence_seen(&self, index: SaIndex) -> Option<u64> {
        match index.id() {
            SaId::Outbound(_) => self.sequence(index),
            SaId::Inbound(id) => {
                let unreserved = self.sad.inbound.cold(id.0)?.highest_unreserved;
                Some(self.sad.inbound.hot(id.0)?.replay().highest().max(unreserved))
            }
        }
    }

    /// Returns a dropped frame to the pool and counts it, also for its SA if known.
    pub(super) fn drop_frame(
        &mut self,
        pool: &mut FramePool,
        frame: Frame,
        sa: Option<SaIndex>,
        reason: DropReason,
    ) {
        self.notes.add(|| FrameNote::Dropped { frame: Some(frame.id()), sa, reason });
        pool.give_back(frame);
        self.tally_drop(sa, reason);
    }

    /// Counts packets of no particular SA that were dropped outside of this crate.
    pub fn count_dropped(&mut self, reason: DropReason, packets: u64) {
        self.drops.add(reason, packets);
    }

    /// Counts sealed packets that the system refused to send, also for their SA if this worker has
    /// it: the outbound one under an SPI to a peer.
    pub fn count_unsent(&mut self, reason: DropReason, packets: u64, sa: Option<(SaProtocol, u32, IpAddr)>) {
        self.drops.add(reason, packets);
        let number = sa.and_then(|(protocol, spi, peer)| self.sad.directory().outbound(spi, protocol, peer));
        let own = number.filter(|number| number.owner == self.config.worker);
        if let Some(common) = own.and_then(|number| self.sad.common_mut(number.index)) {
            common.drops.add(reason, packets, self.now_ns);
        }
    }

    /// Counts a dropped packet whose frame is back in the pool already, also for its SA if known.
    pub(super) fn count_drop(&mut self, sa: Option<SaIndex>, reason: DropReason) {
        self.notes.add(|| FrameNote::Dropped { frame: None, sa, reason });
        self.tally_drop(sa, reason);
    }

    fn tally_drop(&mut self, sa: Option<SaIndex>, reason: DropReason) {
        self.drops.count(reason);
        if let Some(common) = sa.and_then(|index| self.sad.common_mut(index)) {
            common.drops.add(reason, 1, self.now_ns);
        }
    }

    /// Drops a packet whose tunnel got no SA in time.
    pub fn give_up(&mut self, pool: &mut FramePool, packet: WithoutSa) {
        let tunnel = self.tunnels.number(packet.tunnel);
        self.tunnels.count_without_sa(tunnel);
        self.drop_frame(pool, packet.frame, None, DropReason::OutboundNoSa);
    }

    pub(super) fn note_use(&mut self, slot: u32, bytes: usize) {
        self.note_uses(slot, 1, bytes as u64);
    }

    pub(super) fn note_uses(&mut self, slot: u32, packets: u64, bytes: u64) {
        let used = &mut self.uses[slot as usize];
        used.packets += packets;
        used.bytes += bytes;
    }
}
