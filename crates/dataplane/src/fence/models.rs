//! A fence that is held before it is opened, in every order that loom finds.

use loom::thread;

use super::*;

#[test]
fn worker_that_sees_the_deadline_sees_the_hold_that_came_before() {
    loom::model(|| {
        let fence = Fence::closed();
        let worker = thread::spawn({
            let fence = fence.clone();
            move || assert!(fence.is_closed(5), "a worker passed a fence that is held")
        });
        let hold = fence.hold();
        fence.open_until(10);
        worker.join().expect("nothing passes");
        drop(hold);
        assert!(!fence.is_closed(5));
    });
}
