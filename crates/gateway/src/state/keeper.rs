//! The keeper's thread of the state file: it receives reports, writes, and lets SAs go on.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::file::StateFile;
use super::marks::Marks;
use super::reporter::{Note, Report};
use crate::events::Notify;

/// Interval between a failed write and the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// The marks and their file.
pub(super) struct Book {
    pub(super) marks: Marks,
    pub(super) file: StateFile,
    pub(super) name: String,
    began: Instant,
}

/// Numbers that are reserved but not granted yet.
pub(crate) struct Grant {
    pub(crate) worker: usize,
    pub(crate) generation: u64,
    pub(crate) reserved: u64,
}

impl Book {
    pub(super) fn new(marks: Marks, file: StateFile, name: String) -> Self {
        Self { marks, file, name, began: Instant::now() }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Writes the marks and waits for the disk.
    pub(super) fn write_through(&mut self) -> std::io::Result<()> {
        self.file.write_through(self.marks.records())
    }
}

/// Records the progress of SAs; what that lets them use once the marks are written is added to
/// `grants`.
pub(super) fn take_in(marks: &mut Marks, report: &Report, now_ns: u64, grants: &mut Vec<Grant>) {
    for progress in &report.progress {
        if report.is_last {
            marks.close(progress);
        } else if let Some(reserved) = marks.go_on(progress, now_ns) {
            let generation = progress.kept.generation;
            grants.push(Grant { worker: report.worker, generation, reserved });
        }
    }
}

pub(super) fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the file until all workers have ended.
pub(super) fn keep(book: &Mutex<Book>, notes: &Receiver<Note>, grant: impl Fn(Grant), notify: &Notify) {
    let mut grants = Vec::new();
    let mut has_failed = false;
    loop {
        let note = if grants.is_empty() {
            notes.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            notes.recv_timeout(RETRY)
        };
        let mut is_over = matches!(note, Err(RecvTimeoutError::Disconnected));
        let mut book = lock(book);
        let now_ns = book.now_ns();
        for note in note.into_iter().chain(notes.try_iter()) {
            match note {
                Note::Report(report) => take_in(&mut book.marks, &report, now_ns, &mut grants),
                Note::End => is_over = true,
            }
        }
        let written = if grants.is_empty() && !is_over {
            let Book { marks, file, .. } = &mut *book;
            file.write_second(marks.records())
        } else {
            book.write_through()
        };
        match written {
            Ok(()) => {
                if std::mem::take(&mut has_failed) {
                    notify(format!("state file {} can be written again", book.name));
                }
                grants.drain(..).for_each(&grant);
            }
            Err(error) if !std::mem::replace(&mut has_failed, true) => notify(format!(
                "state file {} cannot be written: {error}; tunnels with static keys stop when the sequence numbers that are \
                 reserved for them are used up",
                book.name
            )),
            Err(_) => {}
        }
        if is_over {
            return;
        }
    }
}
