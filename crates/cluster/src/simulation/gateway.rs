//! A model of a gateway: it counts, reserves and refuses as a real one, and has no packets.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::sabotage::Sabotage;
use crate::fingerprint::SaFingerprint;
use crate::orders::{GroupEvent, MemberOrder, Report, StoredSa};
use crate::store::Revision;
use convoy_reservation::{Reservation, Used, is_half_used};

/// SAs that a gateway has in a group at most.
const MOST_SAS: usize = 3;

/// An SA, both directions.
struct Sa {
    sent: u64,
    sent_until: u64,
    sent_base: u64,
    /// The highest number accepted, and which of the 64 up to it were, as bits from the highest on.
    received: u64,
    window: u64,
    accept_until: u64,
    accept_base: u64,
    /// The highest number that came, accepted or not.
    seen: u64,
    iv_start: u64,
}

/// A group that it leads.
struct Group {
    term: Revision,
    sas: BTreeMap<SaFingerprint, Sa>,
}

/// A gateway.
pub(super) struct Gateway {
    deadline_ns: u64,
    groups: BTreeMap<String, Group>,
    first: Reservation,
    pub(super) sabotage: Sabotage,
}

/// Packets of an SA, and the term of who sends or accepts them.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    pub(super) group: String,
    pub(super) term: Revision,
    pub(super) sa: SaFingerprint,
    pub(super) numbers: Vec<u64>,
    /// Each packet's IV is this plus its number.
    pub(super) iv_start: u64,
}

impl Gateway {
    pub(super) fn new(first: Reservation, sabotage: Sabotage) -> Self {
        Self { deadline_ns: 0, groups: BTreeMap::new(), first, sabotage }
    }

    fn is_fenced(&self, now_ns: u64) -> bool {
        now_ns >= self.deadline_ns && self.sabotage != Sabotage::NoFence
    }

    pub(super) fn term(&self, group: &str) -> Option<Revision> {
        self.groups.get(group).map(|group| group.term)
    }

    pub(super) fn sas(&self, group: &str) -> impl Iterator<Item = SaFingerprint> {
        self.groups.get(group).into_iter().flat_map(|group| group.sas.keys().copied())
    }

    pub(super) fn obey(&mut self, order: MemberOrder) -> Option<Report> {
        match order {
            MemberOrder::Lead { group, term, sas, .. } => {
                let sas = sas.into_iter().map(|taken| (taken.sa, self.take(&taken))).collect();
                self.groups.insert(group, Group { term, sas });
            }
            MemberOrder::Until { deadline_ns } => self.deadline_ns = deadline_ns,
            MemberOrder::Granted { group, sa, limits } => {
                if let Some(sa) = self.groups.get_mut(&group).and_then(|group| group.sas.get_mut(&sa)) {
                    (sa.sent_until, sa.sent_base) = (limits.send, sa.sent);
                    (sa.accept_until, sa.accept_base) = (limits.accept, sa.seen);
                }
            }
            MemberOrder::StepDown { group } => return self.stop(group),
        }
        None
    }

    fn take(&self, taken: &StoredSa) -> Sa {
        let mut sa = Sa { iv_start: taken.iv_start, ..Sa::new(taken.used.sent, taken.used.received) };
        match self.sabotage {
            Sabotage::SendsBeforeRaise => sa.sent_until += 8,
            Sabotage::AcceptsBeforeRaise => sa.accept_until = u64::MAX,
            _ => {}
        }
        sa
    }

    fn stop(&mut self, name: String) -> Option<Report> {
        let group = self.groups.remove(&name)?;
        let sas =
            group.sas.iter().map(|(id, sa)| (*id, Used { sent: sa.sent, received: sa.received })).collect();
        Some(Report { group: name, term: group.term, event: GroupEvent::Stopped { sas } })
    }

    /// What `stop` would report, without stopping.
    pub(super) fn pretend_to_stop(&self, name: &str) -> Option<Report> {
        let group = self.groups.get(name)?;
        let sas =
            group.sas.iter().map(|(id, sa)| (*id, Used { sent: sa.sent, received: sa.received })).collect();
        Some(Report { group: name.to_owned(), term: group.term, event: GroupEvent::Stopped { sas } })
    }

