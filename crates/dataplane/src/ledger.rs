//! Packets carried and dropped by each tunnel since the gateway's start, over all of its SAs.
//!
//! An SA's own counters end with it at each rekeying. The ledger adds every SA's increase to its
//! tunnel's totals, so that nothing is lost when an SA is removed and no total ever decreases, even
//! if SA indices are reused or tunnels renamed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use convoy_ipsec::{DropCounters, DropReason, SaDirection, SaIndex, SaView, TunnelId};

use crate::drop_watch::{DropCount, DropScope};

/// Counters of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes, as the SAs' lifetimes count them.
    pub bytes: u64,
    /// Dropped packets by reason.
    pub drops: DropCounters,
    /// When the last packet was carried, by the worker's clock.
    pub last_used_ns: Option<u64>,
}

impl Tally {
    /// The current counters of an SA, at this time of the worker's clock.
    pub fn of(view: &SaView, now_ns: u64) -> Self {
        Self {
            packets: view.usage.packets(),
            bytes: view.usage.bytes(),
            drops: view.drops.clone(),
            last_used_ns: view.idle_ns.map(|idle_ns| now_ns.saturating_sub(idle_ns)),
        }
    }

    /// Adds the increase of a counter between two readings.
    fn add_growth(&mut self, before: &Self, now: &Self) {
        self.packets += now.packets.saturating_sub(before.packets);
        self.bytes += now.bytes.saturating_sub(before.bytes);
        for (reason, count) in now.drops.met() {
            self.drops.add(reason, count.saturating_sub(before.drops.get(reason)));
        }
        self.last_used_ns = self.last_used_ns.max(now.last_used_ns);
    }
}

/// The source of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CounterSource {
    Sa(SaIndex),
    /// Packets of a tunnel without an SA.
    WithoutSa(TunnelId),
}

/// The state of a source.
#[derive(Debug, Default)]
struct SourceAccount {
    /// The tunnel's latest name; empty while it has none.
    tunnel: String,
    /// The counts that the totals include already.
    counted: Tally,
}

/// The totals of one worker's tunnels, by name.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: HashMap<CounterSource, SourceAccount>,
    /// Outbound and inbound.
    totals: BTreeMap<String, [Tally; 2]>,
}

impl Ledger {
    /// A ledger with capacity for this many SAs, so that it need not grow and copy everything
    /// between two bursts.
    pub fn for_sas(sas: usize) -> Self {
        Self { accounts: HashMap::with_capacity(sas), totals: BTreeMap::new() }
    }

    /// Records an SA's current counters. While its tunnel has no name they are only remembered:
    /// charon sends names shortly after SAs.
    pub fn note(&mut self, sa: SaIndex, tunnel: Option<&str>, direction: SaDirection, now: Tally) {
        self.count(CounterSource::Sa(sa), tunnel, direction, now);
    }

    /// Records an SA's counters at its removal.
    pub fn close(&mut self, sa: SaIndex, tunnel: Option<&str>, direction: SaDirection, last: Tally) {
        self.note(sa, tunnel, direction, last.clone());
        let account = self.accounts.remove(&CounterSource::Sa(sa)).unwrap_or_default();
        if account.tunnel.is_empty() {
            self.add(&account, direction, &last);
        }
    }

    /// Records how many packets of a tunnel have been dropped so far for lack of an SA.
    pub fn note_without_sa(&mut self, tunnel: Option<&str>, id: TunnelId, packets: u64) {
        let mut now = Tally::default();
        now.drops.add(DropReason::OutboundNoSa, packets);
        self.count(CounterSource::WithoutSa(id), tunnel, SaDirection::Outbound, now);
    }

    fn count(&mut self, source: CounterSource, tunnel: Option<&str>, direction: SaDirection, now: Tally) {
        let mut account = self.accounts.remove(&source).unwrap_or_default();
        if let Some(tunnel) = tunnel {
            tunnel.clone_into(&mut account.tunnel);
        }
        if !account.tunnel.is_empty() {
            self.add(&account, direction, &now);
            account.counted = now;
        }
        self.accounts.insert(source, account);
    }

    fn add(&mut self, account: &SourceAccount, direction: SaDirection, now: &Tally) {
        let totals = self.totals.entry(account.tunnel.clone()).or_default();
        totals[direction as usize].add_growth(&account.counted, now);
    }

    /// The name of an SA's tunnel, or the latest known one; empty if there was none.
    pub fn tunnel_of(&self, sa: SaIndex) -> &str {
        self.accounts.get(&CounterSource::Sa(sa)).map_or("", |account| &account.tunnel)
    }

    /// Dropped packets by scope and reason: those of each tunnel, and from `all` those that belong
    /// to no tunnel.
    pub fn drops(&self, all: &DropCounters) -> Vec<DropCount> {
        let mut drops = Vec::new();
        let mut of_tunnels = DropCounters::default();
        for (tunnel, direction, tally) in self.totals() {
            for (reason, count) in tally.drops.met() {
                of_tunnels.add(reason, count);
                let scope = DropScope { tunnel: tunnel.to_owned(), direction: Some(direction) };
                drops.push(DropCount { scope, reason, count, good: tally.packets });
            }
        }
        let none = DropScope { tunnel: String::new(), direction: None };
        let of_none = all.met().map(|(reason, count)| (reason, count.saturating_sub(of_tunnels.get(reason))));
        drops.extend(of_none.map(|(reason, count)| DropCount {
            scope: none.clone(),
            reason,
            count,
            good: 0,
        }));
        drops
    }

