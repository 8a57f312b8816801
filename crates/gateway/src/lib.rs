//! Workers that tie ports, IPsec, scheduler and engines together; configuration, control socket, metrics.

pub mod config;
pub mod pipeline;
pub mod worker;
