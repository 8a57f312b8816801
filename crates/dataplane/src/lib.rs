//! What a packet meets: the pipeline of one worker, and the worker that ties ports to it.
//!
//! - [`Pipeline`](pipeline::Pipeline) joins SAs and policies ([`convoy_ipsec::Ipsec`]), the
//!   scheduler and the engines of one worker, without ports: a burst goes in, and what is ready to
//!   leave lies in its [`departures`](pipeline::Pipeline::departures).
//! - [`CryptoStage`](pipeline::CryptoStage), its middle, holds packets in the window, gives trains
//!   of them to engines, takes back what engines lose, and puts all in order again.
//! - [`Worker`](worker::Worker) has ports at both ends of a pipeline. A
//!   [round](worker::Worker::round) reads, protects and sends; between rounds it
//!   [waits](worker::Worker::idle).
//! - [`Handoff`](handoff::Handoff) has one worker's ends of the rings between all of them: an SA
//!   belongs to one worker, whichever queue its packets arrive in.
//!
//! A packet's way, from file to file: `worker.rs` reads a burst; `pipeline/way.rs` has the steps
//! from there on; `pipeline/stage/admission.rs` is the window, `pipeline/stage/dispatch.rs` the
//! choice of an engine and the laying out, `pipeline/engine_slot.rs` what is under way at one
//! engine, `pipeline/stage.rs` the order; `worker.rs` sends.
//!
//! Beside that way stand what both take from their machine ([`clock`]: time, random numbers,
//! frames; [`memory`]: the packet memory of all workers), what engines cost ([`costs`]), what a
//! key daemon is told ([`daemon`]), and what is counted for tunnels ([`ledger`]) and told of drops
//! ([`drop_watch`]).
//!
//! Nothing here knows configuration, files, the control socket or other processes: whoever makes a
//! pipeline installs its SAs and policies, and a change comes to it between two rounds. What
//! engines cost is kept by [`convoy_engine::CalibrationCache`], which alone knows where. Time is
//! always a [`Clock`](clock::Clock)'s, so that tests and simulations decide how it passes.

mod adaptive_wait;
mod append;
pub mod clock;
pub mod costs;
pub mod daemon;
pub mod drop_watch;
pub mod handoff;
pub mod ledger;
pub mod memory;
mod moderation;
pub mod pipeline;
mod side;
mod watch;
pub mod worker;
