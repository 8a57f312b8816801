//! Rates: the counters of a moment, and what has changed since an earlier one.

use std::collections::HashMap;

use convoy_report::snapshot::{Drops, EngineRow, PeerRow, Snapshot, TunnelKey, WayRow};

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Traffic {
    /// Of one direction of a tunnel.
    pub(super) fn of(way: &WayRow) -> Self {
        Self { packets: way.packets, bytes: way.bytes }
    }
}

/// The counters of one tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TunnelCounters {
    tunnel: String,
    tunnel_id: Option<u32>,
    pub(super) inbound: Traffic,
    pub(super) outbound: Traffic,
    /// In both directions.
    pub(super) dropped: u64,
}

impl TunnelCounters {
    pub(super) fn of(peer: &PeerRow) -> Self {
        let ways = [&peer.inbound, &peer.outbound];
        Self {
            tunnel: peer.tunnel.clone(),
            tunnel_id: peer.tunnel_id,
            inbound: Traffic::of(&peer.inbound),
            outbound: Traffic::of(&peer.outbound),
            dropped: ways.iter().flat_map(|way| way.drops.values()).sum(),
        }
    }
}

/// The counters of a gateway at one moment.
#[derive(Debug, Default)]
pub(super) struct Counters {
    started_s: f64,
    pub(super) uptime_s: f64,
    /// Of all tunnels.
    pub(super) inbound: Traffic,
    pub(super) outbound: Traffic,
    tunnels: Vec<TunnelCounters>,
    engines: Vec<EngineRow>,
    drops: Drops,
}

impl Counters {
    pub(super) fn of(snapshot: &Snapshot, peers: &[PeerRow]) -> Self {
        let bytes = |direction: &str| {
            let rows = snapshot.tunnels.iter().filter(|row| row.direction == direction);
            rows.map(|row| row.bytes).sum()
        };
        Self {
            started_s: snapshot.started_s,
            uptime_s: snapshot.uptime_s,
            inbound: Traffic { packets: snapshot.decrypted, bytes: bytes("inbound") },
            outbound: Traffic { packets: snapshot.protected, bytes: bytes("outbound") },
            tunnels: peers.iter().map(TunnelCounters::of).collect(),
            engines: snapshot.engines.clone(),
            drops: snapshot.drops.clone(),
        }
    }
}

/// The time between an earlier moment and a snapshot of one run.
pub(super) struct Interval<'a> {
    earlier: &'a Counters,
    seconds: f64,
    tunnels: HashMap<TunnelKey<'a>, &'a TunnelCounters>,
}

impl<'a> Interval<'a> {
    /// Nothing if the gateway was restarted, as counters of another run are not compared.
    pub(super) fn since(earlier: &'a Counters, now: &Snapshot) -> Option<Self> {
        let key = |row: &'a TunnelCounters| ((row.tunnel.as_str(), row.tunnel_id), row);
        let tunnels = || earlier.tunnels.iter().map(key).collect();
        let seconds = (now.uptime_s - earlier.uptime_s).max(1e-3);
        (earlier.started_s == now.started_s).then(|| Self { earlier, seconds, tunnels: tunnels() })
    }

    /// The counters at its start.
    pub(super) fn earlier(&self) -> &'a Counters {
        self.earlier
    }

    /// The growth of a counter per second.
    pub(super) fn per_second(&self, now: u64, before: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds
    }

    /// Whole packets and bits per second.
    pub(super) fn rates(&self, now: Traffic, before: Traffic) -> [f64; 2] {
        let bits = 8.0 * self.per_second(now.bytes, before.bytes);
        [self.per_second(now.packets, before.packets).round(), bits.round()]
    }

    /// A tunnel's counters at its start.
    pub(super) fn tunnel(&self, peer: &PeerRow) -> Option<&'a TunnelCounters> {
        self.tunnels.get(&peer.key()).copied()
    }

    /// An engine at its start.
    pub(super) fn engine(&self, row: &EngineRow) -> Option<&'a EngineRow> {
        self.earlier.engines.iter().find(|before| (&before.name, before.worker) == (&row.name, row.worker))
    }

    /// Packets dropped per second for a reason.
    pub(super) fn drops_per_second(&self, reason: &str, now: u64) -> f64 {
        self.per_second(now, self.earlier.drops.get(reason).copied().unwrap_or_default())
    }
}
