//! Lifetimes of SAs in bytes, packets and seconds, soft and hard (RFC 4301 section 4.4.2.1).

use crate::sa_config::{Lifetime, Limits};

fn is_reached(limits: &Limits, bytes: u64, packets: u64, age_ns: u64) -> bool {
    let over = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
    over(limits.bytes, bytes) || over(limits.packets, packets) || over(limits.time_ns, age_ns)
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// The soft one: the SA works on.
    Soft,
    /// The hard one, or that of the sequence numbers: it does not.
    Hard,
}

/// What an SA has used of its life. Each expiry is told once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    limits: Lifetime,
    installed_ns: u64,
    bytes: u64,
    packets: u64,
    is_exhausted: bool,
    told: Option<Expiry>,
}

impl Usage {
    /// A life that begins at `now_ns`.
    pub fn new(limits: Lifetime, now_ns: u64) -> Self {
        Self { limits, installed_ns: now_ns, bytes: 0, packets: 0, is_exhausted: false, told: None }
    }

    /// Bytes used.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets used.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Age at `now_ns`, in ns.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.installed_ns)
    }

    /// The limits.
    pub fn limits(&self) -> &Lifetime {
        &self.limits
    }

    /// Whether the SA is past its hard limit, so that no packet may pass.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        is_reached(&self.limits.hard, self.bytes, self.packets, self.age_ns(now_ns))
    }

    /// Counts one packet to `bytes` of which the SA's algorithm is applied.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.packets += 1;
    }

    /// Notes that no sequence number is left, which ends the SA as its hard limit does.
    pub(crate) fn exhaust(&mut self) {
        self.is_exhausted = true;
    }

    /// The expiry that was reached and not told yet, if any.
    pub(crate) fn expiry(&mut self, now_ns: u64) -> Option<Expiry> {
        let age_ns = self.age_ns(now_ns);
        let reached = |limits: &Limits| is_reached(limits, self.bytes, self.packets, age_ns);
        let now = if self.is_exhausted || reached(&self.limits.hard) {
            Expiry::Hard
        } else if reached(&self.limits.soft) {
            Expiry::Soft
        } else {
            return None;
        };
        if self.told == Some(now) || self.told == Some(Expiry::Hard) {
            return None;
        }
        self.told = Some(now);
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_is_told_once_then_hard_once_and_then_nothing_passes() {
        let soft = Limits { packets: Some(2), ..Limits::default() };
        let hard = Limits { bytes: Some(300), ..Limits::default() };
        let mut life = Usage::new(Lifetime { soft, hard }, 0);
        life.spend(100);
        assert_eq!(life.expiry(0), None);
        life.spend(100);
        assert_eq!((life.expiry(0), life.expiry(0)), (Some(Expiry::Soft), None));
        assert!(!life.is_over(0));
        life.spend(100);
        assert_eq!((life.expiry(0), life.expiry(0)), (Some(Expiry::Hard), None));
        assert!(life.is_over(0));
    }

    #[test]
    fn age_counts_from_installation() {
        let hard = Limits { time_ns: Some(1_000), ..Limits::default() };
        let mut life = Usage::new(Lifetime { soft: Limits::default(), hard }, 500);
        assert!(life.expiry(1_499).is_none() && !life.is_over(1_499));
        assert_eq!(life.expiry(1_500), Some(Expiry::Hard));
        assert!(life.is_over(1_500));
    }
}
