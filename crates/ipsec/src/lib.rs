//! SAD, SPD, ESP and AH as pure state machines.
//!
//! A packet's way is prepare → [`CryptoJob`] → finish; the job is done elsewhere, by an engine. Pure: no
//! socket, thread, clock or random source; time and randomness are arguments.

#[allow(dead_code)]
mod ah;
mod algorithm;
mod drops;
#[allow(dead_code)]
mod flow;
#[allow(dead_code)]
mod flow_cache;
#[allow(dead_code)]
mod fragment;
#[allow(dead_code)]
mod icmp;
#[allow(dead_code)]
mod inbound;
mod job;
#[allow(dead_code)]
mod layout;
#[allow(dead_code)]
mod lifetime;
#[allow(dead_code)]
mod natt;
#[allow(dead_code)]
mod outbound;
#[allow(dead_code)]
mod path_mtu;
#[allow(dead_code)]
mod rate_limit;
#[allow(dead_code)]
mod reassembly;
mod replay;
#[allow(dead_code)]
mod sa;
mod sa_config;
#[allow(dead_code)]
mod selector;
#[allow(dead_code)]
mod spd;
#[allow(dead_code)]
mod spd_index;
#[allow(dead_code)]
mod spi_table;
#[allow(dead_code)]
mod tos;

pub use algorithm::{Aead, Cipher, Integrity, KeyBits, KeyLengthError, KeyMaterial, Transform};
pub use drops::{DropCounters, DropReason};
pub use flow::FlowKey;
pub use job::{AAD_BYTES, CryptoJob, CryptoStatus, Direction, NONCE_BYTES, Prepared, SaIndex};
pub use lifetime::{Expiry, Usage};
pub use natt::{Carried, KEEPALIVE, classify};
pub use reassembly::ReassemblyConfig;
pub use replay::ReplayWindow;
pub use sa::SaError;
pub use sa_config::{Lifetime, Limits, Mode, OuterDf, SaConfig, SaDirection, SaProtocol, UdpEncap};
pub use selector::{AddressRange, Ports, Selector, SelectorError, TrafficSelector};
pub use spd::{Action, Policy, PolicyDirection, TunnelId};
pub use tos::{ClassMap, DSCP_VALUES, Ecn, EcnMode, OuterDscp};

/// What `finish` needs to know of a prepared packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinishContext {
    /// The 64-bit sequence number.
    pub(crate) sequence: u64,
    /// Where the ESP or AH header stands, in bytes from the packet's start (without what AH saved).
    pub(crate) header: u16,
    /// Bytes that AH saved before the packet.
    pub(crate) saved: u16,
}
