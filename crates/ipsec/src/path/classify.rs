//! Classification of a burst from the inside. All packets are looked up before the first is
//! changed: the memory for the look-ups is then fetched for several packets at a time, and waiting
//! for it is most of what thousands of SAs cost. Consecutive packets that look alike form a run,
//! which is looked up once.

use convoy_packet::protocol::{IPV4, IPV6};
use convoy_packet::{Frame, Layout, PlainV4, PlainV6, prefetch};

use super::mss::is_syn;
use super::outbound::Outbound;
use super::plain_inner::is_plain_syn;
use super::policies::{Decision, Verdict};
use super::tables::Tables;
use crate::esp::outer_header::Inner;
use crate::ip::flow::FlowKey;
use crate::sa::id::OutboundId;
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

    /// Whether a packet of this IPv6 flow is one more of the last run, to which it is then counted.
    #[inline]
    fn continues_v6(&mut self, flow: &FlowKey, inner: Inner) -> bool {
        let is_same = |run: &&mut OutboundRun| match run.flow {
            LookupKey::V6(at) => self.v6_flows[at as usize] == *flow && run.inner == inner && !run.is_syn,
            LookupKey::None | LookupKey::V4(_) => false,
        };
        let run = self.runs.last_mut().filter(is_same);
        run.map(|run| run.packets += 1).is_some()
    }

    fn push_v6(&mut self, flow: FlowKey, place: FlowPlace, inner: Inner) {
        self.v6_flows.push(flow);
        self.push(LookupKey::V6(self.v6_flows.len() as u32 - 1), place, inner);
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

impl Outbound {
    /// Finds the packets' policies and SAs.
    pub(super) fn look_up(&mut self, tables: &Tables, frames: &mut [Frame], burst: &mut ClassifiedBurst) {
        burst.runs.clear();
        burst.v6_flows.clear();
        let mut last = (V4Key::NONE, Inner::default());
        let clamps = tables.config.mss_clamp.is_on();
        for frame in frames {
            let plain = match PlainV4::parse(frame) {
                Some(plain) if !(clamps && is_plain_syn(frame, &plain)) => plain,
                // Also one that begins a TCP connection and may have to be changed.
                _ => {
                    last.0 = V4Key::NONE;
                    self.classify_other(frame, clamps, burst);
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

    /// Finds the policy of a packet that is not plain IPv4.
    fn classify_other(&self, frame: &mut Frame, clamps: bool, burst: &mut ClassifiedBurst) {
        let plain = PlainV6::parse(frame);
        let Some(plain) = plain.filter(|plain| !(clamps && is_plain_syn(frame, plain))) else {
            return self.classify_any(frame, burst);
        };
        frame.truncate(plain.total_len);
        let PlainV6 { traffic_class, dont_fragment, .. } = plain;
        let inner = Inner { next_header: IPV6, traffic_class, dont_fragment };
        let flow = FlowKey::of_plain_v6(&plain, frame.interface());
        if !burst.continues_v6(&flow, inner) {
            let place = self.flows.place(&flow);
            burst.push_v6(flow, place, inner);
        }
    }

    /// Finds the policy of a packet of any kind.
    fn classify_any(&self, frame: &mut Frame, burst: &mut ClassifiedBurst) {
        let Ok(layout) = Layout::parse(frame) else {
            return burst.push(LookupKey::None, FlowPlace::NONE, Inner::default());
        };
        frame.truncate(layout.total_len);
        let (inner, flow) = (Inner::of(&layout), FlowKey::of(frame, &layout).on(frame.interface()));
        let place = self.flows.place(&flow);
        if layout.is_v6 {
            burst.push_v6(flow, place, inner);
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
