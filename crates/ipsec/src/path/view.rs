//! The view of `convoy show` and the metrics: plain structs, nothing secret.

use super::policies::PolicyUse;
use super::{Ipsec, Tables};
use crate::drops::{DropCounters, DropReason};
use crate::iptfs::{AggregationCounts, ReassemblyCounts};
use crate::sa::algorithm::Transform;
use crate::sa::config::{Mode, UdpEncap};
use crate::sa::facts::SaName;
use crate::sa::id::{InboundId, OutboundId, SaDirection, SaId, SaIndex, SaNumber, TunnelId};
use crate::sa::lifetime::Usage;
use crate::sad::cached_limits::NEVER_NS;
use crate::spd::{Policy, PolicyPlace};

/// The counters of one worker since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpsecCounters {
    /// Packets prepared for sealing.
    pub protected: u64,
    /// Packets that were opened and delivered.
    pub opened: u64,
    /// Packets that left unprotected, by policy.
    pub bypassed_out: u64,
    /// Packets that came in unprotected, by policy.
    pub bypassed_in: u64,
    /// ICMP errors sent.
    pub icmp_sent: u64,
    /// Packets that were cut into fragments, before or after protection.
    pub cut: u64,
    /// Packets reassembled from fragments.
    pub reassembled: u64,
    /// ESP echoes that came: requests that were answered, and answers.
    pub echoes: u64,
    /// What SAs in AGGFRAG mode have packed, removed ones among them.
    pub aggregation: AggregationCounts,
    /// What SAs in AGGFRAG mode have unpacked, removed ones among them.
    pub unpacking: ReassemblyCounts,
    /// Datagrams currently in reassembly.
    pub in_reassembly: usize,
    /// Policy decisions found in a flow cache.
    pub flow_hits: u64,
    /// Policy decisions that had to be searched.
    pub flow_misses: u64,
    /// Dropped packets by reason, of all SAs and of none.
    pub drops: DropCounters,
}

/// A replay window's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayView {
    /// The highest sequence number received.
    pub highest: u64,
    /// The window's size in packets.
    pub size: u32,
    /// Numbers inside the window that were received.
    pub received: u32,
}

/// One SA.
#[derive(Clone, Debug)]
pub struct SaView {
    /// Its index.
    pub index: SaIndex,
    /// SPI, direction, protocol, endpoints.
    pub name: SaName,
    /// Its tunnel.
    pub tunnel: TunnelId,
    /// Whether it is the one that protects its tunnel's packets now.
    pub is_current: bool,
    /// Whether it was [withdrawn](crate::Ipsec::withdraw): another may have its SPI.
    pub is_withdrawn: bool,
    /// Tunnel, transport or AGGFRAG.
    pub mode: Mode,
    /// The ports of both ends where it is encapsulated in UDP.
    pub encap: Option<UdpEncap>,
    /// Its algorithms.
    pub transform: Transform,
    /// Whether sequence numbers are 64 bits long.
    pub esn: bool,
    /// The worker that serves it.
    pub owner: u16,
    /// The last sequence number sent, or the highest received.
    pub sequence: u64,
    /// The replay window; inbound.
    pub replay: Option<ReplayView>,
    /// Packets, bytes and limits.
    pub usage: Usage,
    /// Its age in ns.
    pub age_ns: u64,
    /// Time since its last packet, in ns; `None` if there was none.
    pub idle_ns: Option<u64>,
    /// The largest outer packet of its path, in bytes; outbound.
    pub path_mtu: Option<u16>,
    /// What it has packed; outbound in AGGFRAG mode.
    pub aggregation: Option<AggregationCounts>,
    /// What it has unpacked; inbound in AGGFRAG mode.
    pub reassembly: Option<ReassemblyCounts>,
    /// Its dropped packets by reason.
    pub drops: DropCounters,
    /// How long ago the last packet of each reason was dropped, in ns.
    pub drop_ages_ns: Vec<(DropReason, u64)>,
}

