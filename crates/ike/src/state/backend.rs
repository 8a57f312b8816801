//! The gateway's side of charon's state.

use std::net::{IpAddr, SocketAddr};

use convoy_ipsec::{PolicyChange, SaConfig, SaNumber, Transform, TunnelId, UdpEncap};

use super::tunnels::ChildName;
use crate::protocol::{EncapMode, IkeReport, Message};

/// Why the gateway refused, in words for charon's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// The ends of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedEnds {
    /// Our outer address.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
    /// UDP encapsulation; `None` is plain.
    pub encap: Option<UdpEncap>,
}

/// The usage of an SA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaUsage {
    /// Bytes, as its lifetime counts them.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Seconds since its last packet; `None` if there was none.
    pub idle_s: Option<u32>,
}

/// A policy's change, and what the policy itself does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStep {
    /// The change.
    pub change: PolicyChange,
    /// Whether the policy's traffic is protected in tunnel mode.
    pub is_tunnel_mode: bool,
}

/// Only the changes of charon's policies and tunnels, however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyUpdate {
    /// Tunnels whose name has changed.
    pub names: Vec<(TunnelId, Option<ChildName>)>,
    /// Tunnels for which each worker that has packets wants an SA of its own (`true`), or no longer
    /// does.
    pub own_sas: Vec<(TunnelId, bool)>,
    /// Changes of policies, in the order in which they are to be made.
    pub steps: Vec<PolicyStep>,
}

impl PolicyUpdate {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.own_sas.is_empty() && self.steps.is_empty()
    }
}

/// News of one of charon's tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildNews {
    /// Its number.
    pub tunnel: TunnelId,
    /// Its name.
    pub child: ChildName,
    /// What happened.
    pub what: ChildChange,
}

/// What happened to a tunnel, or to one of its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildChange {
    /// It has an outbound SA.
    Up(ChildSa),
    /// It has another outbound SA.
    Rekeyed(ChildSa),
    /// It has no outbound SA any more; this was the last.
    Down(ChildSa),
    /// Its peer has another address or port.
    Moved {
        /// The previous one.
        old: SocketAddr,
        /// The new one.
        new: SocketAddr,
    },
}

/// An outbound SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildSa {
    /// Its SPI.
    pub spi_out: u32,
    /// The SPI of the inbound SA that came last, if there is one.
    pub spi_in: Option<u32>,
    /// The peer.
    pub peer: SocketAddr,
    /// Whether ESP goes in UDP.
    pub is_encapsulated: bool,
    /// Its algorithms.
    pub transform: Transform,
}

/// The gateway, as seen by [`CharonState`](super::CharonState), whose caller's calls it takes; they
/// have completed when they return.
pub trait SaBackend {
    /// Installs an SA at the worker that serves its tunnel, or at the one that stands for its
    /// resource (RFC 9611). An outbound one becomes its tunnel's current one there.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is installed then.
    fn install(&mut self, sa: SaConfig, resource: Option<u32>) -> Result<SaNumber, Refusal>;

    /// A child's SAs have another mode than swanctl.conf: the peer has not agreed to it, and charon
    /// falls back without an error.
    fn warn_of_mode(&mut self, child: &ChildName, configured: EncapMode, mode: EncapMode);

    /// A tunnel came up, was rekeyed, went down or moved.
    fn tell(&mut self, news: ChildNews);

    /// A negotiation has failed, has no answer, or has one again.
    fn report_ike(&mut self, _report: IkeReport) {}

    /// A tunnel has an address of this host's that its peer chose, or has it no longer. Two tunnels
    /// may have the same one.
    fn virtual_ip(&mut self, _address: IpAddr, _is_held: bool) {}

    /// Removes an SA; its keys are removed from every engine.
    fn remove(&mut self, sa: SaNumber);

    /// Changes charon's policies. The gateway's own are before or after them, by priority.
    fn change_policies(&mut self, update: PolicyUpdate);

    /// Gives an SA new ends; sequence numbers and replay window go on.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot: charon then replaces the SA.
    fn move_sa(&mut self, sa: SaNumber, ends: NegotiatedEnds) -> Result<(), Refusal>;

    /// The usage of an SA; `None` if it is unknown.
    fn usage(&mut self, sa: SaNumber) -> Option<SaUsage>;

    /// The wall clock, in ms since 1970. Called only where SAs are
    /// [shared](super::StateConfig::is_shared).
    fn wall_ms(&mut self) -> u64 {
        0
    }

    /// Keeps this record of an SA, instead of the one before, until the SA is removed: an encoded
    /// [`SaRecord`](crate::protocol::SaRecord). Called only where SAs are shared.
    fn share(&mut self, _sa: SaNumber, _record: Message) {}
}
