//! What is done from time to time: keep-alives, expiry, path MTU, NAT mappings.

use std::net::{IpAddr, SocketAddr};

use convoy_packet::protocol::UDP;
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, FramePool, FrameSize, IpHeader};

use super::Ipsec;
use crate::drops::DropReason;
use crate::job::SaIndex;
use crate::lease::NEVER_NS;
use crate::lifetime::Expiry;
use crate::nat_flows::NatFlow;
use crate::natt::KEEPALIVE;
use crate::outbound::OutboundSa;
use crate::path_mtu::PathMtu;
use crate::sa::write_udp;
use crate::sa_config::{SaEnds, UdpEncap};
use crate::sa_id::{OutboundId, SaId, SaNumber};
use crate::sad::{SaName, Sad};
use crate::spd::TunnelId;
use crate::timers::Timer;

/// Keep-alives that one call sends at most: a burst, so that no packet waits long for them.
pub(crate) const KEEPALIVES_AT_ONCE: usize = 64;
/// SAs of one flow that are asked when they last sent anything.
const SAS_AT_ONCE: usize = 16;

/// A peer behind a NAT sends from elsewhere, as an authenticated packet shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingChange {
    /// The inbound SA that the packet came by.
    pub sa: SaNumber,
    /// Its tunnel.
    pub tunnel: TunnelId,
    /// Where its packets came from before.
    pub old: SocketAddr,
    /// Where this one came from.
    pub new: SocketAddr,
}

/// An SA reached a limit of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeEvent {
    /// Its number in the whole process.
    pub sa: SaNumber,
    /// Which it is.
    pub name: SaName,
    /// Its tunnel.
    pub tunnel: TunnelId,
    /// Which limit.
    pub expiry: Expiry,
}

impl Ipsec {
    /// Appends a keep-alive for every flow through a NAT that was silent for the configured time (RFC
    /// 3948 section 4), but no more than 64 of them: returns whether more are due. Gives up
    /// fragments that have waited too long. To be called about ten times a second, and soon again where
    /// more are due.
    pub fn keepalives(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<Frame>) -> bool {
        self.now_ns = self.now_ns.max(now_ns);
        self.reassembly.expire(now_ns, pool, &mut self.drops);
        for _ in 0..KEEPALIVES_AT_ONCE {
            let Some(flow) = self.nat_flows.next_due(now_ns) else { return false };
            self.note_look();
            let interval_ns = self.config.keepalive_ns;
            let silent_until_ns = self.last_used_ns(flow).map(|used| used.saturating_add(interval_ns));
            if let Some(due_ns) = silent_until_ns.filter(|due_ns| *due_ns > now_ns) {
                self.nat_flows.set_due(flow, due_ns);
            } else if let Some(frame) = keepalive(flow, pool) {
                out.push(frame);
                self.nat_flows.set_due(flow, now_ns.saturating_add(interval_ns));
            } else {
                // It stays due: the next call tries again.
                self.drops.count(DropReason::NoFrame);
                return false;
            }
        }
        self.nat_flows.next_due(now_ns).is_some()
    }

    /// When a packet last left by a flow, as far as some of its SAs tell. Where it has more of them than
    /// are looked at, a keep-alive may leave that was not needed.
    fn last_used_ns(&mut self, flow: NatFlow) -> Option<u64> {
        let sas = self.nat_flows.some_sas(flow, SAS_AT_ONCE);
        let used = sas.iter().filter_map(|id| self.sad.outbound.line(id.0)).map(|sa| sa.last_used_ns);
        used.filter(|used_ns| *used_ns != NEVER_NS).max()
    }

    /// Has the flow of an outbound SA kept open where that is wanted, and no longer the one that it had.
    pub(super) fn choose_nat_flow(&mut self, id: OutboundId) {
        let (now_ns, interval_ns) = (self.now_ns, self.config.keepalive_ns);
        let Some(rest) = self.sad.outbound.rest_mut(id.0) else { return };
        let wanted = NatFlow::of(&rest.common.facts).filter(|_| interval_ns > 0);
        let before = std::mem::replace(&mut rest.nat_flow, wanted);
        if before != wanted {
            before.into_iter().for_each(|flow| self.nat_flows.leave(flow, id));
            wanted.into_iter().for_each(|flow| self.nat_flows.join(flow, id, now_ns, interval_ns));
        }
    }

    /// An outbound SA keeps no flow open any more.
    pub(super) fn leave_nat_flow(&mut self, id: OutboundId) {
        let flow = self.sad.outbound.rest_mut(id.0).and_then(|rest| rest.nat_flow.take());
        flow.into_iter().for_each(|flow| self.nat_flows.leave(flow, id));
    }

    /// Has an SA looked at when a limit of time is reached.
    pub(super) fn await_end(&mut self, sa: SaIndex) {
        let Some(common) = self.sad.common(sa) else { return };
        let generation = common.generation;
        for due_ns in common.usage.due_ns() {
            self.lifetimes.set(Timer { due_ns, sa, generation });
        }
        let sad = &self.sad;
        self.lifetimes.sweep(|timer| is_there(sad, timer));
    }

