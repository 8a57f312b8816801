//! SAD, SPD, ESP and AH as pure state machines: no socket, thread, clock or random source; time and
//! randomness are arguments.
//!
//! - [`Ipsec`] is one worker's, in four parts. [`Tables`] are its SAs, policies and counters, on
//!   which the others work: [`Outbound`] is the path of packets from the inside, [`Inbound`] of
//!   those from the outside, and [`Upkeep`] the periodic work.
//! - [`CryptoPacket`] is a packet on its way to or from an engine: its frame, its [`CryptoJob`],
//!   and the job's outcome. It is *raw* until it has a number and a job.
//! - [`SaConfig`] describes an SA; a [`Policy`] names a [`TunnelId`], so that it outlives the SAs
//!   of its tunnel.
//! - [`Directory`] tells all workers of a process which of them owns an SA.
//!
//! A packet's way: [`Outbound::classify`] and [`Inbound::classify`] take a burst and find each
//! packet's policy or SA (`processor/classify.rs`). It is returned raw for an SA, unchanged where
//! policy bypasses it, or dropped and counted by [`DropReason`]. [`Tables::lay_out`] numbers raw
//! packets and writes headers and jobs, run by run of one SA; where another core does that,
//! [`Tables::begin`] only numbers them, and a [`BatchTemplate`] does the rest. When an engine has
//! done the jobs, [`Outbound::finish`] restores what AH hid and cuts what exceeds the path;
//! [`Inbound::finish`] checks the outcome, advances the replay window, strips the packet and checks
//! it against the policies.

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
mod identification;
mod inbound;
mod iptfs;
mod job;
mod job_plan;
mod lifetime;
mod links;
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
pub use iptfs::{AggregationCounts, IptfsConfig, ReassemblyCounts};
pub use job::{AAD_BYTES, CryptoJob, CryptoPacket, CryptoStatus, Direction, NONCE_BYTES, SaIndex};
pub use lifetime::{Expiry, Usage};
pub use natt::{Carried, KEEPALIVE, classify};
pub use open_template::OpenTemplate;
pub use ordered_selectors::OrderedSelectors;
pub use processor::{
    Fit, FrameNote, Inbound, InboundBurst, Ipsec, IpsecConfig, IpsecCounters, LifetimeEvent, MappingChange,
    Miss, MssClamp, Outbound, OutboundBurst, PathChange, PolicyView, ReplayView, SaCursor, SaView, Supposed,
    Tables, Upkeep, WithoutSa,
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

/// The longest packet that is protected or opened, in bytes: positions in a [`CryptoJob`] have 16
/// bits. IPv6's length field, which excludes its header, would allow 40 bytes more.
pub(crate) const LONGEST_BYTES: usize = u16::MAX as usize;

/// The stage of a packet between `prepare` and `finish`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Its job is laid out.
    #[default]
    LaidOut,
    /// It is unmodified and valid so far; it has no job yet, nor a number unless its context has
    /// one.
    Raw,
    /// It was opened and stripped, or is to be dropped although it is authentic.
    Stripped(Result<(), DropReason>),
}

/// What `finish` needs to know of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinishContext {
    /// The 64-bit sequence number; 0 is none yet.
    pub(crate) sequence: u64,
    /// The generation of the SA: counts the SAs that had its index one after another.
    pub(crate) generation: u32,
    /// Position of the ESP or AH header, in bytes from the packet's start (without what AH saved).
    pub(crate) header: u16,
    /// Bytes that AH saved before the packet.
    pub(crate) saved: u16,
    /// IPv4's identification of the outer header.
    pub(crate) identification: u16,
    /// Whether the packet exceeds its path and will be cut.
    pub(crate) is_cut: bool,
    pub(crate) form: Form,
    /// Of a raw outbound packet: what its outer header takes over. Of an inbound one: the outer
    /// traffic class.
    pub(crate) inner: Inner,
}
