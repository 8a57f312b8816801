//! The moments that are kept: the last one, and the one since which rates are taken.

use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_report::events::Events;
use convoy_report::snapshot::Snapshot;

use super::status::GatewayStatus;

/// For how long moments are kept that no browser asks for: 10,000 tunnels take some megabytes.
const KEPT: Duration = Duration::from_secs(10);
/// The time over which rates are taken, at least, in seconds: with several browsers there is a
/// snapshot more often than that.
const INTERVAL_S: f64 = 0.9;

/// The last moments.
pub(crate) struct Statuses {
    /// For how long one is served.
    fresh: Duration,
    events: Events,
    last: Option<(Instant, Arc<GatewayStatus>)>,
    /// The moment since which the rates of the next one are taken.
    base: Option<Arc<GatewayStatus>>,
}

impl Statuses {
    pub(crate) fn new(fresh: Duration, events: Events) -> Self {
        Self { fresh, events, last: None, base: None }
    }

    /// The last moment, while it is fresh.
    pub(crate) fn fresh(&self) -> Option<Arc<GatewayStatus>> {
        let (at, status) = self.last.as_ref()?;
        (at.elapsed() < self.fresh).then(|| Arc::clone(status))
    }

    /// Takes a snapshot as the last moment.
    pub(crate) fn add(&mut self, snapshot: &Snapshot) -> Arc<GatewayStatus> {
        if self.last.as_ref().is_some_and(|(at, _)| at.elapsed() >= KEPT) {
            self.forget();
        }
        let status = Arc::new(GatewayStatus::of(snapshot, self.base.as_deref(), &self.events));
        let is_due =
            |base: &Arc<GatewayStatus>| !(0.0..INTERVAL_S).contains(&(status.uptime_s() - base.uptime_s()));
        if self.base.as_ref().is_none_or(is_due) {
            self.base = Some(Arc::clone(&status));
        }
        self.last = Some((Instant::now(), Arc::clone(&status)));
        status
    }

    /// The time after which nothing is kept, if something is.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        self.last.as_ref().map(|(at, _)| KEPT.saturating_sub(at.elapsed()))
    }

    /// Frees all moments.
    pub(crate) fn forget(&mut self) {
        (self.last, self.base) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::Query;
    use super::*;

    #[test]
    fn rates_are_taken_over_a_second_however_often_browsers_ask() {
        let mut statuses = Statuses::new(Duration::ZERO, Events::default());
        let snapshot =
            |uptime_s: f64, decrypted: u64| Snapshot { uptime_s, decrypted, ..Snapshot::default() };
        let mut rate = |uptime_s, decrypted| {
            let text = statuses.add(&snapshot(uptime_s, decrypted)).json(&Query::default());
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["in"]["packets_per_s"].as_f64()
        };
        assert_eq!(rate(10.0, 0), None);
        assert_eq!(
            [rate(10.5, 50), rate(11.0, 100), rate(11.5, 400)],
            [Some(100.0), Some(100.0), Some(600.0)]
        );
        assert_eq!(rate(1.0, 7), Some(0.0), "no rate is below zero");
    }

    #[test]
    fn what_no_browser_asks_for_is_freed() {
        let mut statuses = Statuses::new(Duration::from_secs(60), Events::default());
        assert!(statuses.expires_in().is_none() && statuses.fresh().is_none());
        statuses.add(&Snapshot::default());
        assert!(statuses.expires_in().is_some_and(|left| left <= KEPT) && statuses.fresh().is_some());
        statuses.forget();
        assert!(statuses.expires_in().is_none() && statuses.fresh().is_none() && statuses.base.is_none());
    }
}
