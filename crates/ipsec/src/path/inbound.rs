//! The inbound path: reassembly, the SA of the SPI, and after the crypto job the check against
//! policy.

use std::net::IpAddr;
use std::vec::Drain;

use convoy_packet::protocol::UDP;
use convoy_packet::{Frame, FramePool, Layout, Offload, Udp, checksum};

use super::IpsecConfig;
use super::echo::Echoes;
use super::held::Held;
use super::kind::OutsideKind;
use super::policies::{Decision, Verdict};
use super::protected::{InboundRun, Protected, look_up};
use super::tables::Tables;
use super::unpack::Reassembling;
use crate::drops::DropReason;
use crate::esp::job::{CryptoPacket, CryptoStatus, Direction};
use crate::icmp::rate_limit::RateLimit;
use crate::icmp::{self, TooBigReport};
use crate::ip::flow::{FlowKey, number_address};
use crate::ip::reassembly::Reassembly;
use crate::sa::id::{InboundId, OutboundId, SaIndex, SaProtocol};
use crate::sad::inbound_sa::InboundSa;
use crate::spd::flow_cache::FlowCache;

/// The classification of a burst from the outside.
#[derive(Debug, Default)]
pub struct InboundBurst {
    /// Packets for an engine to open, unless their port has done it (`CryptoStatus::Done`), and
    /// then to be finished.
    pub open: Vec<CryptoPacket>,
    /// Packets for the inside, unchanged.
    pub bypass: Vec<Frame>,
    /// IKE messages: whole IP packets to UDP port 500, or with the non-ESP marker to that of ESP in
    /// UDP.
    pub ike: Vec<Frame>,
    /// Packets for the workers that own their SAs, to be classified there.
    pub for_others: Vec<(u16, Frame)>,
    /// ICMP errors about bypassed packets.
    pub to_outside: Vec<Frame>,
}

/// The outbound SA that a "too big" is about.
enum Reported {
    Ours(TooBigReport, OutboundId),
    Others(u16),
}

/// The inbound path: which SA opens a packet from the outside, if any, and what is delivered once
/// it is opened.
pub struct Inbound {
    /// The policies of recent unprotected flows.
    pub(super) flows: FlowCache<Decision>,
    pub(super) reassembly: Reassembly,
    pub(super) reassembling: Reassembling,
    /// Packets that wait for more sequence numbers to be reserved.
    pub(super) held: Held,
    icmp_accepted: RateLimit,
    /// The classification of a burst; empty between calls.
    classified: Vec<InboundRun>,
    /// SAs whose peer has moved.
    pub(super) moved: Vec<InboundId>,
    /// SAs whose roaming peer the outbound SAs have not followed yet.
    pub(super) roamed: Vec<InboundId>,
    /// Echoes of peers.
    pub echoes: Echoes,
}

impl Inbound {
    pub(super) fn new(config: &IpsecConfig) -> Self {
        Self {
            flows: FlowCache::new(config.flow_cache, config.seed ^ 0x696e_626f),
            reassembly: Reassembly::new(config.reassembly),
            reassembling: Reassembling::default(),
            held: Held::default(),
            icmp_accepted: RateLimit::new(config.icmp_per_second, 10),
            classified: Vec::new(),
            moved: Vec::new(),
            roamed: Vec::new(),
            echoes: Echoes::default(),
        }
    }

    /// Takes whole IP packets from the outside, reassembles fragments, and finds the SAs of
    /// protected packets. `frames` is left empty; dropped frames are back in `pool` and counted.
    ///
    /// Packets of ESP in tunnel mode are returned [raw](CryptoPacket::is_raw), for
    /// [`lay_out`](Tables::lay_out) or [`begin`](Tables::begin). Other packets, and those opened by
    /// a port's device, are checked and have their jobs.
    pub fn classify(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut InboundBurst,
    ) {
        tables.now_ns = now_ns;
        self.expire_fragments(tables, now_ns, pool);
        let mut classified = std::mem::take(&mut self.classified);
        look_up(tables, frames, &mut classified);
        let mut context = InboundPass { inbound: self, tables, pool, out };
        let mut frames = frames.drain(..);
        for run in &classified {
            context.run(&mut frames, run);
        }
        drop(frames);
        self.classified = classified;
    }

