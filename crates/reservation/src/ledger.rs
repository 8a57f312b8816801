//! The SAs of a store's user, and what the store must write of them next.

use std::collections::{BTreeMap, VecDeque};

use crate::numbers::{Limits, Reservation, SaStart, Used};
use crate::reserve::{Reserve, ReserveSize};

/// SAs that wait for the store behind those that it writes, from which on inbound reserves grow.
const BACKLOG: usize = 512;
/// How much inbound reserves may grow.
const MOST_SLACK: u32 = 64;

/// How numbers are reserved.
#[derive(Clone, Copy, Debug)]
pub struct ReserveRules {
    /// The reserves of outbound numbers.
    pub outbound: ReserveSize,
    /// The reserves of inbound numbers. Without them, the next start accepts what is above the
    /// highest number that the store knows to have been received: what came since then can be
    /// replayed once.
    pub inbound: Option<ReserveSize>,
}

impl ReserveRules {
    /// The first reservation of an SA that no store has yet. It has no number above `last`.
    pub fn first(&self, last: u64, iv_start: u64) -> Reservation {
        Reservation {
            send_until: self.outbound.first.min(last),
            accept_until: self.inbound.map_or(u64::MAX, |inbound| inbound.first),
            received: 0,
            iv_start,
        }
    }

    /// All numbers that may have been used under a reservation.
    pub fn used(&self, reservation: &Reservation) -> Used {
        let Reservation { send_until, accept_until, received, .. } = *reservation;
        Used { sent: send_until, received: if self.inbound.is_some() { accept_until } else { received } }
    }

    /// The reservation with which an SA starts behind another one.
    fn behind(&self, Resume { stored, iv_start, last }: &Resume) -> Reservation {
        let used = self.used(stored);
        let accept = |inbound: ReserveSize| used.received.saturating_add(inbound.first);
        Reservation {
            send_until: used.sent.saturating_add(self.outbound.first).min(*last).max(used.sent),
            accept_until: self.inbound.map_or(u64::MAX, accept),
            received: used.received,
            iv_start: *iv_start,
        }
    }
}

/// An SA that starts again.
#[derive(Clone, Copy, Debug)]
pub struct Resume {
    /// What the store has of it.
    pub stored: Reservation,
    /// Where its IVs begin, by an [`IvClock`](crate::IvClock).
    pub iv_start: u64,
    /// The last outbound number that it can have.
    pub last: u64,
}

/// What a store is to write of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<K> {
    /// The SA.
    pub sa: K,
    /// Its reservation; `None` if it is removed.
    pub reservation: Option<Reservation>,
    /// Whether it permits more than the store has.
    pub is_raise: bool,
}

/// Figures of a ledger, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerSummary {
    /// SAs.
    pub sas: usize,
    /// SAs that wait for the store.
    pub waiting: usize,
    /// The fewest numbers that any SA may still send.
    pub least_to_send: Option<u64>,
    /// The fewest numbers that any SA may still accept; `None` if they are not reserved.
    pub least_to_accept: Option<u64>,
}

#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
struct Entry {
    wanted: Reservation,
    /// What the store has, as far as it has answered.
    written: Reservation,
    /// The last numbers that were reported.
    used: Used,
    outbound: Reserve,
    inbound: Reserve,
    last: u64,
    is_removed: bool,
    is_queued: bool,
    is_in_flight: bool,
}

/// The SAs of a store's user, by any key that tells them apart.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub struct SaLedger<K> {
    rules: ReserveRules,
    sas: BTreeMap<K, Entry>,
    queue: VecDeque<K>,
    /// How much larger inbound reserves are than they should be, as the store does not keep up.
    slack: u32,
    /// Whether the reservations of SAs that have started again are not all written yet.
    is_settling: bool,
}

impl<K: Copy + Ord> SaLedger<K> {
    /// A ledger without SAs.
    pub fn new(rules: ReserveRules) -> Self {
        Self { rules, sas: BTreeMap::new(), queue: VecDeque::new(), slack: 1, is_settling: true }
    }

    /// Its rules.
    pub fn rules(&self) -> &ReserveRules {
        &self.rules
    }

