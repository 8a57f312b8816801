//! What a first look at the packets of a burst finds out. All are looked at before the first is changed: what their look-ups read is then on its
//! way into the processor's cache for several packets at a time, which is most of the time that thousands of SAs cost.

use convoy_packet::{Frame, Layout, Offload, prefetch};

use super::inbound::Kind;
use super::{Decision, Ipsec, Verdict};
use crate::flow::FlowKey;
use crate::flow_cache::FlowPlace;
use crate::outer_header::Inner;
use crate::sa_config::SaProtocol;
use crate::sa_id::{InboundId, OutboundId};

/// What is known of a packet from the inside. What only few packets need is found out again for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departing {
    pub(super) flow: FlowKey,
    place: FlowPlace,
    /// `None` also if it is no IP packet.
    pub(super) decision: Option<Decision>,
    /// Its tunnel's SA.
    pub(super) sa: Option<OutboundId>,
    pub(super) inner: Inner,
    is_packet: bool,
}

impl Departing {
    const UNKNOWN: Self = Self {
        flow: FlowKey { source: 0, destination: 0, upper: 0 },
        place: FlowPlace::NONE,
        decision: None,
        sa: None,
        inner: Inner { is_v6: false, traffic_class: 0, dont_fragment: false },
        is_packet: false,
    };
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
    pub(super) fn glance_outbound(&mut self, frames: &mut [Frame], departing: &mut Vec<Departing>) {
        make_room(departing, frames.len(), Departing::UNKNOWN);
        let departing = &mut departing[..frames.len()];
        for (frame, one) in frames.iter_mut().zip(departing.iter_mut()) {
            one.decision = None;
            one.sa = None;
            one.is_packet = false;
            let Ok(layout) = Layout::parse(frame) else { continue };
            frame.truncate(layout.total_len);
            one.is_packet = true;
            one.inner = Inner::of(&layout);
            one.flow = FlowKey::of(frame, &layout);
            one.place = self.outbound_flows.place(&one.flow);
        }
        for one in departing.iter_mut().filter(|one| one.is_packet) {
            let (spd, verdicts, flow) = (&self.spd, &self.verdicts, &one.flow);
            let decision = self.outbound_flows.get_or_decide(flow, one.place, || {
                spd.find_outbound(flow).map(|place| Decision { place, verdict: verdicts[place as usize] })
            });
            one.decision = decision;
            let Some(Decision { place, verdict }) = decision else { continue };
            prefetch(&self.uses[place as usize]);
            if let Verdict::Protect(tunnel) = verdict
                && let Some(id) = self.tunnels.current(tunnel)
            {
                one.sa = Some(id);
                self.sad.outbound.prefetch(id.0);
            }
        }
    }

    /// Finds each packet's SA, and where its header stands.
    pub(super) fn glance_inbound(&self, frames: &[Frame], arriving: &mut Vec<Arriving>) {
        make_room(arriving, frames.len(), Arriving::UNKNOWN);
        let arriving = &mut arriving[..frames.len()];
        for (frame, one) in frames.iter().zip(arriving.iter_mut()) {
            one.sa = None;
            one.is_protected = false;
            let Ok(layout) = Layout::parse(frame) else { continue };
            if layout.fragment.is_some() || frame.offload() != Offload::None {
                continue;
            }
            let kind = Kind::of(frame, &layout, self.config.natt_port);
            if let Kind::Protected { protocol, spi, at, end, in_udp } = kind {
                one.is_protected = true;
                one.packet = Protected::new(&layout, (protocol, spi), (at, end), in_udp);
                self.sad.prefetch_spi(spi, protocol);
            }
        }
        for one in arriving.iter_mut().filter(|one| one.is_protected) {
            one.sa = self.sad.find_inbound(one.packet.spi, one.packet.protocol);
            if let Some(id) = one.sa {
                self.sad.inbound.prefetch(id.0);
            }
        }
        for id in arriving.iter().filter_map(|one| one.sa) {
            if let Some(sa) = self.sad.inbound.line(id.0) {
                // Most packets are the next.
                sa.replay().prefetch(sa.replay().highest().wrapping_add(1));
            }
        }
    }
}
