//! Measurements taken during a run.

use convoy_scheduler::CLASSES;

use crate::machine::Carried;
use crate::quantiles::Quantiles;
use crate::report::{BusReport, ClassReport, Load, Percentiles, ProcessorReport, Report};
use crate::time::{TICKS_PER_SECOND, milliseconds};

#[derive(Clone, Default)]
struct OfProcessor {
    packets: u64,
    multi_packets: u64,
    bytes: u64,
}

/// Sums over the packets of a class. Sums of ticks of 1 ps would overflow 64 bits after about 10^10
/// packets.
#[derive(Clone, Copy, Default)]
struct OfClass {
    served: u64,
    latency: u128,
    left: u64,
    sojourn: u128,
}

pub(crate) struct Measures {
    names: Vec<String>,
    processors: Vec<OfProcessor>,
    /// If only one class is in use, all packets are counted in the first entry.
    has_classes: bool,
    classes: [OfClass; CLASSES],
    latency: Quantiles,
    sojourn: Quantiles,
    last_completion: u64,
}

impl Measures {
    pub(crate) fn new(names: Vec<String>, classes: usize) -> Self {
        Self {
            processors: vec![OfProcessor::default(); names.len()],
            names,
            has_classes: classes > 1,
            classes: [OfClass::default(); CLASSES],
            latency: Quantiles::new(),
            sojourn: Quantiles::new(),
            last_completion: 0,
        }
    }

    /// Counts a multi-packet that a processor completed, `latency` after it was scheduled.
    #[inline]
    pub(crate) fn served(
        &mut self,
        now: u64,
        processor: usize,
        bytes: u64,
        latency: u64,
        packets: &[Carried],
    ) {
        let of = &mut self.processors[processor];
        of.packets += packets.len() as u64;
        of.multi_packets += 1;
        of.bytes += bytes;
        if self.has_classes {
            for packet in packets {
                self.classes[usize::from(packet.class) % CLASSES].serve(1, latency);
            }
        } else {
            self.classes[0].serve(packets.len() as u64, latency);
        }
        self.latency.add(latency, packets.len() as u64);
        self.last_completion = now;
    }

    /// Counts packets that have left the platform.
    #[inline]
    pub(crate) fn left(&mut self, now: u64, packets: &[Carried]) {
        let mut sum = 0;
        for packet in packets {
            let sojourn = now - packet.arrived_ticks;
            sum += sojourn;
            self.sojourn.add(sojourn, 1);
        }
        if self.has_classes {
            for packet in packets {
                let class = usize::from(packet.class) % CLASSES;
                self.classes[class].leave(1, now - packet.arrived_ticks);
            }
        } else {
            self.classes[0].leave(packets.len() as u64, sum);
        }
    }

    pub(crate) fn report(&self, busy: &[u64], buses: Vec<BusReport>, source_waited: u64, end: u64) -> Report {
        let sum = |of: fn(&OfProcessor) -> u64| self.processors.iter().map(of).sum::<u64>();
        let (packets, multi_packets) = (sum(|of| of.packets), sum(|of| of.multi_packets));
        let bytes = sum(|of| of.bytes);
        let all = self.classes.iter().fold(OfClass::default(), |all, class| OfClass {
            served: all.served + class.served,
            latency: all.latency + class.latency,
            left: all.left + class.left,
            sojourn: all.sojourn + class.sojourn,
        });
        let used = self.classes.iter().enumerate().filter(|(_, class)| class.served > 0);
        let seconds = self.last_completion as f64 / TICKS_PER_SECOND;
        let each = self.processors.iter().zip(&self.names).zip(busy);
        Report {
            packets,
            share: self.processors.iter().map(|of| ratio(of.packets, packets)).collect(),
            average_length: self.processors.iter().map(|of| ratio(of.bytes, of.multi_packets)).collect(),
            average_length_scheduled: ratio(bytes, multi_packets),
            packets_per_multipacket: ratio(packets, multi_packets),
            throughput_mbps: if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 },
            latency_ms: mean_ms(all.latency, all.served),
            sojourn_ms: mean_ms(all.sojourn, all.left),
            bus_conflicts: ratio(
                buses.iter().map(|bus| bus.conflicts).sum(),
                buses.iter().map(|bus| bus.requests).sum(),
            ),
            latency_percentiles_ms: percentiles(&self.latency),
            sojourn_percentiles_ms: percentiles(&self.sojourn),
            multi_packets,
            bytes,
            packets_out: all.left,
            end_ms: milliseconds(end as f64),
            source_waited_ms: milliseconds(source_waited as f64),
            offered: Load::default(),
            carried: Load::default(),
            dropped: Load::default(),
            success_ratio: 1.0,
            outer: None,
            processors: each.map(|((of, name), busy)| of.report(name, *busy, end)).collect(),
            buses,
            stages: Vec::new(),
            cores: Vec::new(),
            classes: used.map(|(number, class)| class.report(number)).collect(),
        }
    }
}

impl OfProcessor {
    fn report(&self, name: &str, busy: u64, end: u64) -> ProcessorReport {
        ProcessorReport {
            name: name.to_owned(),
            packets: self.packets,
            multi_packets: self.multi_packets,
            bytes: self.bytes,
            utilisation: ratio(busy, end),
            cache: None,
        }
    }
}

impl OfClass {
    /// Adds this many packets of the same latency.
    #[inline]
    fn serve(&mut self, packets: u64, latency: u64) {
        self.served += packets;
        self.latency += u128::from(packets) * u128::from(latency);
    }

    /// Adds this many packets, with the sum of their sojourn times.
    #[inline]
    fn leave(&mut self, packets: u64, sojourn: u64) {
        self.left += packets;
        self.sojourn += u128::from(sojourn);
    }

    fn report(&self, class: usize) -> ClassReport {
        ClassReport {
            class,
            packets: self.served,
            latency_ms: mean_ms(self.latency, self.served),
            sojourn_ms: mean_ms(self.sojourn, self.left),
        }
    }
}

/// A ratio; 0 if the denominator is 0.
fn ratio(of: u64, over: u64) -> f64 {
    if over == 0 { 0.0 } else { of as f64 / over as f64 }
}

fn mean_ms(sum: u128, count: u64) -> f64 {
    if count == 0 { 0.0 } else { milliseconds(sum as f64 / count as f64) }
}

fn percentiles(of: &Quantiles) -> Percentiles {
    let [p50, p90, p99, p999] = of.at([0.5, 0.9, 0.99, 0.999]).map(milliseconds);
    Percentiles { p50, p90, p99, p999 }
}
