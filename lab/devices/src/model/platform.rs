//! The model's own time: devices, queues and the bus as a discrete-event machine
//! (docs/lab/simulator.md, rules 4 and 5). Pure: the caller advances time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use convoy_engine::BusTiming;

use super::bus::{BusStatistics, transfer_ps};

/// A modelled device's timing in ps.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceTiming {
    pub(super) t_init_ps: f64,
    pub(super) t_block_ps: f64,
    pub(super) has_prefetch: bool,
}

/// One multi-packet as the model sees it.
pub(super) struct Work<T> {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
    pub(super) payload: T,
    began_ps: u64,
}

impl<T> Work<T> {
    pub(super) fn new(blocks: u64, bytes: u64, payload: T) -> Self {
        Self { blocks, bytes, payload, began_ps: 0 }
    }
}

/// A multi-packet that a device has completed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FinishedJob<T> {
    pub(super) device: usize,
    pub(super) payload: T,
    /// When the device first requested the bus for it.
    pub(super) began_ps: u64,
    /// When its last byte was transferred out.
    pub(super) ended_ps: u64,
}

struct ModelDevice<T> {
    timing: DeviceTiming,
    queue: VecDeque<Work<T>>,
    /// Waits for the bus, is transferred in, or waits for the compute unit.
    input: Option<Work<T>>,
    is_moved_in: bool,
    /// Is computed, or waits for the output's place.
    computing: Option<Work<T>>,
    is_computed: bool,
    /// Waits for the bus or is transferred out.
    output: Option<Work<T>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Transfer {
    In,
    Out,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The transfer that holds the bus is complete.
    Transferred,
    /// A device has finished computing.
    Computed(usize),
}

/// The devices of one bus.
pub(super) struct ModelPlatform<T> {
    bus: BusTiming,
    devices: Vec<ModelDevice<T>>,
    /// The device and direction that hold the bus.
    holder: Option<(usize, Transfer)>,
    waiting: VecDeque<(usize, Transfer)>,
    /// By time, then by age.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    age: u64,
    now_ps: u64,
    requests: u64,
    conflicts: u64,
    busy_ps: u64,
}

impl<T> ModelPlatform<T> {
    pub(super) fn new(bus: BusTiming) -> Self {
        Self {
            bus,
            devices: Vec::new(),
            holder: None,
            waiting: VecDeque::new(),
            events: BinaryHeap::new(),
            age: 0,
            now_ps: 0,
            requests: 0,
            conflicts: 0,
            busy_ps: 0,
        }
    }

    pub(super) fn add(&mut self, timing: DeviceTiming) -> usize {
        self.devices.push(ModelDevice {
            timing,
            queue: VecDeque::new(),
            input: None,
            is_moved_in: false,
            computing: None,
            is_computed: false,
            output: None,
        });
        self.devices.len() - 1
    }

    /// Drops everything that a device has. Its transfers still hold the bus to their end.
    pub(super) fn clear(&mut self, device: usize) {
        let device = &mut self.devices[device];
        device.queue.clear();
        (device.input, device.computing, device.output) = (None, None, None);
        (device.is_moved_in, device.is_computed) = (false, false);
    }

    pub(super) fn statistics(&self) -> BusStatistics {
        BusStatistics { requests: self.requests, conflicts: self.conflicts, busy_ns: self.busy_ps / 1_000 }
    }

    /// The time of the next event.
    pub(super) fn next_ps(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Queues work at a device. A time `at_ps` in the past counts as the present.
    pub(super) fn submit(
        &mut self,
        at_ps: u64,
        device: usize,
        work: Work<T>,
        compute: &mut impl FnMut(&mut T),
        finished: &mut Vec<FinishedJob<T>>,
    ) {
        self.advance(at_ps, compute, finished);
        self.now_ps = self.now_ps.max(at_ps);
        self.devices[device].queue.push_back(work);
        self.pump(device, compute);
    }

    /// Processes all events up to `until_ps`. `compute` is called when a device starts to compute.
    pub(super) fn advance(
        &mut self,
        until_ps: u64,
        compute: &mut impl FnMut(&mut T),
        finished: &mut Vec<FinishedJob<T>>,
    ) {
        while self.next_ps().is_some_and(|at| at <= until_ps) {
            let Some(Reverse((at, _, event))) = self.events.pop() else { return };
            self.now_ps = at;
            let device = match event {
                Event::Transferred => self.transferred(finished),
                Event::Computed(device) => {
                    self.devices[device].is_computed = self.devices[device].computing.is_some();
                    Some(device)
                }
            };
            if let Some(device) = device {
                self.pump(device, compute);
            }
        }
    }

    /// Ends the current transfer and grants the bus to the next in line.
    fn transferred(&mut self, finished: &mut Vec<FinishedJob<T>>) -> Option<usize> {
        let (place, way) = self.holder.take()?;
        if let Some((next, way)) = self.waiting.pop_front() {
            self.grant(next, way);
        }
        let device = &mut self.devices[place];
        match way {
            Transfer::In => device.is_moved_in = device.input.is_some(),
            Transfer::Out => finished.extend(device.output.take().map(|work| FinishedJob {
                device: place,
                payload: work.payload,
                began_ps: work.began_ps,
                ended_ps: self.now_ps,
            })),
        }
        Some(place)
    }

    /// Advances a device's work as far as possible: out of the compute unit, into it, in from the
    /// queue.
    fn pump(&mut self, place: usize, compute: &mut impl FnMut(&mut T)) {
        let now_ps = self.now_ps;
        let device = &mut self.devices[place];
        let leaves = device.is_computed && device.output.is_none();
        if leaves {
            device.output = device.computing.take();
            device.is_computed = false;
        }
        if device.is_moved_in && device.computing.is_none() {
            device.is_moved_in = false;
            device.computing = device.input.take();
            if let Some(work) = &mut device.computing {
                compute(&mut work.payload);
                let cost = device.timing.t_init_ps + device.timing.t_block_ps * work.blocks as f64;
                self.schedule(now_ps + cost.round().max(0.0) as u64, Event::Computed(place));
            }
        }
        let device = &mut self.devices[place];
        let is_idle = device.computing.is_none() && device.output.is_none();
        let enters = device.input.is_none() && (device.timing.has_prefetch || is_idle);
        let enters = enters && !device.queue.is_empty();
        if enters {
            device.input = device.queue.pop_front().map(|work| Work { began_ps: now_ps, ..work });
        }
        // Output requests the bus before new input.
        if leaves {
            self.request(place, Transfer::Out);
        }
        if enters {
            self.request(place, Transfer::In);
        }
    }

    fn request(&mut self, device: usize, way: Transfer) {
        self.requests += 1;
        if self.holder.is_some() {
            self.conflicts += 1;
            self.waiting.push_back((device, way));
        } else {
            self.grant(device, way);
        }
    }

    fn grant(&mut self, place: usize, way: Transfer) {
        let device = &self.devices[place];
        let work = if way == Transfer::In { &device.input } else { &device.output };
        let took_ps = transfer_ps(&self.bus, work.as_ref().map_or(0, |work| work.bytes));
        self.busy_ps += took_ps;
        self.holder = Some((place, way));
        self.schedule(self.now_ps + took_ps, Event::Transferred);
    }

    fn schedule(&mut self, at_ps: u64, event: Event) {
        self.age += 1;
        self.events.push(Reverse((at_ps, self.age, event)));
    }
}

#[cfg(test)]
mod tests;
