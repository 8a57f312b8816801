//! The way out: policy, size, ESP or AH, and after the crypto job the outer fragments.

use std::net::IpAddr;
use std::vec::Drain;

use convoy_packet::{Frame, FramePool, Layout, udp};

use super::glance::DepartingRun;
use super::{Decision, Ipsec, Verdict};
use crate::batch::RAW_TAILROOM_BYTES;
use crate::drops::DropReason;
use crate::flow::FlowKey;
use crate::fragment::split;
use crate::icmp::IcmpError;
use crate::job::{Direction, Prepared, SaIndex};
use crate::outbound::{OutboundSa, pad_to};
use crate::outer_header::Inner;
use crate::path_mtu::LEAST_V6;
use crate::quote::Quote;
use crate::reassembly::strip_fragment_header;
use crate::sa_config::{Mode, SaProtocol};
use crate::sa_id::OutboundId;
use crate::spd::TunnelId;

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
    /// For the worker that owns their tunnel, in its `outbound`.
    pub for_others: Vec<(u16, Frame)>,
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
    /// Takes whole IP packets from the inside and decides for each: which SA protects it, if any,
    /// and whether it is cut or padded before. `frames` is left empty; dropped frames are back in
    /// `pool` and counted.
    ///
    /// What ESP in tunnel mode is to protect is handed out [raw](Prepared::is_raw), for
    /// [`lay_out`](Self::lay_out) or [`begin`](Self::begin): it has no number yet and is not
    /// counted towards its SA's limits. Other packets have their jobs.
    pub fn outbound(
        &mut self,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut OutboundBurst,
    ) {
        self.now_ns = now_ns;
        let mut departing = std::mem::take(&mut self.departing);
        self.glance_outbound(frames, &mut departing);
        let mut context = Context { random, pool, out };
        let mut frames = frames.drain(..);
        for run in departing.runs() {
            self.outbound_run(&mut frames, run, &mut context);
        }
        drop(frames);
        self.departing = departing;
    }

    /// The next frames, which are the run's. Nearly all are protected by ESP in tunnel mode, in one
    /// packet that fits the path and in the frame that they came in.
    #[inline(always)]
    fn outbound_run(
        &mut self,
        frames: &mut Drain<'_, Frame>,
        run: &DepartingRun,
        context: &mut Context<'_, '_>,
    ) {
        let (Some(Decision { slot, .. }), Some(id)) = (run.decision, run.sa) else {
            return self.outbound_any_run(frames, run, context);
        };
        // Where hops are counted, every packet changes before it is protected.
        let Some(sa) = self.sad.outbound.line(id.0).filter(|_| !self.config.decrement_ttl) else {
            return self.outbound_any_run(frames, run, context);
        };
        let class = self.config.classes.class_of(run.inner.traffic_class);
        let (form, largest, front) = (sa.raw_context(run.inner), sa.largest(self.now_ns), sa.front());
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..run.packets {
            let Some(frame) = frames.next() else { break };
            let (len, head, tail) = (frame.len(), frame.headroom(), frame.tailroom());
            if len <= largest && head >= front && tail >= RAW_TAILROOM_BYTES {
                packets += 1;
                bytes += len as u64;
                context.out.protect.push(Prepared::new(frame, (id.into(), Direction::Seal, class), form));
            } else {
                self.outbound_any(frame, run, context);
            }
        }
        self.note_uses(slot, packets, bytes);
    }

    #[inline(never)]
    fn outbound_any_run(
        &mut self,
        frames: &mut Drain<'_, Frame>,
        run: &DepartingRun,
        context: &mut Context<'_, '_>,
    ) {
        frames.take(run.packets as usize).for_each(|frame| self.outbound_any(frame, run, context));
    }

    #[inline(never)]
    fn outbound_any(&mut self, frame: Frame, known: &DepartingRun, context: &mut Context<'_, '_>) {
        let Ok(layout) = Layout::parse(&frame) else {
            return self.drop_frame(context.pool, frame, None, DropReason::MalformedInner);
        };
        let Some(Decision { slot, verdict }) = known.decision else {
            return self.protect_by_quote(frame, &layout, context);
        };
        match (known.sa, verdict) {
            (Some(id), _) => self.protect(frame, &layout, slot, id, context),
            (None, Verdict::Protect(tunnel)) => {
                let flow = FlowKey::of(&frame, &layout);
                self.note_without_sa(frame, slot, (tunnel, flow), context);
            }
            (None, Verdict::HandOver(owner)) => context.out.for_others.push((owner, frame)),
            (None, Verdict::Discard) => {
                self.note_use(slot, frame.len());
                self.drop_frame(context.pool, frame, None, DropReason::OutboundDiscard);
            }
            (None, Verdict::Bypass) => {
                self.note_use(slot, frame.len());
                let to_sender = &mut context.out.to_inside;
                if let Some(frame) = self.count_hop_down(frame, &layout, None, context.pool, to_sender) {
                    self.totals.bypassed_out += 1;
                    context.out.bypass.push(frame);
                }
            }
        }
    }

    /// A packet whose tunnel has no SA.
    fn note_without_sa(
        &mut self,
        frame: Frame,
        slot: u32,
        (tunnel, flow): (u32, FlowKey),
        context: &mut Context<'_, '_>,
    ) {
        if self.config.acquire {
            let tunnel = self.tunnels.id(tunnel);
            return context.out.without_sa.push(WithoutSa { tunnel, flow, frame });
        }
        self.note_use(slot, frame.len());
        self.tunnels.count_without_sa(tunnel);
        self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa);
    }

    /// Any packet by any SA.
    fn protect(
        &mut self,
        frame: Frame,
        layout: &Layout,
        slot: u32,
        id: OutboundId,
        context: &mut Context<'_, '_>,
    ) {
        let (now_ns, mtu) = (self.now_ns, self.config.mtu);
        let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) else {
            return self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa);
        };
        if sa.is_due(now_ns) {
            sa.renew(rest, now_ns, mtu);
        }
        let facts = rest.common.facts;
        self.note_use(slot, frame.len());
        if facts.mode == Mode::Transport {
            let endpoints = (facts.name.local, facts.name.remote);
            return self.protect_transport(frame, layout, id, endpoints, context);
        }
        let to_sender = &mut context.out.to_inside;
        if let Some(frame) = self.count_hop_down(frame, layout, Some(id.into()), context.pool, to_sender) {
            self.protect_tunnel(frame, layout, id, context);
        }
    }

    /// What no policy selects is dropped, unless it is an ICMP error about a packet that came by a tunnel: it goes by the SA that
    /// carries that tunnel's answers (RFC 4301 section 6.2). No SA is negotiated for it.
    fn protect_by_quote(&mut self, frame: Frame, layout: &Layout, context: &mut Context<'_, '_>) {
        let quote = Quote::of(&frame, layout);
        let answer = quote.as_ref().and_then(Quote::followed).map(|quoted| quoted.reversed());
        let decision = answer.and_then(|answer| {
            let (spd, verdicts, place) = (&self.spd, &self.verdicts, self.outbound_flows.place(&answer));
            self.outbound_flows.get_or_decide(&answer, place, |answer| {
                spd.find_outbound(answer).map(|slot| Decision { slot, verdict: verdicts[slot as usize] })
            })
        });
        match decision {
            Some(Decision { slot, verdict: Verdict::Protect(tunnel) }) => {
                match self.tunnels.current(tunnel) {
                    Some(id) => self.protect(frame, layout, slot, id, context),
                    None => self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa),
                }
            }
            Some(Decision { verdict: Verdict::HandOver(owner), .. }) => {
                context.out.for_others.push((owner, frame));
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
        id: OutboundId,
        endpoints: (IpAddr, IpAddr),
        context: &mut Context<'_, '_>,
    ) {
        if layout.addresses(&frame) != endpoints {
            return self.drop_frame(context.pool, frame, Some(id.into()), DropReason::TransportAddress);
        }
        match layout.fragment {
            Some(fields) if fields.is_piece() => {
                return self.drop_frame(
                    context.pool,
                    frame,
                    Some(id.into()),
                    DropReason::FragmentInTransport,
                );
            }
            // It is whole in spite of its fragment header, behind which ESP and AH would have to stand, and which its receiver
            // would take off first (RFC 6946).
            Some(_) => {
                let whole = strip_fragment_header(frame, layout, context.pool, &mut self.drops);
                let Some(whole) = whole else { return };
                return match Layout::parse(&whole) {
                    Ok(layout) => self.protect_whole(whole, &layout, id, context),
                    Err(_) => {
                        self.drop_frame(context.pool, whole, Some(id.into()), DropReason::MalformedInner)
                    }
                };
            }
            None => {}
        }
        self.protect_whole(frame, layout, id, context);
    }

    /// A packet that is no fragment, by an SA in transport mode.
    fn protect_whole(
        &mut self,
        frame: Frame,
        layout: &Layout,
        id: OutboundId,
        context: &mut Context<'_, '_>,
    ) {
        let largest = self.largest_inner(id, layout);
        // An IPv6 source may cut its own packets, and is the gateway itself here.
        if frame.len() > largest && !layout.is_v6 && layout.dont_fragment {
            return self.refuse_too_big(frame, layout, id, largest, context);
        }
        self.prepare(frame, layout, id, context);
    }

    fn protect_tunnel(
        &mut self,
        frame: Frame,
        layout: &Layout,
        id: OutboundId,
        context: &mut Context<'_, '_>,
    ) {
        let largest = self.largest_inner(id, layout);
        if frame.len() <= largest {
            return self.prepare(frame, layout, id, context);
        }
        // IPv6 knows no smaller MTU than 1280: on a smaller path the outer packet is cut.
        let told = if layout.is_v6 { largest.max(LEAST_V6.into()) } else { largest };
        if layout.dont_fragment && frame.len() > told {
            return self.refuse_too_big(frame, layout, id, told, context);
        }
        if layout.dont_fragment {
            return self.prepare(frame, layout, id, context);
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        self.totals.cut += 1;
        match split(frame, largest, None, context.pool, &mut pieces) {
            Ok(()) => pieces.drain(..).for_each(|piece| self.prepare_piece(piece, id, context)),
            Err(reason) => self.count_drop(Some(id.into()), reason),
        }
        self.pieces = pieces;
    }

    fn prepare_piece(&mut self, piece: Frame, id: OutboundId, context: &mut Context<'_, '_>) {
        match Layout::parse(&piece) {
            Ok(layout) => self.prepare(piece, &layout, id, context),
            Err(_) => self.drop_frame(context.pool, piece, Some(id.into()), DropReason::MalformedInner),
        }
    }

    fn prepare(&mut self, frame: Frame, layout: &Layout, id: OutboundId, context: &mut Context<'_, '_>) {
        let class = self.config.classes.class_of(layout.traffic_class);
        let now_ns = self.now_ns;
        let tfc_len = self.tfc_len(id, layout);
        let Some(frame) = self.with_room(frame, layout, tfc_len, id, context.pool) else { return };
        let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) else {
            return self.drop_frame(context.pool, frame, None, DropReason::OutboundNoSa);
        };
        let context_of_raw = sa.raw_context(Inner::of(layout));
        let mut packet = Prepared::new(frame, (id.into(), Direction::Seal, class), context_of_raw);
        let prepared = if sa.is_esp_tunnel() {
            packet.frame.truncate(layout.total_len);
            pad_to(&mut packet.frame, tfc_len)
        } else {
            sa.prepare(rest, &mut packet, layout, now_ns, context.random).map(|is_limit| {
                packet.context.is_cut = packet.frame.len() > usize::from(sa.path_mtu);
                if is_limit {
                    self.limits_reached.push(id.into());
                }
                self.totals.protected += 1;
            })
        };
        match prepared {
            Ok(()) => context.out.protect.push(packet),
            Err(reason) => self.drop_frame(context.pool, packet.frame, Some(id.into()), reason),
        }
    }

    /// The frame itself, or a larger one with its packet where it lacks head- or tailroom.
    fn with_room(
        &mut self,
        frame: Frame,
        layout: &Layout,
        tfc_len: usize,
        id: OutboundId,
        pool: &mut FramePool,
    ) -> Option<Frame> {
        let (sa, rest) = self.sad.outbound.both(id.0)?;
        let head = sa.needed_headroom(rest, layout);
        let tail = RAW_TAILROOM_BYTES + tfc_len.saturating_sub(frame.len());
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
                self.count_drop(Some(id.into()), DropReason::NoFrame);
                None
            }
        }
    }

    /// The length to which a packet is padded against traffic analysis; never past the path, since padding
    /// is no reason to cut a packet (RFC 4303 section 2.7).
    fn tfc_len(&self, id: OutboundId, layout: &Layout) -> usize {
        match self.sad.outbound.rest(id.0).map_or(0, |rest| rest.common.facts.tfc_bytes.into()) {
            0 => 0,
            tfc_bytes => self.largest_inner(id, layout).min(tfc_bytes),
        }
    }

    /// The largest packet with such headers, in bytes, that fits the SA's path when protected.
    fn largest_inner(&self, id: OutboundId, layout: &Layout) -> usize {
        let found = self.sad.outbound.both(id.0);
        found.map_or(0, |(sa, rest)| rest.inner_mtu(sa.path_mtu.into(), layout.unfragmentable))
    }

    fn refuse_too_big(
        &mut self,
        frame: Frame,
        layout: &Layout,
        id: OutboundId,
        mtu: usize,
        context: &mut Context<'_, '_>,
    ) {
        let error = IcmpError::TooBig(mtu as u16);
        self.tell_sender(error, &frame, layout, context.pool, &mut context.out.to_inside);
        self.drop_frame(context.pool, frame, Some(id.into()), DropReason::PacketTooBig);
    }

    /// Takes packets back from the engines and appends them to `out` as whole outer IP packets: one each, or
    /// fragments of one that exceeds the path. They come in order per SA; `done` is left empty.
    pub fn finish_outbound(&mut self, pool: &mut FramePool, done: &mut Vec<Prepared>, out: &mut Vec<Frame>) {
        for packet in done.drain(..) {
            self.finish_outbound_one(pool, packet, out);
        }
    }

    #[inline]
    fn finish_outbound_one(&mut self, pool: &mut FramePool, done: Prepared, out: &mut Vec<Frame>) {
        let Prepared { mut frame, status, sa: index, context, .. } = done;
        let sa = index.outbound().and_then(|id| self.sad.outbound.line(id.0));
        let Some(path_mtu) = sa.filter(|sa| sa.generation() == context.generation).map(|sa| sa.path_mtu)
        else {
            return self.drop_frame(pool, frame, None, DropReason::OutboundNoSa);
        };
        match OutboundSa::finish(&mut frame, &context, status) {
            Ok(()) if frame.len() <= path_mtu.into() => out.push(frame),
            Ok(()) => self.cut_outer(frame, index, path_mtu, pool, out),
            Err(reason) => self.drop_frame(pool, frame, Some(index), reason),
        }
    }

    /// Appends the fragments of a packet that exceeds the path.
    fn cut_outer(
        &mut self,
        mut frame: Frame,
        index: SaIndex,
        path_mtu: u16,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        let Some(facts) = self.sad.common(index).map(|common| common.facts) else {
            return self.drop_frame(pool, frame, None, DropReason::OutboundNoSa);
        };
        // Whoever sends the fragments sees no datagram to compute it of.
        udp::complete_checksum(&mut frame);
        // IPv4's identification stays where AH covers it, and where the header is the sender's own.
        let is_esp_tunnel = facts.name.protocol == SaProtocol::Esp && facts.mode == Mode::Tunnel;
        let keeps_id = !facts.name.remote.is_ipv6() && !is_esp_tunnel;
        self.fragment_id = self.fragment_id.wrapping_add(1);
        self.totals.cut += 1;
        let id = if keeps_id { None } else { Some(self.fragment_id) };
        if let Err(reason) = split(frame, path_mtu.into(), id, pool, out) {
            self.count_drop(Some(index), reason);
        }
    }
}
