use super::*;
use crate::model::bus::crossing;

/// Cycles of 10 ps, one for the address, 4 bytes in each further one: 84 bytes take 220 ps.
const BUS: BusTiming = BusTiming { t_cycle_ns: 0.01, c_address: 1, width_bytes: 4, packet_bytes: 0 };
const DEVICE: DeviceTiming = DeviceTiming { t_init_ps: 1_000.0, t_block_ps: 100.0, has_prefetch: false };

/// Submits `(at, device, blocks)` with 84 bytes each and returns `(device, name, began, ended)`.
fn run(
    devices: &[DeviceTiming],
    work: &[(u64, usize, u64)],
) -> (Vec<(usize, usize, u64, u64)>, BusStatistics) {
    let mut platform = ModelPlatform::new(BUS);
    devices.iter().for_each(|timing| {
        platform.add(*timing);
    });
    let (mut finished, mut computed) = (Vec::new(), 0);
    let mut compute = |_: &mut usize| computed += 1;
    for (name, (at, device, blocks)) in work.iter().enumerate() {
        platform.submit(*at, *device, Work::new(*blocks, 84, name), &mut compute, &mut finished);
    }
    while let Some(at) = platform.next_ps() {
        platform.advance(at, &mut compute, &mut finished);
    }
    assert_eq!(computed, work.len());
    let rows =
        finished.iter().map(|done| (done.device, done.payload, done.began_ps, done.ended_ps)).collect();
    (rows, platform.statistics())
}

#[test]
fn a_multi_packet_is_moved_in_computed_and_moved_out() {
    let (rows, statistics) = run(&[DEVICE], &[(50, 0, 6)]);
    assert_eq!(rows, [(0, 0, 50, 50 + 220 + 1_600 + 220)]);
    assert_eq!((statistics.requests, statistics.conflicts), (2, 0));
}

#[test]
fn without_prefetch_the_next_one_starts_when_the_last_is_out() {
    let (rows, statistics) = run(&[DEVICE], &[(0, 0, 6), (0, 0, 6)]);
    assert_eq!(rows, [(0, 0, 0, 2_040), (0, 1, 2_040, 4_080)]);
    assert_eq!(statistics.conflicts, 0);
}

#[test]
fn prefetch_and_write_buffer_hide_the_bus_behind_computing() {
    let device = DeviceTiming { has_prefetch: true, ..DEVICE };
    let (rows, _) = run(&[device], &[(0, 0, 6), (0, 0, 6), (0, 0, 6)]);
    let ends: Vec<u64> = rows.iter().map(|row| row.3).collect();
    assert_eq!(ends, [220 + 1_600 + 220, 220 + 2 * 1_600 + 220, 220 + 3 * 1_600 + 220]);
    assert_eq!(rows[1].2, 220);
}

#[test]
fn the_bus_serves_in_order_of_request_and_counts_conflicts() {
    let (rows, statistics) = run(&[DEVICE; 3], &[(0, 2, 6), (0, 0, 6), (100, 1, 6)]);
    // In: device 2 at 0, device 0 at 220, device 1 at 440; each computes for 1,600; out in the same
    // order.
    assert_eq!(rows, [(2, 0, 0, 2_040), (0, 1, 0, 2_260), (1, 2, 100, 2_480)]);
    // Two wait for a transfer to the device; two request a transfer from it at the moment at which
    // the previous one ends, and find the bus taken.
    assert_eq!((statistics.requests, statistics.conflicts), (6, 4));
    assert_eq!(statistics.busy_ns, 1);
}

#[test]
fn a_late_arrival_counts_from_the_last_event_and_never_before() {
    let mut platform = ModelPlatform::new(BUS);
    platform.add(DEVICE);
    let mut finished = Vec::new();
    platform.submit(1_000, 0, Work::new(6, 84, 'a'), &mut |_| {}, &mut finished);
    platform.advance(10_000, &mut |_| {}, &mut finished);
    platform.submit(3_000, 0, Work::new(6, 84, 'b'), &mut |_| {}, &mut finished);
    platform.advance(10_000, &mut |_| {}, &mut finished);
    assert_eq!(finished[1].began_ps, 3_040);
}

#[test]
fn a_cleared_device_finishes_nothing_and_frees_the_bus() {
    let mut platform = ModelPlatform::new(BUS);
    let (first, second) = (platform.add(DEVICE), platform.add(DEVICE));
    let mut finished = Vec::new();
    for device in [first, second] {
        platform.submit(0, device, Work::new(1, 84, device), &mut |_| {}, &mut finished);
    }
    platform.clear(first);
    platform.advance(1_000_000, &mut |_| {}, &mut finished);
    assert_eq!(finished.iter().map(|done| done.device).collect::<Vec<_>>(), [second]);
}

#[test]
fn the_pci_bus_of_the_paper_takes_333_ns_for_84_bytes() {
    assert_eq!(transfer_ps(&BusTiming::PCI, 84), 333_333);
    assert_eq!(transfer_ps(&BusTiming::FREE, 84), 0);
}

#[test]
fn commands_and_status_cross_with_each_packet() {
    let bus = BusTiming { packet_bytes: 80, ..BUS };
    assert_eq!((crossing(&bus, 3, 1000), crossing(&BUS, 3, 1000)), (1240, 1000));
}
