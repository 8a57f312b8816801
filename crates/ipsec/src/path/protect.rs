//! The treatment of each packet from the inside: by its policy, its size and its SA.

use std::vec::Drain;

use convoy_packet::{Frame, FramePool, Layout};

use super::aggregate::Aggregating;
use super::classify::OutboundRun;
use super::frame_notes::FrameNote;
use super::outbound::OutboundBurst;
use super::policies::{Decision, Verdict};
use super::tables::{Tables, WithoutSa};
use crate::drops::DropReason;
use crate::esp::batch_template::RAW_TAILROOM_BYTES;
use crate::esp::job::{CryptoPacket, Direction};
use crate::esp::outer_header::Inner;
use crate::icmp::IcmpError;
use crate::icmp::quote::Quote;
use crate::ip::flow::FlowKey;
use crate::ip::fragment::split;
use crate::ip::reassembly::strip_fragment_header;
use crate::sa::config::Mode;
use crate::sa::facts::SaName;
use crate::sa::id::{OutboundId, SaIndex};
use crate::sad::outbound_sa::pad_to;
use crate::sad::path_mtu::LEAST_V6;
use crate::spd::flow_cache::FlowCache;

/// The context of one call of [`classify`](super::Outbound::classify).
pub(super) struct OutboundPass<'a> {
    pub(super) flows: &'a mut FlowCache<Decision>,
    pub(super) aggregating: &'a mut Aggregating,
    /// Fragments of a packet; empty between calls.
    pub(super) pieces: &'a mut Vec<Frame>,
    pub(super) tables: &'a mut Tables,
    /// The caller's source of random bytes.
    pub(super) random: &'a mut dyn FnMut(&mut [u8]),
    pub(super) pool: &'a mut FramePool,
    pub(super) out: &'a mut OutboundBurst,
}

/// What selected a packet: its policy, by its slot, the policy's tunnel, and the packet's flow.
struct SelectedFlow {
    slot: u32,
    tunnel: u32,
    flow: FlowKey,
}

