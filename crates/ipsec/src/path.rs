//! One worker's IPsec: bursts in, bursts out.

mod aggregate;
mod answers;
mod classify;
mod delivery;
mod echo;
mod explain;
mod frame_notes;
mod held;
mod inbound;
mod kind;
mod lay_out;
mod mss;
mod outbound;
pub(crate) mod own_addresses;
mod plain_inner;
mod policies;
mod protect;
mod protected;
mod tables;
pub(crate) mod timers;
mod unpack;
mod upkeep;
mod view;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

pub use delivery::MappingChange;
pub use echo::{AssumedPath, EchoAnswer, EchoNumber, Echoes};
pub use explain::{Fit, Miss, Supposed};
pub use frame_notes::FrameNote;
pub use inbound::{Inbound, InboundBurst};
pub use mss::MssClamp;
pub use outbound::{Outbound, OutboundBurst};
pub use tables::{PathChange, Tables, WithoutSa};
pub use upkeep::{LifetimeEvent, Upkeep};
pub use view::{IpsecCounters, PolicyView, ReplayView, SaCursor, SaView};

use crate::ip::reassembly::ReassemblyConfig;
use crate::ip::tos::ClassMap;
use crate::sa::config::{SaConfig, SaEnds, UdpEncap};
use crate::sa::id::{SaId, SaIndex};
use crate::sad::InstallError;
use crate::sad::directory::Directory;

/// Settings of one worker.
#[derive(Clone, Debug)]
pub struct IpsecConfig {
    /// The largest IP packet that the outside port sends, in bytes.
    pub mtu: u16,
    /// This worker's number; packets of other workers' SAs go to `for_others`.
    pub worker: u16,
    /// Source of ICMP errors; without one, "time exceeded" comes from RFC 7600's 192.0.0.8. "Too
    /// big" comes from here only with [`decrement_ttl`](Self::decrement_ttl), else from the dropped
    /// packet's destination.
    pub inside_v4: Option<Ipv4Addr>,
    /// Source of ICMPv6 errors; without one, no "time exceeded" is sent.
    pub inside_v6: Option<Ipv6Addr>,
    /// Our outside addresses beside those of SAs: IKE and fragments to them are ours.
    pub outside: Vec<IpAddr>,
    /// Our UDP port for ESP in UDP, which IKE shares (RFC 3948).
    pub natt_port: u16,
    /// Traffic class by DSCP.
    pub classes: ClassMap,
    /// Flows whose policy is cached, for each family and direction: 32 bytes each for IPv4, 64 for
    /// IPv6. Rounded up to a power of two.
    pub flow_cache: usize,
    /// Random: keeps outsiders from predicting cache slots and fragment ids.
    pub seed: u64,
    /// Limits of reassembly.
    pub reassembly: ReassemblyConfig,
    /// A NAT keep-alive follows this long after a flow's last packet, in ns (RFC 3948 section 4); 0
    /// is never.
    pub keepalive_ns: u64,
    /// Whether TTL and hop limit are decremented here; not if the kernel forwards and has done it.
    pub decrement_ttl: bool,
    /// To what the maximum segment size of TCP connections through tunnels is lowered.
    pub mss_clamp: MssClamp,
    /// ICMP errors a second, at most.
    pub icmp_per_second: u32,
    /// Whether an ICMP error received through an SA must quote a packet whose answers that SA may
    /// carry (RFC 4301 section 6.2).
    pub check_icmp: bool,
    /// Whether packets whose tunnel has no SA are returned, so that a key daemon can be asked,
    /// instead of dropped.
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
            mss_clamp: MssClamp::Off,
            icmp_per_second: 100,
            check_icmp: true,
            acquire: false,
        }
    }
}

/// One worker's IPsec: the tables, and the three parts that work on them. Its own methods concern
/// several of the four.
pub struct Ipsec {
    /// SAD, SPD, tunnels and counters.
    pub tables: Tables,
    /// The outbound path.
    pub outbound: Outbound,
    /// The inbound path.
    pub inbound: Inbound,
    /// Periodic work.
    pub upkeep: Upkeep,
}

