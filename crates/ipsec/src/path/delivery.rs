//! The end of the inbound path: the engine's result is checked, the replay window advanced, and the
//! inner packet checked against the policies and delivered.

use std::net::SocketAddr;

use convoy_packet::aggfrag::HEADER_BYTES as AGGFRAG_HEADER;
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, FramePool, Layout, Udp, ip};

use super::inbound::Inbound;
use super::plain_inner::{InnerFamily, alone_in_payload, inner_of_tunnel};
use super::tables::Tables;
use super::unpack::PayloadHead;
use crate::drops::DropReason;
use crate::esp::job::{CryptoJob, CryptoPacket, CryptoStatus};
use crate::esp::stage::Form;
use crate::icmp::quote::{self, Quote};
use crate::ip::flow::FlowKey;
use crate::sa::config::Mode;
use crate::sa::id::{InboundId, SaIndex, SaNumber, TunnelId};

/// Where the short way of delivery looks for an inner packet: behind the ESP header, or in a
/// payload.
const TUNNEL: bool = false;
const PAYLOAD: bool = true;

/// A peer behind a NAT has changed its address or port, as an authenticated packet shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingChange {
    /// The inbound SA of the packet.
    pub sa: SaNumber,
    /// Its tunnel.
    pub tunnel: TunnelId,
    /// The previous source of its packets.
    pub old: SocketAddr,
    /// The new source.
    pub new: SocketAddr,
}

impl Inbound {
    /// Takes packets back from the engines, checks them, and appends the inner packets to `out`.
    /// They must arrive in order per SA; `done` is left empty.
    pub fn finish(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        pool: &mut FramePool,
        done: &mut Vec<CryptoPacket>,
        out: &mut Vec<Frame>,
    ) {
        tables.now_ns = tables.now_ns.max(now_ns);
        for mut packet in done.drain(..) {
            if self.finish_shortly(tables, &mut packet, now_ns) {
                out.push(packet.frame);
            } else {
                self.finish_any(tables, now_ns, pool, packet, out);
            }
        }
    }

    /// Handles the common case, by the version of what may be the inner packet: see
    /// [`finish_plain`](Self::finish_plain).
    #[inline(always)]
    pub(super) fn finish_shortly(
        &mut self,
        tables: &mut Tables,
        packet: &mut CryptoPacket,
        now_ns: u64,
    ) -> bool {
        let start = usize::from(packet.job.cipher_start);
        match packet.frame.get(start).map_or(0, |first| first >> 4) {
            4 => self.finish_plain::<u64, TUNNEL>(tables, packet, now_ns),
            6 => self.finish_plain::<[u128; 2], TUNNEL>(tables, packet, now_ns),
            _ => self.finish_alone(tables, packet, now_ns),
        }
    }

    /// Handles what may be a payload of AGGFRAG mode, if it is the common case.
    #[inline(never)]
    fn finish_alone(&mut self, tables: &mut Tables, packet: &mut CryptoPacket, now_ns: u64) -> bool {
        let inner = usize::from(packet.job.cipher_start) + AGGFRAG_HEADER;
        match packet.frame.get(inner).map_or(0, |first| first >> 4) {
            4 => self.finish_plain::<u64, PAYLOAD>(tables, packet, now_ns),
            6 => self.finish_plain::<[u128; 2], PAYLOAD>(tables, packet, now_ns),
            _ => false,
        }
    }

