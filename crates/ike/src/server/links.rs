//! The connections, and the events that wait for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::LossCounters;
use super::socket::Connection;
use crate::protocol::{Datagram, ReplyStatus, Role, SaEvent};

/// Events that may wait: both limits of each SA of a charon that is away
/// ([`StateConfig`](crate::state::StateConfig)).
pub(super) const QUEUE_EVENTS: usize = 1 << 18;
/// An acquire only waits behind fewer than these: if it is lost, the next packet repeats it.
const QUEUE_ACQUIRES: usize = 1 << 10;

/// One charon's connections.
#[derive(Default)]
struct CharonConnections {
    /// Its session; 0 before the first.
    session: u64,
    pid: i32,
    control: Option<Arc<Connection>>,
    events: Option<Arc<Connection>>,
    ike: Option<Arc<Connection>>,
    queue: VecDeque<SaEvent>,
    /// The gateway stops.
    is_closed: bool,
    /// Another gateway of the cluster leads.
    stands_by: bool,
    /// How often this gateway has stood by.
    terms: u64,
}

impl CharonConnections {
    fn slot(&mut self, role: Role) -> &mut Option<Arc<Connection>> {
        match role {
            Role::Control => &mut self.control,
            Role::Events => &mut self.events,
            Role::Ike => &mut self.ike,
        }
    }

    fn hang_up(&mut self) {
        for role in [Role::Control, Role::Events, Role::Ike] {
            if let Some(connection) = self.slot(role).take() {
                connection.close();
            }
        }
    }
}

/// Shared by the server's threads and the gateway's.
#[derive(Default)]
pub(super) struct CharonLinks {
    charon: Mutex<CharonConnections>,
    changed: Condvar,
    lost_acquires: AtomicU64,
    lost_datagrams: AtomicU64,
}

impl CharonLinks {
    /// Nothing is done under the lock that could panic half-way.
    fn lock(&self) -> MutexGuard<'_, CharonConnections> {
        self.charon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Links to a gateway that does not lead yet.
    pub(super) fn standing_by() -> Self {
        let links = Self::default();
        links.lock().stands_by = true;
        links
    }

    /// Admits no client until [`lead`](Self::lead), and forgets anyone who was connected.
    pub(super) fn stand_by(&self) {
        let mut charon = self.lock();
        charon.stands_by = true;
        charon.terms += 1;
        charon.session = 0;
        charon.queue.clear();
        charon.hang_up();
        self.changed.notify_all();
    }

    /// Admits a charon from now on.
    pub(super) fn lead(&self) {
        self.lock().stands_by = false;
    }

    /// How often the gateway has stood by after it led: what was installed before is lost.
    pub(super) fn terms(&self) -> u64 {
        self.lock().terms
    }

    /// Admits a connection, or returns why not. `greeting` is sent before anything else.
    pub(super) fn admit(
        &self,
        role: Role,
        session: u64,
        pid: i32,
        connection: &Arc<Connection>,
        greeting: Option<&[u8]>,
    ) -> Result<(), (ReplyStatus, String)> {
        let mut charon = self.lock();
        if charon.is_closed {
            return Err(failed("the gateway is stopping"));
        }
        if charon.stands_by {
            let why = "this gateway stands by; another one of its cluster leads";
            return Err((ReplyStatus::StandsBy, why.to_owned()));
        }
        match role {
            Role::Control => {
                if charon.control.is_some() && charon.session != session {
                    return Err(failed(format!("another charon is connected: process {}", charon.pid)));
                }
                charon.hang_up();
                if charon.session != session {
                    charon.queue.clear();
                }
                (charon.session, charon.pid) = (session, pid);
            }
            Role::Events | Role::Ike => {
                if charon.control.is_none() || charon.session != session {
                    return Err(failed("the control connection must be opened first"));
                }
                if charon.slot(role).is_some() {
                    return Err(failed("this connection is already open"));
                }
            }
        }
        if let Some(greeting) = greeting {
            connection.try_send(greeting).map_err(|error| failed(error.to_string()))?;
        }
        *charon.slot(role) = Some(Arc::clone(connection));
        self.changed.notify_all();
        Ok(())
    }

    /// Removes a connection that has ended: the others end with it, unless they are of a later
    /// charon.
    pub(super) fn leave(&self, role: Role, connection: &Arc<Connection>) {
        connection.close();
        let mut charon = self.lock();
        if charon.slot(role).as_ref().is_some_and(|present| Arc::ptr_eq(present, connection)) {
            charon.hang_up();
            self.changed.notify_all();
        }
    }

    /// Admits no more clients.
    pub(super) fn close(&self) {
        let mut charon = self.lock();
        charon.is_closed = true;
        charon.hang_up();
        self.changed.notify_all();
    }

    pub(super) fn push_event(&self, event: SaEvent) -> bool {
        let mut charon = self.lock();
        let is_acquire = matches!(event, SaEvent::Acquire { .. });
        let has_room = match is_acquire {
            true => charon.events.is_some() && charon.queue.len() < QUEUE_ACQUIRES,
            false => charon.queue.len() < QUEUE_EVENTS,
        };
        if has_room {
            charon.queue.push_back(event);
            self.changed.notify_all();
        } else if is_acquire {
            self.lost_acquires.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Waits for the next event for this connection; `None` when it has ended. The event stays
    /// until [`sent_event`](Self::sent_event).
    pub(super) fn wait_event(&self, connection: &Arc<Connection>) -> Option<SaEvent> {
        let mut charon = self.lock();
        loop {
            if !charon.events.as_ref().is_some_and(|present| Arc::ptr_eq(present, connection)) {
                return None;
            }
            if let Some(event) = charon.queue.front() {
                return Some(*event);
            }
            charon = self.changed.wait(charon).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Removes the event, which has been sent by this connection.
    pub(super) fn sent_event(&self, connection: &Arc<Connection>) {
        let mut charon = self.lock();
        if charon.events.as_ref().is_some_and(|present| Arc::ptr_eq(present, connection)) {
            charon.queue.pop_front();
        }
    }

    pub(super) fn send_datagram(&self, datagram: &Datagram) -> bool {
        let connection = self.lock().ike.clone();
        let is_sent = connection.is_some_and(|ike| ike.try_send(&datagram.encode()).is_ok());
        if !is_sent {
            self.lost_datagrams.fetch_add(1, Ordering::Relaxed);
        }
        is_sent
    }

    pub(super) fn is_complete(&self) -> bool {
        let charon = self.lock();
        charon.control.is_some() && charon.events.is_some() && charon.ike.is_some()
    }

    pub(super) fn waiting(&self) -> usize {
        self.lock().queue.len()
    }

    pub(super) fn losses(&self) -> LossCounters {
        LossCounters {
            acquires: self.lost_acquires.load(Ordering::Relaxed),
            datagrams: self.lost_datagrams.load(Ordering::Relaxed),
        }
    }
}

fn failed(why: impl Into<String>) -> (ReplyStatus, String) {
    (ReplyStatus::Failed, why.into())
}
