//! Runs a trace through the gateway itself, to validate the simulation.

use std::path::Path;

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::pipeline::{Clock, Pipeline};
use convoy_packet::Frame;
use convoy_port::{Pcap, Port};
use convoy_state::Starts;
use serde::Serialize;

use super::drive::{Pace, drive};
use super::{PlanError, trace::with_keys};

/// Packets read at a time.
const BURST: usize = 64;

/// Result of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Packets encrypted.
    pub packets: u64,
    /// Packets per second, over all rounds.
    pub packets_per_second: f64,
    /// Packets per second, with each thousand packets taken from their fastest round, which
    /// excludes disturbance by other programs.
    pub undisturbed_packets_per_second: f64,
    /// Name of each engine and its share of the packets.
    pub share: Vec<(String, f64)>,
    /// Mean packets per multi-packet.
    pub packets_per_multipacket: f64,
}

/// Sends up to `limit` packets of a capture outbound through one worker's pipeline, `rounds` times,
/// as fast as it takes them. Reading the capture is not counted.
///
/// # Errors
/// [`PlanError`] if the gateway cannot be set up or the capture cannot be read.
pub fn measure(config: &Config, capture: &Path, limit: usize, rounds: usize) -> Result<Measured, PlanError> {
    let config = with_keys(config).with_one_worker();
    let mut costs = assemble::costs();
    let engines = assemble::engines(&config, &mut costs)?.pop().unwrap_or_default();
    let (mut pipeline, _) =
        assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited)?;
    let packets = read(&mut pipeline, capture, limit)?;
    let pace = drive(&mut pipeline, &packets, rounds);
    Ok(report(&pipeline, &pace))
}

fn report(pipeline: &Pipeline, pace: &Pace) -> Measured {
    let engines = pipeline.stage().engines();
    let counters: Vec<_> = (0..engines.len()).map(|at| engines.counters(at)).collect();
    let packets: u64 = counters.iter().map(|counters| counters.packets).sum();
    let trains: u64 = counters.iter().map(|counters| counters.trains).sum();
    let share = |at: usize| counters[at].packets as f64 / packets.max(1) as f64;
    Measured {
        packets,
        packets_per_second: 1e9 / pace.whole_ns,
        undisturbed_packets_per_second: 1e9 / pace.undisturbed_ns,
        share: (0..engines.len()).map(|at| (engines.description(at).name.clone(), share(at))).collect(),
        packets_per_multipacket: packets as f64 / trains.max(1) as f64,
    }
}

fn read(pipeline: &mut Pipeline, capture: &Path, limit: usize) -> Result<Vec<Vec<u8>>, PlanError> {
    let mut port = Pcap::open("the capture", Some(capture), None)?.filling_up_truncated();
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut burst: Vec<Frame> = Vec::with_capacity(BURST);
    while packets.len() < limit {
        if port.receive(pipeline.pool_mut(), BURST.min(limit - packets.len()), &mut burst)? == 0 {
            break;
        }
        packets.extend(burst.iter().map(|frame| frame.to_vec()));
        pipeline.pool_mut().give_back_burst(&mut burst);
    }
    Ok(packets)
}
