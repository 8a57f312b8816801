//! Classification of a burst. All packets are looked up before the first is changed: the memory for
//! the look-ups is then fetched for several packets at a time, and waiting for it is most of what
//! thousands of SAs cost. Consecutive packets that look alike form a run, which is looked up once.

use std::ops::Range;

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;
use convoy_packet::ipv4::HEADER_BYTES as IPV4_HEADER;
use convoy_packet::protocol::IPV4;
use convoy_packet::{Frame, Layout, Offload, PlainV4, prefetch};

use super::inbound::Inbound;
use super::kind::OutsideKind;
use super::mss::{is_plain_syn, is_syn};
use super::outbound::Outbound;
use super::policies::{Decision, Verdict};
use super::tables::Tables;
use crate::esp::outer_header::Inner;
use crate::ip::flow::FlowKey;
use crate::sa::id::{InboundId, OutboundId, SaProtocol};
use crate::spd::flow_cache::{FlowPlace, V4Key};

/// A run of outbound packets of one flow whose outer headers take over the same fields. Information
/// that only few packets need is found again for those.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutboundRun {
    flow: LookupKey,
    place: FlowPlace,
    /// `None` also if they are no IP packets.
    pub(super) decision: Option<Decision>,
    /// Their tunnel's current SA.
    pub(super) sa: Option<OutboundId>,
    pub(super) inner: Inner,
    pub(super) packets: u32,
    /// Whether it is a packet that begins a TCP connection, which may have to be changed.
    pub(super) is_syn: bool,
}

/// The lookup key of a packet's flow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LookupKey {
    /// It is no IP packet.
    None,
    V4(V4Key),
    /// IPv6: the index among the burst's IPv6 flows.
    V6(u32),
}

/// The classification of an outbound burst.
#[derive(Debug, Default)]
pub(super) struct ClassifiedBurst {
    runs: Vec<OutboundRun>,
    v6_flows: Vec<FlowKey>,
}

impl ClassifiedBurst {
    /// The runs in the order of the packets.
    pub(super) fn runs(&self) -> &[OutboundRun] {
        &self.runs
    }

    fn push(&mut self, flow: LookupKey, place: FlowPlace, inner: Inner) {
        self.runs.push(OutboundRun {
            flow,
            place,
            decision: None,
            sa: None,
            inner,
            packets: 1,
            is_syn: false,
        });
    }
}

/// A run of inbound packets of one SA, received in the usual form: whole, and not opened by a
/// port's device.
#[derive(Clone, Copy, Debug)]
pub(super) struct InboundRun {
    /// `None` if the packet needs the general path.
    pub(super) packet: Option<Protected>,
    /// `None` if there is no such SA.
    pub(super) sa: Option<InboundId>,
    pub(super) packets: u32,
}

/// A packet with ESP or AH.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protected {
    pub(super) spi: u32,
    pub(super) protocol: SaProtocol,
    /// Position of the ESP or AH header.
    pub(super) at: usize,
    /// Upper bound of the end of the protected part.
    pub(super) end: usize,
    /// Its destination as a number.
    pub(super) to: u128,
    pub(super) traffic_class: u8,
    pub(super) is_v6: bool,
    pub(super) in_udp: bool,
}

impl Protected {
    /// An ESP packet behind a plain IPv4 header, whose frame is cut to its length.
    #[inline]
    fn in_plain_v4(plain: &PlainV4) -> Self {
        Self {
            spi: plain.upper,
            protocol: SaProtocol::Esp,
            at: IPV4_HEADER,
            end: usize::MAX,
            to: u128::from(plain.addresses as u32),
            traffic_class: plain.traffic_class,
            is_v6: false,
            in_udp: false,
        }
    }

    #[inline]
    pub(super) fn new(
        packet: &[u8],
        outer: &Layout,
        protocol: SaProtocol,
        spi: u32,
        part: Range<usize>,
        in_udp: bool,
    ) -> Self {
        let Layout { traffic_class, is_v6, .. } = *outer;
        let (_, to) = outer.address_numbers(packet);
        Self { spi, protocol, at: part.start, end: part.end, to, traffic_class, is_v6, in_udp }
    }
}

impl Outbound {
    /// Finds the packets' policies and SAs.
    pub(super) fn look_up(&mut self, tables: &Tables, frames: &mut [Frame], burst: &mut ClassifiedBurst) {
        burst.runs.clear();
        burst.v6_flows.clear();
        let mut last = (V4Key::NONE, Inner::default());
        let clamps = tables.config.mss_clamp.is_on();
        for frame in frames {
            let plain = match PlainV4::parse(frame) {
                Some(plain) if !(clamps && is_plain_syn(plain.protocol, frame)) => plain,
                // Also one that begins a TCP connection and may have to be changed.
                _ => {
                    last.0 = V4Key::NONE;
                    self.classify_any(frame, burst);
                    continue;
                }
            };
            frame.truncate(plain.total_len);
            let PlainV4 { traffic_class, dont_fragment, .. } = plain;
            let inner = Inner { next_header: IPV4, traffic_class, dont_fragment };
            let key = V4Key::new(plain.addresses, plain.protocol, plain.upper, frame.interface());
            match burst.runs.last_mut().filter(|_| (key, inner) == last) {
                Some(run) => run.packets += 1,
                None => burst.push(LookupKey::V4(key), self.flows.place_v4(&key), inner),
            }
            last = (key, inner);
        }
        self.decide(tables, burst);
    }

