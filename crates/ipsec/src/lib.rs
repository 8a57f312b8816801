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
//! packet's policy or SA (`path/classify.rs`). It is returned raw for an SA, unchanged where policy
//! bypasses it, or dropped and counted by [`DropReason`]. [`Tables::lay_out`] numbers raw packets
//! and writes headers and jobs, run by run of one SA; where another core does that,
//! [`Tables::begin`] only numbers them, and a [`BatchTemplate`] does the rest. When an engine has
//! done the jobs, [`Outbound::finish`] restores what AH hid and cuts what exceeds the path;
//! [`Inbound::finish`] checks the outcome, advances the replay window, strips the packet and checks
//! it against the policies.
//!
//! The folders, each of which uses only those before it: `ip`, flows, fragments and traffic
//! classes; `sa`, what an SA is; `esp`, where the parts of a packet go; `iptfs`; `nat`; `sad`, the
//! SAs with their state; `spd`, policies and their search; `icmp`; and `path`, the way of packets
//! through all of them.

mod drops;
mod esp;
mod icmp;
mod ip;
mod iptfs;
mod nat;
mod path;
mod sa;
mod sad;
mod spd;

pub use drops::{DropCounters, DropReason};
pub use esp::batch_template::{BatchTemplate, RAW_TAILROOM_BYTES, RunTemplate};
pub use esp::envelope::Envelope;
pub use esp::job::{AAD_BYTES, CryptoJob, CryptoPacket, CryptoStatus, Direction, NONCE_BYTES};
pub use esp::open_template::OpenTemplate;
pub use esp::seal_template::SealTemplate;
pub use esp::stage::FinishContext;
pub use ip::flow::FlowKey;
pub use ip::reassembly::ReassemblyConfig;
pub use ip::tos::{ClassMap, DSCP_VALUES, Ecn, EcnMode, OuterDscp};
pub use iptfs::{AggregationCounts, ReassemblyCounts};
pub use nat::carried::{Carried, KEEPALIVE, classify};
pub use path::{
    AssumedPath, EchoAnswer, EchoNumber, Echoes, Fit, FrameNote, Inbound, InboundBurst, Ipsec, IpsecConfig,
    IpsecCounters, LifetimeEvent, MappingChange, Miss, MssClamp, Outbound, OutboundBurst, PathChange,
    PolicyView, ReplayView, SaCursor, SaView, Supposed, Tables, Upkeep, WithoutSa,
};
pub use sa::algorithm::{
    AdmittedAlgorithms, Aead, Cipher, ENCRYPTION, Encryption, EncryptionRow, INTEGRITY, Integrity,
    IntegrityRow, KeyBits, KeyLengthError, KeyMaterial, Transform,
};
pub use sa::config::{
    IptfsConfig, Lifetime, LifetimeLimits, Mode, NatKeepalive, OuterDf, SaConfig, SaEnds, UdpEncap,
};
pub use sa::facts::SaName;
pub use sa::id::{InboundId, OutboundId, SaDirection, SaId, SaIndex, SaNumber, SaProtocol, TunnelId};
pub use sa::lifetime::{Expiry, Usage};
pub use sa::proposal::{Proposal, ProposalError, proposal_words};
pub use sa::proposal_list::{ProposalList, in_swanctl_words};
pub use sa::validate::SaError;
pub use sad::InstallError;
pub use sad::directory::Directory;
pub use sad::replay::ReplayWindow;
pub use spd::ordered_selectors::OrderedSelectors;
pub use spd::selector::{AddressRange, Ports, Selector, SelectorError, TrafficSelector};
pub use spd::{Action, Policy, PolicyChange, PolicyDirection, PolicyPlace, PolicyRank};
