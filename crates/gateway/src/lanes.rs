//! All workers' threads as seen from outside: they are asked, never locked.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::handover::Waker;
use crate::lane::{Command, Lane};

/// How long a worker may take over what it is asked.
const PATIENCE: Duration = Duration::from_secs(2);

struct Entrance {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

/// The entrances of all workers; clones are the same workers.
#[derive(Clone)]
pub(crate) struct Lanes(Arc<Vec<Entrance>>);

impl Lanes {
    /// The entrances of workers, in the order of their numbers.
    pub(crate) fn new(entrances: impl IntoIterator<Item = (Sender<Command>, Arc<Waker>)>) -> Self {
        let entrances = entrances.into_iter().map(|(commands, waker)| Entrance { commands, waker });
        Self(Arc::new(entrances.collect()))
    }

    /// How many workers there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Makes every worker look around.
    pub(crate) fn wake(&self) {
        self.0.iter().for_each(|entrance| entrance.waker.wake());
    }

    /// Has one worker do something on its thread, without waiting for it. One that has ended does nothing any more.
    pub(crate) fn send(&self, worker: usize, what: impl FnOnce(&mut Lane) + Send + 'static) {
        let Some(entrance) = self.0.get(worker) else { return };
        let _ = entrance.commands.send(Box::new(what));
        entrance.waker.wake();
    }

    /// Has every worker do something on its thread; what each answered, in order. One that does not answer in time is
    /// left out.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        what: impl Fn(&mut Lane) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        let asked: Vec<_> = (0..self.len())
            .map(|worker| {
                let (reply, answer) = channel();
                let what = what.clone();
                // Who asked may have given up by then.
                self.send(worker, move |lane| drop(reply.send(what(lane))));
                answer
            })
            .collect();
        asked.into_iter().filter_map(|answer| answer.recv_timeout(PATIENCE).ok()).collect()
    }
}
