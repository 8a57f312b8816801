//! The outbound path: policy, size, ESP or AH, and after the crypto job the outer fragments.

use convoy_packet::{Frame, FramePool, Ipv4, udp};

use super::IpsecConfig;
use super::aggregate::Aggregating;
use super::classify::ClassifiedBurst;
use super::policies::Decision;
use super::protect::OutboundPass;
use super::tables::{Tables, WithoutSa};
use crate::drops::DropReason;
use crate::esp::job::CryptoPacket;
use crate::ip::flow::FlowKey;
use crate::ip::fragment::split;
use crate::sa::id::{SaIndex, TunnelId};
use crate::sad::outbound_sa::OutboundSa;
use crate::spd::flow_cache::FlowCache;

/// The classification of a burst from the inside.
#[derive(Debug, Default)]
pub struct OutboundBurst {
    /// Packets for an engine to seal, and then to be finished.
    pub protect: Vec<CryptoPacket>,
    /// Packets that leave unchanged.
    pub bypass: Vec<Frame>,
    /// ICMP errors for the senders.
    pub to_inside: Vec<Frame>,
    /// Packets for the workers that own their tunnels, to be classified there.
    pub for_others: Vec<(u16, Frame)>,
    /// Packets whose SA is to be negotiated; only with
    /// [`IpsecConfig::acquire`](super::IpsecConfig::acquire).
    pub without_sa: Vec<WithoutSa>,
    /// Tunnels of packets among [`for_others`](Self::for_others) for which this worker is to get an
    /// SA of its own (RFC 9611), with a packet's flow.
    pub own_sa: Vec<(TunnelId, FlowKey)>,
}

/// The outbound path: which SA protects a packet from the inside, if any, and what leaves once it
/// is sealed.
pub struct Outbound {
    /// The policies of recent flows.
    pub(super) flows: FlowCache<Decision>,
    pub(super) aggregating: Aggregating,
    /// The classification of a burst; empty between calls.
    classified: ClassifiedBurst,
    /// Fragments of a packet; empty between calls.
    pieces: Vec<Frame>,
    /// IPv6's identification of the datagram that was cut last.
    fragment_id: u32,
}

impl Outbound {
    pub(super) fn new(config: &IpsecConfig) -> Self {
        Self {
            flows: FlowCache::new(config.flow_cache, config.seed ^ 0x6f75_7462),
            aggregating: Aggregating::default(),
            classified: ClassifiedBurst::default(),
            pieces: Vec::new(),
            fragment_id: (config.seed ^ config.seed >> 32) as u32,
        }
    }

    /// Takes whole IP packets from the inside and decides for each: which SA protects it, if any,
    /// and whether it is cut or padded before. `frames` is left empty; dropped frames are back in
    /// `pool` and counted.
    ///
    /// Packets for ESP in tunnel mode are returned [raw](CryptoPacket::is_raw), for
    /// [`lay_out`](Tables::lay_out) or [`begin`](Tables::begin): without a number, and not counted
    /// towards their SA's limits. Other packets have their jobs.
    pub fn classify(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
        out: &mut OutboundBurst,
    ) {
        tables.now_ns = now_ns;
        let mut classified = std::mem::take(&mut self.classified);
        self.look_up(tables, frames, &mut classified);
        let Self { flows, aggregating, pieces, .. } = self;
        let mut context = OutboundPass { tables, flows, aggregating, pieces, random, pool, out };
        let mut frames = frames.drain(..);
        for run in classified.runs() {
            context.run(&mut frames, run);
        }
        drop(frames);
        self.classified = classified;
    }

    /// Takes packets back from the engines and appends them to `out` as whole outer IP packets: one
    /// each, or fragments if it exceeds the path. They must arrive in order per SA; `done` is left
    /// empty.
    pub fn finish(
        &mut self,
        tables: &mut Tables,
        pool: &mut FramePool,
        done: &mut Vec<CryptoPacket>,
        out: &mut Vec<Frame>,
    ) {
        for packet in done.drain(..) {
            self.finish_one(tables, pool, packet, out);
        }
    }

    #[inline]
    fn finish_one(
        &mut self,
        tables: &mut Tables,
        pool: &mut FramePool,
        done: CryptoPacket,
        out: &mut Vec<Frame>,
    ) {
        let CryptoPacket { mut frame, status, sa: index, context, .. } = done;
        let sa = index.outbound().and_then(|id| tables.sad.outbound.hot(id.0));
        let Some(path_mtu) = sa.filter(|sa| sa.generation() == context.generation).map(|sa| sa.path_mtu)
        else {
            return tables.drop_frame(pool, frame, None, DropReason::OutboundNoSa);
        };
        match OutboundSa::finish(&mut frame, &context, status) {
            Ok(()) if frame.len() <= path_mtu.into() => out.push(frame),
            Ok(()) => self.cut_outer(tables, frame, index, path_mtu, pool, out),
            Err(reason) => tables.drop_frame(pool, frame, Some(index), reason),
        }
    }

    /// Appends a packet of a key daemon's on this host, in fragments if it exceeds the MTU: a
    /// daemon expects that of its network, and not every port has a kernel that does it.
    pub fn send_own(
        &mut self,
        tables: &mut Tables,
        mut frame: Frame,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        udp::complete_checksum(&mut frame);
        let mtu = tables.config.mtu.into();
        let mut id = None;
        if frame.len() > mtu {
            tables.totals.cut += 1;
            id = Some(match Ipv4::parse(&frame) {
                Ok(header) => tables.next_v4_id(&header).into(),
                Err(_) => self.next_v6_id(),
            });
        }
        if let Err(reason) = split(frame, mtu, id, pool, out) {
            tables.count_drop(None, reason);
        }
    }

    fn next_v6_id(&mut self) -> u32 {
        self.fragment_id = self.fragment_id.wrapping_add(1);
        self.fragment_id
    }

    /// Appends the fragments of a packet that exceeds the path.
    fn cut_outer(
        &mut self,
        tables: &mut Tables,
        mut frame: Frame,
        index: SaIndex,
        path_mtu: u16,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        let Some(facts) = tables.sad.common(index).map(|common| common.facts) else {
            return tables.drop_frame(pool, frame, None, DropReason::OutboundNoSa);
        };
        // Anyone who sends the fragments never sees the whole datagram to compute it from.
        udp::complete_checksum(&mut frame);
        tables.totals.cut += 1;
        // IPv4's is there already: AH covers it.
        let id = facts.name.remote.is_ipv6().then(|| self.next_v6_id());
        if let Err(reason) = split(frame, path_mtu.into(), id, pool, out) {
            tables.count_drop(Some(index), reason);
        }
    }
}