    /// Handles the common case: an authentic, new packet with a plain one inside that its tunnel
    /// admits at once and that is delivered unchanged; in AGGFRAG mode one that is alone in the
    /// next payload. Leaves the inner packet, or returns `false` if it is a different case, and has
    /// changed nothing.
    // Not inlined: otherwise most of its values would not stay in registers.
    #[inline(never)]
    fn finish_plain<A: InnerFamily, const IN_PAYLOAD: bool>(
        &mut self,
        tables: &mut Tables,
        packet: &mut CryptoPacket,
        now_ns: u64,
    ) -> bool {
        let CryptoPacket { frame, job, status, sa: index, context, .. } = packet;
        let Some(id) = index.inbound() else { return false };
        if IN_PAYLOAD
            && !tables.reassembler(id).is_some_and(|reassembler| reassembler.expects(context.sequence))
        {
            return false;
        }
        let Some(sa) = tables.sad.inbound.hot_mut(id.0) else { return false };
        let is_ready = *status == CryptoStatus::Done
            && sa.generation == context.generation
            && !sa.is_due(now_ns)
            && context.form == Form::LaidOut
            && if IN_PAYLOAD { sa.mode() == Mode::Iptfs } else { sa.is_plain_tunnel() };
        let inner = if IN_PAYLOAD { alone_in_payload::<A>(frame, job) } else { inner_of_tunnel(frame, job) };
        let Some(inner) = inner.filter(|_| is_ready) else { return false };
        let start = usize::from(job.cipher_start) + if IN_PAYLOAD { AGGFRAG_HEADER } else { 0 };
        if tables.config.may_change(&inner, &frame[start..]) {
            return false;
        }
        let Some(interface) = A::admitted(&inner, &tables.tunnels, sa.tunnel) else { return false };
        let header = IpsecHeader { at: context.header.into(), in_udp: sa.in_udp() };
        let asks_source = sa.follows_source()
            && context.sequence > sa.replay().highest()
            && !sa.is_from_peer(frame, header.at);
        let source = if asks_source { outer_source(frame, header) } else { None };
        // A packet that is not new is dropped by the general path.
        if sa.accept(*status, context.sequence).is_err() {
            return false;
        }
        // What came from outside has the shared one already.
        if interface != 0 {
            frame.set_interface(interface);
        }
        frame.truncate(start + inner.total_len);
        let trimmed = frame.trim_front(start);
        debug_assert!(trimmed.is_ok(), "the inner packet was found behind it");
        let used_before_ns = std::mem::replace(&mut sa.last_used_ns, now_ns);
        tables.totals.opened += 1;
        if sa.spend(job) {
            tables.limits_reached.push(*index);
        }
        tables.note_moved(*index, used_before_ns);
        if IN_PAYLOAD {
            tables.note_alone(id, now_ns);
        }
        if let Some(source) = source {
            self.note_source(tables, id, source);
        }
        true
    }

    /// Handles any packet.
    pub(super) fn finish_any(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        pool: &mut FramePool,
        done: CryptoPacket,
        out: &mut Vec<Frame>,
    ) {
        let CryptoPacket { mut frame, job, status, sa: index, direction, class, context } = done;
        let found = index.inbound().and_then(|id| Some((id, tables.sad.inbound.hot_mut(id.0)?)));
        let Some((id, sa)) = found.filter(|(_, sa)| sa.generation == context.generation) else {
            return tables.drop_frame(pool, frame, None, DropReason::UnknownSpi);
        };
        // A raw packet was not opened, whatever an engine reports.
        let status = match status {
            CryptoStatus::Done if context.form == Form::Raw => CryptoStatus::Pending,
            reported => reported,
        };
        // Higher, not the highest: without a window the newest packet may be repeated by anybody,
        // from anywhere.
        let is_newest = context.sequence > sa.replay().highest();
        if let Err(reason) = sa.accept(status, context.sequence) {
            if reason == DropReason::InboundUnreserved {
                tables.note_unreserved(id, context.sequence);
                let packet = CryptoPacket { frame, job, status, sa: index, direction, class, context };
                let Some(packet) = self.held.keep(now_ns, packet, pool) else { return };
                frame = packet.frame;
            }
            return tables.drop_frame(pool, frame, Some(index), reason);
        }
        if sa.is_due(now_ns) && is_over(tables, id, now_ns) {
            return tables.drop_frame(pool, frame, Some(index), DropReason::SaExpired);
        }
        let Some(sa) = tables.sad.inbound.hot_mut(id.0) else {
            return tables.drop_frame(pool, frame, None, DropReason::UnknownSpi);
        };
        if sa.spend(&job) {
            tables.limits_reached.push(index);
        }
        let (tunnel, mode) = (sa.tunnel, sa.mode());
        let asks_source = sa.follows_source() && is_newest;
        let header = IpsecHeader { at: context.header.into(), in_udp: sa.in_udp() };
        let (inner, source) = match context.form {
            Form::Stripped(Err(reason)) => (Err(reason), None),
            Form::Stripped(Ok(())) => {
                let source =
                    if asks_source { stripped_source(&mut frame, &job, header, sa.icv_len()) } else { None };
                let inner = match mode {
                    Mode::Iptfs => Ok(None),
                    _ => Layout::parse(&frame).map(Some).map_err(|_| DropReason::MalformedDecrypted),
                };
                (inner, source)
            }
            Form::LaidOut | Form::Raw => {
                let source = if asks_source { outer_source(&frame, header) } else { None };
                let stripped = match mode {
                    Mode::Iptfs => sa.strip_payload(&mut frame, &job, &context).map(|()| None),
                    _ => sa.strip(&mut frame, &job, &context).map(Some),
                };
                (stripped, source)
            }
        };
        let inner = match inner {
            Ok(inner) => inner,
            Err(reason) => {
                let is_echo = reason == DropReason::EspEcho;
                if is_echo {
                    let used_before_ns = std::mem::replace(&mut sa.last_used_ns, now_ns);
                    tables.note_moved(index, used_before_ns);
                }
                // A dummy packet and an echo have no content for the inside, but a sender.
                if let Some(source) = source.filter(|_| is_echo || reason == DropReason::Dummy) {
                    self.note_source(tables, id, source);
                }
                if is_echo {
                    self.echoes.take(tables, id, frame, pool);
                    if mode == Mode::Iptfs {
                        self.skip_payload(tables, id, context.sequence, pool, out);
                    }
                    return;
                }
                return tables.drop_frame(pool, frame, Some(index), reason);
            }
        };
        let used_before_ns = std::mem::replace(&mut sa.last_used_ns, now_ns);
        tables.note_moved(index, used_before_ns);
        if let Some(source) = source {
            self.note_source(tables, id, source);
        }
        match inner {
            Some(inner) => {
                deliver(tables, frame, &inner, InnerArrival { sa: index, tunnel, mode }, pool, out)
            }
            None => {
                let outer_class = context.inner.traffic_class;
                let head = PayloadHead { id, sequence: context.sequence, outer_class };
                self.unpack(tables, head, frame, pool, out);
            }
        }
    }

