//! The gateway process around the data plane: start, reload, control, end.
//!
//! - [`Gateway`](run::Gateway) has the ports and the workers' threads. It executes
//!   [`Order`](run::Order)s one after the other: stop, reload, show.
//! - [`control`] takes orders over a socket, [`explain`] and [`trace`] say what becomes of packets.
//! - [`charon`] brings the keys that strongSwan negotiates, [`cluster`] says which groups of
//!   tunnels this gateway leads.
//!
//! A start, in order: the lock; the helper, which keeps the privileges that routes need
//! (`convoy_host`); then in `run.rs` the ports and engines, by `convoy_assembly`; and once they are
//! open the process gives up all privileges before it has any thread. Each worker has a thread
//! (`worker_thread.rs`). Whatever it is asked to do is a closure that it runs between two rounds
//! (`worker_handles.rs`), so nothing on a packet's path is locked. State that must outlive a
//! restart is in `convoy_state`; what the gateway shows of itself is in `convoy_report`. A thread
//! that panics ends the gateway (`convoy_process::supervise`, `crew.rs`).
//!
//! A packet's way is the data plane's: a worker's thread calls
//! [`Worker::round`](convoy_dataplane::worker::Worker::round) and
//! [`Worker::idle`](convoy_dataplane::worker::Worker::idle) in turns, and executes commands in
//! between. This crate never looks into a packet, and does not print.

mod blocked;
mod calibrator;
pub mod charon;
pub mod cluster;
pub mod control;
mod crew;
mod error;
pub mod explain;
mod gather;
mod monitors;
pub mod notify;
pub mod run;
#[cfg(test)]
mod simulation;
pub mod trace;
mod wireshark;
mod worker_handles;
mod worker_thread;
