//! The guarantees of the classes.

use convoy_scheduler::{ClassDiscipline, Input, Research, SchedulerConfig};

use crate::rules::{item, scheduler};

#[test]
fn a_class_never_waits_behind_a_lower_one() {
    let config = SchedulerConfig { window: 16, classes: 2, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 100);
    let mut lower = 0;
    while scheduler.push(0, item(lower, 1, false)).is_ok() {
        lower += 1;
    }
    assert_eq!(lower, 14, "an eighth of the window stays free for the higher class");
    scheduler.push(0, item(90, 0, true)).expect("the higher class finds room");
    let first = scheduler.dispatch(0, Input::Ended).expect("room");
    assert_eq!(first.items, [true]);
}

#[test]
fn each_class_finds_room_whatever_the_lower_ones_sent() {
    let config = SchedulerConfig { window: 16, classes: 3, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 100);
    let mut sa = 0;
    for class in [2, 1, 0] {
        assert!(scheduler.room_for(class) > 0);
        while scheduler.push(0, item(sa, class, class)).is_ok() {
            sa += 1;
        }
        assert_eq!(scheduler.room_for(class), 0);
    }
    assert_eq!(scheduler.room(), 0);
    let mut served = Vec::new();
    while let Some(dispatch) = scheduler.dispatch(0, Input::Ended) {
        served.extend(dispatch.items);
    }
    assert_eq!(served.len(), 16);
    assert!(served.is_sorted());
}

#[test]
fn a_window_that_refuses_a_packet_is_full() {
    let weights = ClassDiscipline::Weighted([3, 1, 1, 1, 1, 1, 1, 1]);
    for discipline in [ClassDiscipline::Strict, weights] {
        for (window, class) in [(1, 1), (2, 1), (7, 2), (16, 0), (16, 2), (1024, 1)] {
            let config = SchedulerConfig { window, classes: 3, discipline, ..SchedulerConfig::default() };
            let mut scheduler = scheduler(config, 2000);
            while scheduler.push(0, item(1, class, ())).is_ok() {}
            assert!(scheduler.dispatch(0, Input::More).is_some(), "{discipline:?}, {window}, class {class}");
        }
    }
}

#[test]
fn with_one_class_in_use_the_class_of_a_packet_changes_nothing() {
    let mut scheduler = scheduler(SchedulerConfig { window: 2, ..SchedulerConfig::default() }, 4);
    scheduler.push(0, item(1, 5, ())).expect("room");
    scheduler.push(0, item(2, 0, ())).expect("room");
    assert_eq!(scheduler.dispatch(0, Input::More).map(|dispatch| dispatch.sa), Some(1));
}

#[test]
fn higher_class_finds_no_more_of_lower_ones_at_an_engine_than_their_credits() {
    let research = Research { class_credits: Some(2), ..Research::default() };
    let config = SchedulerConfig { window: 8, classes: 3, research, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 8);
    let mut sends = |sa, class| {
        scheduler.push(0, item(sa, class, sa)).expect("room");
        scheduler.dispatch(0, Input::Ended).is_some()
    };
    // Two of the lowest class at each engine. The middle class counts them as well.
    assert_eq!((0..8).take_while(|sa| sends(*sa, 2)).count(), 4);
    assert!(!sends(100, 1));
    assert!(sends(200, 0), "the highest class has no bound");
}

#[test]
fn weighted_classes_share_by_their_weights() {
    let mut weights = [0; 8];
    (weights[0], weights[1]) = (3, 1);
    let discipline = ClassDiscipline::Weighted(weights);
    let config = SchedulerConfig { window: 64, classes: 2, discipline, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 10);
    let mut served = [0u32; 2];
    let mut sa = 0;
    for _ in 0..20_000 {
        // Both classes always have packets in the window, each packet of a different SA.
        for class in [1, 0] {
            while scheduler.push(0, item(sa % 4096, class, class)).is_ok() {
                sa += 1;
            }
        }
        let dispatch = scheduler.dispatch(0, Input::Ended).expect("room");
        served[usize::from(dispatch.items[0])] += 1;
        scheduler.complete(0, dispatch.engine, dispatch.ticket, None);
    }
    let ratio = f64::from(served[0]) / f64::from(served[1]);
    assert!((2.9..3.1).contains(&ratio), "{served:?}");
}
