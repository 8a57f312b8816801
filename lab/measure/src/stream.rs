//! One direction of a trial: what was sent, what arrived, and the result.

use std::ops::Range;

use convoy_packet::protocol::ESP;
use convoy_packet::{ipv4, ipv6};

use crate::account::{Account, Reordering};
use crate::device::{DeviceOutcome, PhaseCounts};
use crate::family::Family;
use crate::flow::Packets;
use crate::latency::Times;
use crate::schedule::Schedule;
use crate::stamp::Stamp;

/// How a tester identifies arriving packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// By their stamps.
    Stamps,
    /// By their ESP sequence numbers (RFC 4303 section 2.2), for packets of one SA. The stamps are
    /// encrypted, so there are no latencies.
    EspNumbers,
}

/// One direction of a running trial.
pub(crate) struct Stream {
    /// Stream number in the stamps.
    pub(crate) id: u32,
    pub(crate) packets: Packets,
    /// Packets to be sent; fewer than the trial has if the tester falls too far behind.
    pub(crate) wanted: u64,
    /// Packets sent.
    pub(crate) sent: u64,
    account: Account,
    times: Times,
    foreign: u64,
    /// When the first packet is due; postponed when the tester falls behind.
    pub(crate) begin_ns: u64,
    pub(crate) first_begin_ns: u64,
    received_while_sending: u64,
    /// ESP sequence number of the stream's first packet, as far as it is known: that of the first
    /// arrival, since an SA's numbers continue from trial to trial, until an arrival shows that it
    /// was of an earlier trial.
    first_number: Option<u64>,
}

impl Stream {
    /// A stream of `wanted` packets.
    pub(crate) fn new(id: u32, packets: Packets, wanted: u64, begin_ns: u64) -> Self {
        Self {
            id,
            packets,
            wanted,
            sent: 0,
            account: Account::new(wanted),
            times: Times::new(),
            foreign: 0,
            begin_ns,
            first_begin_ns: begin_ns,
            received_while_sending: 0,
            first_number: None,
        }
    }

    /// Whether all packets have arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.account.received() == self.wanted
    }

    /// Counts an arriving packet; `is_sending` says whether the trial is still sending.
    #[inline]
    pub(crate) fn arrive(&mut self, reads: Reads, packet: &[u8], now_ns: u64, is_sending: bool) {
        let read = match reads {
            Reads::Stamps => Stamp::read(packet)
                .filter(|stamp| stamp.stream == self.id && stamp.sequence < self.sent)
                .map(|stamp| (stamp.sequence, Some(stamp.sent_ns))),
            Reads::EspNumbers => {
                esp_number(packet).and_then(|number| self.sequence(number)).map(|sequence| (sequence, None))
            }
        };
        let Some((sequence, sent_ns)) = read else {
            self.foreign += 1;
            return;
        };
        if self.account.arrive(sequence) {
            self.received_while_sending += u64::from(is_sending);
            if let Some(sent_ns) = sent_ns {
                self.times.record(now_ns.saturating_sub(sent_ns));
            }
        }
    }

    /// The packet of this stream that has an ESP sequence number; `None` if it is of an earlier
    /// trial.
    ///
    /// The first arrival is taken for packet 0, although the device may still have had packets of
    /// an earlier trial. A number that was not sent yet shows that it was one of those.
    fn sequence(&mut self, number: u64) -> Option<u64> {
        let last = self.sent.checked_sub(1)?;
        let sequence = number.checked_sub(*self.first_number.get_or_insert(number))?;
        let earlier = sequence.saturating_sub(last);
        if earlier > 0 {
            let forgotten = self.account.forget_first(earlier);
            self.foreign += forgotten;
            self.received_while_sending = self.received_while_sending.saturating_sub(forgotten);
            self.first_number = self.first_number.map(|first| first + earlier);
        }
        Some(sequence - earlier)
    }
}

/// Lower 32 bits of an ESP packet's sequence number; the ESP header must follow the IP header.
fn esp_number(packet: &[u8]) -> Option<u64> {
    let (protocol_at, esp_at) = match Family::of_packet(packet)? {
        Family::V4 => (ipv4::PROTOCOL_AT, ipv4::HEADER_BYTES),
        Family::V6 => (ipv6::NEXT_HEADER_AT, ipv6::HEADER_BYTES),
    };
    packet.get(protocol_at).filter(|protocol| **protocol == ESP)?;
    let number = packet.get(esp_at + 4..esp_at + 8)?;
    Some(u64::from(u32::from_be_bytes(number.try_into().ok()?)))
}

