//! The member's lease, and until when it permits to lead.

use super::calls::{Calls, Purpose};
use super::{Output, RETRY_NS};
use crate::orders::MemberOrder;
use crate::store::{Call, LeaseId};

/// Requests to keep the lease alive that may be open at once.
const MOST_OPEN: usize = 3;

/// A lease, or the wish for one.
#[derive(Debug)]
pub(super) struct Lease {
    ttl_s: u32,
    held: Option<LeaseId>,
    deadline_ns: u64,
    /// When it is asked for or kept alive next.
    pub(super) next_ns: u64,
}

impl Lease {
    pub(super) fn new(ttl_s: u32) -> Self {
        Self { ttl_s, held: None, deadline_ns: 0, next_ns: 0 }
    }

    pub(super) fn id(&self) -> Option<LeaseId> {
        self.held
    }

    /// Whether groups may be led at this time.
    pub(super) fn permits(&self, now_ns: u64) -> bool {
        self.held.is_some() && now_ns < self.deadline_ns
    }

    /// A third of the time to live, in ns: the interval between renewals, and how old the latest
    /// heartbeat of the gateway may be for one.
    pub(super) fn third_ns(&self) -> u64 {
        u64::from(self.ttl_s) * 1_000_000_000 / 3
    }

    /// When the gateway may no longer send or deliver, if there is a lease.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        self.held.map(|_| self.deadline_ns)
    }

    pub(super) fn proceed(&mut self, now_ns: u64, calls: &mut Calls, out: &mut Vec<Output>) {
        if now_ns < self.next_ns {
            return;
        }
        let open =
            calls.count(|purpose| matches!(purpose, Purpose::Grant { .. } | Purpose::KeepAlive { .. }));
        self.next_ns = now_ns + self.third_ns();
        match self.held {
            Some(lease) if open < MOST_OPEN => {
                calls.ask(Purpose::KeepAlive { lease, sent_ns: now_ns }, Call::KeepAlive { lease }, out);
            }
            None if open == 0 => {
                calls.ask(Purpose::Grant { sent_ns: now_ns }, Call::Grant { ttl_s: self.ttl_s }, out);
            }
            _ => {}
        }
    }

    pub(super) fn granted(&mut self, lease: LeaseId, ttl_s: u32, sent_ns: u64, out: &mut Vec<Output>) {
        self.held = Some(lease);
        self.deadline_ns = 0;
        self.ttl_s = ttl_s;
        self.next_ns = sent_ns + self.third_ns();
        self.kept(ttl_s, sent_ns, out);
    }

    /// The store had the lease after `sent_ns`, and keeps it for its time to live from then on. A
    /// tenth of it is left for clocks that differ in rate.
    pub(super) fn kept(&mut self, ttl_s: u32, sent_ns: u64, out: &mut Vec<Output>) {
        let ttl_ns = u64::from(ttl_s) * 1_000_000_000;
        let deadline_ns = sent_ns + ttl_ns - ttl_ns / 10;
        if deadline_ns > self.deadline_ns {
            self.deadline_ns = deadline_ns;
            out.push(Output::Order(MemberOrder::Until { deadline_ns }));
        }
    }

    /// The lease does not exist any more.
    pub(super) fn gone(&mut self, now_ns: u64) {
        self.held = None;
        self.next_ns = now_ns;
    }

    pub(super) fn retry(&mut self, now_ns: u64) {
        self.next_ns = self.next_ns.min(now_ns + RETRY_NS);
    }
}
