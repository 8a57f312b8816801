//! The same trace through the gateway itself, to hold the simulation against.

use std::path::Path;
use std::time::{Duration, Instant};

use convoy_packet::Frame;
use convoy_port::{Pcap, Port};
use convoy_scheduler::Input;
use serde::Serialize;

use super::{PlanError, trace::with_keys};
use crate::assemble;
use crate::config::Config;
use crate::costs::Costs;
use crate::pipeline::{Clock, Pipeline};

/// Packets handed in at a time.
const BURST: usize = 64;

/// Rounds without any movement before the thread gives up its core to engines' threads, and for how long. It never
/// yields: among busy threads that costs whole time slices.
const SPINS: u32 = 64;
const NAP: Duration = Duration::from_micros(20);

/// What the gateway did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Packets that were sealed.
    pub packets: u64,
    /// Packets a second.
    pub packets_per_second: f64,
    /// Each engine's name and share of the packets.
    pub share: Vec<(String, f64)>,
    /// Packets in a multi-packet, mean.
    pub packets_per_multipacket: f64,
}

/// Sends up to `limit` packets of a capture through one worker's pipeline, outbound, as fast as it takes them, `rounds`
/// times over. Reading the capture is not counted.
///
/// # Errors
/// [`PlanError`] if the gateway cannot be put together or the capture cannot be read.
pub fn measure(config: &Config, capture: &Path, limit: usize, rounds: usize) -> Result<Measured, PlanError> {
    let config = with_keys(config).with_one_worker();
    let mut costs = Costs::new();
    let engines = assemble::engines(&config, &mut costs)?.pop().unwrap_or_default();
    let (mut pipeline, _) = assemble::pipeline(&config, 0, engines, &mut costs, Clock::start())?;
    let packets = read(&mut pipeline, capture, limit)?;
    let began = Instant::now();
    let mut frames = Vec::with_capacity(BURST);
    let (mut next, all, mut idle) = (0, packets.len() * rounds, 0);
    while next < all || !pipeline.is_empty() {
        if pipeline.has_room() && next < all {
            let until = all.min(next + BURST);
            let pool = pipeline.pool_mut();
            frames.extend((next..until).map_while(|at| pool.take_filled(&packets[at % packets.len()], 0)));
            next += frames.len();
            pipeline.outbound(&mut frames);
        }
        let input = if next < all { Input::More } else { Input::Ended };
        idle = if pipeline.pump(input) { 0 } else { idle + 1 };
        if idle > SPINS {
            std::thread::sleep(NAP);
        }
        let (pool, departures) = pipeline.pool_and_departures();
        for leaving in [&mut departures.to_outside, &mut departures.bypass_out, &mut departures.to_inside] {
            pool.give_back_burst(leaving);
        }
    }
    Ok(report(&pipeline, began.elapsed().as_secs_f64()))
}

fn report(pipeline: &Pipeline, seconds: f64) -> Measured {
    let fleet = pipeline.stage().fleet();
    let counters: Vec<_> = (0..fleet.len()).map(|at| fleet.counters(at)).collect();
    let packets: u64 = counters.iter().map(|counters| counters.packets).sum();
    let multi_packets: u64 = counters.iter().map(|counters| counters.multi_packets).sum();
    let share = |at: usize| counters[at].packets as f64 / packets.max(1) as f64;
    Measured {
        packets,
        packets_per_second: packets as f64 / seconds,
        share: (0..fleet.len()).map(|at| (fleet.description(at).name.clone(), share(at))).collect(),
        packets_per_multipacket: packets as f64 / multi_packets.max(1) as f64,
    }
}

fn read(pipeline: &mut Pipeline, capture: &Path, limit: usize) -> Result<Vec<Vec<u8>>, PlanError> {
    let mut port = Pcap::open("the capture", Some(capture), None)?;
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
