//! All workers' threads as seen from outside: they are asked, never locked.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoy_dataplane::handoff::Waker;
use convoy_ipsec::TunnelId;

use crate::worker_thread::{WorkerCommand, WorkerThread};

/// Time limit of all workers together for a request. charon waits for 2 s.
const TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 6_000 } else { 1_500 });

struct WorkerHandle {
    commands: Sender<WorkerCommand>,
    waker: Arc<Waker>,
}

/// The handles of all workers; clones are the same workers.
#[derive(Clone)]
pub(crate) struct WorkerHandles(Arc<Vec<WorkerHandle>>);

impl WorkerHandles {
    /// The handles of workers, in the order of their numbers.
    pub(crate) fn new(handles: impl IntoIterator<Item = (Sender<WorkerCommand>, Arc<Waker>)>) -> Self {
        let handles = handles.into_iter().map(|(commands, waker)| WorkerHandle { commands, waker });
        Self(Arc::new(handles.collect()))
    }

    /// How many workers there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The worker that serves a tunnel.
    pub(crate) fn owner_of(&self, tunnel: TunnelId) -> u16 {
        tunnel.owner(self.0.len() as u16)
    }

    /// The worker that has a tunnel's SAs of a resource, as charon numbers it (RFC 9611): a CPU.
    /// The first SA, of no resource, is at the worker that serves the tunnel, and the resources 1,
    /// 2 and so on are the workers after it.
    pub(crate) fn worker_of(&self, tunnel: TunnelId, resource: Option<u32>) -> u16 {
        let workers = self.0.len() as u32;
        ((u32::from(self.owner_of(tunnel)) + resource.unwrap_or(0) % workers) % workers) as u16
    }

    /// The resource that stands for a worker, the inverse of [`worker_of`](Self::worker_of).
    pub(crate) fn resource_of(&self, tunnel: TunnelId, worker: u16) -> u32 {
        let workers = self.0.len() as u32;
        (u32::from(worker) + workers - u32::from(self.owner_of(tunnel))) % workers
    }

    /// Makes every worker check for commands.
    pub(crate) fn wake(&self) {
        self.0.iter().for_each(|handle| handle.waker.wake());
    }

    /// Runs something on a worker's thread, without waiting for it. A worker that has ended ignores
    /// it.
    pub(crate) fn send(&self, worker: usize, what: impl FnOnce(&mut WorkerThread) + Send + 'static) {
        let Some(handle) = self.0.get(worker) else { return };
        let _ = handle.commands.send(Box::new(what));
        handle.waker.wake();
    }

    /// Asks every worker, and waits for a limited time; returns the answers by number. A worker
    /// that did not answer in time no longer does it, unless it has already started.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        what: impl Fn(&mut WorkerThread) -> R + Clone + Send + 'static,
    ) -> Vec<Option<R>> {
        let ask = |worker| self.begin(worker, what.clone(), |_, _| ());
        let asked: Vec<_> = (0..self.len()).map(ask).collect();
        let until = Instant::now() + TIMEOUT;
        asked.iter().map(|question| question.wait(until)).collect()
    }

    /// Asks one worker, and waits for a limited time. If that ends while the worker is at it, the
    /// worker undoes it: without an answer it is as if it had not been asked.
    pub(crate) fn ask_or_undo<R: Send + 'static>(
        &self,
        worker: u16,
        what: impl FnOnce(&mut WorkerThread) -> R + Send + 'static,
        undo: impl FnOnce(&mut WorkerThread, R) + Send + 'static,
    ) -> Option<R> {
        self.begin(worker.into(), what, undo).wait(Instant::now() + TIMEOUT)
    }

    fn begin<R: Send + 'static>(
        &self,
        worker: usize,
        what: impl FnOnce(&mut WorkerThread) -> R + Send + 'static,
        undo: impl FnOnce(&mut WorkerThread, R) + Send + 'static,
    ) -> Arc<Question<R>> {
        let question = Question::new();
        let on_thread = OnThread(Arc::clone(&question));
        self.send(worker, move |thread| {
            if let Some(unwanted) = on_thread.answer(|| what(thread)) {
                undo(thread, unwanted);
            }
        });
        question
    }

    /// Has every worker do something, however late, and waits for a limited time; returns the
    /// answers by number.
    pub(crate) fn tell<R: Send + 'static>(
        &self,
        what: impl Fn(&mut WorkerThread) -> R + Clone + Send + 'static,
    ) -> Vec<Option<R>> {
        let tell = |worker| {
            let (question, what) = (Question::new(), what.clone());
            let on_thread = OnThread(Arc::clone(&question));
            self.send(worker, move |thread| {
                let done = what(thread);
                on_thread.answer(|| done);
            });
            question
        };
        let reported: Vec<_> = (0..self.len()).map(tell).collect();
        let until = Instant::now() + TIMEOUT;
        reported.iter().map(|question| question.wait(until)).collect()
    }
}