/// The position of a walk over all SAs of a worker. SAs may be installed and removed between two
/// steps: one that stays installed is visited exactly once, and no index twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaCursor {
    direction: SaDirection,
    /// The next index to visit.
    place: u32,
}

impl Default for SaCursor {
    /// Before the first one.
    fn default() -> Self {
        Self { direction: SaDirection::Outbound, place: 0 }
    }
}

/// One policy.
#[derive(Clone, Debug)]
pub struct PolicyView {
    /// As configured.
    pub policy: Policy,
    /// Packets that it selected, outbound or inbound in plain.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Ipsec {
    /// What was counted.
    pub fn counters(&self) -> IpsecCounters {
        let Self { tables, outbound, inbound, .. } = self;
        let (out, inward) = (outbound.flows.hits_and_misses(), inbound.flows.hits_and_misses());
        IpsecCounters {
            protected: tables.totals.protected,
            opened: tables.totals.opened,
            bypassed_out: tables.totals.bypassed_out,
            bypassed_in: tables.totals.bypassed_in,
            icmp_sent: tables.totals.icmp_sent,
            cut: tables.totals.cut,
            reassembled: tables.totals.reassembled,
            echoes: tables.totals.echoes,
            aggregation: tables.totals.aggregation,
            unpacking: tables.totals.unpacking,
            in_reassembly: inbound.reassembly.len(),
            flow_hits: out.0 + inward.0,
            flow_misses: out.1 + inward.1,
            drops: tables.drops.clone(),
        }
    }
}