    /// Numbers for the packets of bursts, which are then sent.
    pub(super) fn bursts(&mut self, now_ns: u64, dice: &mut Xoshiro256PlusPlus) -> Vec<Burst> {
        let mut bursts = Vec::new();
        if self.is_fenced(now_ns) {
            return bursts;
        }
        for (name, group) in &mut self.groups {
            for (id, sa) in &mut group.sas {
                let count = dice.random_range(0..5).min(sa.sent_until.saturating_sub(sa.sent));
                let numbers = (sa.sent + 1..=sa.sent + count).collect();
                sa.sent += count;
                let (group, term, iv_start) = (name.clone(), group.term, sa.iv_start);
                bursts.push(Burst { group, term, sa: *id, numbers, iv_start });
            }
        }
        bursts
    }

    /// Checks the numbers of a burst that came, and returns those that are accepted.
    pub(super) fn accept(&mut self, burst: &Burst, now_ns: u64) -> Option<Burst> {
        if self.is_fenced(now_ns) {
            return None;
        }
        let group = self.groups.get_mut(&burst.group)?;
        let sa = group.sas.get_mut(&burst.sa)?;
        let numbers = burst.numbers.iter().copied().filter(|number| {
            sa.seen = sa.seen.max(*number);
            *number <= sa.accept_until && sa.is_new(*number)
        });
        Some(Burst { numbers: numbers.collect(), term: group.term, ..burst.clone() })
    }

    /// Asks for more where half is used, and changes SAs now and then: what it reports.
    pub(super) fn upkeep(
        &mut self,
        now_ns: u64,
        rekey: f64,
        mut new_sa: impl FnMut(&str, Option<SaFingerprint>) -> SaFingerprint,
        dice: &mut Xoshiro256PlusPlus,
    ) -> Vec<Report> {
        let mut reports = Vec::new();
        let (first, is_fenced) = (self.first, self.is_fenced(now_ns));
        for (name, group) in &mut self.groups {
            let mut report = |event| reports.push(Report { group: name.clone(), term: group.term, event });
            for (id, sa) in &group.sas {
                if sa.is_short() {
                    report(GroupEvent::Progress { sa: *id, used: Used { sent: sa.sent, received: sa.seen } });
                }
            }
            if !is_fenced && (group.sas.is_empty() || dice.random_bool(rekey)) {
                let old =
                    if group.sas.len() < MOST_SAS { None } else { group.sas.pop_first().map(|(id, _)| id) };
                let id = new_sa(name, old);
                if let Some(sa) = old {
                    report(GroupEvent::Remove { sa });
                }
                let record = id.0.to_be_bytes().to_vec().into();
                report(GroupEvent::Put { sa: id, record, reservation: first });
                let (sent_until, accept_until) = (first.send_until, first.accept_until);
                group.sas.insert(id, Sa { sent_until, accept_until, ..Sa::new(0, 0) });
            }
        }
        reports
    }
}

impl Sa {
    /// It may do nothing yet; everything up to `received` counts as accepted.
    fn new(sent: u64, received: u64) -> Self {
        Self {
            sent,
            sent_until: sent,
            sent_base: sent,
            received,
            window: u64::MAX,
            accept_until: received,
            accept_base: received,
            seen: received,
            iv_start: 0,
        }
    }

    fn is_short(&self) -> bool {
        is_half_used(self.sent_base, self.sent_until, self.sent)
            || is_half_used(self.accept_base, self.accept_until, self.seen)
            || self.accept_until == u64::MAX && self.seen > self.accept_base + 8
    }

    /// The anti-replay window of RFC 4303, of 64 numbers.
    fn is_new(&mut self, number: u64) -> bool {
        if number > self.received {
            let shift = number - self.received;
            self.window = if shift < 64 { self.window << shift | 1 } else { 1 };
            self.received = number;
            return true;
        }
        let bit = self.received - number;
        let is_new = bit < 64 && self.window & 1 << bit == 0;
        self.window |= if bit < 64 { 1 << bit } else { 0 };
        is_new
    }
}
