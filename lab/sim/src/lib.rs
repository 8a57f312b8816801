//! A discrete-event simulator of IPsec platforms. It predicts the share of each processor,
//! throughput and latency for given traffic, processors, buses and window.
//!
//! The model is the queueing model of *Scheduling Small Packets in IPSec Multi-accelerator Based
//! Systems* (Taddeo, Ferrante, Piuri), specified exactly in docs/lab/simulator.md. The window
//! and the choice of a processor are those of [`convoy_scheduler`], the same code that runs in the
//! gateway, in virtual time with ticks of 1 ps.
//!
//! | model (docs/lab/simulator.md) | here |
//! | --- | --- |
//! | source | `machine/source.rs`, [`Arrivals`], [`SourceSpec`] |
//! | loss | `machine/ingress.rs`, [`Load`], [`NdrSearch`], [`RateSearch`] |
//! | rules 1 to 3, equations 1 to 4 | [`convoy_scheduler`], [`SchedulerSpec`] |
//! | rule 2, equations 6 and 7 | [`Reference`], [`ProcessorSpec`] |
//! | rules 4 and 5, equation 5 | `machine/processor.rs`, `machine/bus.rs`, [`BusSpec`] |
//! | what is measured | [`Report`] |
//! | patterns | [`Pattern`], [`SyntheticSpec`], [`TraceFile`]: [`Capture`], [`TextTrace`] |
//! | what must come out | `tests/all/claims.rs` |
//!
//! A run: [`Traffic`] supplies packets, and the source of the [`Platform`] lets them arrive. The
//! scheduler forms multi-packets and chooses processors. The multi-packets are transferred over
//! buses and computed, and a [`Report`] holds the results.
//!
//! ```
//! use convoy_sim::{Pattern, Platform, Simulation, SyntheticSpec};
//!
//! let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/pci-accelerators.toml");
//! let mut platform = Platform::load(file.as_ref())?;
//! platform.set_accelerators(2);
//! let report = Simulation::new(platform).run_pattern(Pattern::Trace, &SyntheticSpec::default(), 10_000)?;
//! assert_eq!(report.packets, 10_000);
//! assert!((report.share.iter().sum::<f64>() - 1.0).abs() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the model leaves open
//! - At the same instant transfers end first, then cores finish in the order of processors, then
//!   the stages' servers, then the window's timeout expires, then a packet arrives. A request at
//!   the instant at which a transfer ends is no conflict.
//! - The source's clock is stopped while the window is full: the last bit of the next packet
//!   arrives when `b` bytes' time has passed after the window has room again.
//! - `byte_limit` and `window_bytes` have no default: without them, only the number of packets
//!   fills the window. The packet that reaches `window_bytes` still enters.
//! - With prefetch and write buffer, the depth of a queue limits the unfinished multi-packets less
//!   one, as without buffers.
//! - Stages are an addition to the model: each packet passes them alone, in order of arrival. A
//!   platform with stages holds at most `frames` packets; if that number is reached, the source
//!   waits, or the ingress queue fills if there is one.
//! - Caches of SAs are an addition to the model: a device with a cache fetches the SA of a
//!   multi-packet before it processes it.
//! - Aggregation is an addition to the model: the packets of a multi-packet are cut into outer
//!   packets of the path MTU, which the engine processes and the bus transfers in their place.
//! - A packet that finds room in the platform and the ingress queue empty needs no place in the
//!   queue: a queue of 0 packets drops only what the platform has no room for.

mod aggregation;
mod builtin;
mod machine;
mod measures;
mod ndr;
pub mod parallel;
mod platform;
pub mod policy;
mod quantiles;
mod rate_search;
mod report;
mod setting;
mod simulation;
mod sweep;
mod time;
mod traffic;

pub use aggregation::{Aggregation, OuterPackets, esp_packet_bytes};
pub use machine::{Carried, Observer, Served};
pub use ndr::{Ndr, NdrSearch, Trial};
pub use platform::{
    AlgorithmRatios, AlgorithmSpec, BusSpec, CoresSpec, DeviationSpec, Platform, PlatformError,
    ProcessorKind, ProcessorSpec, Reference, SaCacheSpec, SchedulerSpec, SourceSpec, StagePosition,
    StageSpec, SupportedAlgorithms, Variants,
};
pub use rate_search::{FoundRate, RateSearch, RateTrial};
pub use report::{
    BusReport, ClassReport, CoresReport, Load, OuterReport, Percentiles, ProcessorReport, Report,
    SaCacheReport, StageReport,
};
pub use setting::{PAPER_PACKETS, Setting};
pub use simulation::{Simulation, SimulationError};
pub use sweep::{Sweep, SweepError, Swept};
pub use time::TICKS_PER_SECOND;
pub use traffic::{
    Arrivals, Capture, CaptureLength, Classify, FITTED_TRACE_LOCALITY, Header, Hosts, Packet, Pattern,
    PatternError, Synthetic, SyntheticSpec, TextTrace, ToSa, TraceFile, Traffic, TrafficError,
    by_destination,
};
