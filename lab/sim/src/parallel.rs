//! Runs independent tasks on all cores.

use std::sync::mpsc;
use std::thread;

use rayon::ThreadPoolBuilder;
use rayon::iter::{ParallelBridge, ParallelIterator};

/// Number of threads that the machine runs at the same time.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Processes every item on this many threads, in any order. `done` is called on the caller's thread
/// with each result and the index of its item.
///
/// # Errors
/// The first error of `done`. Items that have not been started by then are skipped.
///
/// # Panics
/// If the system cannot start another thread.
pub fn for_each<T: Sync, R: Send, E>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(usize, R) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.clamp(1, items.len().max(1));
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("the system has threads to give");
    let (sender, receiver) = mpsc::channel();
    pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            let items = items.iter().enumerate().par_bridge();
            // After an error the receiver is gone, and a failed send ends the work.
            let _ = items.try_for_each_with(sender, |sender, (place, item)| sender.send((place, work(item))));
        });
        receiver.into_iter().try_for_each(|(place, result)| done(place, result))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_whatever_the_number_of_threads() {
        let items: Vec<u64> = (0..1000).collect();
        for threads in [0, 1, 3, 2000] {
            let mut squares = vec![0; items.len()];
            let kept: Result<(), ()> = for_each(
                &items,
                threads,
                |item| item * item,
                |place, square| {
                    squares[place] += square;
                    Ok(())
                },
            );
            assert!(kept.is_ok());
            assert!(squares.iter().zip(&items).all(|(square, item)| *square == item * item));
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let items = vec![(); 100_000];
        let mut results = 0;
        let ended = for_each(
            &items,
            2,
            |()| (),
            |_, ()| {
                results += 1;
                if results == 3 { Err("full") } else { Ok(()) }
            },
        );
        assert_eq!((ended, results), (Err("full"), 3));
    }
}
