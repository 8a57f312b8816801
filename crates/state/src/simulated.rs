//! The state file of a simulated gateway: real reservations on a disk that a test holds, kept
//! without a thread.

use std::sync::mpsc::{Receiver, Sender, channel};

use convoy_config::TunnelConfig;

use super::Starts;
use super::WorkerReport;
use super::file::Records;
use super::reporter::{Note, Reporter};
use super::reservations::{Grant, Reservations};

/// The state that outlives the gateway.
#[derive(Clone)]
pub struct SimulatedDisk {
    /// The copy that a power cut leaves.
    through: Records,
    /// The copy that the end of the process leaves.
    second: Records,
}

impl Default for SimulatedDisk {
    /// A disk with an empty state file.
    fn default() -> Self {
        let empty = Records { salt: [7; 32], marks: Vec::new() };
        Self { through: empty.clone(), second: empty }
    }
}

impl SimulatedDisk {
    /// The state after a power failure.
    pub fn after_power_cut(self) -> Self {
        Self { second: self.through.clone(), through: self.through }
    }
}

/// The reservations of a gateway at work.
pub struct SimulatedState {
    reservations: Reservations,
    disk: SimulatedDisk,
    notes: Sender<Note>,
    received: Receiver<Note>,
}

impl SimulatedState {
    /// What a gateway finds at its start.
    pub fn open(disk: SimulatedDisk) -> Self {
        let (notes, received) = channel();
        let reservations = Reservations::new(disk.second.clone());
        Self { reservations, disk, notes, received }
    }

    /// Starts the SAs of tunnels with static keys, at this wall clock.
    pub fn start(&mut self, tunnels: &[TunnelConfig], clock_ns: u64, now_ns: u64) -> Starts {
        let start = |tunnel: &TunnelConfig| {
            let started = self.reservations.start(tunnel, clock_ns, now_ns).expect("there is room");
            (tunnel.name.clone(), started)
        };
        let kept = tunnels.iter().map(start).collect();
        self.write(true);
        self.reservations.written();
        Starts::Kept(kept)
    }

    /// Records the last numbers of SAs, before they start again.
    pub fn note(&mut self, report: &WorkerReport) {
        self.reservations.note_received(report);
    }

    /// A worker's channel to this.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.notes.clone())
    }

    /// Executes the tasks of the keeper's thread; `is_writable` says whether the disk works.
    /// Returns what SAs may use now.
    pub fn keep(&mut self, now_ns: u64, is_writable: bool) -> Vec<Grant> {
        for note in self.received.try_iter() {
            if let Note::Report(report) = note {
                self.reservations.report(&report, now_ns);
            }
        }
        if !is_writable {
            self.reservations.failed();
            return Vec::new();
        }
        self.write(self.reservations.has_raises());
        self.reservations.written()
    }

    /// Ends the gateway, with all reports written through.
    pub fn end(mut self, now_ns: u64) -> SimulatedDisk {
        self.keep(now_ns, true);
        self.write(true);
        self.disk
    }

    /// The disk as left by the end of the process.
    pub fn killed(self) -> SimulatedDisk {
        self.disk
    }

    fn write(&mut self, is_through: bool) {
        self.disk.second = self.reservations.records().clone();
        if is_through {
            self.disk.through = self.disk.second.clone();
        }
    }
}
