//! All workers' snapshots as one gateway's.

use std::collections::{BTreeMap, HashMap};

use super::{IptfsRow, PolicyRow, PortRow, Snapshot, TunnelRow};

impl Snapshot {
    /// Merges all workers' states: SAs, engines and schedulers are listed individually; policies,
    /// ports and reasons are summed.
    pub fn merge(workers: Vec<Self>) -> Self {
        let mut workers = workers.into_iter();
        let mut whole = workers.next().unwrap_or_default();
        for other in workers {
            whole.sas.extend(other.sas);
            whole.engines.extend(other.engines);
            whole.schedulers.extend(other.schedulers);
            whole.protected += other.protected;
            whole.decrypted += other.decrypted;
            whole.handed_over += other.handed_over;
            whole.iptfs_out.add(&other.iptfs_out);
            whole.iptfs_in.add(&other.iptfs_in);
            // While policies change, workers may report different ones.
            let both = whole.policies.iter_mut().zip(other.policies);
            for (policy, more) in both.filter(|(policy, more)| policy.is_same(more)) {
                policy.packets += more.packets;
                policy.bytes += more.bytes;
            }
            for (port, more) in whole.ports.iter_mut().zip(other.ports) {
                port.add(&more);
            }
            whole.add_tunnels(other.tunnels);
            add(&mut whole.drops, &other.drops);
            add(&mut whole.counters, &other.counters);
        }
        whole
    }

    fn add_tunnels(&mut self, more: Vec<TunnelRow>) {
        let key = |row: &TunnelRow| (row.tunnel.clone(), row.direction.clone());
        let mut places: HashMap<_, _> = self.tunnels.iter().map(key).zip(0..).collect();
        for tunnel in more {
            let next = self.tunnels.len();
            match *places.entry(key(&tunnel)).or_insert(next) {
                place if place == next => self.tunnels.push(tunnel),
                place => self.tunnels[place].add(&tunnel),
            }
        }
    }
}

fn add(sums: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        *sums.entry(name.clone()).or_default() += count;
    }
}

impl IptfsRow {
    fn add(&mut self, more: &Self) {
        self.inner_packets += more.inner_packets;
        self.outer_packets += more.outer_packets;
        self.split_packets += more.split_packets;
        self.padding_bytes += more.padding_bytes;
        self.padding_packets += more.padding_packets;
        self.missed_packets += more.missed_packets;
        self.reordered_packets += more.reordered_packets;
        self.missing_packets += more.missing_packets;
    }
}

impl TunnelRow {
    fn add(&mut self, more: &Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        add(&mut self.drops, &more.drops);
        let last = self.last_used_s.into_iter().chain(more.last_used_s);
        self.last_used_s = last.min_by(f64::total_cmp);
    }
}

impl PolicyRow {
    fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.local, &self.remote) == (&other.name, &other.local, &other.remote)
    }
}

impl PortRow {
    fn add(&mut self, more: &Self) {
        self.received_packets += more.received_packets;
        self.received_bytes += more.received_bytes;
        self.sent_packets += more.sent_packets;
        self.sent_bytes += more.sent_bytes;
        self.receive_dropped += more.receive_dropped;
        self.send_dropped += more.send_dropped;
        self.system_calls += more.system_calls;
        add(&mut self.device, &more.device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Drops, SaRow};

    #[test]
    fn workers_are_shown_as_one_gateway() {
        let drops = |counts: &[(&str, u64)]| -> Drops {
            counts.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
        };
        let tunnel = |name: &str, packets: u64| TunnelRow {
            tunnel: name.to_owned(),
            packets,
            drops: drops(&[("replayed", packets)]),
            ..TunnelRow::default()
        };
        let one = |worker: u16, count: u64| Snapshot {
            sas: vec![SaRow { worker, packets: count, ..SaRow::default() }],
            tunnels: vec![tunnel("shared", count), tunnel(&format!("only {worker}"), 1)],
            policies: vec![PolicyRow { packets: count, ..PolicyRow::default() }],
            ports: vec![PortRow {
                received_packets: count,
                system_calls: 1,
                device: drops(&[("encrypted", count)]),
                ..PortRow::default()
            }],
            drops: drops(&[("replayed", count), (&format!("only_{worker}"), 1)]),
            protected: count,
            ..Snapshot::default()
        };
        let whole = Snapshot::merge(vec![one(0, 10), one(1, 5)]);
        assert_eq!(whole.sas.iter().map(|sa| (sa.worker, sa.packets)).collect::<Vec<_>>(), [(0, 10), (1, 5)]);
        assert_eq!(whole.tunnels, [tunnel("shared", 15), tunnel("only 0", 1), tunnel("only 1", 1)]);
        assert_eq!(
            (whole.policies[0].packets, whole.ports[0].received_packets, whole.protected),
            (15, 15, 15)
        );
        assert_eq!((whole.ports[0].system_calls, &whole.ports[0].device), (2, &drops(&[("encrypted", 15)])));
        assert_eq!(whole.drops, drops(&[("replayed", 15), ("only_0", 1), ("only_1", 1)]));
    }
}