    /// Starts an SA again that the store has. It may use nothing until the reservation that this
    /// queues is [written](Self::written).
    pub fn resume(&mut self, sa: K, resume: &Resume, now_ns: u64) -> SaStart {
        let used = self.rules.used(&resume.stored);
        let wanted = self.rules.behind(resume);
        debug_assert!(wanted.send_until >= used.sent && wanted.accept_until >= used.received);
        let entry = Entry { last: resume.last, ..Entry::new(wanted, resume.stored, now_ns) };
        self.sas.insert(sa, entry);
        self.enqueue(sa);
        SaStart::behind(used, resume.iv_start)
    }

    /// Adds an SA that the store does not have, which may use its first reservation at once.
    pub fn add(&mut self, sa: K, first: Reservation, now_ns: u64) {
        let accept_until = self.accept_until(first.accept_until);
        let wanted = Reservation { accept_until, ..first };
        // One that was removed and is still queued keeps its place.
        let is_queued = self.sas.get(&sa).is_some_and(|old| old.is_queued);
        self.sas.insert(sa, Entry { is_queued, ..Entry::added(wanted, now_ns) });
        self.enqueue(sa);
    }

    /// The limit to be written: without reserves of inbound numbers there is none.
    fn accept_until(&self, number: u64) -> u64 {
        if self.rules.inbound.is_some() { number } else { u64::MAX }
    }

    /// Whether it has the SA, and that is not removed.
    pub fn has(&self, sa: K) -> bool {
        self.sas.get(&sa).is_some_and(|entry| !entry.is_removed)
    }

    /// The reservation of an SA that is written, or to be written.
    pub fn wanted(&self, sa: K) -> Option<&Reservation> {
        self.sas.get(&sa).map(|entry| &entry.wanted)
    }

    /// Queues an SA, because something else of it must be written.
    pub fn enqueue(&mut self, sa: K) {
        if let Some(entry) = self.sas.get_mut(&sa).filter(|entry| !entry.is_queued) {
            entry.is_queued = true;
            self.queue.push_back(sa);
        }
    }

    /// Has the store remove an SA.
    pub fn remove(&mut self, sa: K) {
        if let Some(entry) = self.sas.get_mut(&sa) {
            entry.is_removed = true;
            self.enqueue(sa);
        }
    }

    /// Has no more to do with an SA; the store keeps what it has.
    pub fn forget(&mut self, sa: K) {
        self.sas.remove(&sa);
    }

    /// Takes note of what an SA has used, and reserves more if half of a reserve is used.
    pub fn report(&mut self, sa: K, used: Used, now_ns: u64) {
        let Some(entry) = self.sas.get_mut(&sa) else { return };
        entry.used = used;
        let wanted = &mut entry.wanted;
        wanted.received = wanted.received.max(used.received);
        let outbound = &self.rules.outbound;
        let send_until = entry.outbound.extend(outbound, wanted.send_until, used.sent, now_ns);
        let send_until =
            send_until.map(|number| number.min(entry.last)).filter(|new| *new > wanted.send_until);
        wanted.send_until = send_until.unwrap_or(wanted.send_until);
        let inbound = self.rules.inbound.map(|inbound| inbound.times(self.slack));
        let accept_until = inbound
            .and_then(|inbound| entry.inbound.extend(&inbound, wanted.accept_until, used.received, now_ns));
        wanted.accept_until = accept_until.unwrap_or(wanted.accept_until);
        let is_checkpoint = inbound.is_none() && wanted.received > entry.written.received;
        // Packets of the peer wait for this one.
        let is_urgent = used.received > entry.written.accept_until;
        if send_until.is_some() || accept_until.is_some() || is_checkpoint {
            self.enqueue(sa);
        }
        if is_urgent {
            self.hurry(sa);
        }
    }

    /// Has an SA that waits for the store written next; its former place in the queue is passed
    /// over.
    fn hurry(&mut self, sa: K) {
        if self.sas.get(&sa).is_some_and(|entry| entry.is_queued) {
            self.queue.push_front(sa);
        }
    }

    /// An SA has stopped, with these last numbers: the rest of its reservation is free again.
    pub fn close(&mut self, sa: K, used: Used) {
        if let Some(entry) = self.sas.get_mut(&sa) {
            let (send_until, accept_until) = (used.sent, used.received);
            entry.wanted = Reservation { send_until, accept_until, received: used.received, ..entry.wanted };
            self.enqueue(sa);
        }
    }