    /// Finds the policy or SA of a packet of any kind.
    fn classify_any(&self, frame: &mut Frame, burst: &mut ClassifiedBurst) {
        let Ok(layout) = Layout::parse(frame) else {
            return burst.push(LookupKey::None, FlowPlace::NONE, Inner::default());
        };
        frame.truncate(layout.total_len);
        let (inner, flow) = (Inner::of(&layout), FlowKey::of(frame, &layout).on(frame.interface()));
        let place = self.flows.place(&flow);
        if layout.is_v6 {
            burst.v6_flows.push(flow);
            burst.push(LookupKey::V6(burst.v6_flows.len() as u32 - 1), place, inner);
        } else {
            burst.push(LookupKey::V4(V4Key::of(&flow)), place, inner);
        }
        if let Some(run) = burst.runs.last_mut() {
            run.is_syn = is_syn(frame, &layout);
        }
    }

    /// Decides on each run.
    fn decide(&mut self, tables: &Tables, burst: &mut ClassifiedBurst) {
        let decide = |flow: &FlowKey| tables.decide_outbound(flow);
        for run in &mut burst.runs {
            run.decision = match run.flow {
                LookupKey::None => continue,
                LookupKey::V4(key) => self.flows.get_or_decide_v4(&key, run.place, decide),
                LookupKey::V6(at) => {
                    self.flows.get_or_decide(&burst.v6_flows[at as usize], run.place, decide)
                }
            };
            self.flows.note_hits(run.packets - 1);
            if let Some(Decision { slot, verdict }) = run.decision {
                prefetch(&tables.uses[slot as usize]);
                if let Verdict::Protect(tunnel) = verdict
                    && let Some(id) = tables.tunnels.current(tunnel)
                {
                    run.sa = Some(id);
                    tables.sad.outbound.prefetch(id.0);
                }
            }
        }
    }
}

impl Inbound {
    /// Finds the packets' SAs and the positions of their headers.
    pub(super) fn look_up(tables: &Tables, frames: &mut [Frame], runs: &mut Vec<InboundRun>) {
        runs.clear();
        let mut last = None;
        for frame in frames {
            let is_untouched = frame.offload() == Offload::None;
            let plain = PlainV4::parse_esp(frame)
                .filter(|plain| is_untouched && plain.total_len >= IPV4_HEADER + ESP_HEADER);
            let Some(plain) = plain else {
                last = None;
                let packet = if is_untouched { classify_protected(tables, frame) } else { None };
                runs.push(InboundRun { packet, sa: None, packets: 1 });
                continue;
            };
            frame.truncate(plain.total_len);
            let key = (plain.addresses, plain.upper, plain.traffic_class);
            match runs.last_mut().filter(|_| Some(key) == last) {
                Some(run) => run.packets += 1,
                None => {
                    tables.sad.prefetch_spi(plain.upper, SaProtocol::Esp);
                    let packet = Some(Protected::in_plain_v4(&plain));
                    runs.push(InboundRun { packet, sa: None, packets: 1 });
                }
            }
            last = Some(key);
        }
        for run in runs.iter_mut() {
            let found = run.packet.and_then(|packet| tables.sad.find_inbound(packet.spi, packet.protocol));
            if let Some(id) = found {
                tables.sad.inbound.prefetch(id.0);
                run.sa = Some(id);
            }
        }
        for id in runs.iter().filter_map(|run| run.sa) {
            if let Some(sa) = tables.sad.inbound.hot(id.0) {
                // Most packets are the next in sequence.
                sa.replay().prefetch(sa.replay().highest().wrapping_add(1));
                tables.tunnels.prefetch_admission(sa.tunnel);
            }
        }
    }
}

/// Parses a packet of any kind; `None` if it is not protected, or a fragment.
fn classify_protected(tables: &Tables, frame: &Frame) -> Option<Protected> {
    let layout = Layout::parse(frame).ok().filter(|layout| layout.fragment.is_none())?;
    match OutsideKind::of(frame, &layout, tables.config.natt_port) {
        OutsideKind::Protected { protocol, spi, at, end, in_udp } => {
            tables.sad.prefetch_spi(spi, protocol);
            Some(Protected::new(frame, &layout, protocol, spi, at..end, in_udp))
        }
        _ => None,
    }
}
