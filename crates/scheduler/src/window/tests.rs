//! The window: how it groups packets, and what it releases.

use super::*;
use proptest::prelude::*;

fn window(byte_limit: u32) -> Window<u32> {
    Window::new(WindowSize { packets: 8, classes: 4, byte_limit, notes_arrivals: true, is_compared: true })
}

fn push(window: &mut Window<u32>, sa: u32, class: u8, payload: u32) {
    let item = Item { sa, algorithm: u16::from(class), class, blocks: 1, bytes: 10, payload };
    window.push(u64::from(payload), usize::from(class), item);
}

fn take(window: &mut Window<u32>, class: usize) -> Vec<u32> {
    let group = window.group(class).expect("the class has packets");
    window.take(&group, 0, |_, _| ())
}

#[test]
fn all_packets_of_the_first_ones_sa_leave_and_the_rest_stay_in_order() {
    let mut window = window(1000);
    for (place, sa) in [5, 6, 5, 7, 6, 5].into_iter().enumerate() {
        push(&mut window, sa, 0, place as u32);
    }
    assert_eq!(take(&mut window, 0), [0, 2, 5]);
    push(&mut window, 7, 0, 6);
    assert_eq!(take(&mut window, 0), [1, 4]);
    assert_eq!(take(&mut window, 0), [3, 6]);
    assert_eq!((window.len(), window.bytes()), (0, 0));
}

#[test]
fn behind_a_group_stands_that_of_the_next_sa() {
    let mut window = window(1000);
    for (place, sa) in [5, 6, 5, 7, 6, 5].into_iter().enumerate() {
        push(&mut window, sa, 0, place as u32);
    }
    let first = window.group(0).expect("it has packets");
    let second = window.group_behind(&first).expect("SA 6");
    let third = window.group_behind(&second).expect("SA 7");
    assert_eq!([first, second, third].map(|group| (group.sa, group.packets)), [(5, 3), (6, 2), (7, 1)]);
    assert_eq!(window.group_behind(&third), None);
}

#[test]
fn behind_a_group_no_sa_stands_whose_first_packet_is_of_another_class_or_batch() {
    let mut window = window(20);
    // SA 5 fills a batch and begins another. The first packet of SA 6 is of class 1.
    for (place, (sa, class)) in [(5, 0), (5, 0), (5, 0), (6, 1), (6, 0), (7, 0)].into_iter().enumerate() {
        push(&mut window, sa, class, place as u32);
    }
    let first = window.group(0).expect("it has packets");
    let second = window.group_behind(&first).expect("SA 7");
    assert_eq!([first, second].map(|group| (group.sa, group.packets)), [(5, 2), (7, 1)]);
    assert_eq!(window.group_behind(&second), None);
}

#[test]
fn the_byte_limit_closes_a_multi_packet_but_never_empties_it() {
    for (limit, multi_packets) in [(25, [&[0, 1][..], &[2, 3], &[4]]), (5, [&[0], &[1], &[2]])] {
        let mut window = window(limit);
        for place in 0..5 {
            push(&mut window, 1, 0, place);
        }
        for packets in multi_packets {
            assert_eq!(take(&mut window, 0), packets);
        }
    }
}

#[test]
fn a_packet_of_a_lower_class_rides_with_its_sa() {
    let mut window = window(1000);
    push(&mut window, 1, 3, 0);
    push(&mut window, 2, 3, 1);
    push(&mut window, 1, 0, 2);
    assert_eq!(take(&mut window, 0), [0, 2]);
    assert_eq!(window.counts()[0], 0);
    assert_eq!(take(&mut window, 3), [1]);
}

#[test]
fn a_packet_behind_a_full_batch_of_its_sa_is_the_reference_of_that_batch_and_then_of_its_own() {
    let mut window = window(20);
    for (place, class) in [3, 3, 0].into_iter().enumerate() {
        push(&mut window, 1, class, place as u32);
    }
    let group = window.group(0).expect("the class has a packet");
    assert_eq!((group.packets, group.algorithm), (2, 0));
    assert_eq!(take(&mut window, 0), [0, 1]);
    assert_eq!((window.counts()[0], window.counts()[3]), (1, 0));
    assert_eq!(take(&mut window, 0), [2]);
}

#[test]
fn it_is_reported_how_long_packets_stood_there() {
    let mut window = window(1000);
    let item = Item { sa: 1, algorithm: 0, class: 0, blocks: 1, bytes: 10, payload: 0 };
    for arrived in [3, 3, 5] {
        window.push(arrived, 0, item);
    }
    assert_eq!(window.first_arrival(), Some(3));
    let group = window.group(0).expect("it has packets");
    let mut reported = Vec::new();
    window.take(&group, 10, |waited, packets| reported.push((waited, packets)));
    assert_eq!(reported, [(7, 2), (5, 1)]);
    assert_eq!(window.first_arrival(), None);
}

proptest! {
    /// Packets of some SAs and classes, each after a multi-packet was taken.
    #[test]
    fn contenders_are_the_groups_behind_one_another_without_those_alike(
        steps in proptest::collection::vec((0u32..4, 0u8..4, 0usize..8), 1..60),
    ) {
        let mut window = window(30);
        for (at, (sa, class, taken)) in steps.into_iter().enumerate() {
            let group = window.group(taken);
            if let Some(group) = group.filter(|_| taken < 4) {
                window.take(&group, 0, |_, _| ());
            }
            if window.len() < 8 {
                push(&mut window, sa, class, at as u32);
            }
            for class in 0..4 {
                // The first one may begin with a packet of another class.
                let begins = |group: &Group| {
                    let batch = &window.batches[group.reference as usize];
                    window.chains[group.sa as usize].head == group.reference && usize::from(batch.class) == class
                };
                let groups = std::iter::successors(window.group(class), |group| window.group_behind(group));
                let walked: Vec<Contender> = groups.filter(begins).map(|group| group.contender()).collect();
                let contenders = window.contenders.as_mut().expect("they are compared");
                let compared = contenders.different(class);
                // Each size stands among them with its first group.
                for (contender, batch) in compared {
                    prop_assert!(walked.contains(contender), "{contender:?} of batch {batch}");
                }
                prop_assert!(walked.iter().all(|one| compared.iter().any(|(other, _)| one == other)));
            }
        }
    }
}