    /// What the store is to write next. It is reported by [`written`](Self::written) or
    /// [`failed`](Self::failed).
    pub fn next_write(&mut self) -> Option<Write<K>> {
        loop {
            let sa = self.queue.pop_front()?;
            let Some(entry) = self.sas.get_mut(&sa).filter(|entry| entry.is_queued) else { continue };
            (entry.is_queued, entry.is_in_flight) = (false, true);
            let (wanted, written) = (&entry.wanted, &entry.written);
            let is_raise =
                wanted.send_until > written.send_until || wanted.accept_until > written.accept_until;
            let reservation = (!entry.is_removed).then_some(*wanted);
            return Some(Write { sa, reservation, is_raise: is_raise && !entry.is_removed });
        }
    }

    /// All that one transaction takes was fetched: inbound reserves grow if others wait behind it.
    pub fn adapt(&mut self) {
        self.is_settling &= !self.queue.is_empty();
        // All SAs wait after a start, whatever their rates.
        if !self.is_settling {
            self.slack = slack(self.slack, self.queue.len());
        }
    }

    /// The store has executed a write: what the SA may use now, unless it is removed.
    pub fn written(&mut self, write: &Write<K>) -> Option<Limits> {
        // An SA that was added again after its removal knows nothing of this.
        let entry = self.sas.get_mut(&write.sa).filter(|entry| entry.is_in_flight)?;
        entry.is_in_flight = false;
        let Some(reservation) = write.reservation else {
            self.sas.remove(&write.sa);
            return None;
        };
        entry.written = reservation;
        let limits = (!entry.is_removed).then(|| reservation.limits());
        if entry.wanted.limits() != reservation.limits() {
            self.enqueue(write.sa);
        }
        limits
    }

    /// A write was not executed, or perhaps not: it is to be written again, or what is newer.
    /// Returns whether the SA is still known.
    pub fn failed(&mut self, write: &Write<K>) -> bool {
        let Some(entry) = self.sas.get_mut(&write.sa).filter(|entry| entry.is_in_flight) else {
            return false;
        };
        entry.is_in_flight = false;
        self.enqueue(write.sa);
        true
    }

    /// Its figures.
    pub fn summary(&self) -> LedgerSummary {
        let all = || self.sas.values().filter(|entry| !entry.is_removed);
        let is_bounded = |entry: &&Entry| entry.written.accept_until != u64::MAX;
        let to_send = |entry: &Entry| entry.written.send_until.saturating_sub(entry.used.sent);
        let to_accept = |entry: &Entry| entry.written.accept_until.saturating_sub(entry.used.received);
        LedgerSummary {
            sas: all().count(),
            waiting: self.sas.values().filter(|entry| entry.is_queued || entry.is_in_flight).count(),
            least_to_send: all().map(to_send).min(),
            least_to_accept: all().filter(is_bounded).map(to_accept).min(),
        }
    }
}

/// The slack when `waiting` SAs wait behind a transaction.
fn slack(before: u32, waiting: usize) -> u32 {
    match waiting {
        0 => (before / 2).max(1),
        waiting if waiting >= BACKLOG => (before * 2).min(MOST_SLACK),
        _ => before,
    }
}

impl Entry {
    fn new(wanted: Reservation, written: Reservation, now_ns: u64) -> Self {
        Self {
            wanted,
            written,
            used: Used { sent: written.send_until, received: written.received },
            outbound: Reserve::new(written.send_until, now_ns),
            inbound: Reserve::of_peer(wanted.received, now_ns),
            last: u64::MAX,
            is_removed: false,
            is_queued: false,
            is_in_flight: false,
        }
    }

    fn added(wanted: Reservation, now_ns: u64) -> Self {
        Self::new(wanted, Reservation::default(), now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_grow_while_the_store_does_not_keep_up_and_shrink_again() {
        let mut now = 1;
        for _ in 0..10 {
            now = slack(now, BACKLOG);
        }
        assert_eq!(now, MOST_SLACK);
        assert_eq!((slack(now, 1), slack(now, 0), slack(1, 0)), (now, now / 2, 1));
    }
}
