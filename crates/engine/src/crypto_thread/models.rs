//! A worker and an engine's thread that wait for each other, in every order that loom finds. A
//! wake-up that is lost is a deadlock, which loom reports.

use std::sync::Arc;
use std::task::Wake;

use convoy_ipsec::Direction;
use loom::thread;

use super::*;
use crate::SoftwareSettings;

const SA: SaIndex = SaIndex(0);

/// Returns what it gets.
struct Returning;

impl Processor for Returning {
    fn transforms(&self) -> Vec<Transform> {
        Vec::new()
    }

    fn install(&mut self, _: SaIndex, _: &KeyMaterial) {}

    fn remove(&mut self, _: SaIndex) {}

    fn process(&mut self, _: &mut [Submission]) -> bool {
        true
    }
}

/// Wakes a worker that parks.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Ends of an engine for this many workers, each as if it had installed the keys of its SA: that
/// wipes more of the stack than a thread of loom's has.
fn ends(workers: usize) -> Vec<CryptoThread> {
    let describe = CryptoThread::describe("model", EngineKind::of::<SoftwareSettings>());
    let mut ends =
        CryptoThread::start("model", None, workers, |_| Ok(Returning), describe).expect("a thread");
    for end in &mut ends {
        end.keyed = vec![true];
    }
    ends
}

/// Submits trains and sleeps until all are back.
fn work(mut engine: CryptoThread, trains: u64) {
    assert!(engine.wake_by(&Arc::new(Unpark(thread::current())).into()));
    for train in 0..trains {
        let submission = Submission::new(train, SA, Direction::Seal, Vec::new());
        engine.submit(submission).expect("there is room");
    }
    let mut done = Vec::new();
    loop {
        engine.poll(&mut done);
        if done.len() as u64 == trains {
            break;
        }
        thread::park();
    }
    let order: Vec<u64> = done.iter().map(|completion| completion.submission.ticket).collect();
    assert_eq!(order, (0..trains).collect::<Vec<_>>());
    assert_eq!(engine.in_flight(), 0);
}

#[test]
fn worker_that_sleeps_gets_its_trains_back_in_order_from_a_thread_that_sleeps() {
    loom::model(|| work(ends(1).remove(0), 2));
}

#[test]
fn each_of_two_workers_that_share_a_thread_gets_its_own_trains_back() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let mut ends = ends(2);
        let other = ends.remove(1);
        let worker = thread::spawn(move || work(other, 1));
        work(ends.remove(0), 1);
        worker.join().expect("its train came back");
    });
}

#[test]
fn thread_ends_with_its_last_end_while_it_falls_asleep() {
    loom::model(|| drop(ends(2)));
}