impl Ipsec {
    /// The only worker of its process, without policies and SAs: it drops everything.
    pub fn new(config: IpsecConfig) -> Self {
        Self::among(config, Arc::new(Directory::new(1)))
    }

    /// One of several workers, which share `directory`, without policies and SAs.
    pub fn among(config: IpsecConfig, directory: Arc<Directory>) -> Self {
        Self {
            outbound: Outbound::new(&config),
            inbound: Inbound::new(&config),
            upkeep: Upkeep::default(),
            tables: Tables::new(config, directory),
        }
    }

    /// Adds one simplex SA. An outbound one becomes its tunnel's current one at this worker.
    ///
    /// A tunnel's SAs belong to the worker that [serves](Tables::serves) it. Others may have SAs of
    /// their own for their share of its packets (RFC 9611).
    ///
    /// # Errors
    /// [`InstallError`], naming the SA and, if SPIs overlap, both.
    pub fn install(&mut self, config: SaConfig) -> Result<SaIndex, InstallError> {
        let Self { tables, upkeep, outbound, .. } = self;
        let tunnel = tables.tunnels.number(config.tunnel);
        let index = tables.sad.install(&config, tunnel, tables.now_ns)?;
        match index.id() {
            SaId::Outbound(id) => {
                if config.remote.is_unspecified() {
                    tables.tunnels.park_outbound(tunnel, id);
                } else {
                    tables.tunnels.add_outbound(tunnel, id);
                }
                tables.renew(id);
                upkeep.choose_nat_flow(tables, id);
                outbound.aggregating.add(tables, id);
            }
            SaId::Inbound(id) => {
                tables.tunnels.add_inbound(tunnel, id);
                tables.own.add(config.local);
            }
        }
        upkeep.await_end(tables, index);
        Ok(index)
    }

    /// Has outbound SAs follow the peers that have roamed, as the newest authentic packets show.
    /// Call it after each [`finish`](Inbound::finish) if [`has_roamed`](Inbound::has_roamed).
    pub fn follow_roamers(&mut self) {
        let Self { tables, upkeep, inbound, .. } = self;
        for id in inbound.roamed.drain(..) {
            let Some(cold) = tables.sad.inbound.cold(id.0) else { continue };
            let (peer, tunnel) = (cold.common.facts.peer(), cold.common.tunnel);
            for sa in tables.tunnels.outbound(tunnel) {
                let Some(ends) = tables.ends(sa.into()) else { continue };
                let encap = ends.encap.map(|encap| UdpEncap { remote_port: peer.port(), ..encap });
                upkeep.move_sa(tables, sa.into(), &SaEnds { remote: peer.ip(), encap, ..ends });
            }
        }
    }

    /// Lets no more packets get an SA: its tunnel's other SA takes over, and its SPI may be reused.
    /// Packets in flight still finish until [`remove`](Self::remove). An unknown SA is no error.
    pub fn withdraw(&mut self, index: SaIndex) {
        let Self { tables, upkeep, .. } = self;
        if let (Some(tunnel), SaId::Outbound(id)) = (tables.sad.withdraw(index), index.id()) {
            upkeep.leave_nat_flow(tables, id);
            tables.tunnels.remove_outbound(tunnel, id);
        }
    }

    /// Removes an SA; packets of it in flight are dropped when they finish. The caller removes its
    /// keys from every engine before the next `install`. An unknown SA is no error.
    pub fn remove(&mut self, index: SaIndex) {
        let Self { tables, upkeep, outbound, inbound } = self;
        match index.id() {
            SaId::Outbound(id) => {
                upkeep.leave_nat_flow(tables, id);
                outbound.aggregating.remove(id);
                tables.drop_payloads(id);
            }
            SaId::Inbound(id) => {
                inbound.reassembling.remove(tables, id);
            }
        }
        let Some(gone) = tables.sad.remove(index) else { return };
        match index.id() {
            SaId::Outbound(id) => tables.tunnels.remove_outbound(gone.tunnel, id),
            SaId::Inbound(id) => {
                tables.tunnels.remove_inbound(gone.tunnel, id);
                tables.own.remove(gone.facts.name.local);
            }
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy_engine;
