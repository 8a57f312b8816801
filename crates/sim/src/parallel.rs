//! Work that falls into independent pieces, over all cores.

use std::sync::mpsc;
use std::thread;

use rayon::ThreadPoolBuilder;
use rayon::iter::{ParallelBridge, ParallelIterator};

/// Threads that the machine runs at once.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Works on every item, in any order, on so many threads; `done` gets each result, with its item's
/// place, on the caller's thread.
///
/// # Errors
/// The first error of `done`; items that nobody has begun are then left.
///
/// # Panics
/// If the system has no more threads to give.
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
            // Nobody listens after an error: with the receiver gone, the work stops.
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