/// A question to one worker.
struct Question<R> {
    answer: Mutex<WorkerAnswer<R>>,
    changed: Condvar,
}

enum WorkerAnswer<R> {
    Awaited,
    Given(R),
    /// The requester has given up.
    Unwanted,
    /// The worker has ended.
    Never,
}

impl<R> Question<R> {
    fn new() -> Arc<Self> {
        Arc::new(Self { answer: Mutex::new(WorkerAnswer::Awaited), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, WorkerAnswer<R>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer, if it is there by then; otherwise it is no longer wanted.
    fn wait(&self, until: Instant) -> Option<R> {
        let mut answer = self.lock();
        while matches!(*answer, WorkerAnswer::Awaited) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            answer = self.changed.wait_timeout(answer, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        match std::mem::replace(&mut *answer, WorkerAnswer::Unwanted) {
            WorkerAnswer::Given(given) => Some(given),
            WorkerAnswer::Awaited | WorkerAnswer::Unwanted | WorkerAnswer::Never => None,
        }
    }
}

/// The worker's end of a question.
struct OnThread<R>(Arc<Question<R>>);

impl<R> OnThread<R> {
    /// Computes an answer if it is wanted. If it is no longer wanted when computed, it is returned.
    fn answer(&self, make: impl FnOnce() -> R) -> Option<R> {
        if matches!(*self.0.lock(), WorkerAnswer::Unwanted) {
            return None;
        }
        // The lock is not held meanwhile: the requester may give up.
        let made = make();
        let mut answer = self.0.lock();
        if matches!(*answer, WorkerAnswer::Unwanted) {
            return Some(made);
        }
        *answer = WorkerAnswer::Given(made);
        self.0.changed.notify_one();
        None
    }
}

impl<R> Drop for OnThread<R> {
    /// A worker that has ended, or ends because of this very question, drops it unanswered.
    fn drop(&mut self) {
        let mut answer = self.0.lock();
        if matches!(*answer, WorkerAnswer::Awaited) {
            *answer = WorkerAnswer::Never;
            self.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn an_answer_in_time_is_heard() {
        let question = Question::new();
        let on_thread = OnThread(Arc::clone(&question));
        let thread = std::thread::spawn(move || on_thread.answer(|| 7));
        assert_eq!(question.wait(Instant::now() + Duration::from_secs(20)), Some(7));
        assert_eq!(thread.join().expect("no panic"), None);
    }

    #[test]
    fn who_comes_too_late_does_nothing_and_who_was_at_it_gets_it_back() {
        let question = Question::new();
        let on_thread = OnThread(Arc::clone(&question));
        assert_eq!(question.wait(Instant::now() + SOON), None);
        assert_eq!(on_thread.answer(|| panic!("no client wants it")), None::<u8>);

        let question = Question::new();
        let on_thread = OnThread(Arc::clone(&question));
        let unwanted = on_thread.answer(|| {
            assert_eq!(question.wait(Instant::now() + SOON), None);
            7
        });
        assert_eq!(unwanted, Some(7));
    }

    #[test]
    fn a_worker_that_has_ended_is_not_waited_for() {
        let question: Arc<Question<u8>> = Question::new();
        drop(OnThread(Arc::clone(&question)));
        let began = Instant::now();
        assert_eq!(question.wait(began + Duration::from_secs(60)), None);
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