    /// The totals, outbound and inbound, of the tunnels whose names follow `name`.
    pub fn totals_behind(&self, name: Bound<&str>) -> impl Iterator<Item = (&str, &[Tally; 2])> {
        let range = self.totals.range::<str, _>((name, Bound::Unbounded));
        range.map(|(tunnel, ways)| (tunnel.as_str(), ways))
    }

    /// All totals, by the tunnel's name and direction.
    pub fn totals(&self) -> impl Iterator<Item = (&str, SaDirection, &Tally)> {
        self.totals.iter().flat_map(|(tunnel, ways)| {
            let [outbound, inbound] = ways;
            [(tunnel.as_str(), SaDirection::Outbound, outbound), (tunnel, SaDirection::Inbound, inbound)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAS: [SaIndex; 2] = [SaIndex(0), SaIndex(1)];
    const IN: SaDirection = SaDirection::Inbound;

    fn tally(packets: u64, replayed: u64) -> Tally {
        let mut drops = DropCounters::default();
        drops.add(DropReason::Replayed, replayed);
        Tally { packets, bytes: packets * 100, drops, last_used_ns: None }
    }

    fn inbound(ledger: &Ledger, tunnel: &str) -> Tally {
        let of = |(name, direction, _): &(&str, SaDirection, &Tally)| (*name, *direction) == (tunnel, IN);
        ledger.totals().find(of).map(|(.., tally)| tally.clone()).expect("the tunnel is known")
    }

    #[test]
    fn totals_go_on_where_an_sa_is_replaced_by_another() {
        let mut ledger = Ledger::default();
        ledger.note(SAS[0], Some("site"), IN, tally(10, 1));
        ledger.note(SAS[0], Some("site"), IN, tally(15, 1));
        assert_eq!(inbound(&ledger, "site"), tally(15, 1));
        ledger.note(SAS[1], Some("site"), IN, tally(2, 0));
        ledger.close(SAS[0], Some("site"), IN, tally(16, 3));
        assert_eq!(inbound(&ledger, "site"), tally(18, 3));
        ledger.note(SAS[0], Some("site"), IN, tally(1, 0));
        assert_eq!(inbound(&ledger, "site"), tally(19, 3), "another SA in the place of the first");
    }

    #[test]
    fn what_was_counted_stays_with_the_name_under_which_it_was() {
        let mut ledger = Ledger::default();
        ledger.note(SAS[0], None, IN, tally(10, 0));
        assert_eq!(ledger.totals().count(), 0, "charon has not reported the name");
        ledger.note(SAS[0], Some("a"), IN, tally(20, 0));
        ledger.note(SAS[0], Some("b"), IN, tally(25, 0));
        assert_eq!((inbound(&ledger, "a"), inbound(&ledger, "b")), (tally(20, 0), tally(5, 0)));
        ledger.close(SAS[0], None, IN, tally(30, 0));
        assert_eq!(inbound(&ledger, "b"), tally(10, 0), "the policies, and the name, went first");
        ledger.close(SAS[1], None, IN, tally(3, 0));
        assert_eq!(inbound(&ledger, ""), tally(3, 0), "it never had a name");
    }

    #[test]
    fn drops_are_of_tunnels_or_of_none() {
        let mut ledger = Ledger::default();
        ledger.note(SAS[0], Some("site"), IN, tally(10, 3));
        let mut all = tally(0, 5).drops;
        all.add(DropReason::UnknownSpi, 7);
        let drops = ledger.drops(&all);
        let found: Vec<_> =
            drops.iter().map(|of| (&*of.scope.tunnel, of.reason, of.count, of.good)).collect();
        let (replayed, unknown) = (DropReason::Replayed, DropReason::UnknownSpi);
        assert_eq!(found, [("site", replayed, 3, 10), ("", unknown, 7, 0), ("", replayed, 2, 0)]);
    }

    #[test]
    fn packets_without_sa_count_for_their_tunnel() {
        let mut ledger = Ledger::default();
        ledger.note_without_sa(Some("site"), TunnelId(4), 5);
        ledger.note_without_sa(Some("site"), TunnelId(4), 7);
        let (_, direction, tally) = ledger.totals().next().expect("one");
        assert_eq!((direction, tally.drops.get(DropReason::OutboundNoSa)), (SaDirection::Outbound, 7));
    }

    #[test]
    fn last_use_of_a_tunnel_outlives_its_sas() {
        let mut ledger = Ledger::default();
        let used = |last_used_ns| Tally { last_used_ns, ..tally(1, 0) };
        ledger.note(SAS[0], Some("a"), IN, used(Some(70)));
        ledger.close(SAS[0], Some("a"), IN, used(Some(90)));
        ledger.note(SAS[1], Some("a"), IN, used(None));
        assert_eq!(inbound(&ledger, "a").last_used_ns, Some(90));
    }
}
