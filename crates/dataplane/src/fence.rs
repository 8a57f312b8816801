//! Until when a gateway may send: the end of its lease, if it is one of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time until which workers may send and deliver packets. Clones share it.
///
/// Another gateway takes the tunnels over when the lease has ended, so that whoever is late must
/// not send any more, also if the thread that keeps the lease is stuck: each worker looks itself,
/// before each burst.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<AtomicU64>);

impl Fence {
    /// A fence that lets nothing pass.
    pub fn closed() -> Self {
        Self::default()
    }

    /// Lets packets pass until `deadline_ns` of the gateway's clock; 0 closes it at once.
    pub fn open_until(&self, deadline_ns: u64) {
        self.0.store(deadline_ns, Ordering::Relaxed);
    }

    /// Whether nothing may pass now.
    pub fn is_closed(&self, now_ns: u64) -> bool {
        now_ns >= self.0.load(Ordering::Relaxed)
    }
}
