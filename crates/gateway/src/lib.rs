//! Workers that tie ports, IPsec, scheduler and engines together; configuration, control socket, metrics.

pub mod assemble;
mod blocked;
mod calibrator;
pub mod charon;
pub mod choice;
pub mod config;
pub mod control;
mod crew;
pub mod demo;
pub mod engines;
pub mod guard;
pub mod helper;
pub mod inner_mtu;
pub mod lock;
pub mod metrics;
pub mod notify;
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
mod survey;
pub mod unblock;
mod worker_handles;
mod worker_thread;