impl OutboundPass<'_> {
    /// Handles the next frames, which are the run's. Nearly all are protected by ESP in tunnel
    /// mode, in one packet that fits the path and in the frame that they arrived in.
    #[inline(always)]
    pub(super) fn run(&mut self, frames: &mut Drain<'_, Frame>, run: &OutboundRun) {
        let (Some(Decision { slot, .. }), Some(id)) = (run.decision, run.sa) else {
            return self.any_run(frames, run);
        };
        // If hops are counted, every packet changes before it is protected.
        let may_change = self.tables.config.decrement_ttl || run.is_syn;
        let Some(sa) = self.tables.sad.outbound.hot(id.0).filter(|_| !may_change) else {
            return self.any_run(frames, run);
        };
        if sa.is_iptfs {
            return if sa.keeps_whole() {
                self.any_run(frames, run)
            } else {
                self.aggregate_run(frames, run, slot, id)
            };
        }
        let class = self.tables.config.classes.class_of(run.inner.traffic_class);
        let (form, largest, front) = (sa.raw_context(run.inner), sa.largest(self.tables.now_ns), sa.front());
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..run.packets {
            let Some(frame) = frames.next() else { break };
            let (len, head, tail) = (frame.len(), frame.headroom(), frame.tailroom());
            if len <= largest && head >= front && tail >= RAW_TAILROOM_BYTES {
                packets += 1;
                bytes += len as u64;
                self.out.protect.push(CryptoPacket::new(frame, id.into(), Direction::Seal, class, form));
            } else {
                self.any(frame, run);
            }
        }
        self.tables.note_uses(slot, packets, bytes);
    }

    #[inline(never)]
    fn any_run(&mut self, frames: &mut Drain<'_, Frame>, run: &OutboundRun) {
        frames.take(run.packets as usize).for_each(|frame| self.any(frame, run));
    }

    #[inline(never)]
    fn any(&mut self, frame: Frame, known: &OutboundRun) {
        let Ok(layout) = Layout::parse(&frame) else {
            return self.drop_frame(frame, None, DropReason::MalformedInner);
        };
        let Some(Decision { slot, verdict }) = known.decision else {
            return self.protect_by_quote(frame, &layout);
        };
        match (known.sa, verdict) {
            (Some(id), _) => self.protect(frame, &layout, slot, id),
            (None, Verdict::Protect(tunnel)) => match self.tables.other_server(tunnel) {
                Some(other) => {
                    if self.tables.tunnels.wants_own_sa(tunnel, self.tables.now_ns) {
                        let flow = FlowKey::of(&frame, &layout);
                        self.out.own_sa.push((self.tables.tunnels.id(tunnel), flow));
                    }
                    self.out.for_others.push((other, frame));
                }
                None => {
                    let flow = FlowKey::of(&frame, &layout);
                    self.note_without_sa(frame, SelectedFlow { slot, tunnel, flow });
                }
            },
            (None, Verdict::Discard) => {
                self.tables.note_use(slot, frame.len());
                self.drop_frame(frame, None, DropReason::OutboundDiscard);
            }
            (None, Verdict::Bypass) => {
                self.tables.note_use(slot, frame.len());
                let to_sender = &mut self.out.to_inside;
                if let Some(frame) = self.tables.count_hop_down(frame, &layout, None, self.pool, to_sender) {
                    self.tables.totals.bypassed_out += 1;
                    self.out.bypass.push(frame);
                }
            }
        }
    }

    /// Handles a packet whose tunnel has no SA.
    fn note_without_sa(&mut self, frame: Frame, selected: SelectedFlow) {
        let SelectedFlow { slot, tunnel, flow } = selected;
        if let Some(id) = self.tables.tunnels.parked(tunnel) {
            self.tables.note_use(slot, frame.len());
            return self.drop_frame(frame, Some(id.into()), DropReason::OutboundNoPeer);
        }
        if self.tables.config.acquire {
            let tunnel = self.tables.tunnels.id(tunnel);
            return self.out.without_sa.push(WithoutSa { tunnel, flow, frame });
        }
        self.tables.note_use(slot, frame.len());
        self.tables.tunnels.count_without_sa(tunnel);
        self.drop_frame(frame, None, DropReason::OutboundNoSa);
    }

    /// Protects any packet by any SA.
    fn protect(&mut self, frame: Frame, layout: &Layout, slot: u32, id: OutboundId) {
        let (now_ns, mtu) = (self.tables.now_ns, self.tables.config.mtu);
        let Some((sa, cold)) = self.tables.sad.outbound.hot_and_cold_mut(id.0) else {
            return self.drop_frame(frame, None, DropReason::OutboundNoSa);
        };
        if sa.is_due(now_ns) {
            sa.renew(cold, now_ns, mtu);
        }
        let facts = cold.common.facts;
        self.tables.note_use(slot, frame.len());
        if facts.mode == Mode::Transport {
            return self.protect_transport(frame, layout, id, &facts.name);
        }
        let to_sender = &mut self.out.to_inside;
        if let Some(mut frame) =
            self.tables.count_hop_down(frame, layout, Some(id.into()), self.pool, to_sender)
        {
            let interface = frame.interface();
            self.tables.clamp_mss(&mut frame, layout, interface, Some(id));
            if facts.mode == Mode::Iptfs {
                self.aggregate(frame, layout, id);
            } else {
                self.protect_tunnel(frame, layout, id);
            }
        }
    }

    /// A packet that no policy selects is dropped, unless it is an ICMP error about a packet that
    /// arrived through a tunnel: it goes by the SA that carries that tunnel's answers (RFC 4301
    /// section 6.2). No SA is negotiated for it.
    fn protect_by_quote(&mut self, frame: Frame, layout: &Layout) {
        let quote = Quote::of(&frame, layout);
        let quoted = quote.as_ref().and_then(Quote::followed);
        let answer = quoted.map(|quoted| quoted.reversed().on(frame.interface()));
        let decision = answer.and_then(|answer| {
            let place = self.flows.place(&answer);
            self.flows.get_or_decide(&answer, place, |answer| self.tables.decide_outbound(answer))
        });
        match decision {
            Some(Decision { slot, verdict: Verdict::Protect(tunnel) }) => {
                match (self.tables.tunnels.current(tunnel), self.tables.other_server(tunnel)) {
                    (Some(id), _) => self.protect(frame, layout, slot, id),
                    (None, Some(other)) => self.out.for_others.push((other, frame)),
                    (None, None) => self.drop_frame(frame, None, DropReason::OutboundNoSa),
                }
            }
            _ => self.drop_frame(frame, None, DropReason::OutboundNoPolicy),
        }
    }

    /// A transport mode SA takes whole packets of its own endpoints; too large ones are cut
    /// afterwards.
    fn protect_transport(&mut self, frame: Frame, layout: &Layout, id: OutboundId, name: &SaName) {
        if layout.addresses(&frame) != (name.local, name.remote) {
            return self.drop_frame(frame, Some(id.into()), DropReason::TransportAddress);
        }
        match layout.fragment {
            Some(fields) if fields.is_piece() => {
                return self.drop_frame(frame, Some(id.into()), DropReason::FragmentInTransport);
            }
            // It is whole in spite of its fragment header, behind which ESP and AH would have to
            // be, and which its receiver would remove first (RFC 6946).
            Some(_) => {
                let whole = strip_fragment_header(frame, layout, self.pool, &mut self.tables.drops);
                let Some(whole) = whole else { return };
                return match Layout::parse(&whole) {
                    Ok(layout) => self.protect_whole(whole, &layout, id),
                    Err(_) => self.drop_frame(whole, Some(id.into()), DropReason::MalformedInner),
                };
            }
            None => {}
        }
        self.protect_whole(frame, layout, id);
    }

    /// Protects a packet that is no fragment by an SA in transport mode.
    fn protect_whole(&mut self, frame: Frame, layout: &Layout, id: OutboundId) {
        let largest = self.largest_inner(id, layout);
        // An IPv6 source may fragment its own packets, and is the gateway itself here.
        if frame.len() > largest && !layout.is_v6 && layout.dont_fragment {
            return self.refuse_too_big(frame, layout, id, largest);
        }
        self.prepare(frame, layout, id);
    }

    fn protect_tunnel(&mut self, frame: Frame, layout: &Layout, id: OutboundId) {
        let largest = self.largest_inner(id, layout);
        if frame.len() <= largest {
            return self.prepare(frame, layout, id);
        }
        // IPv6 has no MTU below 1280: on a smaller path the outer packet is cut.
        let reported = if layout.is_v6 { largest.max(LEAST_V6.into()) } else { largest };
        if layout.dont_fragment && frame.len() <= reported {
            return self.prepare(frame, layout, id);
        }
        self.fit(frame, layout, id, largest);
    }

    /// Cuts a packet into fragments of at most `largest` bytes, or tells its sender.
    pub(super) fn fit(&mut self, frame: Frame, layout: &Layout, id: OutboundId, largest: usize) {
        if layout.dont_fragment {
            let reported = if layout.is_v6 { largest.max(LEAST_V6.into()) } else { largest };
            return self.refuse_too_big(frame, layout, id, reported);
        }
        let mut pieces = std::mem::take(self.pieces);
        self.tables.totals.cut += 1;
        match split(frame, largest, None, self.pool, &mut pieces) {
            Ok(()) => pieces.drain(..).for_each(|piece| self.prepare_piece(piece, id)),
            Err(reason) => self.tables.count_drop(Some(id.into()), reason),
        }
        *self.pieces = pieces;
    }

    fn prepare_piece(&mut self, piece: Frame, id: OutboundId) {
        match Layout::parse(&piece) {
            Ok(layout) if self.tables.sad.outbound.hot(id.0).is_some_and(|sa| sa.is_iptfs) => {
                self.add_to_payload(piece, layout.traffic_class, id);
            }
            Ok(layout) => self.prepare(piece, &layout, id),
            Err(_) => self.drop_frame(piece, Some(id.into()), DropReason::MalformedInner),
        }
    }

    fn prepare(&mut self, frame: Frame, layout: &Layout, id: OutboundId) {
        let class = self.tables.config.classes.class_of(layout.traffic_class);
        let now_ns = self.tables.now_ns;
        let tfc_len = self.tfc_len(id, layout);
        let Some(frame) = self.with_room(frame, layout, tfc_len, id) else { return };
        let Some((sa, cold)) = self.tables.sad.outbound.hot_and_cold_mut(id.0) else {
            return self.drop_frame(frame, None, DropReason::OutboundNoSa);
        };
        let context_of_raw = sa.raw_context(Inner::of(layout));
        let mut packet = CryptoPacket::new(frame, id.into(), Direction::Seal, class, context_of_raw);
        let (used_before_ns, is_raw) = (sa.last_used_ns, sa.is_raw());
        let prepared = if is_raw {
            packet.frame.truncate(layout.total_len);
            pad_to(&mut packet.frame, tfc_len)
        } else {
            packet.context.identification = self.tables.identifications.take_one(sa.flow());
            sa.prepare(cold, &mut packet, layout, now_ns, self.random).map(|is_limit| {
                packet.context.is_cut = packet.frame.len() > usize::from(sa.path_mtu);
                if is_limit {
                    self.tables.limits_reached.push(id.into());
                }
                self.tables.totals.protected += 1;
            })
        };
        if prepared.is_ok() && !is_raw {
            self.tables.note_moved(id.into(), used_before_ns);
        }
        match prepared {
            Ok(()) => self.out.protect.push(packet),
            Err(reason) => self.drop_frame(packet.frame, Some(id.into()), reason),
        }
    }

    /// The frame itself, or a larger one with its packet if it lacks headroom or tailroom.
    fn with_room(&mut self, frame: Frame, layout: &Layout, tfc_len: usize, id: OutboundId) -> Option<Frame> {
        let (sa, cold) = self.tables.sad.outbound.hot_and_cold(id.0)?;
        let head = sa.needed_headroom(cold, layout);
        let tail = RAW_TAILROOM_BYTES + tfc_len.saturating_sub(frame.len());
        if frame.headroom() >= head && frame.tailroom() >= tail {
            return Some(frame);
        }
        let larger = self.pool.take_filled(&frame, tail);
        let (received_ns, interface, from) = (frame.received_ns(), frame.interface(), frame.id());
        self.pool.give_back(frame);
        match larger {
            Some(mut larger) => {
                self.tables.notes.add(|| FrameNote::Moved { from, to: larger.id() });
                larger.set_received_ns(received_ns);
                larger.set_interface(interface);
                Some(larger)
            }
            None => {
                self.tables.count_drop(Some(id.into()), DropReason::NoFrame);
                None
            }
        }
    }

    /// The length to which a packet is padded against traffic analysis; never beyond the path,
    /// since padding is no reason to cut a packet (RFC 4303 section 2.7).
    fn tfc_len(&self, id: OutboundId, layout: &Layout) -> usize {
        match self.tables.sad.outbound.cold(id.0).map_or(0, |cold| cold.common.facts.tfc_bytes.into()) {
            0 => 0,
            tfc_bytes => self.largest_inner(id, layout).min(tfc_bytes),
        }
    }

    /// The largest packet with such headers, in bytes, that fits the SA's path once protected.
    fn largest_inner(&self, id: OutboundId, layout: &Layout) -> usize {
        let found = self.tables.sad.outbound.hot_and_cold(id.0);
        found.map_or(0, |(sa, cold)| cold.inner_mtu(sa.path_mtu.into(), layout.unfragmentable))
    }

    fn refuse_too_big(&mut self, frame: Frame, layout: &Layout, id: OutboundId, mtu: usize) {
        let error = IcmpError::TooBig(mtu as u16);
        self.tables.tell_sender(error, &frame, layout, self.pool, &mut self.out.to_inside);
        self.drop_frame(frame, Some(id.into()), DropReason::PacketTooBig);
    }

    fn drop_frame(&mut self, frame: Frame, sa: Option<SaIndex>, reason: DropReason) {
        self.tables.drop_frame(self.pool, frame, sa, reason);
    }
}
