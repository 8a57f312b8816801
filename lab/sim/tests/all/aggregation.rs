//! Aggregation on the wire compared with arithmetic done by hand, on the easy platform: a byte
//! takes 1 us to arrive, a multi-packet of n blocks 1 + n us to compute, and a transfer of n
//! blocks 1 + n us.

use convoy_sim::{
    OuterReport, Platform, ProcessorKind, Report, Served, Setting, Simulation, StagePosition, StageSpec,
};

use crate::support::{easy, log, packets, paper, processor};

fn cpu() -> convoy_sim::ProcessorSpec {
    processor("cpu", ProcessorKind::Cpu, None)
}

/// Completion of each multi-packet, in us, and the report.
fn completions(platform: &Platform, of: &[(u32, u32)]) -> (Vec<u64>, Report) {
    let (report, lines) = log(&Simulation::new(platform.clone()), packets(of));
    (lines.iter().map(|line| line.3).collect(), report)
}

#[test]
fn packets_that_share_an_outer_packet_share_its_blocks() {
    // Three packets of 4 bytes arrive until 12. Alone each is a block: 1 + 3 us. Together they are
    // 4 + 12 bytes, which is one block.
    let mut platform = easy(vec![cpu()], 3);
    let traffic = [(0, 4); 3];
    let (alone, report) = completions(&platform, &traffic);
    assert_eq!((alone, report.outer), (vec![16], None));
    platform.scheduler.aggregation = Some(1500);
    let (together, report) = completions(&platform, &traffic);
    assert_eq!(together, [14]);
    // 16 bytes of payload and 2 of trailer are padded to 20.
    assert_eq!(report.outer, Some(OuterReport { packets: 1, wire_bytes: 52 + 20 }));
    // What is measured are the inner packets.
    assert_eq!((report.packets, report.bytes, report.packets_per_multipacket), (3, 12, 3.0));
    assert!((report.throughput_mbps - 12.0 * 8.0 / 14.0).abs() < 1e-9);
}

#[test]
fn a_multi_packet_is_cut_at_the_mtu_and_the_bus_transfers_outer_packets() {
    // Two packets of 16 bytes arrive until 32. The bus transfers 10 bytes more for each packet: 52
    // bytes, 5 us. Two blocks: 3 us. In, computed and out.
    let mut platform = easy(vec![processor("accelerator", ProcessorKind::Accelerator, Some("bus"))], 2);
    platform.buses[0].packet_bytes = 10;
    let traffic = [(0, 16); 2];
    assert_eq!(completions(&platform, &traffic).0, [32 + 5 + 3 + 5]);
    // An MTU of 72 has room for 14 bytes of inner packets: outer packets of 14, 14 and 4 bytes.
    // With headers they are 18, 18 and 8 bytes, 5 blocks: 6 us. The bus transfers 44 + 30 bytes: 6
    // us.
    platform.scheduler.aggregation = Some(72);
    let (completed, report) = completions(&platform, &traffic);
    assert_eq!(completed, [32 + 6 + 6 + 6]);
    assert_eq!(report.outer, Some(OuterReport { packets: 3, wire_bytes: 72 + 72 + 64 }));
}

#[test]
fn what_belongs_to_an_esp_packet_is_paid_for_each_outer_packet() {
    // Packets of 8 bytes arrive at 8 and 16. With 24 bytes for ESP each takes two blocks.
    let mut platform = easy(vec![cpu()], 2);
    platform.source.header_bytes = 24;
    platform.source.esp_bytes = 24;
    platform.source.line_bytes = Some(0);
    assert_eq!(completions(&platform, &[(0, 8); 2]).0, [16 + 5]);
    // 24 + 4 + 16 bytes: three blocks.
    platform.scheduler.aggregation = Some(1500);
    assert_eq!(completions(&platform, &[(0, 8); 2]).0, [16 + 4]);
    // Packets of different SAs share nothing: 36 bytes and three blocks each.
    assert_eq!(completions(&platform, &[(0, 8), (1, 8)]).0, [16 + 4, 16 + 4 + 4]);
}

#[test]
fn the_scheduler_predicts_with_the_blocks_of_outer_packets() {
    // SA 0 has 4 + 12 bytes and SA 1 has 4 + 4: a block each, so the second waits for 2 us. By
    // inner packets it would be predicted to wait for 4.
    let mut platform = easy(vec![cpu()], 4);
    platform.scheduler.aggregation = Some(1500);
    let mut waits = Vec::new();
    let traffic = packets(&[(0, 4), (0, 4), (0, 4), (1, 4)]);
    let mut observer =
        |served: &Served<'_>| waits.push((served.predicted_wait_ticks, served.processing_ticks));
    Simulation::new(platform).run_observed(traffic, &mut observer).expect("in range");
    assert_eq!(waits, [(0, 2_000_000), (2_000_000, 2_000_000)]);
}

#[test]
fn a_multi_packet_that_is_cut_by_the_byte_limit_leaves_the_rest_as_it_is() {
    // The window is full in bytes at 12. Three packets of 4 bytes go, and the fourth follows alone.
    let mut platform = easy(vec![cpu()], 4);
    platform.scheduler.aggregation = Some(1500);
    platform.scheduler.byte_limit = Some(12);
    let (completed, report) = completions(&platform, &[(0, 4); 4]);
    assert_eq!(completed, [14, 18]);
    assert_eq!(report.outer.map(|outer| outer.packets), Some(2));
}

#[test]
fn with_one_packet_in_each_multi_packet_there_is_only_the_header_more() {
    // 984 + 40 bytes are 64 blocks, and 65 with the header.
    let run = |aggregation| {
        let setting = Setting {
            pattern: Some("984".to_owned()),
            packets: Some(2000),
            window: Some(1),
            aggregation,
            ..Setting::default()
        };
        setting.run(&paper()).expect("in range")
    };
    let (plain, aggregated) = (run(None), run(Some(1500)));
    let ratio = aggregated.throughput_mbps / plain.throughput_mbps;
    assert!((0.98..1.0).contains(&ratio), "{ratio}");
    assert_eq!(aggregated.outer.map(|outer| outer.packets), Some(2000));
}

#[test]
fn what_cannot_be_aggregated_is_refused() {
    let refused = |change: fn(&mut Platform)| {
        let mut platform = paper();
        change(&mut platform);
        Simulation::new(platform).run(packets(&[])).expect_err("refused").to_string()
    };
    assert!(refused(|it| it.scheduler.aggregation = Some(67)).contains("68 to 65535"));
    assert!(refused(|it| it.scheduler.aggregation = Some(65_536)).contains("68 to 65535"));
    assert!(refused(|it| it.source.esp_bytes = 41).contains("it cannot exceed header_bytes"));
    let reported = refused(|it| {
        let line = StageSpec { name: "line".to_owned(), place: StagePosition::After, ..StageSpec::default() };
        it.stages.push(line);
        it.scheduler.aggregation = Some(1500);
    });
    assert!(reported.contains("\"line\" is after cryptography"), "{reported}");
}
