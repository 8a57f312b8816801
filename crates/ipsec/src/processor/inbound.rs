//! The way in: reassembly, the SA behind the SPI, and after the crypto job the check against policy.

use std::net::SocketAddr;

use convoy_packet::protocol::{AH, ESP, UDP};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Ah, Esp, Frame, FramePool, Layout, Offload, Udp, ip};

use super::{Ipsec, Verdict};
use crate::drops::DropReason;
use crate::flow::{FlowKey, number_address};
use crate::icmp::{self, TooBigReport};
use crate::job::{CryptoStatus, Direction, Prepared, SaIndex};
use crate::natt::{Carried, classify};
use crate::quote::{self, Quote};
use crate::sa_config::{Mode, SaProtocol};
use crate::sad::{Sa, Slot};

/// Where IKE listens (RFC 7296 section 2).
const IKE_PORT: u16 = 500;

/// What became of a burst from the outside.
#[derive(Debug, Default)]
pub struct InboundBurst {
    /// To be opened by an engine, unless their port has done it (`CryptoStatus::Done`), then to be finished.
    pub open: Vec<Prepared>,
    /// For the inside as they are.
    pub bypass: Vec<Frame>,
    /// IKE messages: whole IP packets to UDP port 500, or with the non-ESP marker to that of ESP in UDP.
    pub ike: Vec<Frame>,
    /// For the worker that owns their SA, in its `inbound`.
    pub foreign: Vec<(u16, Frame)>,
    /// ICMP errors about bypassed packets.
    pub to_outside: Vec<Frame>,
}

/// What the headers of an outside packet say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// ESP or AH; the header stands at `at`, and what it protects ends at `end`.
    Protected {
        protocol: SaProtocol,
        spi: u32,
        at: usize,
        end: usize,
        in_udp: bool,
    },
    Ike,
    Keepalive,
    Plain,
    /// One of the above, cut short.
    Short,
}

impl Kind {
    /// Of a packet to one of our own addresses.
    fn of(packet: &[u8], layout: &Layout, natt_port: u16) -> Self {
        let (at, body) = (layout.payload, layout.body(packet));
        let end = layout.total_len;
        let protected = |protocol, spi| Self::Protected { protocol, spi, at, end, in_udp: false };
        match layout.protocol {
            ESP => Esp::parse(body).map_or(Self::Short, |esp| protected(SaProtocol::Esp, esp.spi())),
            AH => Ah::parse(body).map_or(Self::Short, |ah| protected(SaProtocol::Ah, ah.spi())),
            UDP => Udp::parse(body).map_or(Self::Short, |udp| Self::of_udp(udp, at, natt_port)),
            _ => Self::Plain,
        }
    }

    fn of_udp(datagram: Udp<'_>, at: usize, natt_port: u16) -> Self {
        match datagram.destination_port() {
            IKE_PORT => Self::Ike,
            port if port == natt_port => match (classify(datagram.payload()), Esp::parse(datagram.payload()))
            {
                (Carried::Keepalive, _) => Self::Keepalive,
                (Carried::Ike, _) => Self::Ike,
                (Carried::Esp, Ok(esp)) => {
                    let (protocol, spi) = (SaProtocol::Esp, esp.spi());
                    // The datagram's own length counts: IP may carry more behind it.
                    let end = at + usize::from(datagram.length());
                    Self::Protected { protocol, spi, at: at + UDP_HEADER, end, in_udp: true }
                }
                (Carried::Esp | Carried::Malformed, _) => Self::Short,
            },
            _ => Self::Plain,
        }
    }
}

impl Ipsec {
    /// Takes whole IP packets from the outside, puts fragments together, and prepares what is protected.
    /// `frames` is left empty; dropped frames are back in `pool` and counted.
    pub fn inbound(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut InboundBurst,
    ) {
        self.now_ns = now_ns;
        self.reassembly.expire(now_ns, pool, &mut self.drops);
        for frame in frames.drain(..) {
            self.inbound_one(frame, pool, out);
        }
    }