/// Result of a trial.
pub(crate) fn outcome(streams: &[Stream], schedule: &Schedule) -> DeviceOutcome {
    let ways = streams.len().max(1) as f64;
    let mut all = DeviceOutcome::default();
    let mut times = Times::new();
    let mut extents = 0.0;
    for stream in streams {
        let Stream { account, sent, .. } = stream;
        all.sent += sent;
        all.received += account.received();
        all.duplicated += account.duplicated();
        all.foreign += stream.foreign;
        let Reordering { packets, mean_extent, greatest_extent } = account.reordering();
        all.reordering.packets += packets;
        all.reordering.greatest_extent = all.reordering.greatest_extent.max(greatest_extent);
        extents += packets as f64 * mean_extent;
        times.add(&stream.times);
        let seconds = seconds_of(stream, schedule);
        all.sent_per_second += *sent as f64 / seconds / ways;
        all.received_per_second += stream.received_while_sending as f64 / seconds / ways;
    }
    all.reordering.mean_extent = extents / all.reordering.packets.max(1) as f64;
    all.latency = times.latency();
    all.phases = schedule.ranges().map(|range| phase(streams, schedule, range)).collect();
    all
}

/// Duration of a stream in seconds: the planned time, plus the time that the tester fell behind.
fn seconds_of(stream: &Stream, schedule: &Schedule) -> f64 {
    let last = stream.sent.saturating_sub(1);
    let planned_ns = schedule.time_of(last);
    let gap_ns = planned_ns - schedule.time_of(last.saturating_sub(1));
    let late_ns = stream.begin_ns - stream.first_begin_ns;
    (planned_ns + gap_ns.max(1) + late_ns) as f64 / 1e9
}

fn phase(streams: &[Stream], schedule: &Schedule, range: Range<u64>) -> PhaseCounts {
    let begin_ns = schedule.time_of(range.start);
    let mut counts = PhaseCounts::default();
    for stream in streams {
        let sent = range.start.min(stream.sent)..range.end.min(stream.sent);
        counts.sent += sent.end - sent.start;
        let (lost, last) = stream.account.missing(sent);
        counts.lost += lost;
        let last_s = last.map(|last| (schedule.time_of(last) - begin_ns) as f64 / 1e9);
        counts.last_lost_s = [counts.last_lost_s, last_s].into_iter().flatten().reduce(f64::max);
    }
    counts
}

#[cfg(test)]
mod tests {
    use convoy_packet::IpHeader;

    use super::*;
    use crate::flow::Flow;
    use crate::lengths::Lengths;
    use crate::schedule::Phase;

    /// An ESP packet with this sequence number.
    fn esp(number: u32) -> Vec<u8> {
        let address = "192.0.2.1".parse().expect("an address");
        let header = IpHeader::new(ESP, address, address);
        let mut packet = vec![0; header.header_len()];
        packet.extend([0, 0, 16, 1]);
        packet.extend(number.to_be_bytes());
        header.write(&mut packet);
        packet
    }

    fn stream(packets: u64) -> Stream {
        let address = |text: &str| text.parse().expect("an address and a port");
        let flow = Flow::between(address("10.1.0.9:9"), address("10.2.0.1:9")).expect("of one family");
        Stream::new(2, Packets::new(flow, Lengths::All(64)), packets, 0)
    }

    #[test]
    fn packets_of_the_trial_before_are_foreign_and_never_more_than_was_sent() {
        let mut stream = stream(100);
        stream.arrive(Reads::EspNumbers, &esp(990), 0, true);
        // The device still has 991 to 1000 when the trial begins, whose own begin at 1001.
        stream.sent = 4;
        (991..=1004).for_each(|number| stream.arrive(Reads::EspNumbers, &esp(number), 0, true));
        assert_eq!((stream.account.received(), stream.foreign), (4, 11));
        assert_eq!(stream.received_while_sending, 4);
        // The tester falls behind and sends no more.
        stream.wanted = stream.sent;
        let outcome = outcome(&[stream], &Schedule::new(&[Phase::of_packets(100, 1e3)]));
        assert_eq!((outcome.sent, outcome.received, outcome.lost()), (4, 4, 0));
        assert!(outcome.loss_ratio() == 0.0 && outcome.phases[0].lost == 0, "{outcome:?}");
    }

    #[test]
    fn a_stamp_of_a_packet_that_was_not_sent_is_foreign() {
        let mut stream = stream(100);
        let mut packet = stream.packets.of(0).to_vec();
        for sequence in [0, 3, 4, u64::MAX] {
            stream.sent = 4;
            Stamp { stream: 2, sequence, sent_ns: 0 }.write(&mut packet);
            stream.arrive(Reads::Stamps, &packet, 0, true);
        }
        assert_eq!((stream.account.received(), stream.foreign), (2, 2));
    }

    #[test]
    fn the_number_of_esp_is_read_from_either_family_and_from_nothing_else() {
        for address in ["192.0.2.1", "2001:db8::1"] {
            let address = address.parse().expect("an address");
            let write = |protocol| {
                let header = IpHeader::new(protocol, address, address);
                let mut packet = vec![7; header.header_len()];
                packet.extend([0, 0, 16, 1, 0, 1, 0, 2]);
                header.write(&mut packet);
                packet
            };
            let packet = write(ESP);
            assert_eq!(esp_number(&packet), Some(0x1_0002));
            assert_eq!(esp_number(&packet[..packet.len() - 1]), None);
            assert_eq!(esp_number(&write(17)), None);
        }
    }
}
