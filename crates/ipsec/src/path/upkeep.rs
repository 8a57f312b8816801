//! Periodic work: keep-alives, expiry, moves.

use convoy_packet::protocol::{NO_NEXT_HEADER, UDP};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, FramePool, FrameSize, IpHeader};

use super::tables::Tables;
use crate::drops::DropReason;
use crate::esp::job::{CryptoPacket, Direction};
use crate::esp::outer_header::{Inner, write_udp};
use crate::ip::tos::OWN_CLASS;
use crate::nat::carried::KEEPALIVE;
use crate::nat::flows::{NatFlow, NatFlows};
use crate::path::timers::{Timer, Timers};
use crate::sa::config::{NatKeepalive, SaEnds, UdpEncap};
use crate::sa::facts::SaName;
use crate::sa::id::{OutboundId, SaId, SaIndex, SaNumber, TunnelId};
use crate::sa::lifetime::Expiry;
use crate::sad::Sad;
use crate::sad::cached_limits::NEVER_NS;
use crate::sad::outbound_sa::{OutboundCold, OutboundSa};
use crate::sad::path_mtu::PathMtu;

/// Keep-alives sent by one call, at most: a burst, so that no packet waits long for them.
pub(crate) const KEEPALIVES_AT_ONCE: usize = 64;
/// The content of a dummy packet.
const DUMMY: [u8; 8] = [0; 8];
/// SAs of one flow examined for when they last sent anything.
const SAS_AT_ONCE: usize = 16;

/// An SA reached a limit of its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeEvent {
    /// Its number in the whole process.
    pub sa: SaNumber,
    /// Its identity.
    pub name: SaName,
    /// Its tunnel.
    pub tunnel: TunnelId,
    /// The limit reached.
    pub expiry: Expiry,
}

/// Periodic work: notices SAs that have reached a limit, keeps NAT mappings open, and moves SAs to
/// other ends.
#[derive(Default)]
pub struct Upkeep {
    /// When time limits are reached.
    lifetimes: Timers<SaIndex>,
    /// The flows kept open through NATs.
    nat_flows: NatFlows,
    /// SAs examined.
    #[cfg(test)]
    pub(super) looked_at: usize,
}

impl Upkeep {
    /// Appends a keep-alive for every flow through a NAT that was silent for the configured time
    /// (RFC 3948 section 4), or a dummy packet that is to be protected, but at most 64: returns
    /// whether more are due. Call about ten times a second, and soon again if more are due.
    pub fn keepalives(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
        dummies: &mut Vec<CryptoPacket>,
    ) -> bool {
        tables.now_ns = tables.now_ns.max(now_ns);
        for _ in 0..KEEPALIVES_AT_ONCE {
            let Some(flow) = self.nat_flows.next_due(now_ns) else { return false };
            self.note_look();
            let interval_ns = tables.config.keepalive_ns;
            let silent_until_ns =
                self.last_used_ns(tables, flow).map(|used| used.saturating_add(interval_ns));
            if let Some(due_ns) = silent_until_ns.filter(|due_ns| *due_ns > now_ns) {
                self.nat_flows.set_due(flow, due_ns);
            } else if let Some(packet) = self.dummy(tables, flow, pool) {
                dummies.push(packet);
                self.nat_flows.set_due(flow, now_ns.saturating_add(interval_ns));
            } else if let Some(frame) = keepalive(flow, pool) {
                out.push(frame);
                self.nat_flows.set_due(flow, now_ns.saturating_add(interval_ns));
            } else {
                // It stays due: the next call tries again.
                tables.drops.count(DropReason::NoFrame);
                return false;
            }
        }
        self.nat_flows.next_due(now_ns).is_some()
    }

    /// A packet without content (RFC 4303 section 2.6) by an SA whose flow is always kept open: it
    /// shows a peer that learns our address where we are, as it is authenticated, which a
    /// keep-alive of one byte is not.
    fn dummy(&mut self, tables: &Tables, flow: NatFlow, pool: &mut FramePool) -> Option<CryptoPacket> {
        let sas = self.nat_flows.some_sas(flow, SAS_AT_ONCE);
        let fits = |id: &OutboundId| {
            let is_wanted = |cold: &OutboundCold| cold.common.facts.nat_keepalive == NatKeepalive::Always;
            tables.sad.outbound.cold(id.0).is_some_and(is_wanted)
                && tables.sad.outbound.hot(id.0).is_some_and(OutboundSa::is_raw)
        };
        let id = sas.into_iter().find(fits)?;
        let sa = tables.sad.outbound.hot(id.0)?;
        let inner = Inner { next_header: NO_NEXT_HEADER, traffic_class: 0, dont_fragment: false };
        let frame = pool.take_filled(&DUMMY, 0)?;
        Some(CryptoPacket::new(frame, id.into(), Direction::Seal, OWN_CLASS, sa.raw_context(inner)))
    }

    /// When a packet last left by a flow, according to some of its SAs. If it has more than are
    /// examined, an unneeded keep-alive may be sent.
    fn last_used_ns(&mut self, tables: &Tables, flow: NatFlow) -> Option<u64> {
        let sas = self.nat_flows.some_sas(flow, SAS_AT_ONCE);
        let used = sas.iter().filter_map(|id| tables.sad.outbound.hot(id.0)).map(|sa| sa.last_used_ns);
        used.filter(|used_ns| *used_ns != NEVER_NS).max()
    }

