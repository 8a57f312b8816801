//! What is done from time to time: keep-alives, expiry, path MTU, NAT mappings.

use std::net::{IpAddr, SocketAddr};

use convoy_packet::protocol::UDP;
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, FramePool, FrameSize, IpHeader};

use super::Ipsec;
use super::outbound::NEEDED_TAILROOM;
use crate::drops::DropReason;
use crate::job::{CryptoStatus, Direction, Prepared, SaIndex};
use crate::lifetime::Expiry;
use crate::natt::KEEPALIVE;
use crate::path_mtu::PathMtu;
use crate::sa::write_udp;
use crate::sa_config::{SaDirection, SaEnds};
use crate::sad::{Sa, SaFacts, SaName, Slot};
use crate::spd::TunnelId;

/// A peer behind a NAT sends from elsewhere, as an authenticated packet shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingChange {
    /// The inbound SA that the packet came by.
    pub sa: SaIndex,
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
    /// Where it stands.
    pub sa: SaIndex,
    /// Which it is.
    pub name: SaName,
    /// Its tunnel.
    pub tunnel: TunnelId,
    /// Which limit.
    pub expiry: Expiry,
}

impl Ipsec {
    /// Appends a keep-alive for every tunnel whose current SA is encapsulated, ours, and was silent for the
    /// configured time (RFC 3948 section 4), and gives up fragments that have waited too long. To be called
    /// about once a second.
    pub fn keepalives(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<Frame>) {
        self.now_ns = self.now_ns.max(now_ns);
        self.reassembly.expire(now_ns, pool, &mut self.drops);
        let (interval_ns, worker) = (self.config.keepalive_ns, self.config.worker);
        if interval_ns == 0 {
            return;
        }
        let mut without_frame = 0;
        for (index, slot) in self.sad.iter_mut() {
            let is_due = now_ns.saturating_sub(slot.last_sent_ns) >= interval_ns;
            let is_current =
                matches!(slot.sa, Sa::Outbound(_)) && self.tunnels.current(slot.tunnel) == Some(index);
            if slot.facts.encap.is_none() || slot.facts.owner != worker || !is_current || !is_due {
                continue;
            }
            match keepalive(&slot.facts, pool) {
                Some(frame) => {
                    slot.last_sent_ns = now_ns;
                    out.push(frame);
                }
                None => without_frame += 1,
            }
        }
        self.drops.add(DropReason::NoFrame, without_frame);
    }

    /// Appends an event for every limit that an SA of ours has reached, each once. To be called about once
    /// a second. The SAs stay until `remove`.
    pub fn expire(&mut self, now_ns: u64, events: &mut Vec<LifetimeEvent>) {
        self.now_ns = self.now_ns.max(now_ns);
        for (sa, slot) in self.sad.iter_mut().filter(|(_, slot)| slot.facts.owner == self.config.worker) {
            let expiry = match &mut slot.sa {
                Sa::Outbound(sa) => {
                    slot.sent_lately.note(now_ns, sa.sequence());
                    sa.expiry(now_ns)
                }
                Sa::Inbound(sa) => sa.expiry(now_ns),
            };
            if let Some(expiry) = expiry {
                let (name, tunnel) = (slot.facts.name, self.tunnels.id(slot.tunnel));
                events.push(LifetimeEvent { sa, name, tunnel, expiry });
            }
        }
    }

    /// Tells of every inbound SA of ours whose peer has moved since `tell` last took its move, which it says by `true`. What it
    /// does not take it is told again, with where the peer is by then. To be called about once a second.
    pub fn mapping_changes(&mut self, tell: &mut dyn FnMut(MappingChange) -> bool) {
        for (sa, slot) in self.sad.iter_mut() {
            let Some((old, new)) = slot.moved else { continue };
            let tunnel = self.tunnels.id(slot.tunnel);
            if old == new || tell(MappingChange { sa, tunnel, old, new }) {
                slot.moved = None;
            }
        }
    }

