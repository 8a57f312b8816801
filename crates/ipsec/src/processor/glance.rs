//! What a first look at the packets of a burst finds out. All are looked at before the first is changed: what their look-ups read is then on its
//! way into the processor's cache for several packets at a time, which is most of the time that thousands of SAs cost.

use convoy_packet::{Frame, Layout, Offload, prefetch};

use super::inbound::Kind;
use super::{Decision, Ipsec, Verdict};
use crate::flow::FlowKey;
use crate::flow_cache::FlowPlace;
use crate::sa_config::SaProtocol;
use crate::sa_id::{InboundId, OutboundId};

/// What is known of a packet from the inside that is an IP packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departing {
    /// `None` if it is no IP packet.
    pub(super) packet: Option<(Layout, FlowKey)>,
    place: FlowPlace,
    pub(super) decision: Option<Decision>,
    /// Its tunnel's SA.
    pub(super) sa: Option<OutboundId>,
}

/// What is known of a packet from the outside that came by an SA in the ordinary way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    /// `None` if more is to be found out about it, or it is no packet of an SA.
    pub(super) packet: Option<Protected>,
    pub(super) sa: Option<InboundId>,
}

/// A whole packet that has been neither a fragment nor in the hands of a port's device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protected {
    pub(super) layout: Layout,
    /// Where the ESP or AH header stands.
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) in_udp: bool,
    pub(super) protocol: SaProtocol,
    pub(super) spi: u32,
}

impl Ipsec {
    /// Finds each packet's policy and SA.
    pub(super) fn glance_outbound(&mut self, frames: &mut [Frame], departing: &mut Vec<Departing>) {
        departing.extend(frames.iter_mut().map(|frame| {
            let Ok(layout) = Layout::parse(frame) else {
                return Departing { packet: None, place: FlowPlace::default(), decision: None, sa: None };
            };
            frame.truncate(layout.total_len);
            let flow = FlowKey::of(frame, &layout);
            let place = self.outbound_flows.place(&flow);
            Departing { packet: Some((layout, flow)), place, decision: None, sa: None }
        }));
        for one in departing {
            let Some((_, flow)) = &one.packet else { continue };
            let (spd, verdicts) = (&self.spd, &self.verdicts);
            one.decision = self.outbound_flows.get_or_decide(flow, one.place, || {
                spd.find_outbound(flow).map(|place| Decision { place, verdict: verdicts[place as usize] })
            });
            let Some(decision) = one.decision else { continue };
            prefetch(&self.uses[decision.place as usize]);
            if let Verdict::Protect(tunnel) = decision.verdict {
                one.sa = self.tunnels.current(tunnel);
                if let Some(id) = one.sa {
                    self.sad.outbound.prefetch(id.0);
                }
            }
        }
    }

    /// Finds each packet's SA, and where its header stands.
    pub(super) fn glance_inbound(&self, frames: &[Frame], arriving: &mut Vec<Arriving>) {
        arriving.extend(frames.iter().map(|frame| {
            let packet = self.protected(frame);
            if let Some(packet) = &packet {
                self.sad.prefetch_spi(packet.spi, packet.protocol);
            }
            Arriving { packet, sa: None }
        }));
        for one in arriving.iter_mut() {
            let Some(packet) = &one.packet else { continue };
            one.sa = self.sad.find_inbound(packet.spi, packet.protocol);
            if let Some(id) = one.sa {
                self.sad.inbound.prefetch(id.0);
            }
        }
        for one in arriving {
            if let Some(sa) = one.sa.and_then(|id| self.sad.inbound.line(id.0)) {
                // Most packets are the next.
                sa.replay().prefetch(sa.replay().highest().wrapping_add(1));
            }
        }
    }

    #[inline]
    fn protected(&self, frame: &Frame) -> Option<Protected> {
        let packet = &frame[..];
        let layout = Layout::parse(packet).ok()?;
        if layout.fragment.is_some() || frame.offload() != Offload::None {
            return None;
        }
        match Kind::of(packet, &layout, self.config.natt_port) {
            Kind::Protected { protocol, spi, at, end, in_udp } => {
                Some(Protected { layout, at, end, in_udp, protocol, spi })
            }
            _ => None,
        }
    }
}