    /// An authentic packet came from `source`: if that is not the peer's known end, a NAT has moved
    /// the peer (RFC 7296 section 2.23), or it roams.
    fn note_source(&mut self, tables: &mut Tables, id: InboundId, source: SocketAddr) {
        let Some(cold) = tables.sad.inbound.cold_mut(id.0) else { return };
        let (old, roams) = (cold.common.facts.peer(), cold.common.facts.roams);
        // Port 0 stands for any: the peer sends its SAs of several CPUs from ports of their own.
        if old == source || (old.port() == 0 && !roams) {
            return;
        }
        if roams && self.roamed.last() != Some(&id) {
            self.roamed.push(id);
        }
        if cold.moved.is_none() {
            self.moved.push(id);
        }
        cold.moved = Some((cold.moved.map_or(old, |(first, _)| first), source));
        tables.sad.move_peer(id, source);
    }

    /// Whether a peer has roamed since the last call of
    /// [`follow_roamers`](super::Ipsec::follow_roamers).
    #[inline]
    pub fn has_roamed(&self) -> bool {
        !self.roamed.is_empty()
    }

    /// Reports every inbound SA whose peer has moved since `tell` last accepted its move by
    /// returning `true`. Moves that it does not accept are reported again, with the peer's latest
    /// end. Call about once a second.
    pub fn mapping_changes(&mut self, tables: &mut Tables, tell: &mut dyn FnMut(MappingChange) -> bool) {
        let (sad, tunnels) = (&mut tables.sad, &tables.tunnels);
        self.moved.retain(|id| {
            let Some(sa) = sad.number((*id).into()) else { return false };
            let Some(cold) = sad.inbound.cold_mut(id.0) else { return false };
            let Some((old, new)) = cold.moved else { return false };
            let tunnel = tunnels.id(cold.common.tunnel);
            if old == new || tell(MappingChange { sa, tunnel, old, new }) {
                cold.moved = None;
            }
            cold.moved.is_some()
        });
    }
}

/// Evaluates an SA's limits again; returns whether it is past a hard one.
fn is_over(tables: &mut Tables, id: InboundId, now_ns: u64) -> bool {
    tables.sad.inbound.hot_and_cold_mut(id.0).is_some_and(|(sa, cold)| sa.renew(cold, now_ns))
}

