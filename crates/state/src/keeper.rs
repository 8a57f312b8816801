//! The keeper's thread of the state file: it receives reports, writes, and lets SAs go on.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoy_process::Notify;

use super::file::StateFile;
use super::reporter::Note;
use super::reservations::{Grant, Reservations};

/// Interval between a failed write and the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// The reservations and their file.
pub(super) struct StateStore {
    pub(super) reservations: Reservations,
    pub(super) file: StateFile,
    pub(super) name: String,
    began: Instant,
}

impl StateStore {
    pub(super) fn new(reservations: Reservations, file: StateFile, name: String) -> Self {
        Self { reservations, file, name, began: Instant::now() }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Writes the records and waits for the disk.
    pub(super) fn write_through(&mut self) -> std::io::Result<()> {
        self.file.write_through(self.reservations.records())
    }
}

pub(super) fn lock(store: &Mutex<StateStore>) -> MutexGuard<'_, StateStore> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the file until all workers have ended.
pub(super) fn keep(
    store: &Mutex<StateStore>,
    notes: &Receiver<Note>,
    grant: impl Fn(Grant),
    notify: &Notify,
) {
    let mut has_failed = false;
    loop {
        let note = if has_failed {
            notes.recv_timeout(RETRY)
        } else {
            notes.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        let mut is_over = matches!(note, Err(RecvTimeoutError::Disconnected));
        let mut store = lock(store);
        let now_ns = store.now_ns();
        for note in note.into_iter().chain(notes.try_iter()) {
            match note {
                Note::Report(report) => store.reservations.report(&report, now_ns),
                Note::End => is_over = true,
            }
        }
        let written = if store.reservations.has_raises() || is_over {
            store.write_through()
        } else {
            let StateStore { reservations, file, .. } = &mut *store;
            file.write_second(reservations.records())
        };
        match written {
            Ok(()) => {
                if std::mem::take(&mut has_failed) {
                    notify(format!("state file {} can be written again", store.name));
                }
                store.reservations.written().into_iter().for_each(&grant);
            }
            Err(error) => {
                store.reservations.failed();
                if !std::mem::replace(&mut has_failed, true) {
                    notify(format!(
                        "state file {} cannot be written: {error}; tunnels with static keys stop when the sequence numbers that are \
                         reserved for them are used up",
                        store.name
                    ));
                }
            }
        }
        if is_over {
            return;
        }
    }
}
