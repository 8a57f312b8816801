//! The way out: policy, size, ESP or AH, and after the crypto job the outer fragments.

use std::net::{IpAddr, Ipv4Addr};

use convoy_packet::{Frame, FramePool, Layout, ip, udp};

use super::{FragmentPlace, Ipsec, Verdict};
use crate::drops::DropReason;
use crate::flow::FlowKey;
use crate::fragment::split;
use crate::icmp::{self, IcmpError};
use crate::job::{CryptoStatus, Direction, Prepared, SaIndex};
use crate::path_mtu::LEAST_V6;
use crate::quote::Quote;
use crate::reassembly::strip_fragment_header;
use crate::sa_config::{Mode, OuterDf, SaProtocol};
use crate::sad::{Sa, Slot};
use crate::spd::TunnelId;

/// Tailroom in bytes that a packet needs before it is protected: block padding, trailer and the longest ICV.
pub(super) const NEEDED_TAILROOM: usize = 16 + 2 + 32;
/// Source of "time exceeded" of a gateway without an IPv4 address inside (RFC 7600 section 4.8).
const DUMMY_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// The caller's source of random bytes.
type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// A packet whose tunnel has no SA yet, as it came.
#[derive(Debug)]
pub struct WithoutSa {
    /// The tunnel that its policy names.
    pub tunnel: TunnelId,
    /// Its flow, for whoever negotiates the SA.
    pub flow: FlowKey,
    /// The packet.
    pub frame: Frame,
}

/// What became of a burst from the inside.
#[derive(Debug, Default)]
pub struct OutboundBurst {
    /// To be sealed by an engine, then to be finished.
    pub protect: Vec<Prepared>,
    /// To leave as they are.
    pub bypass: Vec<Frame>,
    /// ICMP errors for the senders.
    pub to_inside: Vec<Frame>,
    /// For the worker that owns their SA, in its `outbound`.
    pub foreign: Vec<(u16, Frame)>,
    /// Whose SA is to be negotiated; with [`IpsecConfig::acquire`](super::IpsecConfig::acquire) only.
    pub without_sa: Vec<WithoutSa>,
}

/// What one call of `outbound` works with.
struct Context<'a, 'b> {
    random: Random<'a>,
    pool: &'a mut FramePool,
    out: &'b mut OutboundBurst,
}

impl Ipsec {
    /// Takes whole IP packets from the inside, decides for each, and prepares those that are protected.
    /// `frames` is left empty; dropped frames are back in `pool` and counted.
    pub fn outbound(
        &mut self,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut OutboundBurst,
    ) {
        self.now_ns = now_ns;
        let mut context = Context { random, pool, out };
        for frame in frames.drain(..) {
            self.outbound_one(frame, &mut context);
        }
    }

    fn outbound_one(&mut self, mut frame: Frame, context: &mut Context<'_, '_>) {
        let Ok(layout) = Layout::parse(&frame) else {
            return self.drop_frame(context.pool, frame, None, DropReason::MalformedInner);
        };
        frame.truncate(layout.total_len);
        let flow = FlowKey::of(&frame, &layout);
        let Some(place) = self.outbound_flows.get_or_decide(&flow, || self.spd.find_outbound(&flow)) else {
            return self.protect_by_quote(frame, &layout, flow, context);
        };
        match self.verdicts[place as usize] {
            Verdict::Protect(tunnel) => self.protect(frame, &layout, place, (tunnel, flow), context),
            Verdict::Discard => {
                self.note_use(place, frame.len());
                self.drop_frame(context.pool, frame, None, DropReason::OutboundDiscard);
            }
            Verdict::Bypass => {
                self.note_use(place, frame.len());
                let to_sender = &mut context.out.to_inside;
                if let Some(frame) = self.count_hop_down(frame, &layout, None, context.pool, to_sender) {
                    self.totals.bypassed_out += 1;
                    context.out.bypass.push(frame);
                }
            }
        }
    }

