//! Rates between two snapshots of one run of a gateway.

use std::collections::HashMap;

use convoy_report::snapshot::{SaRow, Snapshot, TunnelKey, TunnelRow};

/// Packets and bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TrafficRate {
    pub(crate) packets: f64,
    pub(crate) bits: f64,
}

/// The rates of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ways {
    pub(crate) outbound: TrafficRate,
    pub(crate) inbound: TrafficRate,
}

impl Ways {
    /// The direction with this name in snapshots.
    fn way(&mut self, direction: &str) -> &mut TrafficRate {
        if direction == "outbound" { &mut self.outbound } else { &mut self.inbound }
    }
}

/// Identifies an SA. The peer's address is no part of it, since the peer may move.
pub(crate) fn sa_key(sa: &SaRow) -> (u16, u32, &str, &str, u32) {
    (sa.worker, sa.tunnel_id, &sa.direction, &sa.protocol, sa.spi)
}

/// Two snapshots of one run.
#[derive(Clone, Copy)]
pub(crate) struct RunInterval<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    seconds: f64,
}

impl<'a> RunInterval<'a> {
    /// Between two snapshots; `None` if the gateway was restarted, as counters of another run are
    /// not compared.
    pub(crate) fn between(before: &'a Snapshot, now: &'a Snapshot) -> Option<Self> {
        let seconds = (now.uptime_s - before.uptime_s).max(1e-3);
        (before.started_s == now.started_s).then_some(Self { before, now, seconds })
    }

    /// The earlier snapshot.
    pub(crate) fn before(&self) -> &'a Snapshot {
        self.before
    }

    /// The growth of a counter per second.
    pub(crate) fn per_second(&self, now: u64, before: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds
    }

    fn rate(&self, packets: [u64; 2], bytes: [u64; 2]) -> TrafficRate {
        TrafficRate {
            packets: self.per_second(packets[0], packets[1]),
            bits: 8.0 * self.per_second(bytes[0], bytes[1]),
        }
    }

    /// The rates of each tunnel that has SAs. What an SA carried that has been removed since is not
    /// among them.
    pub(crate) fn of_tunnels(&self) -> HashMap<TunnelKey<'a>, Ways> {
        let before: HashMap<_, &SaRow> = self.before.sas.iter().map(|sa| (sa_key(sa), sa)).collect();
        let mut tunnels: HashMap<TunnelKey<'a>, Ways> = HashMap::new();
        for sa in &self.now.sas {
            // A new one began at 0.
            let (packets, bytes) = before.get(&sa_key(sa)).map_or((0, 0), |sa| (sa.packets, sa.bytes));
            let more = self.rate([sa.packets, packets], [sa.bytes, bytes]);
            let rate = tunnels.entry((&sa.tunnel, Some(sa.tunnel_id))).or_default().way(&sa.direction);
            *rate = TrafficRate { packets: rate.packets + more.packets, bits: rate.bits + more.bits };
        }
        tunnels
    }

    /// The rates of all tunnels together.
    pub(crate) fn total(&self) -> Ways {
        let bytes = |snapshot: &Snapshot, direction: &str| {
            let rows = snapshot.tunnels.iter().filter(|row| row.direction == direction);
            rows.map(|row: &TunnelRow| row.bytes).sum::<u64>()
        };
        let bytes = |direction| [bytes(self.now, direction), bytes(self.before, direction)];
        Ways {
            outbound: self.rate([self.now.protected, self.before.protected], bytes("outbound")),
            inbound: self.rate([self.now.decrypted, self.before.decrypted], bytes("inbound")),
        }
    }

    /// Packets dropped per second for a reason.
    pub(crate) fn drops(&self, reason: &str) -> f64 {
        let count = |snapshot: &Snapshot| snapshot.drops.get(reason).copied().unwrap_or_default();
        self.per_second(count(self.now), count(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sa(direction: &str, spi: u32, remote: &str, packets: u64) -> SaRow {
        SaRow {
            tunnel: "a".to_owned(),
            tunnel_id: 7,
            direction: direction.to_owned(),
            spi,
            remote: remote.to_owned(),
            packets,
            bytes: packets * 100,
            ..SaRow::default()
        }
    }

    fn snapshot(uptime_s: f64, sas: Vec<SaRow>) -> Snapshot {
        Snapshot { started_s: 1.0, uptime_s, sas, ..Snapshot::default() }
    }

    #[test]
    fn sas_that_came_or_moved_count_from_where_they_were() {
        let before =
            snapshot(10.0, vec![sa("outbound", 1, "192.0.2.2", 1_000), sa("outbound", 2, "192.0.2.2", 50)]);
        let sas = vec![
            sa("outbound", 1, "192.0.2.9", 1_020),
            sa("outbound", 3, "192.0.2.9", 10),
            sa("inbound", 4, "192.0.2.9", 2),
        ];
        let now = snapshot(12.0, sas);
        let rates = RunInterval::between(&before, &now).expect("one run").of_tunnels();
        let ways = rates[&("a", Some(7))];
        assert_eq!(ways.outbound, TrafficRate { packets: 15.0, bits: 12_000.0 });
        assert_eq!(ways.inbound, TrafficRate { packets: 1.0, bits: 800.0 });
    }

    #[test]
    fn a_gateway_that_was_restarted_has_no_rates_yet() {
        let before = Snapshot { started_s: 0.5, ..snapshot(10.0, Vec::new()) };
        assert!(RunInterval::between(&before, &snapshot(1.0, Vec::new())).is_none());
    }
}