    fn inbound_one(&mut self, mut frame: Frame, pool: &mut FramePool, out: &mut InboundBurst) {
        if frame.offload() != Offload::None {
            return self.inbound_opened(frame, pool, out);
        }
        let Ok(mut layout) = Layout::parse(&frame) else {
            return self.drop_frame(pool, frame, None, DropReason::MalformedOuter);
        };
        frame.truncate(layout.total_len);
        if !self.own.has(layout.addresses(&frame).1) {
            return self.inbound_plain(frame, &layout, pool, out);
        }
        if layout.fragment.is_some() {
            let whole = self.reassembly.take_in(self.now_ns, frame, &layout, pool, &mut self.drops);
            let Some(whole) = whole else { return };
            self.totals.reassembled += 1;
            frame = whole;
            match Layout::parse(&frame) {
                Ok(parsed) if parsed.fragment.is_none() => layout = parsed,
                _ => return self.drop_frame(pool, frame, None, DropReason::MalformedOuter),
            }
        }
        match Kind::of(&frame, &layout, self.config.natt_port) {
            Kind::Protected { protocol, spi, at, end, in_udp } => {
                match self.inbound_sa(&frame, &layout, protocol, spi, in_udp) {
                    Ok((_, owner)) if owner != self.config.worker => out.foreign.push((owner, frame)),
                    Ok((index, _)) => {
                        frame.truncate(end);
                        self.open(frame, &layout, at, index, pool, out);
                    }
                    Err((index, reason)) => self.drop_frame(pool, frame, index, reason),
                }
            }
            Kind::Ike => out.ike.push(frame),
            Kind::Keepalive => self.drop_frame(pool, frame, None, DropReason::Keepalive),
            Kind::Short => self.drop_frame(pool, frame, None, DropReason::MalformedOuter),
            Kind::Plain => match self.reported_sa(&frame, &layout) {
                Some((_, _, owner)) if owner != self.config.worker => out.foreign.push((owner, frame)),
                Some((report, index, _)) => {
                    let reason = self.heed_too_big(&report, index);
                    self.drop_frame(pool, frame, Some(index), reason);
                }
                None => self.inbound_plain(frame, &layout, pool, out),
            },
        }
    }

    /// What a port's device has opened is plaintext behind its ESP header: it goes to the SA whose keys opened it, or nowhere.
    fn inbound_opened(&mut self, mut frame: Frame, pool: &mut FramePool, out: &mut InboundBurst) {
        let Ok(layout) = Layout::parse(&frame) else {
            return self.drop_frame(pool, frame, None, DropReason::MalformedOuter);
        };
        frame.truncate(layout.total_len);
        match self.opened_sa(&frame, &layout) {
            Ok((index, at)) => self.open(frame, &layout, at, index, pool, out),
            Err((index, reason)) => self.drop_frame(pool, frame, index, reason),
        }
    }

    /// The SA of a packet that was opened with that SA's keys, and where its ESP header stands.
    fn opened_sa(
        &self,
        frame: &Frame,
        layout: &Layout,
    ) -> Result<(SaIndex, usize), (Option<SaIndex>, DropReason)> {
        let is_ours = layout.fragment.is_none() && self.own.has(layout.addresses(frame).1);
        let (Kind::Protected { protocol: SaProtocol::Esp, spi, at, in_udp, .. }, true) =
            (Kind::of(frame, layout, self.config.natt_port), is_ours)
        else {
            return Err((None, DropReason::OpenedElsewhere));
        };
        let (index, owner) = self.inbound_sa(frame, layout, SaProtocol::Esp, spi, in_udp)?;
        if frame.offload() != (Offload::Opened { sa: index.0 }) || owner != self.config.worker {
            return Err((Some(index), DropReason::OpenedElsewhere));
        }
        Ok((index, at))
    }

    /// The SA that a protected packet came by, and its owner.
    fn inbound_sa(
        &self,
        packet: &[u8],
        layout: &Layout,
        protocol: SaProtocol,
        spi: u32,
        in_udp: bool,
    ) -> Result<(SaIndex, u16), (Option<SaIndex>, DropReason)> {
        let index = self.sad.find_inbound(spi, protocol);
        let found = index.and_then(|index| Some((index, &self.sad.get(index)?.facts)));
        let Some((index, facts)) = found else { return Err((None, DropReason::UnknownSpi)) };
        let (_, destination) = layout.addresses(packet);
        let local = facts.name.local;
        let to_any = local.is_unspecified() && local.is_ipv6() == destination.is_ipv6();
        if !(to_any || local == destination) || facts.encap.is_some() != in_udp {
            return Err((Some(index), DropReason::SaMismatch));
        }
        Ok((index, facts.owner))
    }