    /// Sets the largest outer packet of an SA's path, in bytes; `None` is the port's MTU. What was learned
    /// from ICMP is forgotten. Unknown is no error.
    pub fn set_path_mtu(&mut self, index: SaIndex, mtu: Option<u16>) {
        if let Some(slot) = self.sad.get_mut(index) {
            slot.path.configure(mtu);
        }
    }

    /// Takes in what a port found out: packets to `peer` that are longer than `mtu` bytes do not arrive. For a time no
    /// outbound SA of ours sends longer ones there.
    pub fn learn_path_mtu(&mut self, now_ns: u64, peer: IpAddr, mtu: u16) {
        let link = self.config.mtu;
        for (_, slot) in self.sad.iter_mut() {
            if matches!(slot.sa, Sa::Outbound(_)) && slot.facts.name.remote == peer {
                slot.path.learn(now_ns, link, mtu, peer.is_ipv6());
            }
        }
    }

    /// Gives an SA other ends (MOBIKE, NAT); sequence numbers and replay window go on. `false` if it is unknown, if
    /// another SA has its SPI there, or if it cannot travel so: AH in UDP, ends of two families.
    pub fn move_sa(&mut self, index: SaIndex, ends: &SaEnds) -> bool {
        let before = self.sad.get(index).map(|slot| slot.facts.name);
        let Some(before) = before.filter(|_| self.sad.move_sa(index, ends)) else { return false };
        if let Some(slot) = self.sad.get_mut(index) {
            slot.path = PathMtu::default();
        }
        if before.direction == SaDirection::Inbound {
            self.own.add(ends.local);
            self.own.remove(before.local);
        }
        true
    }

    /// The ends of an SA as [`move_sa`](Self::move_sa) takes them; `None` if it is unknown.
    pub fn ends(&self, index: SaIndex) -> Option<SaEnds> {
        let facts = self.sad.get(index)?.facts;
        Some(SaEnds { local: facts.name.local, remote: facts.name.remote, encap: facts.encap })
    }

    /// The last sequence number that an outbound SA counts as sent: a standby that takes over goes on after
    /// it. One that was sent already changes nothing. Unknown is no error.
    pub fn set_sequence(&mut self, index: SaIndex, sequence: u64) {
        if let Some(Slot { sa: Sa::Outbound(sa), .. }) = self.sad.get_mut(index) {
            sa.set_sequence(sequence);
        }
    }

    /// Lets an outbound SA use the sequence numbers up to `last`, as those that were [reserved](crate::SaConfig::sequence_reserved)
    /// before. Unknown is no error.
    pub fn reserve_sequence(&mut self, index: SaIndex, last: u64) {
        if let Some(Slot { sa: Sa::Outbound(sa), .. }) = self.sad.get_mut(index) {
            sa.reserve_sequence(last);
        }
    }

    /// The last sequence number that an SA has sent, or the highest that it has received.
    pub fn sequence(&self, index: SaIndex) -> Option<u64> {
        self.sad.get(index).map(|slot| match &slot.sa {
            Sa::Outbound(sa) => sa.sequence(),
            Sa::Inbound(sa) => sa.replay().highest(),
        })
    }

    /// Prepares a dummy packet of `len` bytes on an outbound SA, which the peer drops (RFC 4303 section
    /// 2.6); `None` if the SA has none to send or no frame is free.
    pub fn dummy(
        &mut self,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
        pool: &mut FramePool,
        index: SaIndex,
        len: usize,
    ) -> Option<Prepared> {
        let Some(Slot { sa: Sa::Outbound(sa), generation, .. }) = self.sad.get_mut(index) else {
            return None;
        };
        let mut frame = pool.take(FrameSize::for_packet(len, NEEDED_TAILROOM)?)?;
        match sa.prepare_dummy(&mut frame, len, now_ns, random) {
            Ok((job, mut context)) => {
                context.generation = *generation;
                let (status, class) = (CryptoStatus::Pending, self.config.classes.class_of(0));
                Some(Prepared {
                    frame,
                    job,
                    status,
                    sa: index,
                    direction: Direction::Seal,
                    class,
                    reorder_index: 0,
                    context,
                })
            }
            Err(reason) => {
                self.drop_frame(pool, frame, Some(index), reason);
                None
            }
        }
    }
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