    /// Keeps the flow of an outbound SA open if wanted, and no longer its previous one.
    pub(super) fn choose_nat_flow(&mut self, tables: &mut Tables, id: OutboundId) {
        let (now_ns, interval_ns) = (tables.now_ns, tables.config.keepalive_ns);
        let Some(cold) = tables.sad.outbound.cold_mut(id.0) else { return };
        let wanted = NatFlow::of(&cold.common.facts).filter(|_| interval_ns > 0);
        let before = std::mem::replace(&mut cold.nat_flow, wanted);
        if before != wanted {
            before.into_iter().for_each(|flow| self.nat_flows.leave(flow, id));
            wanted.into_iter().for_each(|flow| self.nat_flows.join(flow, id, now_ns, interval_ns));
        }
    }

    /// Stops keeping a flow open for an outbound SA.
    pub(super) fn leave_nat_flow(&mut self, tables: &mut Tables, id: OutboundId) {
        let flow = tables.sad.outbound.cold_mut(id.0).and_then(|cold| cold.nat_flow.take());
        flow.into_iter().for_each(|flow| self.nat_flows.leave(flow, id));
    }

    /// Schedules an SA's examination for when a time limit is reached.
    pub(super) fn await_end(&mut self, tables: &Tables, sa: SaIndex) {
        let Some(common) = tables.sad.common(sa) else { return };
        let generation = common.generation;
        for due_ns in common.usage.due_ns() {
            self.lifetimes.set(Timer { due_ns, sa, generation });
        }
        self.lifetimes.sweep(|timer| is_there(&tables.sad, timer));
    }

    /// Appends an event for every limit that an SA has reached, each once. Call about once a
    /// second. The SAs stay until `remove`. Only SAs that have reached a limit are examined.
    pub fn expire(&mut self, tables: &mut Tables, now_ns: u64, events: &mut Vec<LifetimeEvent>) {
        tables.now_ns = tables.now_ns.max(now_ns);
        while let Some(timer) = self.lifetimes.pop(now_ns) {
            tables.limits_reached.push(timer.sa);
        }
        while let Some(sa) = tables.limits_reached.pop() {
            self.note_look();
            let expiry = match sa.id() {
                SaId::Outbound(id) => {
                    let found = tables.sad.outbound.hot_and_cold_mut(id.0);
                    found.and_then(|(outbound, cold)| outbound.expiry(cold, now_ns))
                }
                SaId::Inbound(id) => {
                    let found = tables.sad.inbound.hot_and_cold_mut(id.0);
                    found.and_then(|(inbound, cold)| inbound.expiry(cold, now_ns))
                }
            };
            if let (Some(expiry), Some((common, number))) =
                (expiry, tables.sad.common(sa).zip(tables.sad.number(sa)))
            {
                let (name, tunnel) = (common.facts.name, tables.tunnels.id(common.tunnel));
                events.push(LifetimeEvent { sa: number, name, tunnel, expiry });
            }
        }
    }

    /// Gives an SA other ends (MOBIKE, NAT); sequence numbers and replay window go on. Returns
    /// `false` if it is unknown, if another SA has its SPI there, or if the ends are invalid for
    /// it: AH in UDP, ends of two families.
    pub fn move_sa(&mut self, tables: &mut Tables, index: SaIndex, ends: &SaEnds) -> bool {
        let before = tables.sad.common(index).map(|common| (common.facts.name, common.tunnel));
        let Some((before, tunnel)) = before.filter(|_| tables.sad.move_sa(index, ends)) else { return false };
        match index.id() {
            SaId::Outbound(id) => {
                if before.remote.is_unspecified() {
                    tables.tunnels.unpark_outbound(tunnel, id);
                }
                if let Some(cold) = tables.sad.outbound.cold_mut(id.0) {
                    cold.path = PathMtu::default();
                }
                tables.renew(id);
                self.choose_nat_flow(tables, id);
            }
            SaId::Inbound(_) => {
                tables.own.add(ends.local);
                tables.own.remove(before.local);
            }
        }
        true
    }

    fn note_look(&mut self) {
        #[cfg(test)]
        {
            self.looked_at += 1;
        }
    }
}

/// Whether the SA of a timer still exists.
fn is_there<S: Copy + Into<SaIndex>>(sad: &Sad, timer: &Timer<S>) -> bool {
    sad.common(timer.sa.into()).is_some_and(|common| common.generation == timer.generation)
}

/// One keep-alive: a UDP datagram of one byte, from our port to the peer's.
fn keepalive(flow: NatFlow, pool: &mut FramePool) -> Option<Frame> {
    let NatFlow { local, remote } = flow;
    let mut frame = pool.take(FrameSize::Small)?;
    let header = IpHeader::new(UDP, local.ip(), remote.ip());
    let at = header.header_len();
    if frame.append(at + UDP_HEADER + KEEPALIVE.len()).is_err() {
        pool.give_back(frame);
        return None;
    }
    header.write(&mut frame);
    frame[at + UDP_HEADER..].copy_from_slice(&KEEPALIVE);
    write_udp(&mut frame[at..], UdpEncap { local_port: local.port(), remote_port: remote.port() });
    Some(frame)
}
