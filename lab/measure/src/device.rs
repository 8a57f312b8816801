//! The device under test, and the description and outcome of a trial.

use std::ops::RangeInclusive;

use serde::{Serialize, Serializer};

use crate::account::Reordering;
use crate::latency::Latency;
use crate::lengths::Lengths;
use crate::schedule::Phase;
use crate::stamp::LEAST_LENGTH;

/// Directions in which packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// From the near end to the far end.
    One,
    /// Both directions at once, each at the trial's rate.
    Both,
}

impl Ways {
    /// The number of directions.
    pub fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Both => 2,
        }
    }
}

impl Serialize for Ways {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.count() as u64)
    }
}

/// One trial: packets at given rates for given times.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceTrial {
    /// Phases of each direction, one after the other.
    pub phases: Vec<Phase>,
    /// Lengths of the packets.
    pub lengths: Lengths,
    /// Directions of the packets.
    pub ways: Ways,
}

/// Packet counts of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseCounts {
    /// Packets sent.
    pub sent: u64,
    /// Packets sent that never arrived.
    pub lost: u64,
    /// When the last lost packet was sent, in seconds from the start of the phase.
    pub last_lost_s: Option<f64>,
}

/// Result of a trial; the sum of both directions, where there are two.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceOutcome {
    /// Packets sent.
    pub sent: u64,
    /// Distinct packets that arrived.
    pub received: u64,
    /// Repeated arrivals.
    pub duplicated: u64,
    /// Packets that arrived out of order.
    pub reordering: Reordering,
    /// Packets that do not belong to this trial; they are not counted otherwise.
    pub foreign: u64,
    /// Packets that the tester's own ports dropped for lack of room, as far as the ports count
    /// them. They are included in the lost ones, although the device did not lose them.
    pub missed_by_tester: u64,
    /// Rate sent in each direction, in packets per second. It is lower than requested where the
    /// tester could not keep up.
    pub sent_per_second: f64,
    /// Rate received in each direction while the tester was sending, in packets per second. It
    /// excludes what was still queued in the device.
    pub received_per_second: f64,
    /// One-way delay from end to end.
    pub latency: Latency,
    /// Counts by phase, summed over the directions.
    pub phases: Vec<PhaseCounts>,
}

impl DeviceOutcome {
    /// Packets that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }

    /// Lost packets as a fraction of those sent.
    pub fn loss_ratio(&self) -> f64 {
        self.lost() as f64 / self.sent.max(1) as f64
    }

    /// Packets that the tester's ports dropped, as a fraction of those sent.
    pub fn missed_ratio(&self) -> f64 {
        self.missed_by_tester as f64 / self.sent.max(1) as f64
    }

    /// Whether the tester could not send at the requested rate. The trial then says nothing about
    /// the device at that rate.
    pub fn is_behind(&self, packets_per_second: f64) -> bool {
        self.sent_per_second < packets_per_second * LEAST_KEPT
    }
}

/// Fraction of the requested rate that the tester must reach for a trial to count.
const LEAST_KEPT: f64 = 0.98;

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A port failed.
    #[error(transparent)]
    Port(#[from] convoy_port::PortError),
    /// A gateway within the process could not be set up.
    #[error("cannot set up a gateway: {0}")]
    Gateway(String),
    /// A request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was attempted.
        action: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A device that can be tested: a gateway, a pair of them, a link or a simulation.
pub trait DeviceUnderTest {
    /// Sends the trial's packets and counts them.
    ///
    /// # Errors
    /// [`MeasureError`] if the trial could not be run. Packet loss is not an error.
    fn trial(&mut self, trial: &DeviceTrial) -> Result<DeviceOutcome, MeasureError>;

    /// Supported packet lengths in bytes: long enough for a stamp, and at most the device's MTU.
    fn packet_bytes(&self) -> RangeInclusive<u16> {
        LEAST_LENGTH..=u16::MAX
    }
}
