//! The data plane: the pipeline of one worker, and the worker that connects ports to it.
//!
//! - [`Pipeline`](pipeline::Pipeline) joins SAs and policies ([`convoy_ipsec::Ipsec`]), the
//!   scheduler and the engines of one worker, without ports: bursts go in, and packets ready to
//!   leave are in its [`departures`](pipeline::Pipeline::departures).
//! - [`CryptoStage`](pipeline::CryptoStage), its middle, holds packets in the window, gives trains
//!   of them to engines, recovers what engines lose, and restores the order.
//! - [`Worker`](worker::Worker) has ports at both ends of a pipeline. A
//!   [round](worker::Worker::round) reads, protects and sends; between rounds it
//!   [waits](worker::Worker::idle).
//! - [`Handoff`](handoff::Handoff) has one worker's ends of the rings between all of them: an SA
//!   belongs to one worker, whichever queue its packets arrive in.
//! - [`InterfaceLinks`](interfaces::InterfaceLinks) says which inside interfaces have a link: those
//!   with a tunnel that can send.
//! - [`Monitor`](monitor::Monitor) probes a tunnel, and says whether it answers.
//!
//! A packet's path, from file to file: `worker.rs` reads a burst; `pipeline/path.rs` has the steps
//! from there on; `pipeline/stage/admission.rs` is the window, `pipeline/stage/dispatch.rs` the
//! choice of an engine and the layout of packets, `pipeline/engine_slot.rs` the trains in flight at
//! one engine, `pipeline/stage.rs` the order; `worker.rs` sends.
//!
//! A pipeline takes time, random numbers, frames and the directory of SAs from its
//! [`PipelineResources`](pipeline::PipelineResources). Beside the path there are the time of a
//! gateway ([`clock`]), the packet memory of all workers ([`memory`]), the cost of engines
//! ([`costs`]), the notifications of a key daemon ([`daemon`]), the totals of tunnels ([`ledger`]),
//! warnings of drops ([`drop_watch`]), and traces of single packets ([`trace`]).
//!
//! Nothing here knows configuration, files, the control socket or other processes: anyone who
//! creates a pipeline installs its SAs and policies, and changes happen between two rounds.
//! Measured costs are kept in a [`convoy_engine::CalibrationCache`] that the caller has opened.
//! Time is always a [`Clock`](clock::Clock)'s, so that tests and simulations control it.

mod adaptive_wait;
mod append;
pub mod clock;
pub mod costs;
pub mod daemon;
pub mod drop_watch;
pub mod fence;
pub mod handoff;
pub mod interfaces;
pub mod ledger;
pub mod memory;
mod moderation;
pub mod monitor;
mod path_probe;
pub mod pipeline;
mod side;
pub mod trace;
mod watch;
pub mod worker;