impl Tables {
    /// Dropped packets by reason, of all SAs and of none.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// All SAs of this worker.
    pub fn sas(&self) -> impl Iterator<Item = SaView> + '_ {
        self.sad.indices().filter_map(|index| self.view(index))
    }

    /// Visits the next `most` indices of SAs, used or not, and returns where to go on; `None` at
    /// the end.
    pub fn walk_sas(&self, cursor: SaCursor, most: u32, visit: &mut dyn FnMut(SaView)) -> Option<SaCursor> {
        let SaCursor { direction, place } = cursor;
        let (places, next) = match direction {
            SaDirection::Outbound => {
                (self.sad.outbound.extent(), Some(SaCursor { direction: SaDirection::Inbound, place: 0 }))
            }
            SaDirection::Inbound => (self.sad.inbound.extent(), None),
        };
        let end = place.saturating_add(most).min(places);
        for place in place..end {
            let index = match direction {
                SaDirection::Outbound => SaIndex::from(OutboundId(place)),
                SaDirection::Inbound => InboundId(place).into(),
            };
            self.view(index).into_iter().for_each(&mut *visit);
        }
        if end < places { Some(SaCursor { direction, place: end }) } else { next }
    }

    /// The number of an SA in the whole process.
    pub fn number(&self, index: SaIndex) -> Option<SaNumber> {
        self.sad.number(index)
    }

    /// The index of an SA of this worker; `None` if it is another's, or no longer exists.
    pub fn place(&self, number: SaNumber) -> Option<SaIndex> {
        (self.sad.number(number.index) == Some(number)).then_some(number.index)
    }

    /// One SA.
    pub fn sa(&self, index: SaIndex) -> Option<SaView> {
        self.view(index)
    }

    /// Packets that were dropped because their tunnel had no SA, for each tunnel that has lost any
    /// ([`DropReason::OutboundNoSa`](crate::DropReason::OutboundNoSa)).
    pub fn dropped_without_sa(&self) -> impl Iterator<Item = (TunnelId, u64)> + '_ {
        self.dropped_without_sa_of(0, usize::MAX).into_iter().flatten()
    }

    /// Packets dropped because their tunnel had no SA, for the `most` tunnels from index `first`
    /// on; `None` behind the last tunnel.
    pub fn dropped_without_sa_of(
        &self,
        first: usize,
        most: usize,
    ) -> Option<impl Iterator<Item = (TunnelId, u64)> + '_> {
        self.tunnels.dropped_without_sa(first, most)
    }

    /// All SAs of a tunnel that this worker serves.
    pub fn sas_of(&self, tunnel: TunnelId) -> impl Iterator<Item = SaView> + '_ {
        let number = self.tunnels.find(tunnel).into_iter();
        let indices = number.flat_map(|number| {
            let outbound = self.tunnels.outbound(number).into_iter().map(SaIndex::from);
            outbound.chain(self.tunnels.inbound(number).iter().map(|id| SaIndex::from(*id)))
        });
        indices.filter_map(|index| self.view(index))
    }

    /// Packets of a tunnel that were dropped because it had no SA.
    pub fn dropped_without_sa_by(&self, tunnel: TunnelId) -> u64 {
        let number = self.tunnels.find(tunnel);
        let dropped = number.and_then(|number| self.dropped_without_sa_of(number as usize, 1)?.next());
        dropped.map_or(0, |(_, packets)| packets)
    }

    /// How often the gateway's own policies have changed: after a change, any policy may have
    /// another place.
    pub fn policy_changes(&self) -> u64 {
        self.policy_changes
    }

    /// All policies, first to last.
    pub fn policies(&self) -> impl Iterator<Item = PolicyView> + '_ {
        self.policies_behind(None).map(|(_, view)| view)
    }

    /// The policies behind a place, or all, first to last, with their places. Policies may change
    /// between two calls: one that stays in its place is behind every place before it.
    pub fn policies_behind(
        &self,
        place: Option<PolicyPlace>,
    ) -> impl Iterator<Item = (PolicyPlace, PolicyView)> + '_ {
        self.spd.policies(place).map(|(place, slot, policy)| (place, self.policy_view(slot, policy)))
    }

    pub(super) fn policy_view(&self, slot: u32, policy: &Policy) -> PolicyView {
        let PolicyUse { packets, bytes } = self.uses[slot as usize];
        PolicyView { policy: policy.clone(), packets, bytes }
    }

    fn view(&self, index: SaIndex) -> Option<SaView> {
        let common = self.sad.common(index)?;
        let (usage, sequence, replay, path_mtu, last_used_ns) = match index.id() {
            SaId::Outbound(id) => {
                let (sa, cold) = self.sad.outbound.hot_and_cold(id.0)?;
                let path_mtu = cold.path.current(self.now_ns, self.config.mtu);
                (sa.usage(cold), sa.sequence(), None, Some(path_mtu), sa.last_used_ns)
            }
            SaId::Inbound(id) => {
                let (sa, cold) = self.sad.inbound.hot_and_cold(id.0)?;
                let window = sa.replay();
                let (highest, size, received) = (window.highest(), window.size(), window.received());
                (sa.usage(cold), highest, Some(ReplayView { highest, size, received }), None, sa.last_used_ns)
            }
        };
        let (aggregation, reassembly) = match index.id() {
            SaId::Outbound(id) => {
                let cold = self.sad.outbound.cold(id.0)?;
                (cold.aggregator.as_ref().map(|aggregator| aggregator.counts()), None)
            }
            SaId::Inbound(id) => {
                let cold = self.sad.inbound.cold(id.0)?;
                (None, cold.reassembler.as_ref().map(|reassembler| reassembler.counts()))
            }
        };
        let facts = &common.facts;
        Some(SaView {
            index,
            name: facts.name,
            tunnel: self.tunnels.id(common.tunnel),
            is_current: self.tunnels.current(common.tunnel).map(SaIndex::from) == Some(index),
            is_withdrawn: common.is_withdrawn,
            mode: facts.mode,
            encap: facts.encap,
            transform: facts.transform,
            esn: facts.esn,
            owner: self.config.worker,
            sequence,
            replay,
            age_ns: usage.age_ns(self.now_ns),
            idle_ns: (last_used_ns != NEVER_NS).then(|| self.now_ns.saturating_sub(last_used_ns)),
            usage,
            path_mtu,
            aggregation,
            reassembly,
            drops: common.drops.counts.clone(),
            drop_ages_ns: common.drops.ages(self.now_ns),
        })
    }
}
