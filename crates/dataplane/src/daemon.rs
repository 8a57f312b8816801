//! What workers tell a key daemon. They never wait for it.

use convoy_ipsec::{LifetimeEvent, MappingChange};

use crate::pipeline::Acquire;

/// A key daemon's notifier. Called on workers' threads, so it must not wait: each call says whether
/// there was room for what it tells.
pub trait Daemon: Send + Sync {
    /// An IKE message came, as a whole IP packet with its UDP header. Without room it is lost: IKE
    /// sends it again.
    fn ike(&self, packet: &[u8]) -> bool;
    /// A packet waits for an SA. Without room this is lost: a later packet asks again.
    fn acquire(&self, acquire: Acquire) -> bool;
    /// An SA has reached a limit. Without room the worker tells it again.
    fn expire(&self, event: &LifetimeEvent) -> bool;
    /// A peer behind a NAT sends from elsewhere. Without room the worker tells it again.
    fn mapping(&self, change: &MappingChange) -> bool;
}