    fn open(
        &mut self,
        mut frame: Frame,
        layout: &Layout,
        header_at: usize,
        index: SaIndex,
        pool: &mut FramePool,
        out: &mut InboundBurst,
    ) {
        let Some(slot) = self.sad.get_mut(index) else {
            return self.drop_frame(pool, frame, None, DropReason::UnknownSpi);
        };
        let Sa::Inbound(sa) = &mut slot.sa else {
            return self.drop_frame(pool, frame, None, DropReason::UnknownSpi);
        };
        match sa.prepare(&mut frame, layout, header_at) {
            Ok((job, mut finish)) => {
                finish.generation = slot.generation;
                let class = self.config.classes.class_of(layout.traffic_class);
                let is_opened = frame.offload() != Offload::None;
                let status = if is_opened { CryptoStatus::Done } else { CryptoStatus::Pending };
                // From here on it is an inner packet like any other.
                frame.set_offload(Offload::None);
                out.open.push(Prepared {
                    frame,
                    job,
                    status,
                    sa: index,
                    direction: Direction::Open,
                    class,
                    reorder_index: 0,
                    context: finish,
                });
            }
            Err(reason) => self.drop_frame(pool, frame, Some(index), reason),
        }
    }

    /// Plaintext from outside passes only where a policy says so.
    fn inbound_plain(&mut self, frame: Frame, layout: &Layout, pool: &mut FramePool, out: &mut InboundBurst) {
        let flow = FlowKey::of(&frame, layout);
        let Some(place) = self.inbound_flows.get_or_decide(&flow, || self.spd.find_inbound(&flow)) else {
            return self.drop_frame(pool, frame, None, DropReason::InboundNoPolicy);
        };
        match self.verdicts[place as usize] {
            Verdict::Protect(_) => self.drop_frame(pool, frame, None, DropReason::InboundUnprotected),
            Verdict::Discard => {
                self.note_use(place, frame.len());
                self.drop_frame(pool, frame, None, DropReason::InboundDiscard);
            }
            Verdict::Bypass => {
                self.note_use(place, frame.len());
                if let Some(frame) = self.count_hop_down(frame, layout, None, pool, &mut out.to_outside) {
                    self.totals.bypassed_in += 1;
                    out.bypass.push(frame);
                }
            }
        }
    }

    /// Reads `packet` as a "too big" from outside about one of our outbound SAs; also that SA's owner.
    fn reported_sa(&self, packet: &[u8], layout: &Layout) -> Option<(TooBigReport, SaIndex, u16)> {
        let report = icmp::parse_too_big(packet, layout)?;
        let protocol = if report.is_ah { SaProtocol::Ah } else { SaProtocol::Esp };
        let remote = number_address(report.is_v6, report.destination);
        let index = self.sad.find_outbound(report.spi, protocol, remote)?;
        let facts = &self.sad.get(index)?.facts;
        let is_ours =
            report.is_between(facts.name.local, facts.name.remote) && report.is_udp == facts.encap.is_some();
        is_ours.then_some((report, index, facts.owner))
    }

    /// Lowers the SA's path MTU (RFC 4301 section 8.2.1), and says as what the report is counted. Anybody can send one, but only
    /// the path knows which number was sent lately.
    fn heed_too_big(&mut self, report: &TooBigReport, index: SaIndex) -> DropReason {
        let (now_ns, link) = (self.now_ns, self.config.mtu);
        let Some(Slot { sa: Sa::Outbound(sa), path, sent_lately, .. }) = self.sad.get_mut(index) else {
            return DropReason::IcmpUnbelieved;
        };
        if !report.sequence.is_some_and(|number| sent_lately.has(number, sa.sequence())) {
            return DropReason::IcmpUnbelieved;
        }
        if self.icmp_heeded.admits(now_ns) {
            path.learn(now_ns, link, report.mtu, report.is_v6);
        }
        DropReason::IcmpError
    }

    /// Takes packets back from the engines, checks them, and appends the inner packets to `out`. They come in order per
    /// SA; `done` is left empty.
    pub fn finish_inbound(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        done: &mut Vec<Prepared>,
        out: &mut Vec<Frame>,
    ) {
        self.now_ns = self.now_ns.max(now_ns);
        for packet in done.drain(..) {
            self.finish_inbound_one(now_ns, pool, packet, out);
        }
    }

