//! The state file of a simulated gateway: real marks on a disk that a test holds, kept without a
//! thread.

use std::sync::mpsc::{Receiver, Sender, channel};

use convoy_config::TunnelConfig;

use super::Beginnings;
use super::Report;
use super::file::Records;
use super::keeper::{Grant, take_in};
use super::marks::Marks;
use super::reporter::{Note, Reporter};

/// The state that outlives the gateway.
#[derive(Clone)]
pub(crate) struct SimulatedDisk {
    /// The copy that a power cut leaves.
    through: Records,
    /// The copy that the end of the process leaves.
    second: Records,
}

impl SimulatedDisk {
    /// A disk with an empty state file.
    pub(crate) fn new() -> Self {
        let empty = Records { salt: [7; 32], marks: Vec::new() };
        Self { through: empty.clone(), second: empty }
    }

    /// The state after a power failure.
    pub(crate) fn after_power_cut(self) -> Self {
        Self { second: self.through.clone(), through: self.through }
    }
}

/// The marks of a gateway at work.
pub(crate) struct SimulatedState {
    marks: Marks,
    disk: SimulatedDisk,
    notes: Sender<Note>,
    received: Receiver<Note>,
    grants: Vec<Grant>,
}

impl SimulatedState {
    /// What a gateway finds at its start.
    pub(crate) fn open(disk: SimulatedDisk) -> Self {
        let (notes, received) = channel();
        let marks = Marks::new(disk.second.clone());
        Self { marks, disk, notes, received, grants: Vec::new() }
    }

    /// Begins the SAs of tunnels with static keys, at this wall clock.
    pub(crate) fn begin(&mut self, tunnels: &[TunnelConfig], clock_ns: u64, now_ns: u64) -> Beginnings {
        let begin = |tunnel: &TunnelConfig| {
            let begun = self.marks.begin(tunnel, clock_ns, now_ns).expect("there is room");
            (tunnel.name.clone(), begun)
        };
        let noted = tunnels.iter().map(begin).collect();
        self.write(true);
        Beginnings::Noted(noted)
    }

    /// Records how far SAs have come, before they begin again.
    pub(crate) fn note(&mut self, report: &Report) {
        report.progress.iter().for_each(|progress| self.marks.note_received(progress));
    }

    /// A worker's channel to this.
    pub(crate) fn reporter(&self) -> Reporter {
        Reporter::new(self.notes.clone())
    }

    /// Executes the tasks of the keeper's thread; `is_writable` says whether the disk works.
    /// Returns what SAs may use now.
    pub(crate) fn keep(&mut self, now_ns: u64, is_writable: bool) -> Vec<Grant> {
        for note in self.received.try_iter() {
            if let Note::Report(report) = note {
                take_in(&mut self.marks, &report, now_ns, &mut self.grants);
            }
        }
        if !is_writable {
            return Vec::new();
        }
        self.write(!self.grants.is_empty());
        std::mem::take(&mut self.grants)
    }

    /// Ends the gateway, with all reports written through.
    pub(crate) fn end(mut self, now_ns: u64) -> SimulatedDisk {
        self.keep(now_ns, true);
        self.write(true);
        self.disk
    }

    /// The disk as left by the end of the process.
    pub(crate) fn killed(self) -> SimulatedDisk {
        self.disk
    }

    fn write(&mut self, is_through: bool) {
        self.disk.second = self.marks.records().clone();
        if is_through {
            self.disk.through = self.disk.second.clone();
        }
    }
}
