//! Takes snapshots for the clients, one at a time, and makes of them what they asked for.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::browser::{Status, Statuses};
use super::limits::Limits;
use super::page::{Page, Pages};
use super::text;
use crate::events::Events;
use crate::run::Order;
use crate::snapshot::Snapshot;

/// Time limit of the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A client's request; it receives `None` if the gateway gives no snapshot.
#[derive(Debug)]
pub(super) enum Wanted {
    /// The text of the metrics.
    Metrics(oneshot::Sender<Option<Arc<Page>>>),
    /// What the page for browsers shows.
    Status(oneshot::Sender<Option<Arc<Status>>>),
}

/// Makes what clients get. It finishes even if all who asked have disconnected, so that
/// connections which come and go cannot start it again and again.
pub(super) struct Maker {
    orders: Sender<Order>,
    limits: Limits,
    /// Whether there are series of each tunnel.
    per_tunnel: Option<bool>,
    pages: Pages,
    made: Option<(Instant, Option<Arc<Page>>)>,
    statuses: Statuses,
}

impl Maker {
    /// Nothing is made yet.
    pub(super) fn new(
        orders: Sender<Order>,
        limits: Limits,
        per_tunnel: Option<bool>,
        events: Option<Events>,
    ) -> Self {
        let statuses = Statuses::new(limits.fresh_status, events.unwrap_or_default());
        Self { orders, limits, per_tunnel, pages: Pages::default(), made: None, statuses }
    }

    /// Serves requests until no connection can make one.
    pub(super) async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Wanted>) {
        loop {
            let next = match self.statuses.expires_in() {
                Some(left) => timeout(left, requests.recv()).await,
                None => Ok(requests.recv().await),
            };
            match next {
                // The client may be gone by the time that it gets an answer.
                Ok(Some(Wanted::Metrics(asker))) => drop(asker.send(self.metrics().await)),
                Ok(Some(Wanted::Status(asker))) => drop(asker.send(self.status().await)),
                Ok(None) => return,
                Err(_) => self.statuses.forget(),
            }
        }
    }

    async fn metrics(&mut self) -> Option<Arc<Page>> {
        if self.made.as_ref().is_none_or(|(at, _)| at.elapsed() >= self.limits.fresh) {
            // The old page is not kept while the new one is made.
            drop(self.made.take());
            let snapshot = snapshot(&self.orders).await;
            let write = |snapshot| Page::written(|out| text::write(out, snapshot, self.per_tunnel));
            let page = snapshot.map(write);
            self.made = Some((Instant::now(), page.map(|page| self.pages.add(page))));
        }
        self.made.as_ref().and_then(|(_, page)| page.clone())
    }

    async fn status(&mut self) -> Option<Arc<Status>> {
        if let Some(status) = self.statuses.fresh() {
            return Some(status);
        }
        let snapshot = snapshot(&self.orders).await?;
        Some(self.statuses.add(&snapshot))
    }
}

async fn snapshot(orders: &Sender<Order>) -> Option<Snapshot> {
    let (reply, snapshot) = oneshot::channel();
    // The wait may be over by then.
    orders.send(Order::Show(Box::new(move |snapshot| drop(reply.send(snapshot))))).ok()?;
    timeout(TIMEOUT, snapshot).await.ok()?.ok()
}
