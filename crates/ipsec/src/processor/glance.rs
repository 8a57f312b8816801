//! What a first look at the packets of a burst finds out. All are looked at before the first is changed: what their look-ups read is then on its
//! way into the processor's cache for several packets at a time, which is most of the time that thousands of SAs cost.

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;
use convoy_packet::ipv4::HEADER_BYTES as IPV4_HEADER;
use convoy_packet::{Frame, Layout, Offload, PlainV4, prefetch};

use super::inbound::Kind;
use super::{Decision, Ipsec, Verdict};
use crate::flow::FlowKey;
use crate::flow_cache::{FlowPlace, V4Key};
use crate::outer_header::Inner;
use crate::sa_config::SaProtocol;
use crate::sa_id::{InboundId, OutboundId};

/// What is known of a packet from the inside. What only few packets need is found out again for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departing {
    flow: Flow,
    place: FlowPlace,
    /// `None` also if it is no IP packet.
    pub(super) decision: Option<Decision>,
    /// Its tunnel's SA.
    pub(super) sa: Option<OutboundId>,
    pub(super) inner: Inner,
}

/// What a packet's flow is looked up by.
#[derive(Clone, Copy, Debug)]
enum Flow {
    /// It is no IP packet.
    None,
    V4(V4Key),
    /// Of IPv6: its place among those of the burst.
    V6(u32),
}

impl Departing {
    const UNKNOWN: Self = Self {
        flow: Flow::None,
        place: FlowPlace::NONE,
        decision: None,
        sa: None,
        inner: Inner { is_v6: false, traffic_class: 0, dont_fragment: false },
    };
}

/// What is known of the packets of a burst from the inside.
#[derive(Debug, Default)]
pub(super) struct DepartingBurst {
    packets: Vec<Departing>,
    v6_flows: Vec<FlowKey>,
}

impl DepartingBurst {
    /// One for each packet, and more behind them.
    pub(super) fn packets(&self) -> &[Departing] {
        &self.packets
    }
}

/// What is known of a packet from the outside that came by an SA in the ordinary way: whole, and not through a port's device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    pub(super) packet: Protected,
    /// `None` if there is no such SA, or more is to be found out about the packet.
    pub(super) sa: Option<InboundId>,
    is_protected: bool,
}

impl Arriving {
    const UNKNOWN: Self = Self {
        packet: Protected {
            spi: 0,
            protocol: SaProtocol::Esp,
            at: 0,
            end: 0,
            traffic_class: 0,
            is_v6: false,
            in_udp: false,
        },
        sa: None,
        is_protected: false,
    };
}

/// A packet with ESP or AH.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protected {
    pub(super) spi: u32,
    pub(super) protocol: SaProtocol,
    /// Where the ESP or AH header stands.
    pub(super) at: usize,
    /// Where what it protects ends.
    pub(super) end: usize,
    pub(super) traffic_class: u8,
    pub(super) is_v6: bool,
    pub(super) in_udp: bool,
}

impl Protected {
    /// One with ESP behind a plain header.
    #[inline]
    fn in_plain_v4(plain: &PlainV4) -> Self {
        Self {
            spi: plain.upper,
            protocol: SaProtocol::Esp,
            at: IPV4_HEADER,
            end: plain.total_len,
            traffic_class: plain.traffic_class,
            is_v6: false,
            in_udp: false,
        }
    }

    #[inline]
    pub(super) fn new(
        outer: &Layout,
        (protocol, spi): (SaProtocol, u32),
        (at, end): (usize, usize),
        in_udp: bool,
    ) -> Self {
        let Layout { traffic_class, is_v6, .. } = *outer;
        Self { spi, protocol, at, end, traffic_class, is_v6, in_udp }
    }
}

/// Has room for `count` in `known`; what is there already is left, since each is overwritten.
fn make_room<T: Copy>(known: &mut Vec<T>, count: usize, unknown: T) {
    if known.len() < count {
        known.resize(count, unknown);
    }
}

impl Ipsec {
    /// Finds each packet's policy and SA.
    pub(super) fn glance_outbound(&mut self, frames: &mut [Frame], burst: &mut DepartingBurst) {
        let DepartingBurst { packets, v6_flows } = burst;
        make_room(packets, frames.len(), Departing::UNKNOWN);
        v6_flows.clear();
        let packets = &mut packets[..frames.len()];
        let (mut last, mut last_place) = (V4Key::NONE, FlowPlace::NONE);
        for (frame, one) in frames.iter_mut().zip(packets.iter_mut()) {
            let key = if let Some(plain) = PlainV4::parse(frame) {
                frame.truncate(plain.total_len);
                let PlainV4 { traffic_class, dont_fragment, .. } = plain;
                one.inner = Inner { is_v6: false, traffic_class, dont_fragment };
                V4Key::new(plain.addresses, plain.protocol, plain.upper)
            } else if let Some(key) = self.glance_at_any(frame, one, v6_flows) {
                key
            } else {
                continue;
            };
            if key != last {
                (last, last_place) = (key, self.outbound_flows.place_v4(&key));
            }
            (one.flow, one.place) = (Flow::V4(key), last_place);
        }
        self.decide_outbound(packets, v6_flows);
    }

