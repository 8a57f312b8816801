//! What a port is to the gateway: the `Port` trait, the kinds and their settings, and how a port
//! goes on when its interface is back.

mod backend;
mod config;
mod interface;
mod kind;
mod reopening;

pub use backend::{Backend, CheckedPort, Opened, PortContext, PortDevice, PortSide, PortTraits, QueueCount};
pub use config::{PortCommon, PortConfig, PortEntry};
pub use interface::{Port, PortCounters, PortDescription, PortError};
pub use kind::{PortKeys, PortKind, PortKindRow, PortSettings, PortTable};
pub(crate) use reopening::{Fresh, SocketReserve, lock};
pub use reopening::{Reopen, Reopening};
