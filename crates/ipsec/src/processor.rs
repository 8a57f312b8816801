//! The processor: one worker's SAD, SPD, flow caches, reassembly and counters; bursts in, bursts out.

mod answers;
mod batch;
mod delivery;
mod glance;
mod inbound;
mod outbound;
mod policies;
mod upkeep;
mod view;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use convoy_packet::{Frame, FramePool};

pub use inbound::InboundBurst;
pub use outbound::{OutboundBurst, WithoutSa};
pub use upkeep::{LifetimeEvent, MappingChange};
pub use view::{IpsecCounters, PolicyView, ReplayView, SaCursor, SaView};

use crate::directory::Directory;
use crate::drops::{DropCounters, DropReason};
use crate::flow_cache::FlowCache;
use crate::job::SaIndex;
use crate::nat_flows::NatFlows;
use crate::own_addresses::OwnAddresses;
use crate::rate_limit::RateLimit;
use crate::reassembly::{Reassembly, ReassemblyConfig};
use crate::sa_config::{SaConfig, SaProtocol};
use crate::sa_id::{InboundId, OutboundId, SaId};
use crate::sad::{InstallError, Sad};
use crate::spd::{Spd, TunnelId};
use crate::timers::Timers;
use crate::tos::ClassMap;
use crate::tunnels::Tunnels;

/// Settings of one worker.
#[derive(Clone, Debug)]
pub struct IpsecConfig {
    /// The largest IP packet that the outside port sends, in bytes.
    pub mtu: u16,
    /// This worker's number; packets of other workers' tunnels are `for_others`.
    pub worker: u16,
    /// Source of ICMP's "time exceeded"; without one, RFC 7600's 192.0.0.8. "Too big" comes from the dropped packet's destination.
    pub inside_v4: Option<Ipv4Addr>,
    /// Source of ICMPv6's "time exceeded"; without one, none is sent.
    pub inside_v6: Option<Ipv6Addr>,
    /// Addresses that are ours outside, beside the SAs': IKE and fragments are taken from the traffic to them.
    pub outside: Vec<IpAddr>,
    /// Our UDP port for ESP in UDP, which IKE shares (RFC 3948).
    pub natt_port: u16,
    /// Traffic class by DSCP.
    pub classes: ClassMap,
    /// Flows whose policy is remembered, of each family and direction: 32 bytes each for IPv4, 64 for IPv6. Rounded up to a power of two.
    pub flow_cache: usize,
    /// Random: keeps outsiders from predicting cache places and fragment ids.
    pub seed: u64,
    /// Limits of reassembly.
    pub reassembly: ReassemblyConfig,
    /// A NAT keep-alive follows this long after a flow's last packet, in ns (RFC 3948 section 4); 0 is
    /// never.
    pub keepalive_ns: u64,
    /// Whether TTL and hop limit count down here; not where the kernel forwards and has done it.
    pub decrement_ttl: bool,
    /// ICMP errors a second at most.
    pub icmp_per_second: u32,
    /// Whether an ICMP error that came by an SA must quote a packet whose answers that SA may carry (RFC 4301 section 6.2).
    pub check_icmp: bool,
    /// Whether packets whose tunnel has no SA are handed back for a key daemon to be asked, instead of dropped.
    pub acquire: bool,
}

impl Default for IpsecConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            worker: 0,
            inside_v4: None,
            inside_v6: None,
            outside: Vec::new(),
            natt_port: 4500,
            classes: ClassMap::default(),
            flow_cache: 16_384,
            seed: 0,
            reassembly: ReassemblyConfig::default(),
            keepalive_ns: 20_000_000_000,
            decrement_ttl: false,
            icmp_per_second: 100,
            check_icmp: true,
            acquire: false,
        }
    }
}

/// What a policy asks for, with the number here of a tunnel of this worker.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    Protect(u32),
    /// The tunnel is the one of another worker.
    HandOver(u16),
    Bypass,
    Discard,
}

/// The policy that selects a flow.
#[derive(Clone, Copy, Debug)]
struct Decision {
    /// Its slot in the SPD.
    slot: u32,
    verdict: Verdict,
}

