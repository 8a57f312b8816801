//! Until when a gateway may send: the end of its lease, if it is one of a cluster.

use std::sync::Arc;

use convoy_sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
struct FenceState {
    deadline_ns: AtomicU64,
    holds: AtomicUsize,
}

/// The time until which workers may send and deliver packets. Clones share it.
///
/// Another gateway takes the tunnels over when the lease has ended, so that anyone who is late must
/// not send any more, also if the thread that keeps the lease is stuck: each worker looks itself,
/// before each burst.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<FenceState>);

impl Fence {
    /// A fence that lets nothing pass.
    pub fn closed() -> Self {
        Self::default()
    }

    /// Lets packets pass until `deadline_ns` of the gateway's clock; 0 closes it at once.
    pub fn open_until(&self, deadline_ns: u64) {
        // Release: a worker that sees this deadline sees the holds that came before it.
        self.0.deadline_ns.store(deadline_ns, Ordering::Release);
    }

    /// Keeps it closed, whatever the deadline, until what is returned is dropped.
    pub fn hold(&self) -> FenceHold {
        self.0.holds.fetch_add(1, Ordering::Relaxed);
        FenceHold(self.clone())
    }

    /// Whether nothing may pass now.
    pub fn is_closed(&self, now_ns: u64) -> bool {
        // Acquire: the deadline is read before the holds.
        now_ns >= self.0.deadline_ns.load(Ordering::Acquire) || self.0.holds.load(Ordering::Relaxed) != 0
    }
}

/// Keeps a fence closed while it exists.
#[derive(Debug)]
pub struct FenceHold(Fence);

impl Drop for FenceHold {
    fn drop(&mut self) {
        self.0.0.holds.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, convoy_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_that_is_held_stays_closed_whatever_the_deadline() {
        let fence = Fence::closed();
        fence.open_until(10);
        let holds = [fence.hold(), fence.clone().hold()];
        fence.open_until(20);
        for hold in holds {
            assert!(fence.is_closed(5));
            drop(hold);
        }
        assert!(!fence.is_closed(19) && fence.is_closed(20));
    }
}
