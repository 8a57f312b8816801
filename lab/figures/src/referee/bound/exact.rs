//! The exact optimum of small cases, by branch and bound: packets enter a window of `W` in order as
//! soon as there is room, and the packets of any SA in the window go, all at once, to any engine.

use super::Packet;
use super::machine::{Group, Machine};

struct Search<'a> {
    machine: &'a Machine,
    traffic: &'a [Packet],
    /// The least time found so far, in seconds.
    best: f64,
}

/// The least time in seconds in which engines, each without a bus, can do all packets.
pub(super) fn least_time(machine: &Machine, traffic: &[Packet]) -> f64 {
    let mut search = Search { machine, traffic, best: f64::INFINITY };
    search.branch(0, &mut Vec::new(), &mut vec![0.0; machine.engines.len()]);
    search.best
}

impl Search<'_> {
    /// What remains takes at least the fastest blocks, divided over all engines.
    fn at_least(&self, next: usize, window: &[Packet], busy: &[f64]) -> f64 {
        let longest = busy.iter().copied().fold(0.0, f64::max);
        let left = window.iter().chain(&self.traffic[next..]);
        let fastest = |group: Group| {
            let none = Group::default();
            let times = self.machine.engines.iter().map(|engine| engine.work(group) - engine.work(none));
            times.fold(f64::INFINITY, f64::min)
        };
        let work: f64 = left.map(|packet| fastest(group(&[*packet]))).sum();
        longest.max((busy.iter().sum::<f64>() + work) / busy.len() as f64)
    }

    fn branch(&mut self, next: usize, window: &mut Vec<Packet>, busy: &mut [f64]) {
        if self.at_least(next, window, busy) >= self.best {
            return;
        }
        if next == self.traffic.len() && window.is_empty() {
            self.best = busy.iter().copied().fold(0.0, f64::max);
            return;
        }
        // A packet that enters later could as well have entered before, unless its SA goes first.
        if next < self.traffic.len() && window.len() < self.machine.window {
            window.push(self.traffic[next]);
            self.branch(next + 1, window, busy);
            window.pop();
        }
        let mut sas: Vec<u32> = window.iter().map(|packet| packet.sa).collect();
        sas.sort_unstable();
        sas.dedup();
        for sa in sas {
            let taken: Vec<Packet> = window.iter().copied().filter(|packet| packet.sa == sa).collect();
            let mut left: Vec<Packet> = window.iter().copied().filter(|packet| packet.sa != sa).collect();
            for engine in 0..busy.len() {
                let work = self.machine.engines[engine].work(group(&taken));
                busy[engine] += work;
                self.branch(next, &mut left, busy);
                busy[engine] -= work;
            }
        }
    }
}

fn group(packets: &[Packet]) -> Group {
    Group {
        packets: packets.len() as f64,
        blocks: packets.iter().map(|packet| f64::from(packet.bytes.div_ceil(16))).sum(),
        bytes: packets.iter().map(|packet| f64::from(packet.bytes)).sum(),
    }
}