    fn protect(
        &mut self,
        frame: Frame,
        layout: &Layout,
        place: u32,
        (tunnel, flow): (u32, FlowKey),
        context: &mut Context<'_, '_>,
    ) {
        let current = self.tunnels.current(tunnel);
        let Some((index, facts)) = current.and_then(|index| Some((index, self.sad.get(index)?.facts))) else {
            if self.config.acquire {
                let tunnel = self.tunnels.id(tunnel);
                return context.out.without_sa.push(WithoutSa { tunnel, flow, frame });
            }
            self.note_use(place, frame.len());
            self.tunnels.count_without_sa(tunnel);
            return self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa);
        };
        if facts.owner != self.config.worker {
            return context.out.foreign.push((facts.owner, frame));
        }
        self.note_use(place, frame.len());
        if facts.mode == Mode::Transport {
            let endpoints = (facts.name.local, facts.name.remote);
            return self.protect_transport(frame, layout, index, endpoints, context);
        }
        let to_sender = &mut context.out.to_inside;
        if let Some(frame) = self.count_hop_down(frame, layout, Some(index), context.pool, to_sender) {
            self.protect_tunnel(frame, layout, index, context);
        }
    }

    /// What no policy selects is dropped, unless it is an ICMP error about a packet that came by a tunnel: it goes by the SA that
    /// carries that tunnel's answers (RFC 4301 section 6.2). No SA is negotiated for it.
    fn protect_by_quote(
        &mut self,
        frame: Frame,
        layout: &Layout,
        flow: FlowKey,
        context: &mut Context<'_, '_>,
    ) {
        let quote = Quote::of(&frame, layout);
        let answer = quote.as_ref().and_then(Quote::followed).map(|quoted| quoted.reversed());
        let place = answer.and_then(|answer| {
            self.outbound_flows.get_or_decide(&answer, || self.spd.find_outbound(&answer))
        });
        match place.map(|place| (place, self.verdicts[place as usize])) {
            Some((place, Verdict::Protect(tunnel))) if self.tunnels.current(tunnel).is_some() => {
                self.protect(frame, layout, place, (tunnel, flow), context);
            }
            Some((_, Verdict::Protect(_))) => {
                self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa);
            }
            _ => self.drop_frame(context.pool, frame, None, DropReason::OutboundNoPolicy),
        }
    }

    /// Drops a packet whose tunnel got no SA in time.
    pub fn give_up(&mut self, pool: &mut FramePool, packet: WithoutSa) {
        let tunnel = self.tunnels.number(packet.tunnel);
        self.tunnels.count_without_sa(tunnel);
        self.drop_frame(pool, packet.frame, None, DropReason::OutboundNoSa);
    }

    /// A transport mode SA takes whole packets of its own endpoints; too large ones are cut afterwards.
    fn protect_transport(
        &mut self,
        frame: Frame,
        layout: &Layout,
        index: SaIndex,
        endpoints: (IpAddr, IpAddr),
        context: &mut Context<'_, '_>,
    ) {
        if layout.addresses(&frame) != endpoints {
            return self.drop_frame(context.pool, frame, Some(index), DropReason::TransportAddress);
        }
        match layout.fragment {
            Some(fields) if fields.is_piece() => {
                return self.drop_frame(context.pool, frame, Some(index), DropReason::FragmentInTransport);
            }
            // It is whole in spite of its fragment header, behind which ESP and AH would have to stand, and which its receiver
            // would take off first (RFC 6946).
            Some(_) => {
                let whole = strip_fragment_header(frame, layout, context.pool, &mut self.drops);
                let Some(whole) = whole else { return };
                return match Layout::parse(&whole) {
                    Ok(layout) => self.protect_whole(whole, &layout, index, context),
                    Err(_) => self.drop_frame(context.pool, whole, Some(index), DropReason::MalformedInner),
                };
            }
            None => {}
        }
        self.protect_whole(frame, layout, index, context);
    }

    /// A packet that is no fragment, by an SA in transport mode.
    fn protect_whole(
        &mut self,
        frame: Frame,
        layout: &Layout,
        index: SaIndex,
        context: &mut Context<'_, '_>,
    ) {
        let largest = self.largest_inner(index, layout);
        // An IPv6 source may cut its own packets, and is the gateway itself here.
        if frame.len() > largest && !layout.is_v6 && layout.dont_fragment {
            return self.refuse_too_big(frame, layout, index, largest, context);
        }
        self.prepare(frame, layout, index, context);
    }

    fn protect_tunnel(
        &mut self,
        frame: Frame,
        layout: &Layout,
        index: SaIndex,
        context: &mut Context<'_, '_>,
    ) {
        let largest = self.largest_inner(index, layout);
        if frame.len() <= largest {
            return self.prepare(frame, layout, index, context);
        }
        // IPv6 knows no smaller MTU than 1280: on a smaller path the outer packet is cut.
        let told = if layout.is_v6 { largest.max(LEAST_V6.into()) } else { largest };
        if layout.dont_fragment && frame.len() > told {
            return self.refuse_too_big(frame, layout, index, told, context);
        }
        let sets_df = self.sad.get(index).is_some_and(|slot| slot.facts.df == OuterDf::Set);
        let cuts_outer = self.config.fragment == FragmentPlace::AfterEncapsulation && !sets_df;
        if layout.dont_fragment || cuts_outer {
            return self.prepare(frame, layout, index, context);
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        self.totals.cut += 1;
        match split(frame, largest, None, context.pool, &mut pieces) {
            Ok(()) => pieces.drain(..).for_each(|piece| self.prepare_piece(piece, index, context)),
            Err(reason) => self.count_drop(Some(index), reason),
        }
        self.pieces = pieces;
    }

    fn prepare_piece(&mut self, piece: Frame, index: SaIndex, context: &mut Context<'_, '_>) {
        match Layout::parse(&piece) {
            Ok(layout) => self.prepare(piece, &layout, index, context),
            Err(_) => self.drop_frame(context.pool, piece, Some(index), DropReason::MalformedInner),
        }
    }

    fn prepare(&mut self, frame: Frame, layout: &Layout, index: SaIndex, context: &mut Context<'_, '_>) {
        let class = self.config.classes.class_of(layout.traffic_class);
        let now_ns = self.now_ns;
        let tfc_len = self.tfc_len(index, layout);
        let Some(mut frame) = self.with_room(frame, layout, tfc_len, index, context.pool) else { return };
        let Some(slot) = self.sad.get_mut(index) else {
            return self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa);
        };
        let Sa::Outbound(sa) = &mut slot.sa else {
            return self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa);
        };
        match sa.prepare(&mut frame, layout, tfc_len, now_ns, context.random) {
            Ok((job, mut finish)) => {
                slot.last_sent_ns = now_ns;
                slot.last_used_ns = Some(now_ns);
                finish.generation = slot.generation;
                finish.is_cut = frame.len() > usize::from(slot.path.current(now_ns, self.config.mtu));
                self.totals.protected += 1;
                let status = CryptoStatus::Pending;
                let prepared = Prepared {
                    frame,
                    job,
                    status,
                    sa: index,
                    direction: Direction::Seal,
                    class,
                    reorder_index: 0,
                    context: finish,
                };
                context.out.protect.push(prepared);
            }
            Err(reason) => self.drop_frame(context.pool, frame, Some(index), reason),
        }
    }

    /// The frame itself, or a larger one with its packet where it lacks head- or tailroom.
    fn with_room(
        &mut self,
        frame: Frame,
        layout: &Layout,
        tfc_len: usize,
        index: SaIndex,
        pool: &mut FramePool,
    ) -> Option<Frame> {
        let head = match self.sad.get(index) {
            Some(Slot { sa: Sa::Outbound(sa), .. }) => sa.needed_headroom(layout),
            _ => 0,
        };
        let tail = NEEDED_TAILROOM + tfc_len.saturating_sub(frame.len());
        if frame.headroom() >= head && frame.tailroom() >= tail {
            return Some(frame);
        }
        let larger = pool.take_filled(&frame, tail);
        let received_ns = frame.received_ns();
        pool.give_back(frame);
        match larger {
            Some(mut larger) => {
                larger.set_received_ns(received_ns);
                Some(larger)
            }
            None => {
                self.count_drop(Some(index), DropReason::NoFrame);
                None
            }
        }
    }

    /// The length to which a packet is padded against traffic analysis; never past the path, since padding
    /// is no reason to cut a packet (RFC 4303 section 2.7).
    fn tfc_len(&self, index: SaIndex, layout: &Layout) -> usize {
        match self.sad.get(index).map_or(0, |slot| slot.facts.tfc_bytes.into()) {
            0 => 0,
            tfc_bytes => self.largest_inner(index, layout).min(tfc_bytes),
        }
    }

    /// The largest packet with such headers, in bytes, that fits the SA's path when protected.
    fn largest_inner(&self, index: SaIndex, layout: &Layout) -> usize {
        match self.sad.get(index) {
            Some(Slot { sa: Sa::Outbound(sa), path, .. }) => {
                let mtu = path.current(self.now_ns, self.config.mtu);
                sa.inner_mtu(mtu.into(), layout.unfragmentable)
            }
            _ => 0,
        }
    }

    fn refuse_too_big(
        &mut self,
        frame: Frame,
        layout: &Layout,
        index: SaIndex,
        mtu: usize,
        context: &mut Context<'_, '_>,
    ) {
        let error = IcmpError::TooBig(mtu as u16);
        self.tell_sender(error, &frame, layout, context.pool, &mut context.out.to_inside);
        self.drop_frame(context.pool, frame, Some(index), DropReason::PacketTooBig);
    }

    /// Appends an ICMP error about `packet` to `to_sender`, if the rate limit admits one.
    pub(super) fn tell_sender(
        &mut self,
        error: IcmpError,
        packet: &[u8],
        layout: &Layout,
        pool: &mut FramePool,
        to_sender: &mut Vec<Frame>,
    ) {
        let Some(source) = self.error_source(error, packet, layout) else { return };
        if !self.icmp_sent.admits(self.now_ns) {
            return;
        }
        if let Some(frame) = icmp::build(error, packet, layout, source, pool) {
            self.totals.icmp_sent += 1;
            to_sender.push(frame);
        }
    }

    /// The source of an ICMP error about `packet`.
    ///
    /// "Too big" comes from where the packet was going. It may reach its receiver by a kernel that has our inside address as its own, and
    /// Linux drops what comes in from an address of its own as a martian; the packet's destination, however, is
    /// routed to us, so that a reverse path filter admits it too. "Time exceeded" names the router that it comes from, or
    /// traceroute would take us for its destination.
    fn error_source(&self, error: IcmpError, packet: &[u8], layout: &Layout) -> Option<IpAddr> {
        match error {
            IcmpError::TooBig(_) => Some(layout.addresses(packet).1),
            IcmpError::TimeExceeded if layout.is_v6 => self.config.inside_v6.map(IpAddr::V6),
            IcmpError::TimeExceeded => Some(self.config.inside_v4.unwrap_or(DUMMY_V4).into()),
        }
    }

    /// Counts TTL or hop limit down where the configuration asks for it; a packet at its end is dropped
    /// and its sender told.
    pub(super) fn count_hop_down(
        &mut self,
        mut frame: Frame,
        layout: &Layout,
        sa: Option<SaIndex>,
        pool: &mut FramePool,
        to_sender: &mut Vec<Frame>,
    ) -> Option<Frame> {
        if !self.config.decrement_ttl {
            return Some(frame);
        }
        if layout.hops <= 1 {
            self.tell_sender(IcmpError::TimeExceeded, &frame, layout, pool, to_sender);
            self.drop_frame(pool, frame, sa, DropReason::TtlExpired);
            return None;
        }
        ip::decrement_hop_limit(&mut frame);
        Some(frame)
    }

    /// Takes packets back from the engines and appends them to `out` as whole outer IP packets: one each, or
    /// fragments of one that exceeds the path. They come in order per SA; `done` is left empty.
    pub fn finish_outbound(&mut self, pool: &mut FramePool, done: &mut Vec<Prepared>, out: &mut Vec<Frame>) {
        for packet in done.drain(..) {
            self.finish_outbound_one(pool, packet, out);
        }
    }

    fn finish_outbound_one(&mut self, pool: &mut FramePool, done: Prepared, out: &mut Vec<Frame>) {
        let Prepared { mut frame, status, sa: index, context, .. } = done;
        let (now_ns, link) = (self.now_ns, self.config.mtu);
        let slot = self.sad.get_mut(index).filter(|slot| slot.generation == context.generation);
        let Some(Slot { sa: Sa::Outbound(sa), path, facts, .. }) = slot else {
            return self.drop_frame(pool, frame, None, DropReason::OutboundNoSa);
        };
        if let Err(reason) = sa.finish(&mut frame, &context, status) {
            return self.drop_frame(pool, frame, Some(index), reason);
        }
        let path_mtu = usize::from(path.current(now_ns, link));
        if frame.len() <= path_mtu {
            return out.push(frame);
        }
        // Whoever sends the fragments sees no datagram to compute it of.
        udp::complete_checksum(&mut frame);
        // IPv4's identification stays where AH covers it, and where the header is the sender's own.
        let is_esp_tunnel = facts.name.protocol == SaProtocol::Esp && facts.mode == Mode::Tunnel;
        let keeps_id = !facts.name.remote.is_ipv6() && !is_esp_tunnel;
        self.fragment_id = self.fragment_id.wrapping_add(1);
        self.totals.cut += 1;
        let id = if keeps_id { None } else { Some(self.fragment_id) };
        if let Err(reason) = split(frame, path_mtu, id, pool, out) {
            self.count_drop(Some(index), reason);
        }
    }
}
