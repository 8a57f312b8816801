//! Small cases compared with arithmetic done by hand. In the easy platform a byte takes 1 us to
//! arrive, a multi-packet of n blocks 1 + n us to compute, and a transfer of n blocks 1 + n us.

use convoy_sim::{Arrivals, Packet, ProcessorKind, Simulation, StagePosition, StageSpec};

use crate::support::{easy, log, packets, processor};

fn cpu() -> convoy_sim::ProcessorSpec {
    processor("cpu", ProcessorKind::Cpu, None)
}

fn accelerator() -> convoy_sim::ProcessorSpec {
    processor("accelerator", ProcessorKind::Accelerator, Some("bus"))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_single_processor_without_bus_serves_packet_after_packet() {
    // Blocks: 1, 2, 1. Arrivals at 16, 48, 64; service of 2, 3, 2 us.
    let simulation = Simulation::new(easy(vec![cpu()], 1));
    let (report, lines) = log(&simulation, packets(&[(0, 16), (1, 32), (2, 16)]));
    let expected = [(0, 0, 16, 18, vec![16]), (0, 1, 48, 51, vec![48]), (0, 2, 64, 66, vec![64])];
    assert_eq!(lines, expected);
    assert!(close(report.throughput_mbps, 64.0 * 8.0 / 66.0));
    assert!(close(report.latency_ms, 7.0 / 3.0 / 1000.0));
    assert!(close(report.sojourn_ms, 7.0 / 3.0 / 1000.0));
    assert!(close(report.processors[0].utilisation, 7.0 / 66.0));
    assert_eq!(report.packets_per_multipacket, 1.0);
}

#[test]
fn the_window_groups_the_first_packets_sa_and_the_rest_stays_in_order() {
    // The window of 3 is full at 3: SA 7 is dispatched (2 packets of 1 byte, 2 blocks, 3 us). It is
    // full again at 5: SA 8. The source has ended at 5, and SA 9 follows at once.
    let simulation = Simulation::new(easy(vec![cpu()], 3));
    let (report, lines) = log(&simulation, packets(&[(7, 1), (8, 1), (7, 1), (9, 1), (8, 1)]));
    let expected = [(0, 7, 3, 6, vec![1, 3]), (0, 8, 5, 9, vec![2, 5]), (0, 9, 5, 11, vec![4])];
    assert_eq!(lines, expected);
    assert!(close(report.average_length_scheduled, 5.0 / 3.0));
    assert!(close(report.latency_ms, (3.0 * 2.0 + 4.0 * 2.0 + 6.0) / 5.0 / 1000.0));
    assert!(close(report.sojourn_ms, (5.0 + 3.0 + 7.0 + 4.0 + 7.0) / 5.0 / 1000.0));
}

#[test]
fn while_the_window_is_full_the_sources_clock_stands_still() {
    // W = 1 and one place to wait. At 1 the first starts (2 us), at 2 the second waits, at 3 the
    // first is done. Slow CPU: a block takes 10 us, so 11 us each.
    let mut slow = cpu();
    slow.enc_ratio = 10.0;
    slow.depth = 1;
    let simulation = Simulation::new(easy(vec![slow], 1));
    let (report, lines) = log(&simulation, packets(&[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]));
    // 1: in service until 12. 2: waits. 3: stays in the window, which is full until 12; the fourth
    // arrives at 13, since the clock stood from 3 to 12, and stays in the window until 23; the
    // fifth arrives at 24.
    let expected = [
        (0, 0, 1, 12, vec![1]),
        (0, 1, 2, 23, vec![2]),
        (0, 2, 12, 34, vec![3]),
        (0, 3, 23, 45, vec![13]),
        (0, 4, 34, 56, vec![24]),
    ];
    assert_eq!(lines, expected);
    assert!(close(report.source_waited_ms, 0.019));
}

#[test]
fn an_accelerator_moves_in_computes_and_moves_out_before_the_next() {
    // 1 block: 2 us in, 2 us to compute, 2 us out. A single processor never finds its bus occupied.
    let simulation = Simulation::new(easy(vec![accelerator()], 1));
    let (report, lines) = log(&simulation, packets(&[(0, 1), (1, 1), (2, 1)]));
    let expected = [(0, 0, 1, 7, vec![1]), (0, 1, 2, 13, vec![2]), (0, 2, 3, 19, vec![3])];
    assert_eq!(lines, expected);
    assert_eq!((report.buses[0].requests, report.buses[0].conflicts), (6, 0));
    assert!(close(report.buses[0].utilisation, 12.0 / 19.0));
}

#[test]
fn with_one_transfer_a_multi_packet_is_done_when_it_is_computed() {
    // 1 block: 2 us in, 2 us to compute, and the next may come in.
    let mut once = accelerator();
    once.transfers = 1;
    let traffic = || packets(&[(0, 1), (1, 1), (2, 1)]);
    let (report, lines) = log(&Simulation::new(easy(vec![once.clone()], 1)), traffic());
    assert_eq!(lines, [(0, 0, 1, 5, vec![1]), (0, 1, 2, 9, vec![2]), (0, 2, 3, 13, vec![3])]);
    assert_eq!(report.buses[0].requests, 3);
    // With prefetch, the next one is there when the core is free.
    once.prefetch = true;
    let (report, lines) = log(&Simulation::new(easy(vec![once], 1)), traffic());
    assert_eq!(lines, [(0, 0, 1, 5, vec![1]), (0, 1, 2, 7, vec![2]), (0, 2, 3, 9, vec![3])]);
    assert_eq!(report.buses[0].requests, 3);
}

#[test]
fn a_scheduler_that_expects_transfers_prefers_the_processor_without_a_bus() {
    // One block: the CPU needs 1 + 2 us, the accelerator 2 us and two transfers of 2 us.
    let mut slow = cpu();
    slow.enc_ratio = 2.0;
    let mut platform = easy(vec![slow, accelerator()], 1);
    assert_eq!(log(&Simulation::new(platform.clone()), packets(&[(0, 1)])).1[0].0, 1);
    platform.scheduler.predicts_transfers = true;
    let (_, lines) = log(&Simulation::new(platform), packets(&[(0, 1), (1, 1), (2, 1)]));
    // The second would finish after 2 + 3 us at the CPU, or after 6 at the accelerator. The third
    // takes 4 + 3 us at the CPU.
    assert_eq!(lines, [(0, 0, 1, 4, vec![1]), (0, 1, 2, 7, vec![2]), (1, 2, 3, 9, vec![3])]);
}

#[test]
fn while_the_pool_is_full_the_window_waits() {
    // Slow CPU: 11 us for a block. The pool has two places, of all processors together.
    let mut slow = cpu();
    slow.enc_ratio = 10.0;
    let mut platform = easy(vec![slow], 1);
    platform.scheduler.pool = Some(2);
    let (report, lines) = log(&Simulation::new(platform), packets(&[(0, 1), (1, 1), (2, 1), (3, 1)]));
    // 1: in service until 12, 2: waits, 3: stays in the window until 12; the fourth arrives at 13.
    let expected =
        [(0, 0, 1, 12, vec![1]), (0, 1, 2, 23, vec![2]), (0, 2, 12, 34, vec![3]), (0, 3, 23, 45, vec![13])];
    assert_eq!(lines, expected);
    assert!(close(report.source_waited_ms, 0.009));
}

#[test]
fn the_last_multi_packet_may_exceed_the_pool() {
    // Two windows of three packets of an SA each: the pool of 4 takes both, the third waits.
    let mut slow = cpu();
    slow.enc_ratio = 10.0;
    let mut platform = easy(vec![slow], 3);
    platform.scheduler.pool = Some(4);
    let (_, lines) = log(&Simulation::new(platform), packets(&[(0, 1); 9]));
    let scheduled: Vec<u64> = lines.iter().map(|line| line.2).collect();
    assert_eq!(scheduled, [3, 6, 34]);
}

#[test]
fn two_accelerators_wait_for_the_bus_in_order_of_request() {
    // Both take 2 us in, 2 us to compute, 2 us out. The first requests the bus at 1 and has it
    // until 3; the second requests it at 2 (a conflict) and has it from 3 to 5. The first has
    // computed at 5, finds the bus free and has it until 7. The second has computed at 7, when the
    // bus has just become free, since transfers end first, and has it until 9.
    let mut two = accelerator();
    two.count = 2;
    let simulation = Simulation::new(easy(vec![two], 1));
    let (report, lines) = log(&simulation, packets(&[(0, 1), (1, 1)]));
    assert_eq!(lines, [(0, 0, 1, 7, vec![1]), (1, 1, 2, 9, vec![2])]);
    assert_eq!((report.buses[0].requests, report.buses[0].conflicts), (4, 1));
    assert!(close(report.bus_conflicts, 0.25));
}

#[test]
fn the_lowest_finishing_time_gets_it_and_on_a_tie_the_accelerator() {
    // Two blocks: the CPU needs 1 + 2 * 2, the accelerator 1 + 2: it gets the first at 17. At 34 it
    // is idle again (3 in, 3 to compute, 3 out: 26).
    let mut slow = cpu();
    slow.enc_ratio = 2.0;
    let simulation = Simulation::new(easy(vec![slow, accelerator()], 1));
    let (_, lines) = log(&simulation, packets(&[(0, 17), (1, 17), (2, 1), (3, 1)]));
    // At 35 the accelerator has 2 of 3 us left: 2 + 2 against the CPU's 3. At 36 CPU: 2 + 3,
    // accelerator 1 + 2.
    let expected = [
        (1, 0, 17, 26, vec![17]),
        (0, 2, 35, 38, vec![35]),
        (1, 1, 34, 43, vec![34]),
        (1, 3, 36, 49, vec![36]),
    ];
    assert_eq!(lines, expected);
    // The same costs: a tie.
    let simulation = Simulation::new(easy(vec![cpu(), accelerator()], 1));
    let (_, lines) = log(&simulation, packets(&[(0, 17)]));
    assert_eq!(lines[0].0, 1);
}

#[test]
fn prefetch_and_write_buffer_let_transfers_overlap_with_computing() {
    // Long computation: 1 + 9 us. In: 2, out: 2. Packets at 1, 2, 3. The first computes from 3 to
    // 13; the second is moved in from 3 to 5.
    let with = |prefetch, write_buffer| {
        let mut accelerator = accelerator();
        (accelerator.enc_ratio, accelerator.prefetch, accelerator.write_buffer) =
            (9.0, prefetch, write_buffer);
        let (_, lines) =
            log(&Simulation::new(easy(vec![accelerator], 1)), packets(&[(0, 1), (1, 1), (2, 1)]));
        lines.into_iter().map(|line| line.3).collect::<Vec<_>>()
    };
    assert_eq!(with(false, false), [15, 29, 43]);
    // Compute 3-13, out 13-15, compute 15-25, out 25-27, compute 27-37.
    assert_eq!(with(true, false), [15, 27, 39]);
    // Out 13-15, in 15-17, compute 17-27, out 27-29, in 29-31, compute 31-41.
    assert_eq!(with(false, true), [15, 29, 43]);
    // Compute 3-13, 13-23, 23-33; each out behind it.
    assert_eq!(with(true, true), [15, 25, 35]);
}

#[test]
fn a_timeout_and_a_byte_limit_close_the_window_early() {
    let mut platform = easy(vec![cpu()], 30);
    platform.scheduler.max_wait_us = 5.0;
    let mut simulation = Simulation::new(platform);
    // Packets at 10, 20, 30: each leaves 5 us later, the last at once since the source has ended.
    simulation.arrivals = Arrivals::Paced(100_000.0);
    let (_, lines) = log(&simulation, packets(&[(0, 1), (0, 1), (0, 1)]));
    assert_eq!(lines.iter().map(|line| line.2).collect::<Vec<_>>(), [15, 25, 30]);

    let mut platform = easy(vec![cpu()], 30);
    platform.scheduler.byte_limit = Some(3);
    let (_, lines) = log(&Simulation::new(platform), packets(&[(0, 2), (0, 2), (0, 2), (0, 2)]));
    // Full in bytes at 4: a multi-packet has at most 3 bytes. 2 are left; full at 6, and so on.
    assert_eq!(
        lines.iter().map(|line| (line.2, line.4.len())).collect::<Vec<_>>(),
        [(4, 1), (6, 1), (8, 1), (8, 1)]
    );
}

#[test]
fn a_window_that_waits_for_an_engine_goes_elsewhere_as_soon_as_that_one_is_late() {
    // The accelerator has room for one multi-packet of 1 block. The predicted cost is 2 us; with
    // the bus, which the prediction does not include, it takes 6. The CPU takes 11.
    let mut slow = cpu();
    slow.enc_ratio = 10.0;
    let mut shallow = accelerator();
    shallow.depth = 0;
    let mut platform = easy(vec![slow, shallow], 1);
    let of = |platform: &convoy_sim::Platform| {
        let (_, lines) = log(&Simulation::new(platform.clone()), packets(&[(0, 1), (1, 1)]));
        let mut lines: Vec<_> = lines.into_iter().map(|line| (line.2, line.0, line.3)).collect();
        lines.sort_unstable();
        lines
    };
    // The second, at 2, waits for the accelerator until 7.
    assert_eq!(of(&platform), [(1, 1, 7), (7, 1, 13)]);
    // The accelerator should have finished the first at 3; more than 1 us after that it is late.
    platform.scheduler.late_margin_us = Some(1.0);
    assert_eq!(of(&platform), [(1, 1, 7), (4, 0, 15)]);
}

#[test]
fn captured_and_paced_packets_arrive_when_they_should() {
    let mut simulation = Simulation::new(easy(vec![cpu()], 1));
    simulation.arrivals = Arrivals::Captured;
    let at = |gap_us: u64| Packet { payload_bytes: 1, gap_ticks: gap_us * 1_000_000, ..Packet::default() };
    let (_, lines) = log(&simulation, vec![at(0), at(7), at(20)].into_iter());
    // The first packet takes 1 us on the line.
    assert_eq!(lines.iter().map(|line| line.2).collect::<Vec<_>>(), [1, 8, 28]);
}

fn stage(name: &str, place: StagePosition) -> StageSpec {
    StageSpec { name: name.to_owned(), place, ..StageSpec::default() }
}

#[test]
fn stages_take_each_packet_by_itself_on_servers_processors_and_buses() {
    let mut platform = easy(vec![cpu()], 1);
    let receive = StageSpec { packet_us: 3.0, byte_ns: 1000.0, ..stage("receive", StagePosition::Before) };
    let lookup =
        StageSpec { on: Some("cpu".to_owned()), packet_us: 4.0, ..stage("lookup", StagePosition::Before) };
    let send = StageSpec { bus: Some("bus".to_owned()), ..stage("send", StagePosition::After) };
    platform.stages = vec![receive, lookup, send];
    let (report, lines) = log(&Simulation::new(platform), packets(&[(0, 1), (1, 1)]));
    // First: arrives at 1, received at 5, looked up at 9, computed at 11, sent at 13. Second:
    // arrives at 2, received at 9; at that moment the CPU is done with the first lookup and has its
    // multi-packet, scheduled at 9, until 11; looked up at 15, computed at 17, sent at 19.
    assert_eq!(lines, [(0, 0, 9, 11, vec![1]), (0, 1, 15, 17, vec![2])]);
    assert!(close(report.sojourn_ms, (12.0 + 17.0) / 2.0 / 1000.0));
    assert!(close(report.processors[0].utilisation, 12.0 / 19.0));
    assert_eq!((report.packets, report.packets_out), (2, 2));
}

#[test]
fn a_scheduler_on_a_core_decides_only_while_that_core_is_free() {
    let mut helper = processor("helper", ProcessorKind::Accelerator, None);
    helper.init_ratio = 2.0;
    let mut platform = easy(vec![cpu(), helper], 1);
    platform.scheduler.on = Some("cpu".to_owned());
    let on_cpu = |packet_us, of| StageSpec { on: Some("cpu".to_owned()), packet_us, ..of };
    platform.stages = vec![
        on_cpu(4.0, stage("prepare", StagePosition::Before)),
        on_cpu(1.0, stage("finish", StagePosition::After)),
    ];
    let (report, lines) = log(&Simulation::new(platform), packets(&[(0, 1), (1, 1), (2, 1)]));
    // Packets are prepared, computed and finished one after the other, 4 + 2 + 1 us each, from 1
    // on. Whenever the scheduler runs, the CPU is idle and the faster choice, so the idle helper
    // gets nothing.
    assert_eq!(lines, [(0, 0, 5, 7, vec![1]), (0, 1, 12, 14, vec![2]), (0, 2, 19, 21, vec![3])]);
    assert!(close(report.end_ms, 0.022));
    assert!(close(report.processors[0].utilisation, 21.0 / 22.0));
}

#[test]
fn a_scheduler_on_a_core_takes_in_what_is_at_hand_before_it_sends_less_than_a_window() {
    let mut platform = easy(vec![cpu()], 3);
    platform.source.rate_mbps = 8e6;
    platform.scheduler.on = Some("cpu".to_owned());
    platform.scheduler.work_conserving = true;
    platform.stages = vec![StageSpec {
        on: Some("cpu".to_owned()),
        packet_us: 4.0,
        ..stage("prepare", StagePosition::Before)
    }];
    let (report, _) = log(&Simulation::new(platform), packets(&[(0, 1), (0, 1), (0, 1), (0, 1)]));
    assert_eq!(report.packets_per_multipacket, 2.0, "three, then the one that is left");
}

#[test]
fn with_all_frames_inside_the_source_waits() {
    let mut platform = easy(vec![cpu()], 1);
    platform.source.frames = 2;
    platform.stages = vec![StageSpec { packet_us: 10.0, ..stage("send", StagePosition::After) }];
    let (report, lines) = log(&Simulation::new(platform), packets(&[(0, 1), (1, 1), (2, 1)]));
    // Dispatched at 13 and 23; the third packet arrives at 14.
    assert_eq!(lines.iter().map(|line| line.4[0]).collect::<Vec<_>>(), [1, 2, 14]);
    assert!(close(report.end_ms, 0.033));
}

#[test]
fn a_higher_class_does_not_wait_behind_a_lower_one_in_the_window() {
    let mut slow = cpu();
    slow.enc_ratio = 10.0;
    slow.depth = 0;
    let mut platform = easy(vec![slow], 4);
    platform.scheduler.classes = 2;
    let of = |sa: u32, class| Packet { payload_bytes: 1, sa, class, gap_ticks: 0 };
    let traffic = vec![of(0, 1), of(1, 1), of(2, 1), of(3, 0), of(4, 1)];
    let (report, lines) = log(&Simulation::new(platform), traffic.into_iter());
    assert_eq!(lines.iter().map(|line| line.1).collect::<Vec<_>>(), [0, 3, 1, 2, 4]);
    assert_eq!(report.classes.len(), 2);
    assert!(report.classes[0].latency_ms < 0.012);
}

#[test]
fn nothing_comes_of_nothing() {
    let (report, _) = log(&Simulation::new(easy(vec![cpu()], 1)), packets(&[]));
    assert_eq!((report.packets, report.throughput_mbps, report.latency_ms), (0, 0.0, 0.0));
}
