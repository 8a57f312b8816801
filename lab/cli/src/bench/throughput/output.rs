//! The report of `convoy-lab bench throughput`.

use std::fmt;

use convoy_measure::{DeviceUnderTest, LengthReport, Lengths, Machine, Placement};
use serde::Serialize;

/// The report as JSON.
#[derive(Serialize)]
pub(super) struct ThroughputOutput {
    pub(super) machine: Machine,
    /// Description of the device.
    pub(super) device: String,
    /// What packet lengths refer to.
    pub(super) lengths_are: &'static str,
    pub(super) placement: Option<Placement>,
    pub(super) trial_s: f64,
    pub(super) trials_judge: f64,
    pub(super) may_exceed: f64,
    pub(super) resolution: f64,
    /// Lengths that cannot be measured.
    pub(super) left_out: Vec<LeftOut>,
    /// Results of each round, by length.
    pub(super) rounds: Vec<Vec<LengthReport>>,
}

/// A length that cannot be measured.
#[derive(Serialize)]
pub(super) struct LeftOut {
    pub(super) lengths: Lengths,
    pub(super) why: WhyLeftOut,
}

/// Why a length cannot be measured, with the limit in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhyLeftOut {
    /// Packets are longer than the device's MTU.
    ExceedsMtu(u16),
    /// Packets have no room for their headers and a stamp.
    HoldsNoStamp(u16),
}

impl WhyLeftOut {
    /// The reason, or `None` if the device supports these lengths.
    pub(super) fn of(lengths: Lengths, device: &dyn DeviceUnderTest) -> Option<Self> {
        let (least, most) = device.packet_bytes().into_inner();
        if lengths.longest() > most {
            return Some(Self::ExceedsMtu(most));
        }
        (lengths.shortest() < least).then_some(Self::HoldsNoStamp(least))
    }
}

impl fmt::Display for WhyLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExceedsMtu(mtu) => write!(f, "packets exceed the device's MTU of {mtu} bytes"),
            Self::HoldsNoStamp(least) => {
                write!(
                    f,
                    "packets are shorter than the headers of IP and UDP and a stamp, which need {least} bytes"
                )
            }
        }
    }
}
