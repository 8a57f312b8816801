//! The gateway process around the data plane: start, reload, control, metrics, end.
//!
//! - [`assemble`] creates engines, SAs, policies and a
//!   [pipeline](convoy_dataplane::pipeline::Pipeline) for each worker from a
//!   [configuration](convoy_config::Config).
//! - [`Gateway`](run::Gateway) has the ports and the workers' threads. It executes
//!   [`Order`](run::Order)s one after the other: stop, reload, show.
//! - [`Events`](events::Events) logs what happens and keeps it for `convoy show events`.
//! - [`Snapshot`](snapshot::Snapshot) is the visible state of a gateway; `convoy show`, the metrics
//!   page and tests read the same.
//!
//! A start, in order: the [`lock`]; the [`helper`], which keeps the privileges that routes need;
//! then in `run.rs` the ports and engines; and once they are open the process [gives up all
//! privileges](privileges) before it has any thread. Each worker has a thread (`worker_thread.rs`).
//! Whatever it is asked to do is a closure that it runs between two rounds (`worker_handles.rs`),
//! so nothing on a packet's path is locked. Orders come from the [control socket](control), signals
//! and [metrics]; keys that charon negotiates come through [`charon`]. State that must outlive a
//! restart is in [`state`]. A thread that panics ends the gateway ([`supervise`], `crew.rs`).
//!
//! A packet's way is the data plane's: a worker's thread calls
//! [`Worker::round`](convoy_dataplane::worker::Worker::round) and
//! [`Worker::idle`](convoy_dataplane::worker::Worker::idle) in turns, and executes commands in
//! between. This crate never looks into a packet, and does not print.

pub mod assemble;
mod blocked;
mod calibrator;
mod change;
pub mod charon;
pub mod choice;
pub mod cluster;
pub mod control;
mod crew;
mod drop_words;
pub mod engines;
mod error;
pub mod events;
pub mod explain;
mod gather;
pub mod guard;
pub mod helper;
pub mod lock;
pub mod metrics;
mod monitors;
pub mod names;
mod networks;
pub mod notify;
mod port_watch;
mod ports;
pub mod privileges;
mod ranks;
pub mod replay;
pub mod run;
#[cfg(test)]
mod simulation;
pub mod snapshot;
pub mod state;
pub mod supervise;
mod survey;
pub mod trace;
pub mod unblock;
mod wireshark;
mod worker_handles;
mod worker_thread;
