//! What an engine did between two snapshots.

use super::EngineRow;

/// An engine between two snapshots of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineLately {
    /// Packets whose result was used.
    pub packets: u64,
    /// Packets in each train, if there were any.
    pub per_train: Option<f64>,
    /// Mean time of a train from dispatch to completion as predicted, in ns.
    pub predicted_ns: Option<f64>,
    /// Mean time of a train from dispatch to completion as measured, in ns.
    pub measured_ns: Option<f64>,
}

impl EngineRow {
    /// What it did since an earlier snapshot.
    pub fn since(&self, before: &Self) -> EngineLately {
        let packets = self.packets.saturating_sub(before.packets);
        let done = self.completed.saturating_sub(before.completed);
        let sum = |row: &Self, of: fn(&Self) -> f64| of(row) * row.completed as f64;
        let lately = |of: fn(&Self) -> f64| mean((sum(self, of) - sum(before, of)).max(0.0), done);
        EngineLately {
            packets,
            per_train: mean(packets as f64, self.multi_packets.saturating_sub(before.multi_packets)),
            predicted_ns: lately(|row| row.predicted_ns),
            measured_ns: lately(|row| row.measured_ns),
        }
    }
}

fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_the_trains_between_two_snapshots() {
        let row = |trains: u64, measured_ns: f64| EngineRow {
            packets: 8 * trains,
            multi_packets: trains,
            completed: trains,
            predicted_ns: 1_000.0,
            measured_ns,
            ..EngineRow::default()
        };
        // 100 trains took 2 us each; with 100 more, all took 2.5 us on average.
        let lately = row(200, 2_500.0).since(&row(100, 2_000.0));
        assert_eq!((lately.packets, lately.per_train), (800, Some(8.0)));
        assert_eq!((lately.predicted_ns, lately.measured_ns), (Some(1_000.0), Some(3_000.0)));
        let idle = row(5, 2_000.0).since(&row(5, 2_000.0));
        assert_eq!(idle, EngineLately::default());
    }
}