    /// Gives up fragments that have waited too long.
    pub fn expire_fragments(&mut self, tables: &mut Tables, now_ns: u64, pool: &mut FramePool) {
        self.reassembly.expire(now_ns, pool, &mut tables.drops);
    }
}

/// The context of one call of [`classify`](Inbound::classify).
struct InboundPass<'a> {
    inbound: &'a mut Inbound,
    tables: &'a mut Tables,
    pool: &'a mut FramePool,
    out: &'a mut InboundBurst,
}

impl InboundPass<'_> {
    /// Handles the next frames, which are the run's. Nearly all are whole, and sent to exactly the
    /// SA's address.
    #[inline(always)]
    fn run(&mut self, frames: &mut Drain<'_, Frame>, run: &InboundRun) {
        let (Some(packet), Some(id)) = (&run.packet, run.sa) else {
            return self.any_run(frames, run);
        };
        let is_at = |sa: &&InboundSa| sa.is_at(packet.is_v6, packet.to, packet.in_udp);
        let Some(sa) = self.tables.sad.inbound.hot(id.0).filter(is_at) else {
            return self.any_run(frames, run);
        };
        if !sa.is_raw() {
            return frames.take(run.packets as usize).for_each(|frame| self.open(frame, packet, id));
        }
        let class = self.tables.config.classes.class_of(packet.traffic_class);
        let context = sa.raw_context(packet.at, packet.traffic_class);
        for _ in 0..run.packets {
            let Some(mut frame) = frames.next() else { break };
            frame.truncate(packet.end);
            self.out.open.push(CryptoPacket::new(frame, id.into(), Direction::Open, class, context));
        }
    }

    #[inline(never)]
    fn any_run(&mut self, frames: &mut Drain<'_, Frame>, run: &InboundRun) {
        frames.take(run.packets as usize).for_each(|frame| self.any(frame));
    }

    /// Handles any packet.
    #[inline(never)]
    fn any(&mut self, mut frame: Frame) {
        if frame.offload() != Offload::None {
            return self.opened(frame);
        }
        let Ok(mut layout) = Layout::parse(&frame) else {
            return self.drop_frame(frame, None, DropReason::MalformedOuter);
        };
        frame.truncate(layout.total_len);
        if !self.is_ours(layout.addresses(&frame).1) {
            return self.plain(frame, &layout);
        }
        if layout.fragment.is_some() {
            let whole = self.inbound.reassembly.take_in(
                self.tables.now_ns,
                frame,
                &layout,
                self.pool,
                &mut self.tables.drops,
            );
            let Some(whole) = whole else { return };
            self.tables.totals.reassembled += 1;
            frame = whole;
            match Layout::parse(&frame) {
                Ok(parsed) if parsed.fragment.is_none() => layout = parsed,
                _ => return self.drop_frame(frame, None, DropReason::MalformedOuter),
            }
        }
        match OutsideKind::of(&frame, &layout, self.tables.config.natt_port) {
            OutsideKind::Protected { protocol, spi, at, end, in_udp } => {
                let packet = Protected::new(&frame, &layout, protocol, spi, at..end, in_udp);
                match self.sa_of(&packet) {
                    Ok(id) => self.open(frame, &packet, id),
                    Err((None, reason)) => match self.other_owner(spi, protocol) {
                        Some(owner) => self.out.for_others.push((owner, frame)),
                        None => self.drop_frame(frame, None, reason),
                    },
                    Err((index, reason)) => self.drop_frame(frame, index, reason),
                }
            }
            OutsideKind::Ike if is_intact(&frame, &layout) => self.out.ike.push(frame),
            OutsideKind::Ike => self.drop_frame(frame, None, DropReason::MalformedOuter),
            OutsideKind::Keepalive => self.drop_frame(frame, None, DropReason::Keepalive),
            OutsideKind::Short => self.drop_frame(frame, None, DropReason::MalformedOuter),
            OutsideKind::Plain => match self.reported_sa(&frame, &layout) {
                Some(Reported::Others(owner)) => self.out.for_others.push((owner, frame)),
                Some(Reported::Ours(report, id)) => {
                    let reason = self.apply_too_big(&report, id);
                    self.drop_frame(frame, Some(id.into()), reason);
                }
                None => self.plain(frame, &layout),
            },
        }
    }

    /// A packet opened by a port's device is plaintext behind its ESP header: it goes to the SA
    /// whose keys opened it, or nowhere.
    fn opened(&mut self, mut frame: Frame) {
        let Ok(layout) = Layout::parse(&frame) else {
            return self.drop_frame(frame, None, DropReason::MalformedOuter);
        };
        frame.truncate(layout.total_len);
        match self.opened_sa(&frame, &layout) {
            Ok((id, packet)) => self.open(frame, &packet, id),
            Err((index, reason)) => self.drop_frame(frame, index, reason),
        }
    }

    /// The SA of a packet that was opened with that SA's keys, and the position of its ESP header.
    fn opened_sa(
        &self,
        frame: &Frame,
        layout: &Layout,
    ) -> Result<(InboundId, Protected), (Option<SaIndex>, DropReason)> {
        let is_ours = layout.fragment.is_none() && self.is_ours(layout.addresses(frame).1);
        let (OutsideKind::Protected { protocol: SaProtocol::Esp, spi, at, in_udp, .. }, true) =
            (OutsideKind::of(frame, layout, self.tables.config.natt_port), is_ours)
        else {
            return Err((None, DropReason::DecryptedElsewhere));
        };
        let packet = Protected::new(frame, layout, SaProtocol::Esp, spi, at..layout.total_len, in_udp);
        let id = self.sa_of(&packet)?;
        let index = SaIndex::from(id);
        if frame.offload() != (Offload::Opened { sa: index.0 }) {
            return Err((Some(index), DropReason::DecryptedElsewhere));
        }
        Ok((id, packet))
    }

    /// The SA of this worker that a protected packet belongs to.
    fn sa_of(&self, packet: &Protected) -> Result<InboundId, (Option<SaIndex>, DropReason)> {
        let id = self.tables.sad.find_inbound(packet.spi, packet.protocol);
        let found = id.and_then(|id| Some((id, self.tables.sad.inbound.hot(id.0)?)));
        let Some((id, sa)) = found else { return Err((None, DropReason::UnknownSpi)) };
        let is_at = |address| sa.is_at(packet.is_v6, address, packet.in_udp);
        // An unspecified address accepts any.
        if is_at(packet.to) || is_at(0) { Ok(id) } else { Err((Some(id.into()), DropReason::SaMismatch)) }
    }

    #[inline(never)]
    fn open(&mut self, mut frame: Frame, packet: &Protected, id: InboundId) {
        let Some(sa) = self.tables.sad.inbound.hot(id.0) else {
            return self.drop_frame(frame, None, DropReason::UnknownSpi);
        };
        frame.truncate(packet.end);
        let class = self.tables.config.classes.class_of(packet.traffic_class);
        let is_opened = frame.offload() != Offload::None;
        // From here on it is an ordinary inner packet.
        frame.set_offload(Offload::None);
        let context = sa.raw_context(packet.at, packet.traffic_class);
        let mut prepared = CryptoPacket::new(frame, id.into(), Direction::Open, class, context);
        let checked = if sa.is_raw() && !is_opened { Ok(()) } else { sa.prepare(&mut prepared, packet.at) };
        if is_opened {
            prepared.status = CryptoStatus::Done;
        }
        match checked {
            Ok(()) => self.out.open.push(prepared),
            Err(reason) => self.drop_frame(prepared.frame, Some(id.into()), reason),
        }
    }

    /// Plaintext from outside passes only where a policy allows it.
    fn plain(&mut self, frame: Frame, layout: &Layout) {
        let flow = FlowKey::of(&frame, layout);
        let flows = &mut self.inbound.flows;
        let place = flows.place(&flow);
        let decision = flows.get_or_decide(&flow, place, |flow| self.tables.decide_inbound(flow));
        let Some(Decision { slot, verdict }) = decision else {
            return self.drop_frame(frame, None, DropReason::InboundNoPolicy);
        };
        match verdict {
            Verdict::Protect(_) => {
                self.drop_frame(frame, None, DropReason::InboundUnprotected);
            }
            Verdict::Discard => {
                self.tables.note_use(slot, frame.len());
                self.drop_frame(frame, None, DropReason::InboundDiscard);
            }
            Verdict::Bypass => {
                self.tables.note_use(slot, frame.len());
                if let Some(frame) =
                    self.tables.count_hop_down(frame, layout, None, self.pool, &mut self.out.to_outside)
                {
                    self.tables.totals.bypassed_in += 1;
                    self.out.bypass.push(frame);
                }
            }
        }
    }

    /// The other worker that owns the inbound SA of an SPI.
    fn other_owner(&self, spi: u32, protocol: SaProtocol) -> Option<u16> {
        self.tables.sad.directory().other_owner(self.tables.config.worker, spi, protocol)
    }

    /// Whether packets to an address are for this gateway itself, whichever worker owns their SA.
    fn is_ours(&self, address: IpAddr) -> bool {
        self.tables.own.has(address) || self.tables.sad.directory().has_local(address)
    }

    /// Parses `packet` as a "too big" from outside about an outbound SA.
    fn reported_sa(&self, packet: &[u8], layout: &Layout) -> Option<Reported> {
        let report = icmp::parse_too_big(packet, layout)?;
        let protocol = if report.is_ah { SaProtocol::Ah } else { SaProtocol::Esp };
        let remote = number_address(report.is_v6, report.destination);
        let number = self.tables.sad.directory().outbound(report.spi, protocol, remote)?;
        if number.owner != self.tables.config.worker {
            return Some(Reported::Others(number.owner));
        }
        let id = number.index.outbound()?;
        let facts = &self.tables.sad.outbound.cold(id.0)?.common.facts;
        let is_ours =
            report.is_between(facts.name.local, facts.name.remote) && report.is_udp == facts.encap.is_some();
        is_ours.then_some(Reported::Ours(report, id))
    }

    /// Lowers the SA's path MTU (RFC 4301 section 8.2.1), and returns the reason under which the
    /// report is counted. Anybody can send one, but only the path knows which numbers were sent
    /// lately.
    fn apply_too_big(&mut self, report: &TooBigReport, id: OutboundId) -> DropReason {
        let (now_ns, mtu) = (self.tables.now_ns, self.tables.config.mtu);
        let Some((sa, cold)) = self.tables.sad.outbound.hot_and_cold_mut(id.0) else {
            return DropReason::IcmpUnbelieved;
        };
        let is_recent = |number| cold.sent_lately.has(now_ns, number, sa.sequence());
        if !report.sequence.is_some_and(is_recent) {
            return DropReason::IcmpUnbelieved;
        }
        if self.inbound.icmp_accepted.admits(now_ns) {
            let has_changed = cold.path.learn(now_ns, mtu, report.mtu, report.is_v6);
            sa.renew(cold, now_ns, mtu);
            if has_changed {
                self.tables.note_path(id);
            }
        }
        DropReason::IcmpError
    }

    fn drop_frame(&mut self, frame: Frame, sa: Option<SaIndex>, reason: DropReason) {
        self.tables.drop_frame(self.pool, frame, sa, reason);
    }
}

/// Whether a datagram has its checksum. Without one it is valid in IPv4 (RFC 768), and not in IPv6
/// (RFC 8200 section 8.1). ESP has an ICV instead, but the first IKE messages have nothing else.
fn is_intact(packet: &[u8], layout: &Layout) -> bool {
    let Ok(datagram) = Udp::parse(layout.body(packet)) else { return false };
    if datagram.checksum() == 0 {
        return !layout.is_v6;
    }
    datagram.is_checksum_valid(checksum::pseudo_header(packet, UDP, datagram.length().into()))
}
