//! Validates the simulator against the gateway, both in virtual time, with modelled engines.

use std::collections::HashMap;
use std::path::PathBuf;

use convoy_assembly::assemble;
use convoy_config::{Basis, Config};
use convoy_dataplane::clock::VirtualTime;
use convoy_dataplane::costs::Costs;
use convoy_dataplane::pipeline::{Pipeline, PipelineResources};
use convoy_devices::KINDS;
use convoy_devices::model::{Model, ModelSettings, SteppedBus};
use convoy_engine::{BusTiming, Engine, EngineControl};
use convoy_packet::FramePool;
use convoy_port::{Pcap, Port};
use convoy_scheduler::Input;
use convoy_state::Starts;
use convoy_workbench::imix;

use super::trace::with_keys;
use super::*;

/// Number of packets of the demo's traffic.
const PACKETS: usize = 1_500;

/// Three devices, two of them on a common bus.
pub(super) fn config(window: usize) -> Config {
    let mut text = format!("[scheduler]\nwindow = {window}\n[[bus]]\nname = \"slow\"\nclock_mhz = 0.25\n");
    text += "address_cycles = 1\nwidth_bytes = 4\n";
    for (name, t_init_us, t_block_ns, bus) in [
        ("near", 6_000.0, 90_000.0, ""),
        ("far-a", 2_000.0, 30_000.0, "bus = \"slow\"\n"),
        ("far-b", 2_000.0, 30_000.0, "bus = \"slow\"\n"),
    ] {
        text += &format!("[[engine]]\nkind = \"model\"\nname = \"{name}\"\n{bus}depth = 10\n");
        text += &format!("t_init_us = {t_init_us:.1}\nt_block_ns = {t_block_ns:.1}\n");
    }
    for tunnel in 0..8 {
        text += &format!(
            "[[tunnel]]\nname = \"t{tunnel}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [\"10.1.{tunnel}.0/24\"]\nremote_ts = [\"10.2.{tunnel}.0/24\"]\nesp_proposal = \"aes128gcm16\"\n"
        );
    }
    Config::parse_at("models.toml", &text, &Basis::of(&KINDS)).expect("good")
}

fn capture(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("traffic.pcap");
    let mut port = Pcap::open("traffic", None, Some(&path)).expect("writable");
    let mut pool = FramePool::new(PACKETS, 0);
    let [traffic, _] = imix(7);
    let mut frames = (0..PACKETS).filter_map(|at| pool.take_filled(traffic.packet(at), 0)).collect();
    port.send(&mut pool, &mut frames).expect("writable");
    path
}

/// The modelled engines of a configuration in virtual time, and their buses.
fn engines_in(
    time: &VirtualTime,
    config: &Config,
    costs: &mut Costs,
) -> (Vec<Box<dyn Engine>>, Vec<SteppedBus>) {
    let stepped = |timing| {
        let time = time.clone();
        SteppedBus::new(timing, move || time.now_ns())
    };
    let mut shared: HashMap<String, SteppedBus> =
        config.buses.iter().map(|(name, bus)| (name.clone(), stepped(bus.timing()))).collect();
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    for engine in &config.engines {
        let model: &ModelSettings = engine.settings.of().expect("models alone");
        let bus = model.bus.clone().unwrap_or_else(|| engine.name.clone());
        let bus = shared.entry(bus).or_insert_with(|| stepped(BusTiming::FREE));
        let made = Model::stepped(&engine.name, model.timing(), bus);
        costs.set_fixed(&made.description().name, model.cost());
        engines.push(Box::new(made));
    }
    (engines, shared.into_values().collect())
}

/// Sends `packets` through a pipeline as fast as it takes them; time advances only while nothing
/// can progress.
fn drive(pipeline: &mut Pipeline, packets: &[&[u8]], time: &VirtualTime, buses: &[SteppedBus]) {
    let (mut next, mut frames) = (0, Vec::new());
    while next < packets.len() || !pipeline.is_empty() {
        if pipeline.has_room() && next < packets.len() {
            let until = packets.len().min(next + 64);
            let pool = pipeline.pool_mut();
            frames.extend((next..until).map_while(|at| pool.take_filled(packets[at], 0)));
            next += frames.len();
            pipeline.outbound(&mut frames);
        }
        let input = if next < packets.len() { Input::More } else { Input::Ended };
        if !pipeline.pump(input) {
            let due = buses.iter().filter_map(SteppedBus::next_ns).min();
            time.advance_to(due.expect("an engine works while packets are inside").max(time.now_ns()));
        }
        let (pool, departures) = pipeline.pool_and_departures();
        pool.give_back_burst(&mut departures.to_outside);
    }
}

