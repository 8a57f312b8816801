//! What the gateway does for charon's state.

use std::net::IpAddr;

use convoy_ipsec::{PolicyChange, SaConfig, SaNumber, TunnelId, UdpEncap};

use super::tunnels::ChildName;

/// Why the gateway did not do what was asked, in words for charon's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// The ends of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Our outer address.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
    /// UDP encapsulation; `None` is plain.
    pub encap: Option<UdpEncap>,
}

/// What an SA has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaUsage {
    /// Bytes, as its lifetime counts them.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Seconds since its last packet; `None` if there was none.
    pub idle_s: Option<u32>,
}

/// One policy's change, and what the policy itself does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStep {
    /// What changes.
    pub change: PolicyChange,
    /// Whether what the policy protects is in tunnel mode.
    pub is_tunnel_mode: bool,
}

/// What has changed of charon's policies and tunnels, and nothing else, however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyUpdate {
    /// Tunnels that have another name now, or none.
    pub names: Vec<(TunnelId, Option<ChildName>)>,
    /// Changes of policies, in the order in which they are to be made.
    pub steps: Vec<PolicyStep>,
}

impl PolicyUpdate {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.steps.is_empty()
    }
}

/// The gateway, as [`State`](super::State) sees it. Calls come from whoever calls `State`, and are
/// done when they return.
pub trait Backend {
    /// Installs an SA at the worker that serves its tunnel. An outbound one becomes its tunnel's
    /// current one.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is installed then.
    fn install(&mut self, sa: SaConfig) -> Result<SaNumber, Refusal>;

    /// Takes an SA out; its keys leave every engine.
    fn remove(&mut self, sa: SaNumber);

    /// Changes charon's policies. The gateway's own stand before or after them, by priority.
    fn change_policies(&mut self, update: PolicyUpdate);

    /// Gives an SA new ends; sequence numbers and replay window go on.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot: charon then replaces the SA.
    fn move_sa(&mut self, sa: SaNumber, ends: Ends) -> Result<(), Refusal>;

    /// What an SA has done; `None` if it is unknown.
    fn usage(&mut self, sa: SaNumber) -> Option<SaUsage>;
}
