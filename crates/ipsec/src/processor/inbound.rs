//! The way in: reassembly, the SA behind the SPI, and after the crypto job the check against policy.

use std::net::IpAddr;
use std::vec::Drain;

use convoy_packet::protocol::{AH, ESP, UDP};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Ah, Esp, Frame, FramePool, Layout, Offload, Udp};

use super::glance::{ArrivingRun, Protected};
use super::{Decision, Ipsec, Verdict};
use crate::drops::DropReason;
use crate::flow::{FlowKey, number_address};
use crate::icmp::{self, TooBigReport};
use crate::inbound::InboundSa;
use crate::job::{CryptoStatus, Direction, Prepared, SaIndex};
use crate::natt::{Carried, classify};
use crate::sa_config::SaProtocol;
use crate::sa_id::{InboundId, OutboundId};

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
    pub for_others: Vec<(u16, Frame)>,
    /// ICMP errors about bypassed packets.
    pub to_outside: Vec<Frame>,
}

/// What the headers of an outside packet say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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

/// Whose the outbound SA is that a "too big" is about.
enum Reported {
    Ours(TooBigReport, OutboundId),
    Others(u16),
}

impl Kind {
    /// Of a packet to one of our own addresses.
    #[inline]
    pub(super) fn of(packet: &[u8], layout: &Layout, natt_port: u16) -> Self {
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
    /// Takes whole IP packets from the outside, puts fragments together, and finds the SAs of what
    /// is protected. `frames` is left empty; dropped frames are back in `pool` and counted.
    ///
    /// What came by ESP in tunnel mode is handed out [raw](Prepared::is_raw), for
    /// [`lay_out`](Self::lay_out) or [`begin`](Self::begin). Other packets, and what a port's
    /// device has opened, are checked and have their jobs.
    pub fn inbound(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut InboundBurst,
    ) {
        self.now_ns = now_ns;
        self.reassembly.expire(now_ns, pool, &mut self.drops);
        let mut arriving = std::mem::take(&mut self.arriving);
        self.glance_inbound(frames, &mut arriving);
        let mut frames = frames.drain(..);
        for run in &arriving {
            self.inbound_run(&mut frames, run, pool, out);
        }
        drop(frames);
        self.arriving = arriving;
    }

    /// The next frames, which are the run's. Nearly all are whole, to the very address of an SA of
    /// ours.
    #[inline(always)]
    fn inbound_run(
        &mut self,
        frames: &mut Drain<'_, Frame>,
        run: &ArrivingRun,
        pool: &mut FramePool,
        out: &mut InboundBurst,
    ) {
        let (Some(packet), Some(id)) = (&run.packet, run.sa) else {
            return self.inbound_any_run(frames, run, pool, out);
        };
        let is_at = |sa: &&InboundSa| sa.is_at(packet.is_v6, packet.to, packet.in_udp);
        let Some(sa) = self.sad.inbound.line(id.0).filter(is_at) else {
            return self.inbound_any_run(frames, run, pool, out);
        };
        if !sa.is_esp_tunnel() {
            return frames
                .take(run.packets as usize)
                .for_each(|frame| self.open(frame, packet, id, pool, out));
        }
        let class = self.config.classes.class_of(packet.traffic_class);
        let context = sa.raw_context(packet.at);
        for _ in 0..run.packets {
            let Some(mut frame) = frames.next() else { break };
            frame.truncate(packet.end);
            out.open.push(Prepared::new(frame, (id.into(), Direction::Open, class), context));
        }
    }

    #[inline(never)]
    fn inbound_any_run(
        &mut self,
        frames: &mut Drain<'_, Frame>,
        run: &ArrivingRun,
        pool: &mut FramePool,
        out: &mut InboundBurst,
    ) {
        frames.take(run.packets as usize).for_each(|frame| self.inbound_one(frame, pool, out));
    }

    /// Any packet.
    #[inline(never)]
    fn inbound_one(&mut self, mut frame: Frame, pool: &mut FramePool, out: &mut InboundBurst) {
        if frame.offload() != Offload::None {
            return self.inbound_opened(frame, pool, out);
        }
        let Ok(mut layout) = Layout::parse(&frame) else {
            return self.drop_frame(pool, frame, None, DropReason::MalformedOuter);
        };
        frame.truncate(layout.total_len);
        if !self.is_ours(layout.addresses(&frame).1) {
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
                let packet = Protected::new(&frame, &layout, (protocol, spi), (at, end), in_udp);
                match self.inbound_sa(&packet) {
                    Ok(id) => self.open(frame, &packet, id, pool, out),
                    Err((None, reason)) => match self.other_owner(spi, protocol) {
                        Some(owner) => out.for_others.push((owner, frame)),
                        None => self.drop_frame(pool, frame, None, reason),
                    },
                    Err((index, reason)) => self.drop_frame(pool, frame, index, reason),
                }
            }
            Kind::Ike => out.ike.push(frame),
            Kind::Keepalive => self.drop_frame(pool, frame, None, DropReason::Keepalive),
            Kind::Short => self.drop_frame(pool, frame, None, DropReason::MalformedOuter),
            Kind::Plain => match self.reported_sa(&frame, &layout) {
                Some(Reported::Others(owner)) => out.for_others.push((owner, frame)),
                Some(Reported::Ours(report, id)) => {
                    let reason = self.heed_too_big(&report, id);
                    self.drop_frame(pool, frame, Some(id.into()), reason);
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
            Ok((id, packet)) => self.open(frame, &packet, id, pool, out),
            Err((index, reason)) => self.drop_frame(pool, frame, index, reason),
        }
    }

    /// The SA of a packet that was opened with that SA's keys, and where its ESP header stands.
    fn opened_sa(
        &self,
        frame: &Frame,
        layout: &Layout,
    ) -> Result<(InboundId, Protected), (Option<SaIndex>, DropReason)> {
        let is_ours = layout.fragment.is_none() && self.is_ours(layout.addresses(frame).1);
        let (Kind::Protected { protocol: SaProtocol::Esp, spi, at, in_udp, .. }, true) =
            (Kind::of(frame, layout, self.config.natt_port), is_ours)
        else {
            return Err((None, DropReason::DecryptedElsewhere));
        };
        let packet = Protected::new(frame, layout, (SaProtocol::Esp, spi), (at, layout.total_len), in_udp);
        let id = self.inbound_sa(&packet)?;
        let index = SaIndex::from(id);
        if frame.offload() != (Offload::Opened { sa: index.0 }) {
            return Err((Some(index), DropReason::DecryptedElsewhere));
        }
        Ok((id, packet))
    }

    /// The SA of this worker that a protected packet came by.
    fn inbound_sa(&self, packet: &Protected) -> Result<InboundId, (Option<SaIndex>, DropReason)> {
        let id = self.sad.find_inbound(packet.spi, packet.protocol);
        let found = id.and_then(|id| Some((id, self.sad.inbound.line(id.0)?)));
        let Some((id, sa)) = found else { return Err((None, DropReason::UnknownSpi)) };
        let is_at = |address| sa.is_at(packet.is_v6, address, packet.in_udp);
        // An unspecified address admits any.
        if is_at(packet.to) || is_at(0) { Ok(id) } else { Err((Some(id.into()), DropReason::SaMismatch)) }
    }

    #[inline(never)]
    fn open(
        &mut self,
        mut frame: Frame,
        packet: &Protected,
        id: InboundId,
        pool: &mut FramePool,
        out: &mut InboundBurst,
    ) {
        let Some(sa) = self.sad.inbound.line(id.0) else {
            return self.drop_frame(pool, frame, None, DropReason::UnknownSpi);
        };
        frame.truncate(packet.end);
        let class = self.config.classes.class_of(packet.traffic_class);
        let is_opened = frame.offload() != Offload::None;
        // From here on it is an inner packet like any other.
        frame.set_offload(Offload::None);
        let context = sa.raw_context(packet.at);
        let mut prepared = Prepared::new(frame, (id.into(), Direction::Open, class), context);
        let checked =
            if sa.is_esp_tunnel() && !is_opened { Ok(()) } else { sa.prepare(&mut prepared, packet.at) };
        if is_opened {
            prepared.status = CryptoStatus::Done;
        }
        match checked {
            Ok(()) => out.open.push(prepared),
            Err(reason) => self.drop_frame(pool, prepared.frame, Some(id.into()), reason),
        }
    }

    /// Plaintext from outside passes only where a policy says so.
    fn inbound_plain(&mut self, frame: Frame, layout: &Layout, pool: &mut FramePool, out: &mut InboundBurst) {
        let flow = FlowKey::of(&frame, layout);
        let (spd, verdicts, place) = (&self.spd, &self.verdicts, self.inbound_flows.place(&flow));
        let decision = self.inbound_flows.get_or_decide(&flow, place, |flow| {
            spd.find_inbound(flow).map(|slot| Decision { slot, verdict: verdicts[slot as usize] })
        });
        let Some(Decision { slot, verdict }) = decision else {
            return self.drop_frame(pool, frame, None, DropReason::InboundNoPolicy);
        };
        match verdict {
            Verdict::Protect(_) | Verdict::HandOver(_) => {
                self.drop_frame(pool, frame, None, DropReason::InboundUnprotected);
            }
            Verdict::Discard => {
                self.note_use(slot, frame.len());
                self.drop_frame(pool, frame, None, DropReason::InboundDiscard);
            }
            Verdict::Bypass => {
                self.note_use(slot, frame.len());
                if let Some(frame) = self.count_hop_down(frame, layout, None, pool, &mut out.to_outside) {
                    self.totals.bypassed_in += 1;
                    out.bypass.push(frame);
                }
            }
        }
    }

    /// The other worker that has the inbound SA of an SPI.
    fn other_owner(&self, spi: u32, protocol: SaProtocol) -> Option<u16> {
        self.sad.directory().other_owner(self.config.worker, spi, protocol)
    }

    /// Whether packets to an address are for this gateway itself, whichever worker has the SA that they may be for.
    fn is_ours(&self, address: IpAddr) -> bool {
        self.own.has(address) || self.sad.directory().has_local(address)
    }

    /// Reads `packet` as a "too big" from outside about an outbound SA.
    fn reported_sa(&self, packet: &[u8], layout: &Layout) -> Option<Reported> {
        let report = icmp::parse_too_big(packet, layout)?;
        let protocol = if report.is_ah { SaProtocol::Ah } else { SaProtocol::Esp };
        let remote = number_address(report.is_v6, report.destination);
        let number = self.sad.directory().outbound(report.spi, protocol, remote)?;
        if number.owner != self.config.worker {
            return Some(Reported::Others(number.owner));
        }
        let id = number.index.outbound()?;
        let facts = &self.sad.outbound.rest(id.0)?.common.facts;
        let is_ours =
            report.is_between(facts.name.local, facts.name.remote) && report.is_udp == facts.encap.is_some();
        is_ours.then_some(Reported::Ours(report, id))
    }

    /// Lowers the SA's path MTU (RFC 4301 section 8.2.1), and says as what the report is counted. Anybody can send one, but only
    /// the path knows which number was sent lately.
    fn heed_too_big(&mut self, report: &TooBigReport, id: OutboundId) -> DropReason {
        let (now_ns, mtu) = (self.now_ns, self.config.mtu);
        let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) else { return DropReason::IcmpUnbelieved };
        let is_recent = |number| rest.sent_lately.has(now_ns, number, sa.sequence());
        if !report.sequence.is_some_and(is_recent) {
            return DropReason::IcmpUnbelieved;
        }
        if self.icmp_heeded.admits(now_ns) {
            rest.path.learn(now_ns, mtu, report.mtu, report.is_v6);
            sa.renew(rest, now_ns, mtu);
        }
        DropReason::IcmpError
    }
}
