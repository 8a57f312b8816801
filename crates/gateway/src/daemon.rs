//! What workers tell a key daemon. They never wait for it.

use convoy_ipsec::{LifetimeEvent, MappingChange};

use crate::pipeline::Acquire;

/// A key daemon's ear. Called on workers' threads, so it must not wait.
pub trait Daemon: Send + Sync {
    /// An IKE message came, as a whole IP packet with its UDP header.
    fn ike(&self, packet: &[u8]);
    /// A packet waits for an SA.
    fn acquire(&self, acquire: Acquire);
    /// An SA has reached a limit.
    fn expire(&self, event: &LifetimeEvent);
    /// A peer behind a NAT sends from elsewhere.
    fn mapping(&self, change: &MappingChange);
}
