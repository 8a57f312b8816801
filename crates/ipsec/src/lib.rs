//! SAD, SPD, ESP and AH as pure state machines.
//!
//! [`Ipsec`] is one worker's, in four parts. [`Tables`] are its SAs, policies and counters, on
//! which the others work: [`Outbound`] has the way of packets from the inside, [`Inbound`] of those
//! from the outside, and [`Upkeep`] does what time alone brings about. A [`Directory`] tells all
//! workers whose each SA is.
//!
//! Bursts of packets are classified: they come out for an SA ([`CryptoPacket`]), to bypass, or dropped
//! and counted by [`DropReason`]. [`Tables::lay_out`] gives them their numbers and a [`CryptoJob`].
//! When the job is done, elsewhere, `finish` makes the packet whole. An SA is made from an
//! [`SaConfig`]; a [`Policy`] names a [`TunnelId`], so that it outlives its SAs. Pure: no socket,
//! thread, clock or random source; time and randomness are arguments.

mod ah;
mod algorithm;
mod batch;
mod cached_limits;
mod directory;
mod drops;
mod envelope;
mod flow;
mod flow_cache;
mod fragment;
mod icmp;
mod inbound;
mod job;
mod job_plan;
mod lifetime;
mod nat_flows;
mod natt;
mod open_template;
mod ordered_selectors;
mod outbound;
mod outer_header;
mod own_addresses;
mod path_mtu;
mod processor;
mod proposal;
mod proposal_list;
mod quote;
mod rate_limit;
mod reassembly;
mod replay;
mod sa;
mod sa_config;
mod sa_id;
mod sad;
mod seal_template;
mod selector;
mod spd;
mod spd_index;
mod spi_table;
mod table;
mod timers;
mod tos;
mod trailer;
mod tunnels;

pub use algorithm::{
    Aead, Cipher, ENCRYPTION, Encryption, EncryptionRow, INTEGRITY, Integrity, IntegrityRow, KeyBits,
    KeyLengthError, KeyMaterial, Transform,
};
pub use batch::{BatchTemplate, RAW_TAILROOM_BYTES, RunTemplate};
pub use directory::Directory;
pub use drops::{DropCounters, DropReason};
pub use envelope::Envelope;
pub use flow::FlowKey;
pub use job::{AAD_BYTES, CryptoJob, CryptoPacket, CryptoStatus, Direction, NONCE_BYTES, SaIndex};
pub use lifetime::{Expiry, Usage};
pub use natt::{Carried, KEEPALIVE, classify};
pub use open_template::OpenTemplate;
pub use ordered_selectors::OrderedSelectors;
pub use processor::{
    Inbound, InboundBurst, Ipsec, IpsecConfig, IpsecCounters, LifetimeEvent, MappingChange, Outbound,
    OutboundBurst, PolicyView, ReplayView, SaCursor, SaView, Tables, Upkeep, WithoutSa,
};
pub use proposal::{Proposal, ProposalError, proposal_words};
pub use proposal_list::{ProposalList, in_swanctl_words};
pub use reassembly::ReassemblyConfig;
pub use replay::ReplayWindow;
pub use sa::SaError;
pub use sa_config::{
    Lifetime, Limits, Mode, NatKeepalive, OuterDf, SaConfig, SaDirection, SaEnds, SaProtocol, UdpEncap,
};
pub use sa_id::{InboundId, OutboundId, SaId, SaNumber};
pub use sad::{InstallError, SaName};
pub use seal_template::SealTemplate;
pub use selector::{AddressRange, Ports, Selector, SelectorError, TrafficSelector};
pub use spd::{Action, Policy, PolicyChange, PolicyDirection, PolicyPlace, PolicyRank, TunnelId};
pub use tos::{ClassMap, DSCP_VALUES, Ecn, EcnMode, OuterDscp};

use outer_header::Inner;

/// The longest packet that is protected or opened, in bytes: the places in a [`CryptoJob`] are of
/// 16 bits. IPv6's length field, which leaves its header out, would admit 40 bytes more.
pub(crate) const LONGEST_BYTES: usize = u16::MAX as usize;

/// How far a packet between `prepare` and `finish` has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Its job is laid out.
    #[default]
    LaidOut,
    /// It is as it came, and was found good so far; it has no job yet, nor a number unless one is
    /// in its context.
    Raw,
    /// It was opened and stripped, or is to be dropped although it is authentic.
    Stripped(Result<(), DropReason>),
}

/// What `finish` needs to know of a prepared packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinishContext {
    /// The 64-bit sequence number; 0 is none yet.
    pub(crate) sequence: u64,
    /// Which SA's it is, of those that stood at its index one after another.
    pub(crate) generation: u32,
    /// Where the ESP or AH header stands, in bytes from the packet's start (without what AH saved).
    pub(crate) header: u16,
    /// Bytes that AH saved before the packet.
    pub(crate) saved: u16,
    /// Whether the packet is longer than its path and will be cut.
    pub(crate) is_cut: bool,
    pub(crate) form: Form,
    /// Of a raw outbound packet.
    pub(crate) inner: Inner,
}
