//! Workers that tie ports, IPsec, scheduler and engines together; configuration, control socket, metrics.

pub mod assemble;
pub mod config;
pub mod costs;
pub mod pipeline;
pub mod replay;
pub mod worker;
