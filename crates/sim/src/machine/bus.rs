//! A shared bus (MODEL: rule 4, equation 5): one transfer at a time, in order of request.

use std::collections::VecDeque;

use crate::platform::BusSpec;

/// Who moves something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A processor's next multi-packet comes in.
    Input(usize),
    /// A processor's last multi-packet goes out.
    Output(usize),
    /// The packet at the front of a stage.
    Stage(usize),
}

pub(crate) struct Bus {
    /// `t_cycle`, in ticks.
    cycle: f64,
    address_cycles: u64,
    width: u64,
    holder: Option<Client>,
    waiting: VecDeque<(Client, u64)>,
    pub(crate) requests: u64,
    pub(crate) conflicts: u64,
    pub(crate) busy_ticks: u64,
}

impl Bus {
    pub(crate) fn new(spec: &BusSpec) -> Self {
        Self {
            cycle: 1e6 / spec.clock_mhz,
            address_cycles: spec.address_cycles.into(),
            width: spec.width_bytes.into(),
            holder: None,
            waiting: VecDeque::with_capacity(16),
            requests: 0,
            conflicts: 0,
            busy_ticks: 0,
        }
    }

    /// `t_bus` of so many bytes, in ticks: `t_cycle * (c_address + ceil(l / width))`.
    #[inline]
    pub(crate) fn transfer(&self, bytes: u64) -> u64 {
        // Most widths are powers of two, but a division that is not known to be one takes 20 cycles or more.
        let cycles = match self.width {
            4 => bytes.div_ceil(4),
            width => bytes.div_ceil(width),
        };
        (self.cycle * (self.address_cycles + cycles) as i64 as f64 + 0.5) as i64 as u64
    }

    /// Asks for the bus for `ticks`; when the transfer ends if it starts at once.
    #[inline]
    pub(crate) fn request(&mut self, now: u64, client: Client, ticks: u64) -> Option<u64> {
        self.requests += 1;
        self.busy_ticks += ticks;
        if self.holder.is_none() {
            self.holder = Some(client);
            return Some(now + ticks);
        }
        self.conflicts += 1;
        self.waiting.push_back((client, ticks));
        None
    }

    /// Ends a transfer: whose it was, and when the next one ends, which starts at once.
    #[inline]
    pub(crate) fn release(&mut self, now: u64) -> (Option<Client>, Option<u64>) {
        let next = self.waiting.pop_front();
        let done = std::mem::replace(&mut self.holder, next.map(|(client, _)| client));
        (done, next.map(|(_, ticks)| now + ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pci() -> Bus {
        let name = "pci".to_owned();
        Bus::new(&BusSpec { name, clock_mhz: 66.0, address_cycles: 1, width_bytes: 4 })
    }

    #[test]
    fn a_transfer_takes_an_address_cycle_and_one_for_every_four_bytes() {
        // 1500 bytes: 376 cycles of 15,151.515 ps.
        assert_eq!(pci().transfer(1500), 5_696_970);
        assert_eq!(pci().transfer(41), 181_818);
    }

    #[test]
    fn the_bus_is_given_in_order_of_request_and_conflicts_are_counted() {
        let mut bus = pci();
        assert_eq!(bus.request(100, Client::Input(1), 10), Some(110));
        assert_eq!(bus.request(101, Client::Input(2), 20), None);
        assert_eq!(bus.request(102, Client::Output(3), 5), None);
        assert_eq!(bus.release(110), (Some(Client::Input(1)), Some(130)));
        assert_eq!(bus.release(130), (Some(Client::Input(2)), Some(135)));
        assert_eq!(bus.release(135), (Some(Client::Output(3)), None));
        assert_eq!((bus.requests, bus.conflicts, bus.busy_ticks), (3, 2, 35));
        assert_eq!(bus.request(200, Client::Input(1), 1), Some(201));
        assert_eq!(bus.conflicts, 2);
    }
}
