//! What is done from time to time: keep-alives, expiry, path MTU, NAT mappings.

use std::net::{IpAddr, SocketAddr};

use convoy_packet::protocol::UDP;
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, FramePool, FrameSize, IpHeader};

use super::Ipsec;
use crate::batch::RAW_TAILROOM_BYTES;
use crate::drops::DropReason;
use crate::job::{Direction, Prepared, SaIndex};
use crate::lease::NEVER_NS;
use crate::lifetime::Expiry;
use crate::natt::KEEPALIVE;
use crate::outbound::{OutboundRest, OutboundSa};
use crate::path_mtu::PathMtu;
use crate::sa::write_udp;
use crate::sa_config::SaEnds;
use crate::sa_id::{OutboundId, SaId, SaNumber};
use crate::sad::{SaFacts, SaName, Sad};
use crate::spd::TunnelId;
use crate::timers::Timer;

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
    /// Appends a keep-alive for every tunnel whose current SA is encapsulated and was silent for the
    /// configured time (RFC 3948 section 4), and gives up fragments that have waited too long. To be called
    /// about once a second. Only those SAs are looked at that may be silent by now.
    pub fn keepalives(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<Frame>) {
        self.now_ns = self.now_ns.max(now_ns);
        self.reassembly.expire(now_ns, pool, &mut self.drops);
        while let Some(timer) = self.keepalives.pop(now_ns) {
            self.note_look();
            let id = timer.sa;
            match self.sad.outbound.both_mut(id.0) {
                Some((sa, rest))
                    if rest.keepalive_due_ns == timer.due_ns && sa.generation() == timer.generation =>
                {
                    rest.keepalive_due_ns = NEVER_NS;
                    self.keep_alive(id, now_ns, pool, out);
                }
                _ => {}
            }
        }
    }

    fn keep_alive(&mut self, id: OutboundId, now_ns: u64, pool: &mut FramePool, out: &mut Vec<Frame>) {
        let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) else { return };
        if self.tunnels.current(rest.common.tunnel) != Some(id) {
            return;
        }
        let is_silent = now_ns.saturating_sub(last_sent_ns(sa, rest)) >= self.config.keepalive_ns;
        if is_silent && rest.common.facts.encap.is_some() {
            match keepalive(&rest.common.facts, pool) {
                Some(frame) => {
                    rest.last_keepalive_ns = now_ns;
                    out.push(frame);
                }
                None => self.drops.count(DropReason::NoFrame),
            }
        }
        self.await_silence_after(id, now_ns);
    }

    /// Has an SA looked at when it may have been silent for too long; there may be no need to.
    pub(super) fn await_silence(&mut self, id: OutboundId) {
        self.await_silence_after(id, 0);
    }

    /// The same, but not at `after_ns` or before.
    fn await_silence_after(&mut self, id: OutboundId, after_ns: u64) {
        let interval_ns = self.config.keepalive_ns;
        let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) else { return };
        let facts = &rest.common.facts;
        if interval_ns == 0 || facts.encap.is_none() {
            return;
        }
        let due_ns = last_sent_ns(sa, rest).saturating_add(interval_ns).max(after_ns.saturating_add(1));
        if due_ns < rest.keepalive_due_ns {
            rest.keepalive_due_ns = due_ns;
            self.keepalives.set(Timer { due_ns, sa: id, generation: sa.generation() });
            let sad = &self.sad;
            self.keepalives.sweep(|timer| is_there(sad, timer));
        }
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

    /// Sets the largest outer packet of an SA's path, in bytes; `None` is the port's MTU. What was learned
    /// from ICMP is forgotten. Unknown is no error.
    pub fn set_path_mtu(&mut self, id: OutboundId, mtu: Option<u16>) {
        if let Some(rest) = self.sad.outbound.rest_mut(id.0) {
            rest.path.configure(mtu);
            self.renew(id);
        }
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
                self.await_silence(id);
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

    /// Prepares a dummy packet of `len` bytes on an outbound SA, which the peer drops (RFC 4303 section
    /// 2.6); `None` if the SA has none to send or no frame is free.
    pub fn dummy(
        &mut self,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
        pool: &mut FramePool,
        id: OutboundId,
        len: usize,
    ) -> Option<Prepared> {
        let index = SaIndex::from(id);
        let (sa, rest) = self.sad.outbound.both_mut(id.0)?;
        let frame = pool.take(FrameSize::for_packet(len, RAW_TAILROOM_BYTES)?)?;
        let mut packet = Prepared::new(frame, index, Direction::Seal, self.config.classes.class_of(0));
        match sa.prepare_dummy(rest, &mut packet, len, now_ns, random) {
            Ok(is_limit) => {
                if is_limit {
                    self.limits_reached.push(index);
                }
                Some(packet)
            }
            Err(reason) => {
                self.drop_frame(pool, packet.frame, Some(index), reason);
                None
            }
        }
    }
}

/// When an SA last sent anything, keep-alives counted, in ns.
fn last_sent_ns(sa: &OutboundSa, rest: &OutboundRest) -> u64 {
    if sa.last_used_ns == NEVER_NS {
        rest.last_keepalive_ns
    } else {
        rest.last_keepalive_ns.max(sa.last_used_ns)
    }
}

/// Whether the SA that a timer is for is still there.
fn is_there<S: Copy + Into<SaIndex>>(sad: &Sad, timer: &Timer<S>) -> bool {
    sad.common(timer.sa.into()).is_some_and(|common| common.generation == timer.generation)
}

/// One keep-alive: a UDP datagram of one byte, from our port to the peer's.
fn keepalive(facts: &SaFacts, pool: &mut FramePool) -> Option<Frame> {
    let ports = facts.encap?;
    let mut frame = pool.take(FrameSize::Small)?;
    let header = IpHeader::new(UDP, facts.name.local, facts.name.remote);
    let at = header.header_len();
    if frame.append(at + UDP_HEADER + KEEPALIVE.len()).is_err() {
        pool.give_back(frame);
        return None;
    }
    header.write(&mut frame);
    frame[at + UDP_HEADER..].copy_from_slice(&KEEPALIVE);
    write_udp(&mut frame[at..], ports);
    Some(frame)
}