    /// Appends an event for every limit that an SA has reached, each once. To be called about once
    /// a second. The SAs stay until `remove`. Only those SAs are looked at that have reached a limit.
    pub fn expire(&mut self, now_ns: u64, events: &mut Vec<LifetimeEvent>) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some(timer) = self.lifetimes.pop(now_ns) {
            self.limits_reached.push(timer.sa);
        }
        while let Some(sa) = self.limits_reached.pop() {
            self.note_look();
            let expiry = match sa.id() {
                SaId::Outbound(id) => {
                    let found = self.sad.outbound.both_mut(id.0);
                    found.and_then(|(outbound, rest)| outbound.expiry(rest, now_ns))
                }
                SaId::Inbound(id) => {
                    let found = self.sad.inbound.both_mut(id.0);
                    found.and_then(|(inbound, rest)| inbound.expiry(rest, now_ns))
                }
            };
            if let (Some(expiry), Some((common, number))) =
                (expiry, self.sad.common(sa).zip(self.sad.number(sa)))
            {
                let (name, tunnel) = (common.facts.name, self.tunnels.id(common.tunnel));
                events.push(LifetimeEvent { sa: number, name, tunnel, expiry });
            }
        }
    }

    /// Tells of every inbound SA whose peer has moved since `tell` last took its move, which it says by `true`. What it
    /// does not take it is told again, with where the peer is by then. To be called about once a second.
    pub fn mapping_changes(&mut self, tell: &mut dyn FnMut(MappingChange) -> bool) {
        let (sad, tunnels) = (&mut self.sad, &self.tunnels);
        self.moved.retain(|id| {
            let Some(sa) = sad.number((*id).into()) else { return false };
            let Some(rest) = sad.inbound.rest_mut(id.0) else { return false };
            let Some((old, new)) = rest.moved else { return false };
            let tunnel = tunnels.id(rest.common.tunnel);
            if old == new || tell(MappingChange { sa, tunnel, old, new }) {
                rest.moved = None;
            }
            rest.moved.is_some()
        });
    }

    /// Takes in what a port found out: packets to `peer` that are longer than `mtu` bytes do not arrive. For a time no
    /// outbound SA of this worker sends longer ones there.
    pub fn learn_path_mtu(&mut self, now_ns: u64, peer: IpAddr, mtu: u16) {
        let port_mtu = self.config.mtu;
        let places: Vec<u32> = self.sad.outbound.places().collect();
        for place in places {
            if let Some((sa, rest)) = self.sad.outbound.both_mut(place)
                && rest.common.facts.name.remote == peer
            {
                rest.path.learn(now_ns, port_mtu, mtu, peer.is_ipv6());
                sa.renew(rest, now_ns, port_mtu);
            }
        }
    }

    /// Gives an SA other ends (MOBIKE, NAT); sequence numbers and replay window go on. `false` if it is unknown, if
    /// another SA has its SPI there, or if it cannot travel so: AH in UDP, ends of two families.
    pub fn move_sa(&mut self, index: SaIndex, ends: &SaEnds) -> bool {
        let before = self.sad.common(index).map(|common| common.facts.name);
        let Some(before) = before.filter(|_| self.sad.move_sa(index, ends)) else { return false };
        match index.id() {
            SaId::Outbound(id) => {
                if let Some(rest) = self.sad.outbound.rest_mut(id.0) {
                    rest.path = PathMtu::default();
                }
                self.renew(id);
                self.choose_nat_flow(id);
            }
            SaId::Inbound(_) => {
                self.own.add(ends.local);
                self.own.remove(before.local);
            }
        }
        true
    }

    /// The ends of an SA as [`move_sa`](Self::move_sa) takes them; `None` if it is unknown.
    pub fn ends(&self, index: SaIndex) -> Option<SaEnds> {
        let facts = self.sad.common(index)?.facts;
        Some(SaEnds { local: facts.name.local, remote: facts.name.remote, encap: facts.encap })
    }

    /// The last sequence number that an outbound SA counts as sent: a standby that takes over goes on after
    /// it. One that was sent already changes nothing. Unknown is no error.
    pub fn set_sequence(&mut self, id: OutboundId, sequence: u64) {
        if let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) {
            sa.set_sequence(rest, sequence);
            self.limits_reached.push(id.into());
        }
    }

    /// Lets an outbound SA use the sequence numbers up to `last`, as those that were [reserved](crate::SaConfig::sequence_reserved)
    /// before. Unknown is no error.
    pub fn reserve_sequence(&mut self, id: OutboundId, last: u64) {
        if let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) {
            sa.reserve_sequence(rest, last);
        }
    }

    /// The last sequence number that an SA has sent, or the highest that it has received.
    pub fn sequence(&self, index: SaIndex) -> Option<u64> {
        match index.id() {
            SaId::Outbound(id) => self.sad.outbound.line(id.0).map(OutboundSa::sequence),
            SaId::Inbound(id) => self.sad.inbound.line(id.0).map(|sa| sa.replay().highest()),
        }
    }
}

/// Whether the SA that a timer is for is still there.
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
