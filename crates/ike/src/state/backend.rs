//! What the gateway does for charon's state.

use std::net::IpAddr;

use convoy_ipsec::{Policy, SaConfig, SaNumber, UdpEncap};

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

/// The gateway, as [`State`](super::State) sees it. Calls come from whoever calls `State`, and are done when they return.
pub trait Backend {
    /// Installs an SA at the worker that serves its tunnel. An outbound one becomes its tunnel's current one.
    ///
    /// # Errors
    /// [`Refusal`]; nothing is installed then.
    fn install(&mut self, sa: SaConfig) -> Result<SaNumber, Refusal>;

    /// Takes an SA out; its keys leave every engine.
    fn remove(&mut self, sa: SaNumber);

    /// Replaces charon's policies, first to last. The gateway's own stand before or after them, by priority.
    fn set_policies(&mut self, policies: &[Policy]);

    /// Gives an SA new ends; sequence numbers and replay window go on.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot: charon then replaces the SA.
    fn move_sa(&mut self, sa: SaNumber, ends: Ends) -> Result<(), Refusal>;

    /// What an SA has done; `None` if it is unknown.
    fn usage(&mut self, sa: SaNumber) -> Option<SaUsage>;
}
