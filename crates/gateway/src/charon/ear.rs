//! What one worker tells charon: notes in a queue, so that the worker never waits.

use std::sync::mpsc::SyncSender;

use convoy_ipsec::{LifetimeEvent, MappingChange};

use crate::daemon::Daemon;
use crate::pipeline::Acquire;

/// One thing that a worker has to say; SAs are the worker's own places.
pub(super) enum Note {
    /// A whole IP packet with an IKE message.
    Ike(Vec<u8>),
    /// An SA is wanted.
    Acquire(Acquire),
    /// An SA has reached a limit.
    Expire(u16, LifetimeEvent),
    /// A peer sends from elsewhere.
    Mapping(u16, MappingChange),
}

/// A worker's ear for charon.
pub(super) struct Ear {
    worker: u16,
    notes: SyncSender<Note>,
}

impl Ear {
    pub(super) fn new(worker: u16, notes: SyncSender<Note>) -> Self {
        Self { worker, notes }
    }

    fn note(&self, note: Note) {
        // Under a flood of IKE messages some are lost; charon's peers send them again, and workers ask again for SAs.
        let _ = self.notes.try_send(note);
    }
}

impl Daemon for Ear {
    fn ike(&self, packet: &[u8]) {
        self.note(Note::Ike(packet.to_vec()));
    }

    fn acquire(&self, acquire: Acquire) {
        self.note(Note::Acquire(acquire));
    }

    fn expire(&self, event: &LifetimeEvent) {
        self.note(Note::Expire(self.worker, *event));
    }

    fn mapping(&self, change: &MappingChange) {
        self.note(Note::Mapping(self.worker, *change));
    }
}
