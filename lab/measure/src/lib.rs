//! Measures a gateway from outside, as a tester of RFC 2544, and from inside.
//!
//! From outside: a [`Tester`] sends a [`DeviceTrial`]'s packets from one port and counts them at
//! another; whatever lies between is the [`DeviceUnderTest`]. Each packet carries a [`Stamp`] with
//! its number and the time it was sent, so that loss, duplication, reordering and latency are known
//! for every packet. [`search()`] runs trials until it has found the highest rates without loss and
//! with little loss; [`test()`] adds latency, loss against load, bursts and recovery.
//!
//! A device is a [`GatewayPair`] in this process, one gateway in a [`Scheme`], whatever
//! lies between two [`EndSpec`]s on this machine's network, or a link with known properties
//! ([`LinkSpec`]), which checks the tester itself.
//!
//! From inside: [`blocks`] measures the time per functional block of one worker's packet path,
//! [`turnaround`] that of cryptography by packet length, [`utilisation`] how busy a worker is at a
//! load, and [`profile`] which parts of the system its time goes to.

mod account;
mod cores;
mod device;
mod ends;
mod family;
mod flow;
mod gateways;
mod inside;
mod latency;
mod lengths;
mod link;
mod machine;
mod memory;
mod schedule;
mod search;
mod sockets;
mod stamp;
mod stream;
mod tester;
mod throughput;

pub use account::{Account, Reordering};
pub use device::{DeviceOutcome, DeviceTrial, DeviceUnderTest, MeasureError, PhaseCounts, Ways};
pub use ends::{EndKind, EndSpec};
pub use family::{Families, Family};
pub use flow::Flow;
pub use gateways::{
    GatewayPair, Gateways, Placement, Role, Scheme, Service, ThreadCost, Utilisation, Waiting,
    rate_on_own_cores,
};
pub use inside::{
    Block, BlockName, Blocks, Busy, Profile, ProfilePart, ProfileSource, ProfiledLoad, Shares, Turnaround,
    blocks, profile, turnaround, utilisation,
};
pub use latency::Latency;
pub use lengths::Lengths;
pub use link::LinkSpec;
pub use machine::Machine;
pub use memory::MemoryAccount;
pub use schedule::Phase;
pub use search::{Found, Goal, Rates, SearchResult, Shape, TrialResult, search};
pub use stamp::{LEAST_LENGTH, Stamp};
pub use stream::Reads;
pub use tester::{End, Tester, Time};
pub use throughput::{BackToBack, LatencyAt, LengthReport, LossAt, Recovery, ThroughputPlan, test};
