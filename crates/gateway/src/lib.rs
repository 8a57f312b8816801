//! Workers that tie ports, IPsec, scheduler and engines together; configuration, control socket, metrics.

mod adaptive_wait;
pub mod assemble;
mod calibrator;
pub mod charon;
pub mod choice;
pub mod clock;
pub mod config;
pub mod control;
pub mod costs;
mod crew;
pub mod daemon;
pub mod demo;
mod drop_watch;
pub mod engines;
pub mod handoff;
pub mod helper;
pub mod inner_mtu;
mod ledger;
pub mod lock;
pub mod memory;
pub mod metrics;
pub mod notify;
pub mod pipeline;
pub mod plan;
mod ports;
pub mod privileges;
pub mod replay;
pub mod run;
#[cfg(test)]
mod simulation;
pub mod snapshot;
pub mod state;
pub mod supervise;
mod watch;
pub mod worker;
mod worker_handles;
mod worker_thread;