/// Packets and bytes that a policy selected.
#[derive(Clone, Copy, Debug, Default)]
struct PolicyUse {
    packets: u64,
    bytes: u64,
}

/// One worker's IPsec.
pub struct Ipsec {
    config: IpsecConfig,
    sad: Sad,
    tunnels: Tunnels,
    spd: Spd,
    /// By the policy's slot in the SPD, as `uses`.
    verdicts: Vec<Verdict>,
    uses: Vec<PolicyUse>,
    /// How often the gateway's own policies were replaced.
    policy_changes: u64,
    outbound_flows: FlowCache<Decision>,
    inbound_flows: FlowCache<Decision>,
    reassembly: Reassembly,
    totals: Totals,
    drops: DropCounters,
    icmp_sent: RateLimit,
    icmp_heeded: RateLimit,
    /// The next identification of a datagram that is cut.
    fragment_id: u32,
    /// The latest time that was told.
    now_ns: u64,
    own: OwnAddresses,
    /// Pieces of a packet that was cut; empty between calls.
    pieces: Vec<Frame>,
    /// What is known of the packets of a burst; empty between calls.
    departing: glance::DepartingBurst,
    arriving: Vec<glance::ArrivingRun>,
    /// When limits of time are reached.
    lifetimes: Timers<SaIndex>,
    /// What is kept open through NATs.
    nat_flows: NatFlows,
    /// SAs that have reached a limit since the last call of [`expire`](Self::expire).
    limits_reached: Vec<SaIndex>,
    /// Inbound SAs whose peer has moved.
    moved: Vec<InboundId>,
    /// SAs that upkeep has looked at.
    #[cfg(test)]
    looked_at: usize,
}

/// What was counted beside drops.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    protected: u64,
    opened: u64,
    bypassed_out: u64,
    bypassed_in: u64,
    icmp_sent: u64,
    cut: u64,
    reassembled: u64,
}

impl Ipsec {
    /// The only worker of its process, with no policies and no SAs: everything is dropped.
    pub fn new(config: IpsecConfig) -> Self {
        Self::among(config, Arc::new(Directory::new(1)))
    }

    /// The same as one of several workers, which share `directory`.
    pub fn among(config: IpsecConfig, directory: Arc<Directory>) -> Self {
        let cache = |salt: u64| FlowCache::new(config.flow_cache, config.seed ^ salt);
        Self {
            sad: Sad::new(config.worker, directory),
            tunnels: Tunnels::default(),
            spd: Spd::default(),
            verdicts: Vec::new(),
            uses: Vec::new(),
            policy_changes: 0,
            outbound_flows: cache(0x6f75_7462),
            inbound_flows: cache(0x696e_626f),
            reassembly: Reassembly::new(config.reassembly),
            totals: Totals::default(),
            drops: DropCounters::default(),
            icmp_sent: RateLimit::new(config.icmp_per_second, 10),
            icmp_heeded: RateLimit::new(config.icmp_per_second, 10),
            fragment_id: (config.seed ^ config.seed >> 32) as u32,
            now_ns: 0,
            own: OwnAddresses::new(config.outside.iter().copied()),
            pieces: Vec::new(),
            departing: glance::DepartingBurst::default(),
            arriving: Vec::new(),
            lifetimes: Timers::default(),
            nat_flows: NatFlows::default(),
            limits_reached: Vec::new(),
            moved: Vec::new(),
            #[cfg(test)]
            looked_at: 0,
            config,
        }
    }

    /// This worker's number.
    pub fn worker(&self) -> u16 {
        self.config.worker
    }

    /// Where all workers' SAs are found.
    pub fn directory(&self) -> &Arc<Directory> {
        self.sad.directory()
    }

    /// Whether a tunnel is this worker's, and with it all of its SAs.
    pub fn serves(&self, tunnel: TunnelId) -> bool {
        self.directory().owner_of(tunnel) == self.config.worker
    }

