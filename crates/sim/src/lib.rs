//! A discrete-event simulator of platforms: this traffic, these processors, this bus, this window:
//! what share goes where, what throughput, what latency?
//!
//! The model is the queue model of *Scheduling Small Packets in IPSec Multi-accelerator Based
//! Systems* (Taddeo, Ferrante, Piuri), made exact by docs/internals/simulator.md; the window and
//! the choice of a processor are those of [`convoy_scheduler`], the same code that runs in the
//! gateway, under virtual time in ticks of 1 ps.
//!
//! | model (docs/internals/simulator.md) | here |
//! | --- | --- |
//! | source | `machine/source.rs`, [`Arrivals`], [`SourceSpec`] |
//! | loss | `machine/ingress.rs`, [`Load`], [`NdrSearch`] |
//! | rules 1 to 3, equations 1 to 4 | [`convoy_scheduler`], [`SchedulerSpec`] |
//! | rule 2, equations 6 and 7 | [`Reference`], [`ProcessorSpec`] |
//! | rules 4 and 5, equation 5 | `machine/processor.rs`, `machine/bus.rs`, [`BusSpec`] |
//! | what is measured | [`Report`] |
//! | patterns | [`Pattern`], [`SyntheticSpec`], [`TraceFile`]: [`Capture`], [`TextTrace`] |
//! | what must come out | `tests/claims.rs` |
//!
//! A run: [`Traffic`] gives packets; the source of the [`Platform`] lets them arrive; the scheduler
//! forms multi-packets and picks processors; they are moved over buses and computed; a [`Report`]
//! says what came of it.
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
//! - At one instant transfers end first, then cores are done in the order of processors, then
//!   stages' servers, then the window's timeout is due, then a packet arrives. A request at the
//!   very moment at which a transfer ends is no conflict.
//! - The source's clock stands still while the window is full: a packet's last bit arrives `b`
//!   bytes' time after the window has room again, and that is its arrival.
//! - `byte_limit` has no default: without it, packets alone fill the window.
//! - With prefetch and write buffer, a queue's depth counts what is not done, less one, as without.
//! - Stages are not in the model: each packet by itself, first come, first served. A platform with
//!   stages holds at most `frames` packets; with none free the source waits, or the ingress queue
//!   fills where there is one.
//! - Caches of SAs are not in the model: a device with one fetches the SA of a multi-packet before
//!   it works on it.
//! - A packet that finds room in the platform and the ingress queue empty needs no place in it: a
//!   queue of 0 packets only drops what the platform has no room for.

mod builtin;
mod machine;
mod measures;
mod ndr;
pub mod parallel;
mod platform;
mod quantiles;
mod report;
mod setting;
mod simulation;
mod sweep;
mod time;
mod traffic;

pub use machine::{Carried, Observer, Served};
pub use ndr::{Ndr, NdrSearch, Trial};
pub use platform::{
    BusSpec, CoresSpec, Platform, PlatformError, ProcessorKind, ProcessorSpec, Reference, SaCacheSpec,
    SchedulerSpec, SourceSpec, StagePosition, StageSpec, Variants,
};
pub use report::{
    BusReport, ClassReport, CoresReport, Load, Percentiles, ProcessorReport, Report, SaCacheReport,
    StageReport,
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
