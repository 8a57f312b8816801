//! Measures a gateway from outside, as a tester of RFC 2544, and from inside.
//!
//! A [`Tester`] sends a [`Trial`]'s packets by one port and counts them at another: what lies
//! between is the [`DeviceUnderTest`]. Each packet's payload has a stamp with its number and when
//! it was sent, so that loss, duplication, reordering and latency are known of every packet.
//! [`search()`] holds trials until it knows the highest rates without loss and with little;
//! [`test()`] adds latency, loss against load, bursts and recovery.
//!
//! A device is a [`Pair`] of gateways in this process, whatever lies between two [`EndSpec`]s on
//! this machine's network, or a link whose properties are known ([`LinkSpec`]).

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
pub use device::{DeviceUnderTest, MeasureError, Outcome, PhaseCounts, Trial, Ways};
pub use ends::{EndKind, EndSpec};
pub use family::{Families, Family};
pub use flow::Flow;
pub use gateways::{Gateways, Pair, Placement, Scheme, Service, Utilisation};
pub use inside::{
    Block, BlockName, Blocks, Busy, Load, Part, Profile, ProfileSource, Shares, Turnaround, blocks, profile,
    turnaround, utilisation,
};
pub use latency::Latency;
pub use lengths::Lengths;
pub use link::LinkSpec;
pub use machine::Machine;
pub use memory::MemoryAccount;
pub use schedule::Phase;
pub use search::{Found, Goal, Held, Rates, Searched, Shape, search};
pub use stamp::{LEAST_LENGTH, Stamp};
pub use stream::Reads;
pub use tester::{End, Tester, Time};
pub use throughput::{BackToBack, LatencyAt, LengthReport, LossAt, Plan, Recovery, test};
