//! Classification of a burst from the outside: which SA each packet is for, and where its ESP or AH
//! header stands. As on the way out, all packets are looked up before the first is changed.

use std::ops::Range;

use convoy_packet::esp::{self, HEADER_BYTES as ESP_HEADER};
use convoy_packet::protocol::{ESP, IPV6};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, Layout, Offload, Plain, PlainFamily, PlainV4, PlainV6};

use super::kind::OutsideKind;
use super::tables::Tables;
use crate::sa::id::{InboundId, SaProtocol};

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
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// ESP behind a plain IP header, in UDP or not, to the address with this number, in a frame
    /// that is cut to its length: packets of one SA are then alike whatever their length.
    #[inline]
    fn in_plain<A: PlainFamily>(plain: &Plain<A>, to: u128, carried: CarriedEsp) -> Self {
        Self {
            spi: carried.spi,
            protocol: SaProtocol::Esp,
            at: A::HEADER_BYTES + if carried.in_udp { UDP_HEADER } else { 0 },
            end: usize::MAX,
            to,
            traffic_class: plain.traffic_class,
            is_v6: A::PROTOCOL == IPV6,
            in_udp: carried.in_udp,
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

/// Finds the packets' SAs and the positions of their headers.
pub(super) fn look_up(tables: &Tables, frames: &mut [Frame], runs: &mut Vec<InboundRun>) {
    runs.clear();
    let (mut last, natt_port) = (None, tables.config.natt_port);
    for frame in frames {
        let is_untouched = frame.offload() == Offload::None;
        let plain = PlainV4::parse_outer(frame).filter(|_| is_untouched);
        let Some((plain, carried)) =
            plain.and_then(|plain| Some((plain, CarriedEsp::of(frame, &plain, natt_port)?)))
        else {
            last = None;
            let packet = if is_untouched { classify_other(frame, natt_port) } else { None };
            add(tables, packet, runs);
            continue;
        };
        frame.truncate(plain.total_len);
        let key = (plain.addresses, carried, plain.traffic_class);
        match runs.last_mut().filter(|_| Some(key) == last) {
            Some(run) => run.packets += 1,
            None => {
                tables.sad.prefetch_spi(carried.spi, SaProtocol::Esp);
                let to = u128::from(plain.addresses as u32);
                let packet = Some(Protected::in_plain(&plain, to, carried));
                runs.push(InboundRun { packet, sa: None, packets: 1 });
            }
        }
        last = Some(key);
    }
    find_sas(tables, runs);
}

fn find_sas(tables: &Tables, runs: &mut [InboundRun]) {
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

/// How a plain packet carries ESP.
#[derive(Clone, Copy, PartialEq)]
struct CarriedEsp {
    spi: u32,
    in_udp: bool,
}

impl CarriedEsp {
    /// Of `packet`, of which `plain` was read; `None` if it has no whole ESP header.
    #[inline(always)]
    fn of<A: PlainFamily>(packet: &[u8], plain: &Plain<A>, natt_port: u16) -> Option<Self> {
        let Plain { total_len, protocol, upper, .. } = *plain;
        if protocol == ESP {
            let is_whole = total_len >= A::HEADER_BYTES + ESP_HEADER;
            return is_whole.then_some(Self { spi: upper, in_udp: false });
        }
        if upper as u16 != natt_port {
            return None;
        }
        let spi = esp::spi_in_udp(packet.get(A::HEADER_BYTES..total_len)?)?;
        Some(Self { spi, in_udp: true })
    }
}

/// Adds a packet to the last run, if they are alike, or begins one with it.
#[inline]
fn add(tables: &Tables, packet: Option<Protected>, runs: &mut Vec<InboundRun>) {
    match (runs.last_mut(), &packet) {
        (Some(run), Some(_)) if run.packet == packet => run.packets += 1,
        _ => {
            if let Some(Protected { spi, protocol, .. }) = packet {
                tables.sad.prefetch_spi(spi, protocol);
            }
            runs.push(InboundRun { packet, sa: None, packets: 1 });
        }
    }
}

/// Parses a packet that is not ESP behind a plain IPv4 header; `None` if it is not protected, or a
/// fragment.
fn classify_other(frame: &mut Frame, natt_port: u16) -> Option<Protected> {
    if let Some(plain) = PlainV6::parse_outer(frame)
        && let Some(carried) = CarriedEsp::of(frame, &plain, natt_port)
    {
        frame.truncate(plain.total_len);
        let [_, to] = plain.addresses;
        return Some(Protected::in_plain(&plain, to, carried));
    }
    let layout = Layout::parse(frame).ok().filter(|layout| layout.fragment.is_none())?;
    match OutsideKind::of(frame, &layout, natt_port) {
        OutsideKind::Protected { protocol, spi, at, end, in_udp } => {
            Some(Protected::new(frame, &layout, protocol, spi, at..end, in_udp))
        }
        _ => None,
    }
}