    /// Adds one simplex SA, of a tunnel that this worker [serves](Self::serves). An outbound one becomes its tunnel's current one.
    ///
    /// # Errors
    /// [`InstallError`], naming the SA and, where SPIs overlap, both.
    pub fn install(&mut self, config: SaConfig) -> Result<SaIndex, InstallError> {
        debug_assert!(self.serves(config.tunnel), "a packet would be handed over and never find it");
        let tunnel = self.tunnels.number(config.tunnel);
        let index = self.sad.install(&config, tunnel, self.now_ns)?;
        match index.id() {
            SaId::Outbound(id) => {
                self.tunnels.add_outbound(tunnel, id);
                self.renew(id);
                self.choose_nat_flow(id);
            }
            SaId::Inbound(id) => {
                self.tunnels.add_inbound(tunnel, id);
                self.own.add(config.local);
            }
        }
        self.await_end(index);
        Ok(index)
    }

    /// Lets no more packets come to an SA: its tunnel's other SA takes over, and its SPI is free for another. What is in flight
    /// finishes as ever, until [`remove`](Self::remove). Unknown is no error.
    pub fn withdraw(&mut self, index: SaIndex) {
        if let (Some(tunnel), SaId::Outbound(id)) = (self.sad.withdraw(index), index.id()) {
            self.leave_nat_flow(id);
            self.tunnels.remove_outbound(tunnel, id);
        }
    }

    /// Takes an SA out; packets of it that are in flight are dropped when they finish. The caller removes
    /// its keys from every engine before the next `install`. Unknown is no error.
    pub fn remove(&mut self, index: SaIndex) {
        if let SaId::Outbound(id) = index.id() {
            self.leave_nat_flow(id);
        }
        let Some(gone) = self.sad.remove(index) else { return };
        match index.id() {
            SaId::Outbound(id) => self.tunnels.remove_outbound(gone.tunnel, id),
            SaId::Inbound(id) => {
                self.tunnels.remove_inbound(gone.tunnel, id);
                self.own.remove(gone.facts.name.local);
            }
        }
    }

    /// Gives a dropped frame back and counts it, for its SA too where one is known.
    fn drop_frame(&mut self, pool: &mut FramePool, frame: Frame, sa: Option<SaIndex>, reason: DropReason) {
        pool.give_back(frame);
        self.count_drop(sa, reason);
    }

    /// Counts packets of no SA in particular that were dropped outside of this crate.
    pub fn count_dropped(&mut self, reason: DropReason, packets: u64) {
        self.drops.add(reason, packets);
    }

    /// Counts packets that were sealed and that the system then refused to send, for their SA too if
    /// this worker has it: the outbound one under an SPI to a peer.
    pub fn count_unsent(&mut self, reason: DropReason, packets: u64, sa: Option<(SaProtocol, u32, IpAddr)>) {
        self.drops.add(reason, packets);
        let number = sa.and_then(|(protocol, spi, peer)| self.sad.directory().outbound(spi, protocol, peer));
        let own = number.filter(|number| number.owner == self.config.worker);
        if let Some(common) = own.and_then(|number| self.sad.common_mut(number.index)) {
            common.drops.add(reason, packets);
        }
    }

    fn count_drop(&mut self, sa: Option<SaIndex>, reason: DropReason) {
        self.drops.count(reason);
        if let Some(common) = sa.and_then(|index| self.sad.common_mut(index)) {
            common.drops.count(reason);
        }
    }

    /// Counts that upkeep looks at an SA.
    fn note_look(&mut self) {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
    }

    /// Looks at an SA's limits and path anew.
    fn renew(&mut self, id: OutboundId) {
        let (now_ns, mtu) = (self.now_ns, self.config.mtu);
        if let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) {
            sa.renew(rest, now_ns, mtu);
        }
    }

    fn note_use(&mut self, slot: u32, bytes: usize) {
        self.note_uses(slot, 1, bytes as u64);
    }

    fn note_uses(&mut self, slot: u32, packets: u64, bytes: u64) {
        let used = &mut self.uses[slot as usize];
        used.packets += packets;
        used.bytes += bytes;
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy_engine;
