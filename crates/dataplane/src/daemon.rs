//! Notifications from workers to a key daemon. Workers never wait for it.

use convoy_ipsec::{LifetimeEvent, MappingChange};

use crate::pipeline::Acquire;

/// A key daemon's notifier. It is called on workers' threads and must not block: each call returns
/// whether there was room for the notification.
pub trait Daemon: Send + Sync {
    /// An IKE message arrived, given as a whole IP packet with its UDP header. Without room it is
    /// lost; IKE retransmits.
    fn ike(&self, packet: &[u8]) -> bool;
    /// A packet waits for an SA. Without room the request is lost; a later packet repeats it.
    fn acquire(&self, acquire: Acquire) -> bool;
    /// An SA has reached a limit. Without room the worker repeats the call.
    fn expire(&self, event: &LifetimeEvent) -> bool;
    /// A peer behind a NAT has changed its address or port. Without room the worker repeats the
    /// call.
    fn mapping(&self, change: &MappingChange) -> bool;
}
