//! What a gateway changes on its host, and with which privileges.
//!
//! A start, in order: the [`lock`], so that one configuration runs once; the [`helper`], a process
//! that keeps `CAP_NET_ADMIN` for [routes](ports::route_plan) and the [`guard`]; then the
//! [`ports`], and once they are open the gateway [gives up all privileges](privileges).
//! [`port_watch`] has ports wait for interfaces and addresses that vanish. [`unblock`] removes what
//! a gateway that ended has left in place to drop packets.
//!
//! This crate knows no SA of a running gateway, and does not print.

pub mod guard;
pub mod helper;
pub mod lock;
pub mod networks;
pub mod port_watch;
pub mod ports;
pub mod privileges;
pub mod unblock;