/// Compares simulator and gateway; the packets are sent `rounds` times.
fn compare_with_gateway(window: usize, rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, capture) = (config(window), capture(&folder));
    let mut trace = Trace::read(&config, &capture, PACKETS).expect("readable");
    assert_eq!((trace.packets.len(), trace.unprotected), (PACKETS, 0));
    let machine = Machine::new(&config, &trace).expect("models are everywhere");
    trace.packets = trace.packets.repeat(rounds);
    // In virtual time, a worker's own work takes no time.
    let platform = Platform { stages: Vec::new(), ..machine.platform(window, None, 0.0) };
    let simulated = simulate(platform, &trace).expect("a good platform");
    let predicted = simulated.packets as f64 / (simulated.end_ms * 1e-3);

    let (time, mut costs) = (VirtualTime::new(), Costs::without_cache());
    let (engines, buses) = engines_in(&time, &config, &mut costs);
    let resources = PipelineResources::simulated(&time, 7);
    let config = with_keys(&config);
    let (mut pipeline, _) =
        assemble::pipeline(&config, 0, engines, &costs, resources, &Starts::Unlimited).expect("good");
    let [traffic, _] = imix(7);
    let packets: Vec<&[u8]> = (0..PACKETS * rounds).map(|at| traffic.packet(at % PACKETS)).collect();
    drive(&mut pipeline, &packets, &time, &buses);
    let engines = pipeline.stage().engines();
    let counters: Vec<_> = (0..engines.len()).map(|at| engines.counters(at)).collect();
    let packets: u64 = counters.iter().map(|counters| counters.packets).sum();
    let measured = packets as f64 * 1e9 / time.now_ns() as f64;
    let shares: Vec<f64> = counters.iter().map(|it| it.packets as f64 / packets as f64).collect();
    println!(
        "W = {window}: {predicted:.1} and {measured:.1} packets/s; shares {:.3?} and {shares:.3?}",
        simulated.share
    );
    assert_eq!(packets, simulated.packets);
    let error = measured / predicted - 1.0;
    assert!(error.abs() < 0.03, "throughput is {:.2} % off", error * 100.0);
    for (simulated, measured) in simulated.share.iter().zip(&shares) {
        assert!(
            (simulated - measured).abs() < 0.03,
            "{simulated:.3} simulated, {measured:.3} in the gateway"
        );
    }
}

#[test]
fn the_simulator_and_the_gateway_agree_without_bundling() {
    compare_with_gateway(1, 2);
}

#[test]
fn the_simulator_and_the_gateway_agree_with_a_window() {
    compare_with_gateway(32, 6);
}

#[test]
fn a_plan_finds_the_window_and_what_an_engine_brings() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(1);
    let trace = Trace::read(&config, &capture(&folder), PACKETS).expect("readable");
    let machine = Machine::new(&config, &trace).expect("models are everywhere");
    let plan = plan(&machine, &trace, None, &mut |_, _| {}).expect("good");
    assert_eq!(plan.engines.len(), 3);
    assert!(plan.best_window >= 16, "bundling pays where setting up takes so long: {}", plan.best_window);
    let gain = |change: &str| {
        plan.changes.iter().find(|outcome| outcome.change == change).map(|outcome| outcome.gain)
    };
    let best = plan.windows.iter().find(|outcome| outcome.window == plan.best_window).expect("tried").gain;
    assert!(
        gain("without far-a-model") < Some(best) && Some(best) < gain("with another near-model"),
        "{:#?}",
        plan.changes
    );
}

#[test]
fn engines_on_the_workers_core_share_it_with_the_pipeline_and_the_scheduler() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(32);
    config.engines.clear();
    let trace = Trace::read(&config, &capture(&folder), PACKETS).expect("readable");
    let machine = Machine::new(&config, &trace).expect("software is everywhere");
    let platform = machine.platform(32, None, 0.0);
    assert_eq!(platform.scheduler.on.as_deref(), Some("worker"));
    assert_eq!(platform.stages.len(), 2);
    for stage in &platform.stages {
        assert!(stage.on.as_deref() == Some("worker") && stage.packet_us > 0.0, "{stage:?}");
    }
    let report = simulate(platform, &trace).expect("a good platform");
    let alone_ms = machine.worker_ns(32, 0.0).0 * PACKETS as f64 * 1e-6;
    assert_eq!(report.share, [1.0]);
    assert!(report.end_ms > alone_ms, "the cipher comes on top: {} and {alone_ms}", report.end_ms);
}

#[test]
fn a_capture_of_other_traffic_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = capture(&folder);
    let text = "[[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                local_ts = [\"172.16.0.0/24\"]\nremote_ts = [\"172.16.1.0/24\"]\nesp_proposal = \"aes128gcm16\"\n";
    let config = Config::parse("other.toml", text).expect("good");
    let error = Trace::read(&config, &capture, PACKETS).expect_err("nothing fits").to_string();
    assert!(
        error.ends_with(
            "no policy of the configuration protects any of its 1500 packets; compare local_ts and \
         remote_ts with the addresses in the capture"
        ),
        "{error}"
    );
}