/// How an inner packet arrived: by this SA, of this mode, of the tunnel with this number.
#[derive(Clone, Copy)]
pub(super) struct InnerArrival {
    pub(super) sa: SaIndex,
    pub(super) tunnel: u32,
    pub(super) mode: Mode,
}

#[inline]
pub(super) fn deliver(
    tables: &mut Tables,
    mut frame: Frame,
    layout: &Layout,
    arrival: InnerArrival,
    pool: &mut FramePool,
    out: &mut Vec<Frame>,
) {
    let InnerArrival { sa, tunnel, mode } = arrival;
    if let Err(reason) = admit(tables, &frame, layout, tunnel) {
        return tables.drop_frame(pool, frame, Some(sa), reason);
    }
    tables.totals.opened += 1;
    let interface = tables.tunnels.interface(tunnel);
    frame.set_interface(interface);
    if mode == Mode::Transport {
        return out.push(frame);
    }
    tables.clamp_mss(&mut frame, layout, interface, tables.tunnels.current(tunnel));
    if !tables.config.decrement_ttl {
        return out.push(frame);
    }
    if layout.hops <= 1 {
        // An answer would have to go back through the tunnel, so the sender gets none.
        return tables.drop_frame(pool, frame, Some(sa), DropReason::TtlExpired);
    }
    ip::decrement_hop_limit(&mut frame);
    out.push(frame);
}

/// Whether an inner packet may arrive through this tunnel: by its header (RFC 4301 section 5.2 step
/// 4) and, if it is an ICMP error, by the packet that it quotes (section 6.2).
#[inline]
fn admit(tables: &Tables, packet: &[u8], layout: &Layout, tunnel: u32) -> Result<(), DropReason> {
    if !quote::is_icmp(layout) && tables.tunnels.admits_at_once(tunnel, packet, layout) {
        return Ok(());
    }
    admit_any(tables, packet, layout, tunnel)
}

fn admit_any(tables: &Tables, packet: &[u8], layout: &Layout, tunnel: u32) -> Result<(), DropReason> {
    let is_selected = tables.tunnels.admits_inbound(tunnel, &FlowKey::of(packet, layout));
    if is_selected && !quote::is_icmp(layout) {
        return Ok(());
    }
    let quote = Quote::of(packet, layout);
    let (answered, reason) = match (&quote, is_selected) {
        (None, false) => return Err(DropReason::PolicyMismatch),
        (None, true) => return Ok(()),
        (Some(_), true) if !tables.config.check_icmp => return Ok(()),
        (Some(quote), true) => (quote.flow(), DropReason::IcmpMismatch),
        (Some(quote), false) => (quote.followed(), DropReason::PolicyMismatch),
    };
    let Some(flow) = answered else { return Err(reason) };
    if tables.tunnels.answers(tunnel, flow) { Ok(()) } else { Err(DropReason::IcmpMismatch) }
}

/// The ESP or AH header of an accepted packet: at this byte, and whether it came in UDP.
#[derive(Clone, Copy)]
struct IpsecHeader {
    at: usize,
    in_udp: bool,
}

/// Source address of an accepted packet, and its source port if it came in UDP, otherwise 0.
fn outer_source(packet: &[u8], header: IpsecHeader) -> Option<SocketAddr> {
    let port = if header.in_udp {
        Udp::parse(packet.get(header.at.checked_sub(UDP_HEADER)?..)?).ok()?.source_port()
    } else {
        0
    };
    Some(SocketAddr::new(ip::source(packet), port))
}

/// The source of an accepted packet that was stripped on another core: what was cut off is still in
/// the frame around it.
fn stripped_source(
    frame: &mut Frame,
    job: &CryptoJob,
    header: IpsecHeader,
    icv_len: usize,
) -> Option<SocketAddr> {
    let (front, len) = (usize::from(job.cipher_start), frame.len());
    let back = (usize::from(job.icv_start) + icv_len).checked_sub(front + len)?;
    frame.grow(front, back).ok()?;
    let source = outer_source(frame, header);
    frame.trim_front(front).ok()?;
    frame.truncate(len);
    source
}
