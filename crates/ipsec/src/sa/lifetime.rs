//! Lifetimes of SAs in bytes, packets and seconds, soft and hard (RFC 4301 section 4.4.2.1).

use crate::sa::config::{Lifetime, LifetimeLimits};

fn is_reached(limits: &LifetimeLimits, bytes: u64, packets: u64, age_ns: u64) -> bool {
    let over = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
    over(limits.bytes, bytes) || over(limits.packets, packets) || over(limits.time_ns, age_ns)
}

/// The limit reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// The soft one: the SA still works.
    Soft,
    /// The hard one, or the last sequence number: it no longer works.
    Hard,
}

/// The used part of an SA's lifetime. Each expiry is reported once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    limits: Lifetime,
    installed_ns: u64,
    bytes: u64,
    packets: u64,
    is_exhausted: bool,
    is_near_exhaustion: bool,
    reported: Option<Expiry>,
}

impl Usage {
    /// A lifetime that begins at `now_ns`.
    pub fn new(limits: Lifetime, now_ns: u64) -> Self {
        Self {
            limits,
            installed_ns: now_ns,
            bytes: 0,
            packets: 0,
            is_exhausted: false,
            is_near_exhaustion: false,
            reported: None,
        }
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

    /// Whether the SA has ended: it has reached its hard limit or used its last sequence number,
    /// and that was reported.
    pub fn has_ended(&self) -> bool {
        self.reported == Some(Expiry::Hard)
    }

    /// The used part of its hard limits at this age in ns, of the limit that is nearest: 1 at its
    /// end. `None` if it has none.
    pub fn hard_part(&self, age_ns: u64) -> Option<f64> {
        let LifetimeLimits { bytes, packets, time_ns } = self.limits.hard;
        let spent = [(bytes, self.bytes), (packets, self.packets), (time_ns, age_ns)];
        let parts = spent.into_iter().filter_map(|(limit, spent)| Some(spent as f64 / limit? as f64));
        parts.reduce(f64::max)
    }

    /// The limits.
    pub fn limits(&self) -> &Lifetime {
        &self.limits
    }

    /// Whether the SA is past its hard limit, so that no packet may pass.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        is_reached(&self.limits.hard, self.bytes, self.packets, self.age_ns(now_ns))
    }

    /// Sets the counts kept elsewhere, in the SA's hot state.
    pub(crate) fn set_spent(&mut self, bytes: u64, packets: u64) {
        (self.bytes, self.packets) = (bytes, packets);
    }

    /// The bytes and packets at which the next limit is reached, and the time of the hard one;
    /// `u64::MAX` where there is none.
    pub(crate) fn next_limits(&self) -> (u64, u64, u64) {
        let Lifetime { soft, hard } = &self.limits;
        let next = |limits: [Option<u64>; 2], spent: u64| {
            limits.into_iter().flatten().filter(|limit| *limit > spent).min().unwrap_or(u64::MAX)
        };
        let over_ns = hard.time_ns.map_or(u64::MAX, |age_ns| self.installed_ns.saturating_add(age_ns));
        (
            next([soft.bytes, hard.bytes], self.bytes),
            next([soft.packets, hard.packets], self.packets),
            over_ns,
        )
    }

    /// When the soft and the hard time limit are reached, in ns, where they exist.
    pub(crate) fn due_ns(&self) -> impl Iterator<Item = u64> + use<> {
        let ages = [self.limits.soft.time_ns, self.limits.hard.time_ns];
        let installed_ns = self.installed_ns;
        ages.into_iter().flatten().map(move |age_ns| installed_ns.saturating_add(age_ns))
    }

    /// Records that the sequence numbers are exhausted, which ends the SA like its hard limit.
    pub(crate) fn exhaust(&mut self) {
        self.is_exhausted = true;
    }

    /// Records that few sequence numbers are left, which counts like the soft limit.
    pub(crate) fn near_exhaustion(&mut self) {
        self.is_near_exhaustion = true;
    }

    /// An expiry that was reached and not reported yet, if any.
    pub(crate) fn expiry(&mut self, now_ns: u64) -> Option<Expiry> {
        let age_ns = self.age_ns(now_ns);
        let reached = |limits: &LifetimeLimits| is_reached(limits, self.bytes, self.packets, age_ns);
        let now = if self.is_exhausted || reached(&self.limits.hard) {
            Expiry::Hard
        } else if self.is_near_exhaustion || reached(&self.limits.soft) {
            Expiry::Soft
        } else {
            return None;
        };
        if self.reported == Some(now) || self.reported == Some(Expiry::Hard) {
            return None;
        }
        self.reported = Some(now);
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_is_reported_once_then_hard_once_and_then_nothing_passes() {
        let soft = LifetimeLimits { packets: Some(2), ..LifetimeLimits::default() };
        let hard = LifetimeLimits { bytes: Some(300), ..LifetimeLimits::default() };
        let mut life = Usage::new(Lifetime { soft, hard }, 0);
        life.set_spent(100, 1);
        assert_eq!(life.expiry(0), None);
        life.set_spent(200, 2);
        assert_eq!((life.expiry(0), life.expiry(0)), (Some(Expiry::Soft), None));
        assert!(!life.is_over(0));
        life.set_spent(300, 3);
        assert_eq!((life.expiry(0), life.expiry(0)), (Some(Expiry::Hard), None));
        assert!(life.is_over(0));
    }

    #[test]
    fn the_next_limit_is_the_least_that_is_not_reached() {
        let soft = LifetimeLimits { packets: Some(2), bytes: Some(500), time_ns: Some(7) };
        let hard = LifetimeLimits { packets: Some(4), bytes: Some(300), time_ns: Some(9) };
        let mut life = Usage::new(Lifetime { soft, hard }, 100);
        assert_eq!(life.next_limits(), (300, 2, 109));
        life.set_spent(300, 2);
        assert_eq!(life.next_limits(), (500, 4, 109));
        assert_eq!(life.due_ns().collect::<Vec<_>>(), [107, 109]);
        assert_eq!(Usage::default().next_limits(), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn the_used_part_is_that_of_the_nearest_hard_limit() {
        let soft = LifetimeLimits { packets: Some(2), ..LifetimeLimits::default() };
        let hard = LifetimeLimits { packets: Some(10), bytes: Some(1_000), time_ns: Some(100) };
        let mut life = Usage::new(Lifetime { soft, hard }, 0);
        life.set_spent(100, 5);
        assert_eq!((life.hard_part(20), life.hard_part(75)), (Some(0.5), Some(0.75)));
        let no_hard = Lifetime { soft, hard: LifetimeLimits::default() };
        assert_eq!(Usage::new(no_hard, 0).hard_part(1_000), None);
    }

    #[test]
    fn age_counts_from_installation() {
        let hard = LifetimeLimits { time_ns: Some(1_000), ..LifetimeLimits::default() };
        let mut life = Usage::new(Lifetime { soft: LifetimeLimits::default(), hard }, 500);
        assert!(life.expiry(1_499).is_none() && !life.is_over(1_499));
        assert_eq!(life.expiry(1_500), Some(Expiry::Hard));
        assert!(life.is_over(1_500));
    }
}
