//! What a tester measures, and what it is told of a trial.

use std::ops::RangeInclusive;

use serde::{Serialize, Serializer};

use crate::account::Reordering;
use crate::latency::Latency;
use crate::lengths::Lengths;
use crate::schedule::Phase;
use crate::stamp::LEAST_LENGTH;

/// Which ways packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// From the near end to the far end.
    One,
    /// Both ways at once, each at the rate of the trial.
    Both,
}

impl Ways {
    /// How many.
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

/// One trial: packets at known rates for known times.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// What is sent each way, one phase after the other.
    pub phases: Vec<Phase>,
    /// How long the packets are.
    pub lengths: Lengths,
    /// Which ways they go.
    pub ways: Ways,
}

/// What became of the packets of one phase, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseCounts {
    /// Packets sent.
    pub sent: u64,
    /// Of these, packets that never arrived.
    pub lost: u64,
    /// When the last of these was sent, in seconds after the phase's beginning.
    pub last_lost_s: Option<f64>,
}

/// What became of a trial's packets; of both ways together, where there are two.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Packets sent.
    pub sent: u64,
    /// Different packets of these that arrived.
    pub received: u64,
    /// Packets that arrived once more.
    pub duplicated: u64,
    /// Packets that arrived out of order.
    pub reordering: Reordering,
    /// Packets of other trials or of others, which do not count.
    pub foreign: u64,
    /// Packets that came to the tester and found no room there, as far as its ports count them:
    /// they are among those lost, through no fault of the device.
    pub missed_by_tester: u64,
    /// What was sent each way, in packets per second: less than was asked for where the tester
    /// could not send as fast.
    pub sent_per_second: f64,
    /// What arrived each way while the tester sent, in packets per second; without what was queued
    /// then.
    pub received_per_second: f64,
    /// Times from one end to the other.
    pub latency: Latency,
    /// The same by phase, over both ways.
    pub phases: Vec<PhaseCounts>,
}

impl Outcome {
    /// Packets that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }

    /// The same as a part of what was sent.
    pub fn loss_ratio(&self) -> f64 {
        self.lost() as f64 / self.sent.max(1) as f64
    }

    /// Packets that the tester's ports had no room for, as a part of what was sent.
    pub fn missed_ratio(&self) -> f64 {
        self.missed_by_tester as f64 / self.sent.max(1) as f64
    }

    /// Whether the tester itself could not send as fast as it was to: nothing is known of the
    /// device at the rate then.
    pub fn is_behind(&self, packets_per_second: f64) -> bool {
        self.sent_per_second < packets_per_second * LEAST_KEPT
    }
}

/// Part of its rate that a tester has to keep for a trial to count.
const LEAST_KEPT: f64 = 0.98;

/// Why a trial could not be held.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A port failed.
    #[error(transparent)]
    Port(#[from] convoy_port::PortError),
    /// A gateway in the process could not be put together.
    #[error("cannot set up a gateway: {0}")]
    Gateway(String),
    /// Something that was asked for cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The system refused.
    #[error("{action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What can be tested: a gateway, a pair of them, a link, a simulation.
pub trait DeviceUnderTest {
    /// Sends the trial's packets and counts them.
    ///
    /// # Errors
    /// [`MeasureError`] if it could not be held. That packets are lost is no error.
    fn trial(&mut self, trial: &Trial) -> Result<Outcome, MeasureError>;

    /// How long packets may be, in bytes: so long that they hold a stamp, and no longer than the
    /// device's MTU.
    fn packet_bytes(&self) -> RangeInclusive<u16> {
        LEAST_LENGTH..=u16::MAX
    }
}
