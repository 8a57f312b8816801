//! Packets of several classes in the line before the window.

use convoy_scheduler::ClassDiscipline;

use super::*;

fn two_classes() -> CryptoStage {
    by(ClassDiscipline::Strict)
}

fn by(discipline: ClassDiscipline) -> CryptoStage {
    let scheduler = SchedulerConfig { window: 8, classes: 2, discipline, ..SchedulerConfig::default() };
    stage_by(vec![Box::new(Software::new("good"))], scheduler)
}

/// So many packets of an SA and a class, numbered from `first` on.
fn packets(pool: &mut FramePool, class: u8, sa: u32, first: u32, count: u32) -> Vec<CryptoPacket> {
    (first..first + count).map(|number| CryptoPacket { class, ..packet(pool, sa, number) }).collect()
}

fn number(packet: &CryptoPacket) -> u32 {
    u32::from_be_bytes(packet.frame[..4].try_into().expect("4 bytes"))
}

#[test]
fn packet_of_a_high_class_precedes_waiting_ones_of_other_sas_but_not_of_its_own() {
    let mut pool = FramePool::new(FRAMES, 0);
    let (mut stage, mut released) = (two_classes(), Released::default());
    let mut all = packets(&mut pool, 1, 0, 0, 40);
    all.append(&mut packets(&mut pool, 0, 1, 40, 1));
    all.append(&mut packets(&mut pool, 0, 0, 41, 1));
    stage.take_in(all, &mut pool, &mut released);
    assert_eq!((stage.in_line(), released.outbound.len()), (42, 0));
    let mut rounds = 0;
    while !stage.is_empty() {
        stage.pump_with(Input::Ended, &mut pool, &mut released);
        rounds += 1;
        assert!(rounds < 100);
    }
    let left: Vec<u32> = released.outbound.iter().map(number).collect();
    let of_sa_0 = (0..40).chain([41]);
    assert_eq!(left, [40].into_iter().chain(of_sa_0).collect::<Vec<_>>());
}

#[test]
fn line_that_is_too_long_loses_the_latest_of_the_lowest_class() {
    let mut pool = FramePool::new(FRAMES, 0);
    let (mut stage, mut released) = (two_classes(), Released::default());
    stage.take_in(packets(&mut pool, 1, 0, 0, 20), &mut pool, &mut released);
    stage.take_in(packets(&mut pool, 0, 1, 20, 5), &mut pool, &mut released);
    stage.trim(10, &mut released);
    assert_eq!((stage.in_line(), stage.len()), (10, 10));
    let dropped: Vec<u32> = released.outbound.iter().map(number).collect();
    assert_eq!(dropped, (5..20).rev().collect::<Vec<_>>());
    let overloaded = CryptoStatus::Refused(DropReason::Overloaded);
    assert!(released.outbound.iter().all(|packet| packet.status == overloaded));
    stage.trim(3, &mut released);
    assert_eq!(number(released.outbound.last().expect("it was dropped")), 23, "no lower class is left");
}

#[test]
fn ports_are_read_again_after_64_packets() {
    let mut pool = FramePool::new(FRAMES, 0);
    let (mut stage, mut released) = (two_classes(), Released::default());
    stage.take_in(packets(&mut pool, 1, 0, 0, 200), &mut pool, &mut released);
    assert!(stage.pump_with(Input::More, &mut pool, &mut released));
    assert!((64..128).contains(&released.outbound.len()), "{}", released.outbound.len());
    stage.take_in(packets(&mut pool, 0, 1, 200, 1), &mut pool, &mut released);
    let before = released.outbound.len();
    stage.pump_with(Input::More, &mut pool, &mut released);
    let behind = released.outbound[before..].iter().position(|packet| packet.sa == SaIndex(1));
    assert!(behind.is_some_and(|behind| behind <= 64), "{behind:?}");
}

#[test]
fn classes_with_weights_are_served_and_dropped_by_them() {
    let mut pool = FramePool::new(1_024, 0);
    let mut stage = by(ClassDiscipline::Weighted([3, 1, 1, 1, 1, 1, 1, 1]));
    let mut released = Released::default();
    // The higher class floods; the other has less than its quarter, and loses nothing.
    stage.take_in(packets(&mut pool, 0, 0, 0, 600), &mut pool, &mut released);
    stage.take_in(packets(&mut pool, 1, 1, 600, 60), &mut pool, &mut released);
    stage.trim(400, &mut released);
    assert_eq!(released.outbound.len(), 260);
    assert!(released.outbound.iter().all(|packet| packet.sa == SaIndex(0)));
    released.outbound.clear();
    // Both have a part of what goes before the ports have been read a few times.
    let mut parts = [0; 2];
    for _ in 0..3 {
        stage.pump_with(Input::More, &mut pool, &mut released);
        released.outbound.drain(..).for_each(|packet| parts[packet.sa.0 as usize] += 1);
    }
    assert!(parts[1] > 0 && parts[0] > parts[1], "{parts:?}");
}
