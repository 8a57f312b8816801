//! Takes snapshots for the clients, one at a time, and makes of them what they asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_report::events::Events;
use convoy_report::snapshot::Snapshot;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::browser::{GatewayStatus, Statuses};
use super::limits::ClientLimits;
use super::page::{CachedPages, ServedPage};
use super::text;

/// Asks the gateway for a snapshot, which it gives to the closure; `false` if it has ended.
pub type SnapshotSource = Box<dyn Fn(SnapshotReply) -> bool + Send + Sync>;
/// Receives a snapshot.
pub type SnapshotReply = Box<dyn FnOnce(Snapshot) + Send>;

/// Time limit of the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A client's request; it receives `None` if the gateway gives no snapshot.
#[derive(Debug)]
pub(super) enum Wanted {
    /// The text of the metrics.
    Metrics(oneshot::Sender<Option<Arc<ServedPage>>>),
    /// What the page for browsers shows.
    Status(oneshot::Sender<Option<Arc<GatewayStatus>>>),
}

/// Makes what clients get. It finishes even if all who asked have disconnected, so that
/// connections which come and go cannot start it again and again.
pub(super) struct Maker {
    source: SnapshotSource,
    limits: ClientLimits,
    /// Whether there are series of each tunnel.
    per_tunnel: Option<bool>,
    pages: CachedPages,
    made: Option<(Instant, Option<Arc<ServedPage>>)>,
    statuses: Statuses,
    /// When the gateway last gave no snapshot for the page for browsers.
    failed: Option<Instant>,
}

impl Maker {
    /// Nothing is made yet.
    pub(super) fn new(
        source: SnapshotSource,
        limits: ClientLimits,
        per_tunnel: Option<bool>,
        events: Option<Events>,
    ) -> Self {
        let statuses = Statuses::new(limits.fresh_status, events.unwrap_or_default());
        Self { source, limits, per_tunnel, pages: CachedPages::default(), made: None, statuses, failed: None }
    }

    /// Serves requests until no connection can make one.
    pub(super) async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Wanted>) {
        loop {
            let next = match self.statuses.expires_in() {
                Some(left) => timeout(left, requests.recv()).await,
                None => Ok(requests.recv().await),
            };
            match next {
                // Most who asked a gateway that hangs are gone by now: they cost no snapshot.
                Ok(Some(Wanted::Metrics(asker))) if asker.is_closed() => {}
                Ok(Some(Wanted::Status(asker))) if asker.is_closed() => {}
                // The client may be gone by the time that it gets an answer.
                Ok(Some(Wanted::Metrics(asker))) => drop(asker.send(self.metrics().await)),
                Ok(Some(Wanted::Status(asker))) => drop(asker.send(self.status().await)),
                Ok(None) => return,
                Err(_) => self.statuses.forget(),
            }
        }
    }

    async fn metrics(&mut self) -> Option<Arc<ServedPage>> {
        if self.made.as_ref().is_none_or(|(at, _)| at.elapsed() >= self.limits.fresh) {
            // The old page is not kept while the new one is made.
            drop(self.made.take());
            let snapshot = self.snapshot().await;
            let write = |snapshot| ServedPage::written(|out| text::write(out, snapshot, self.per_tunnel));
            let page = snapshot.map(write);
            self.made = Some((Instant::now(), page.map(|page| self.pages.add(page))));
        }
        self.made.as_ref().and_then(|(_, page)| page.clone())
    }

    async fn status(&mut self) -> Option<Arc<GatewayStatus>> {
        if let Some(status) = self.statuses.fresh() {
            return Some(status);
        }
        // Those who asked during an attempt that failed are answered by it, without one each.
        if self.failed.is_some_and(|at| at.elapsed() < self.limits.fresh_status) {
            return None;
        }
        let snapshot = self.snapshot().await;
        self.failed = snapshot.is_none().then(Instant::now);
        Some(self.statuses.add(&snapshot?))
    }

    async fn snapshot(&self) -> Option<Snapshot> {
        let (reply, snapshot) = oneshot::channel();
        // The wait may be over by then.
        let is_asked = (self.source)(Box::new(move |snapshot| drop(reply.send(snapshot))));
        if !is_asked {
            return None;
        }
        timeout(TIMEOUT, snapshot).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::limits::LIMITS;
    use super::*;

    #[test]
    fn a_gateway_that_hangs_costs_one_attempt_and_those_who_are_gone_cost_none() {
        let (asks, received) = channel();
        let source: SnapshotSource = Box::new(move |reply| asks.send(reply).is_ok());
        let (asked, requests) = mpsc::unbounded_channel();
        let limits = ClientLimits { fresh_status: Duration::from_secs(60), ..LIMITS };
        let ask = || {
            let (reply, answer) = oneshot::channel();
            asked.send(Wanted::Status(reply)).expect("the receiver is there");
            answer
        };
        drop((0..5).map(|_| ask()).collect::<Vec<_>>());
        let answers: Vec<_> = (0..5).map(|_| ask()).collect();
        drop(asked);
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(Maker::new(source, limits, None, None).run(requests));
        assert!(answers.into_iter().all(|mut answer| answer.try_recv().is_ok_and(|made| made.is_none())));
        assert_eq!(received.try_iter().count(), 1);
    }
}
