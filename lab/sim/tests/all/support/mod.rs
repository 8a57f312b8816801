//! Platforms for tests.
#![allow(dead_code)] // Each test binary uses its own part.

use convoy_sim::{
    BusSpec, Packet, Pattern, Platform, ProcessorKind, ProcessorSpec, Reference, Report, SchedulerSpec,
    Simulation, SourceSpec, SyntheticSpec,
};

/// The paper's platform, read from its file.
pub(crate) fn paper() -> Platform {
    Platform::from_toml(
        "pci-accelerators.toml",
        include_str!("../../../../../platforms/pci-accelerators.toml"),
    )
    .expect("the paper's platform")
}

/// One point of the paper's experiments: pattern, accelerators, `T_enc_ratio` and `W`.
pub(crate) fn experiment(pattern: Pattern, accelerators: usize, enc_ratio: f64, window: usize) -> Report {
    let mut platform = paper();
    platform.set_accelerators(accelerators);
    platform.set_enc_ratio(enc_ratio);
    platform.scheduler.window = window;
    run(platform, pattern)
}

/// 60,000 packets of a pattern with the paper's parameters.
pub(crate) fn run(platform: Platform, pattern: Pattern) -> Report {
    let spec = SyntheticSpec::paper(pattern);
    Simulation::new(platform).run_pattern(pattern, &spec, 60_000).expect("in range")
}

/// A processor.
pub(crate) fn processor(name: &str, kind: ProcessorKind, bus: Option<&str>) -> ProcessorSpec {
    ProcessorSpec { kind, bus: bus.map(str::to_owned), ..ProcessorSpec::named(name) }
}

/// A platform with simple numbers: `t_init` 1 us, 1 us for each block, a line of 8 Mbit/s (1 us for
/// each byte), no header, and a bus of 1 MHz with one address cycle and 16 bytes per cycle.
pub(crate) fn easy(processors: Vec<ProcessorSpec>, window: usize) -> Platform {
    Platform {
        name: "easy".to_owned(),
        source: SourceSpec { rate_mbps: 8.0, header_bytes: 0, ..SourceSpec::default() },
        scheduler: SchedulerSpec { window, ..SchedulerSpec::default() },
        reference: Reference { t_init_us: 1.0, block_mbps: 128.0 },
        algorithms: Vec::new(),
        buses: vec![BusSpec {
            name: "bus".to_owned(),
            clock_mhz: 1.0,
            address_cycles: 1,
            width_bytes: 16,
            packet_bytes: 0,
        }],
        processors,
        cores: Vec::new(),
        stages: Vec::new(),
        variants: convoy_sim::Variants::new(),
    }
}

/// Packets of class 0 with these SAs and payloads.
pub(crate) fn packets(of: &[(u32, u32)]) -> std::vec::IntoIter<Packet> {
    let packet = |(sa, payload_bytes): &(u32, u32)| Packet {
        payload_bytes: *payload_bytes,
        sa: *sa,
        ..Packet::default()
    };
    of.iter().map(packet).collect::<Vec<_>>().into_iter()
}

/// One served multi-packet: processor, SA, scheduled and completed in us, and the arrivals of its
/// packets in us.
pub(crate) type Line = (usize, u32, u64, u64, Vec<u64>);

/// Runs traffic and records the served multi-packets, in order of completion.
pub(crate) fn log(simulation: &Simulation, traffic: std::vec::IntoIter<Packet>) -> (Report, Vec<Line>) {
    let us = |ticks: u64| ticks / 1_000_000;
    let mut lines = Vec::new();
    let mut observer = |served: &convoy_sim::Served<'_>| {
        lines.push((
            served.processor,
            served.sa,
            us(served.scheduled_ticks),
            us(served.completed_ticks),
            served.packets.iter().map(|packet| us(packet.arrived_ticks)).collect(),
        ));
    };
    let report = simulation.run_observed(traffic, &mut observer).expect("in range");
    (report, lines)
}