    /// Of a packet of any kind; its key if that is one of IPv4.
    fn glance_at_any(
        &self,
        frame: &mut Frame,
        one: &mut Departing,
        v6_flows: &mut Vec<FlowKey>,
    ) -> Option<V4Key> {
        let Ok(layout) = Layout::parse(frame) else {
            *one = Departing::UNKNOWN;
            return None;
        };
        frame.truncate(layout.total_len);
        one.inner = Inner::of(&layout);
        let flow = FlowKey::of(frame, &layout);
        if !layout.is_v6 {
            return Some(V4Key::of(&flow));
        }
        (one.flow, one.place) = (Flow::V6(v6_flows.len() as u32), self.outbound_flows.place(&flow));
        v6_flows.push(flow);
        None
    }

    /// Decides on each packet; those of one flow behind one another are decided on once.
    fn decide_outbound(&mut self, packets: &mut [Departing], v6_flows: &[FlowKey]) {
        let (spd, verdicts) = (&self.spd, &self.verdicts);
        let decide = |flow: &FlowKey| {
            spd.find_outbound(flow).map(|slot| Decision { slot, verdict: verdicts[slot as usize] })
        };
        let (mut last, mut decision, mut sa) = (V4Key::NONE, None, None);
        for one in packets {
            match one.flow {
                Flow::None => continue,
                Flow::V4(key) if key == last => {
                    self.outbound_flows.note_hit();
                    (one.decision, one.sa) = (decision, sa);
                    continue;
                }
                Flow::V4(key) => {
                    last = key;
                    decision = self.outbound_flows.get_or_decide_v4(&key, one.place, decide);
                }
                Flow::V6(at) => {
                    last = V4Key::NONE;
                    decision = self.outbound_flows.get_or_decide(&v6_flows[at as usize], one.place, decide);
                }
            }
            sa = None;
            if let Some(Decision { slot, verdict }) = decision {
                prefetch(&self.uses[slot as usize]);
                if let Verdict::Protect(tunnel) = verdict
                    && let Some(id) = self.tunnels.current(tunnel)
                {
                    sa = Some(id);
                    self.sad.outbound.prefetch(id.0);
                }
            }
            (one.decision, one.sa) = (decision, sa);
        }
    }

    /// Finds each packet's SA, and where its header stands.
    pub(super) fn glance_inbound(&self, frames: &[Frame], arriving: &mut Vec<Arriving>) {
        make_room(arriving, frames.len(), Arriving::UNKNOWN);
        let arriving = &mut arriving[..frames.len()];
        for (frame, one) in frames.iter().zip(arriving.iter_mut()) {
            one.sa = None;
            one.is_protected = false;
            if frame.offload() != Offload::None {
                continue;
            }
            match PlainV4::parse_esp(frame) {
                Some(plain) if plain.total_len >= IPV4_HEADER + ESP_HEADER => {
                    one.packet = Protected::in_plain_v4(&plain);
                }
                _ => match self.glance_at_protected(frame) {
                    Some(packet) => one.packet = packet,
                    None => continue,
                },
            }
            one.is_protected = true;
            self.sad.prefetch_spi(one.packet.spi, one.packet.protocol);
        }
        let mut last = None;
        for one in arriving.iter_mut().filter(|one| one.is_protected) {
            let key = (one.packet.spi, one.packet.protocol);
            one.sa = match last {
                Some((last_key, sa)) if last_key == key => sa,
                _ => self.find_and_prefetch(key),
            };
            last = Some((key, one.sa));
        }
        for id in arriving.iter().filter_map(|one| one.sa) {
            if let Some(sa) = self.sad.inbound.line(id.0) {
                // Most packets are the next.
                sa.replay().prefetch(sa.replay().highest().wrapping_add(1));
                self.tunnels.prefetch_admission(sa.tunnel);
            }
        }
    }

    #[inline]
    fn find_and_prefetch(&self, (spi, protocol): (u32, SaProtocol)) -> Option<InboundId> {
        let id = self.sad.find_inbound(spi, protocol)?;
        self.sad.inbound.prefetch(id.0);
        Some(id)
    }

    /// Of a packet of any kind; `None` if it is not protected, or a piece of one.
    fn glance_at_protected(&self, frame: &Frame) -> Option<Protected> {
        let layout = Layout::parse(frame).ok().filter(|layout| layout.fragment.is_none())?;
        match Kind::of(frame, &layout, self.config.natt_port) {
            Kind::Protected { protocol, spi, at, end, in_udp } => {
                Some(Protected::new(&layout, (protocol, spi), (at, end), in_udp))
            }
            _ => None,
        }
    }
}
