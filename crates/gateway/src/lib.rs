//! Workers that tie ports, IPsec, scheduler and engines together; configuration, control socket, metrics.

pub mod assemble;
pub mod charon;
pub mod choice;
pub mod config;
pub mod control;
pub mod costs;
mod crew;
pub mod daemon;
pub mod demo;
mod drop_watch;
pub mod engines;
pub mod handover;
mod lane;
mod lanes;
mod ledger;
pub mod memory;
pub mod metrics;
pub mod notify;
pub mod pipeline;
pub mod plan;
mod ports;
pub mod privileges;
pub mod replay;
pub mod run;
pub mod snapshot;
pub mod supervise;
pub mod worker;