    fn finish_inbound_one(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        done: Prepared,
        out: &mut Vec<Frame>,
    ) {
        let Prepared { mut frame, job, status, sa: index, context, .. } = done;
        let slot = self.sad.get_mut(index).filter(|slot| slot.generation == context.generation);
        let Some(Slot { sa: Sa::Inbound(sa), facts, tunnel, last_used_ns, .. }) = slot else {
            return self.drop_frame(pool, frame, None, DropReason::UnknownSpi);
        };
        let (tunnel, mode) = (*tunnel, facts.mode);
        let source = facts.encap.and_then(|_| outer_source(&frame, context.header.into()));
        let highest = sa.replay().highest();
        let inner = match sa.finish(&mut frame, &job, &context, status, now_ns) {
            Ok(inner) => inner,
            Err(reason) => return self.drop_frame(pool, frame, Some(index), reason),
        };
        *last_used_ns = Some(now_ns);
        // Higher, not the highest: without a window the newest packet may come again, from anywhere.
        let is_newest = context.sequence > highest;
        if let Some(source) = source.filter(|source| is_newest && *source != facts.peer()) {
            self.note_source(index, source);
        }
        self.deliver(frame, &inner, index, (tunnel, mode), pool, out);
    }

    fn deliver(
        &mut self,
        frame: Frame,
        layout: &Layout,
        index: SaIndex,
        (tunnel, mode): (u32, Mode),
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        if let Err(reason) = self.admit(&frame, layout, tunnel) {
            return self.drop_frame(pool, frame, Some(index), reason);
        }
        self.totals.opened += 1;
        if mode == Mode::Transport {
            return out.push(frame);
        }
        // An answer would have to go back through the tunnel: the sender learns nothing.
        let mut nobody = Vec::new();
        if self.config.decrement_ttl && layout.hops <= 1 {
            self.drop_frame(pool, frame, Some(index), DropReason::TtlExpired);
        } else if let Some(frame) = self.count_hop_down(frame, layout, Some(index), pool, &mut nobody) {
            out.push(frame);
        }
    }

    /// Whether an inner packet may come by this tunnel: by its header (RFC 4301 section 5.2 step 4) and, if it is an ICMP error,
    /// by the packet that it quotes (section 6.2).
    fn admit(&self, packet: &[u8], layout: &Layout, tunnel: u32) -> Result<(), DropReason> {
        let is_selected = self.tunnels.admits_inbound(tunnel, &FlowKey::of(packet, layout));
        if is_selected && !quote::is_icmp(layout) {
            return Ok(());
        }
        let quote = Quote::of(packet, layout);
        let (answered, reason) = match (&quote, is_selected) {
            (None, false) => return Err(DropReason::PolicyMismatch),
            (None, true) => return Ok(()),
            (Some(_), true) if !self.config.check_icmp => return Ok(()),
            (Some(quote), true) => (quote.flow(), DropReason::IcmpMismatch),
            (Some(quote), false) => (quote.followed(), DropReason::PolicyMismatch),
        };
        let Some(flow) = answered else { return Err(reason) };
        if self.tunnels.answers(tunnel, flow) { Ok(()) } else { Err(DropReason::IcmpMismatch) }
    }

    /// An authentic packet came from `source`: a NAT has moved the peer (RFC 7296 section 2.23).
    fn note_source(&mut self, index: SaIndex, source: SocketAddr) {
        let Some((old, number)) = self.sad.get(index).map(|slot| (slot.facts.peer(), slot.tunnel)) else {
            return;
        };
        self.sad.move_peer(index, source);
        if let Some(slot) = self.sad.get_mut(index) {
            slot.moved = Some((slot.moved.map_or(old, |(first, _)| first), source));
        }
        if self.config.follow_mapping {
            for outbound in self.tunnels.outbound(number).to_vec() {
                if self.sad.get(outbound).is_some_and(|slot| slot.facts.peer() == old) {
                    self.sad.move_peer(outbound, source);
                }
            }
        }
    }
}

/// Source address and port of a packet in UDP that `inbound` has accepted; its ESP header stands at `esp_at`.
fn outer_source(packet: &[u8], esp_at: usize) -> Option<SocketAddr> {
    let datagram = Udp::parse(packet.get(esp_at.checked_sub(UDP_HEADER)?..)?).ok()?;
    Some(SocketAddr::new(ip::source(packet), datagram.source_port()))
}
