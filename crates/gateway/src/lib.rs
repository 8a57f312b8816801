//! What makes a process of the data plane: it is configured, started, watched, asked, reloaded and
//! ended.
//!
//! - [`Config`](config::Config) is what a file says, checked: nothing behind it reads keys or text.
//! - [`assemble`] makes engines, SAs, policies and a
//!   [pipeline](convoy_dataplane::pipeline::Pipeline) for each worker of it.
//! - [`Gateway`](run::Gateway) has the ports and threads. It takes [`Order`](run::Order)s, one
//!   after the other: stop, reload, show.
//! - [`Snapshot`](snapshot::Snapshot) is all that a gateway tells of itself; `convoy show`, the
//!   metrics page and tests read the same.
//!
//! A start, in order: the [`lock`], the [`helper`], which keeps the privileges that routes
//! need, then in `run.rs` the ports and engines, and once they are open the process [gives up all
//! privileges](privileges) before it has any thread. Each worker has a thread (`worker_thread.rs`).
//! Whatever is wanted of it is a closure that it runs between two rounds (`worker_handles.rs`), so
//! nothing on a packet's way is locked. Orders come from the [control socket](control), signals and
//! [metrics]; keys, where charon negotiates them, by [`charon`]. What must outlive a restart is in
//! [`state`]. A thread that panics ends the gateway ([`supervise`], `crew.rs`).
//!
//! It never looks into a packet, which is the data plane's, and it does not print.

pub mod assemble;
mod blocked;
mod calibrator;
pub mod charon;
pub mod choice;
pub mod config;
pub mod control;
mod crew;
pub mod engines;
pub mod guard;
pub mod helper;
pub mod inner_mtu;
pub mod lock;
pub mod metrics;
pub mod notify;
mod ports;
pub mod privileges;
pub mod run;
#[cfg(test)]
mod simulation;
pub mod snapshot;
pub mod state;
pub mod supervise;
mod survey;
pub mod unblock;
mod worker_handles;
mod worker_thread;
