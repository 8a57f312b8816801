//! A shared bus (docs/lab/simulator.md: rule 4, equation 5): one transfer at a time, in order
//! of request.

use convoy_scheduler::CostModel;

use crate::platform::BusSpec;
use crate::report::BusReport;

/// A bus. Requests are served in order and their lengths are known, so the end of a transfer is
/// known when it is requested. Therefore no queue is needed, and no event to start the next
/// transfer.
pub(crate) struct Bus {
    /// `t_cycle`, in ticks.
    cycle: f64,
    address_cycles: u64,
    width: u64,
    packet_bytes: u64,
    /// Time at which all requested transfers have ended.
    free_at: u64,
    requests: u64,
    conflicts: u64,
    busy_ticks: u64,
}

impl Bus {
    pub(crate) fn new(spec: &BusSpec) -> Self {
        Self {
            cycle: 1e6 / spec.clock_mhz,
            address_cycles: spec.address_cycles.into(),
            width: spec.width_bytes.into(),
            packet_bytes: spec.packet_bytes.into(),
            free_at: 0,
            requests: 0,
            conflicts: 0,
            busy_ticks: 0,
        }
    }

    /// `t_bus` of this many bytes, in ticks: `t_cycle * (c_address + ceil(l / width))`.
    #[inline]
    pub(crate) fn transfer(&self, bytes: u64) -> u64 {
        // A division by a variable takes 20 cycles or more; one by a constant 4 is a shift.
        let cycles = match self.width {
            4 => bytes.div_ceil(4),
            width => bytes.div_ceil(width),
        };
        (self.cycle * (self.address_cycles + cycles) as i64 as f64 + 0.5) as i64 as u64
    }

    /// `t_bus` of one transfer of a multi-packet of this many bytes, including the bytes that are
    /// transferred for each of its packets.
    #[inline]
    pub(crate) fn multi_packet(&self, bytes: u64, packets: usize) -> u64 {
        self.transfer(bytes + self.packet_bytes * packets as u64)
    }

    /// Time that this many transfers of a multi-packet add to its processing time, in ticks, for
    /// packets of whole blocks.
    pub(crate) fn cost(&self, transfers: u32) -> CostModel {
        let cycle = self.cycle * f64::from(transfers);
        CostModel { t_init: cycle * self.address_cycles as f64, t_block: cycle * 16.0 / self.width as f64 }
    }

    /// Requests the bus for `ticks`, and returns when that transfer ends. Requests must come in
    /// order of time.
    #[inline]
    pub(crate) fn request(&mut self, now: u64, ticks: u64) -> u64 {
        self.requests += 1;
        self.conflicts += u64::from(self.free_at > now);
        self.busy_ticks += ticks;
        self.free_at = self.free_at.max(now) + ticks;
        self.free_at
    }

    pub(crate) fn report(&self, name: &str, end: u64) -> BusReport {
        BusReport {
            name: name.to_owned(),
            requests: self.requests,
            conflicts: self.conflicts,
            utilisation: if end == 0 { 0.0 } else { self.busy_ticks as f64 / end as f64 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pci() -> Bus {
        let name = "pci".to_owned();
        Bus::new(&BusSpec { name, clock_mhz: 66.0, address_cycles: 1, width_bytes: 4, packet_bytes: 0 })
    }

    #[test]
    fn a_transfer_takes_an_address_cycle_and_one_for_every_four_bytes() {
        // 1500 bytes: 376 cycles of 15,151.515 ps.
        assert_eq!(pci().transfer(1500), 5_696_970);
        assert_eq!(pci().transfer(41), 181_818);
    }

    #[test]
    fn what_crosses_for_each_packet_besides_is_part_of_a_multi_packets_one_transfer() {
        let mut bus = pci();
        assert_eq!(bus.multi_packet(1500, 3), bus.transfer(1500));
        bus.packet_bytes = 80;
        assert_eq!(bus.multi_packet(1500, 3), bus.transfer(1740));
    }

    #[test]
    fn the_bus_is_given_in_order_of_request_and_conflicts_are_counted() {
        let mut bus = pci();
        assert_eq!(bus.request(100, 10), 110);
        assert_eq!(bus.request(101, 20), 130);
        assert_eq!(bus.request(102, 5), 135);
        // The bus is free at the instant at which a transfer ends.
        assert_eq!(bus.request(135, 1), 136);
        assert_eq!(bus.request(200, 1), 201);
        assert_eq!((bus.requests, bus.conflicts, bus.busy_ticks), (5, 2, 37));
    }
}
