//! A worker's events for charon, through queues, so that the worker never waits.
//!
//! IKE messages have a queue of their own, as anyone may send any number of them. Events of SAs use
//! another one, of which acquires may fill only a part: events that are sent to charon only once
//! always find room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use convoy_dataplane::daemon::Daemon;
use convoy_dataplane::pipeline::Acquire;
use convoy_ipsec::{LifetimeEvent, MappingChange};

/// IKE messages that may wait.
const MESSAGES: usize = 1024;
/// Other events that may wait.
const NOTES: usize = 4096;
/// Acquires among these.
const ACQUIRES: usize = 1024;

/// An event in a worker.
pub(super) enum CharonNote {
    /// An SA is requested.
    Acquire(Acquire),
    /// An SA has reached a limit.
    Expire(LifetimeEvent),
    /// A peer has changed its address or port.
    Mapping(MappingChange),
}

/// The receiving ends of all notifiers.
pub(super) struct NotifierInbox {
    /// Whole IP packets with IKE messages.
    pub(super) messages: Receiver<Vec<u8>>,
    pub(super) notes: Receiver<CharonNote>,
}

/// Counters shared by all notifiers.
#[derive(Default)]
pub(super) struct Counts {
    /// Acquires that wait.
    acquires: AtomicUsize,
    lost_acquires: AtomicU64,
    /// Lifetimes and mappings that wait.
    waiting: AtomicUsize,
}

impl Counts {
    /// Call for each event received.
    pub(super) fn heard(&self, note: &CharonNote) {
        match note {
            CharonNote::Acquire(_) => &self.acquires,
            CharonNote::Expire(_) | CharonNote::Mapping(_) => &self.waiting,
        }
        .fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts an acquire that did not reach charon.
    pub(super) fn lost_acquire(&self) {
        self.lost_acquires.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost_acquires(&self) -> u64 {
        self.lost_acquires.load(Ordering::Relaxed)
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed) as u64
    }
}

/// A worker's notifier for charon.
pub(super) struct Notifier {
    messages: SyncSender<Vec<u8>>,
    notes: SyncSender<CharonNote>,
    counts: Arc<Counts>,
}

impl Notifier {
    /// A notifier for each worker, and the receiving ends.
    pub(super) fn for_each(workers: u16, counts: &Arc<Counts>) -> (Vec<Arc<Self>>, NotifierInbox) {
        let (message_sender, messages) = sync_channel(MESSAGES);
        let (note_sender, notes) = sync_channel(NOTES);
        let notifier = |_| {
            let (messages, notes) = (message_sender.clone(), note_sender.clone());
            Arc::new(Self { messages, notes, counts: Arc::clone(counts) })
        };
        ((0..workers).map(notifier).collect(), NotifierInbox { messages, notes })
    }

    fn note(&self, note: CharonNote, waiting: &AtomicUsize) -> bool {
        // Counted first, as it may be received at once.
        waiting.fetch_add(1, Ordering::Relaxed);
        let has_room = self.notes.try_send(note).is_ok();
        if !has_room {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
        has_room
    }
}

impl Daemon for Notifier {
    fn ike(&self, packet: &[u8]) -> bool {
        self.messages.try_send(packet.to_vec()).is_ok()
    }

    fn acquire(&self, acquire: Acquire) -> bool {
        let acquires = &self.counts.acquires;
        let has_room =
            acquires.load(Ordering::Relaxed) < ACQUIRES && self.note(CharonNote::Acquire(acquire), acquires);
        if !has_room {
            self.counts.lost_acquire();
        }
        has_room
    }

    fn expire(&self, event: &LifetimeEvent) -> bool {
        self.note(CharonNote::Expire(*event), &self.counts.waiting)
    }

    fn mapping(&self, change: &MappingChange) -> bool {
        self.note(CharonNote::Mapping(*change), &self.counts.waiting)
    }
}

#[cfg(test)]
mod tests {
    use convoy_ipsec::{Expiry, FlowKey, SaDirection, SaIndex, SaName, SaNumber, SaProtocol, TunnelId};

    use super::*;

    fn event(sa: u32) -> LifetimeEvent {
        let (local, remote) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let name =
            SaName { spi: sa, direction: SaDirection::Inbound, protocol: SaProtocol::Esp, local, remote };
        let number = SaNumber { owner: 1, index: SaIndex(sa), generation: sa };
        LifetimeEvent { sa: number, name, tunnel: TunnelId(0), expiry: Expiry::Soft }
    }

    fn acquire() -> Acquire {
        let address = [10, 0, 0, 1].into();
        Acquire { tunnel: TunnelId(0), worker: None, flow: FlowKey::new(address, address, 17, None) }
    }

    #[test]
    fn floods_of_ike_messages_and_acquires_leave_room_for_what_is_reported_once() {
        let counts = Arc::default();
        let (notifiers, heard) = Notifier::for_each(2, &counts);
        assert_eq!((0..5_000).filter(|_| notifiers[0].ike(b"a message")).count(), MESSAGES);
        assert_eq!((0..5_000).filter(|_| notifiers[0].acquire(acquire())).count(), ACQUIRES);
        assert_eq!(counts.lost_acquires(), 5_000 - ACQUIRES as u64);
        let reported = (0..5_000).filter(|sa| notifiers[1].expire(&event(*sa))).count();
        assert_eq!(reported, NOTES - ACQUIRES);
        assert_eq!(counts.waiting(), reported as u64);
        for note in heard.notes.try_iter() {
            counts.heard(&note);
        }
        assert_eq!((counts.waiting(), heard.messages.try_iter().count()), (0, MESSAGES));
        assert!(
            notifiers[0].acquire(acquire())
                && notifiers[0].expire(&event(1))
                && notifiers[0].ike(b"a message")
        );
    }
}
