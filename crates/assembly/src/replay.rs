//! `convoy replay`: runs captures through the gateway's pipeline.

use std::path::Path;

use convoy_capture::Unread;
use convoy_config::Config;
use convoy_dataplane::pipeline::{Clock, Pipeline};
use convoy_ipsec::DropReason;
use convoy_packet::{Frame, FrameSize};
use convoy_port::{Pcap, Port, PortError};
use convoy_scheduler::Input;
use convoy_state::Starts;
use serde::Serialize;

use crate::assemble::{self, AssembleError};

/// Packets read at a time.
const BURST: usize = 64;

/// Direction in which the capture passes the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayDirection {
    /// Plaintext in, protected packets out.
    Out,
    /// Protected packets in, plaintext out.
    In,
}

/// Result of a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayReport {
    /// Packets read.
    pub read: u64,
    /// Unusable packets of the capture, by reason.
    pub unreadable: Unread,
    /// Where the capture is truncated or damaged, if it is; the rest was not read.
    pub damage: Option<String>,
    /// Packets written.
    pub written: u64,
    /// Packets that no policy matches; not written.
    pub unprotected: u64,
    /// ICMP errors that the gateway would have sent; not written.
    pub icmp: u64,
    /// IKE messages; not written.
    pub ike: u64,
    /// Dropped packets by reason, except those without a policy.
    pub dropped: Vec<(String, u64)>,
    /// Share of each engine.
    pub engines: Vec<EngineShare>,
}

/// Share of one engine.
#[derive(Clone, Debug, Serialize)]
pub struct EngineShare {
    /// Its name.
    pub engine: String,
    /// Packets.
    pub packets: u64,
    /// Multi-packets.
    pub multi_packets: u64,
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The gateway could not be set up.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A capture cannot be read or written.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Sends the capture `input` through the gateway and writes what leaves to `output`, as raw IP.
/// Calls `progress` with the number of packets read.
///
/// # Errors
/// [`ReplayError`] names the file, engine or tunnel.
pub fn replay(
    config: &Config,
    direction: ReplayDirection,
    input: &Path,
    output: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<ReplayReport, ReplayError> {
    let mut source = Pcap::open("in", Some(input), None)?;
    let mut sink = Pcap::open("out", None, Some(output))?;
    if direction == ReplayDirection::Out {
        sink = sink.completing_udp_checksums();
    }
    let mut costs = assemble::costs();
    let config = &config.with_one_worker();
    let engines = assemble::engines(config, &mut costs)?.pop().unwrap_or_default();
    let (mut pipeline, _) =
        assemble::pipeline(config, 0, engines, &costs, Clock::start(), &Starts::Unlimited)?;
    let mut report = ReplayReport::default();
    let mut burst = Vec::new();
    let mut has_ended = false;
    while !has_ended || !pipeline.is_empty() {
        if pipeline.has_room() && has_frames(&mut pipeline) {
            source.receive(pipeline.pool_mut(), BURST, &mut burst)?;
            match direction {
                ReplayDirection::Out => pipeline.outbound(&mut burst),
                ReplayDirection::In => pipeline.inbound(&mut burst),
            }
            progress(source.counters().received_packets);
        }
        // What is at an engine may belong to what waits, so that has to be out first.
        if source.is_ended() && pipeline.stage().is_empty() && !has_ended {
            pipeline.end_input();
            has_ended = true;
        }
        pipeline.pump(if source.is_ended() { Input::Ended } else { Input::More });
        write(&mut pipeline, direction, &mut sink, &mut report)?;
    }
    sink.flush()?;
    report.unreadable = source.unread();
    report.damage = source.damage().map(ToString::to_string);
    Ok(finish(&pipeline, &source, &sink, report))
}

fn has_frames(pipeline: &mut Pipeline) -> bool {
    let pool = pipeline.pool_mut();
    let half_left = |size| pool.available(size) * 2 > pool.total(size);
    FrameSize::ALL.into_iter().all(half_left)
}

fn write(
    pipeline: &mut Pipeline,
    direction: ReplayDirection,
    sink: &mut Pcap,
    report: &mut ReplayReport,
) -> Result<(), PortError> {
    let (pool, departures) = pipeline.pool_and_departures();
    report.ike += departures.ike.len() as u64;
    pool.give_back_burst(&mut departures.ike);
    report.unprotected += (departures.bypass_out.len() + departures.bypass_in.len()) as u64;
    pool.give_back_burst(&mut departures.bypass_out);
    pool.give_back_burst(&mut departures.bypass_in);
    let (wanted, other): (&mut Vec<Frame>, &mut Vec<Frame>) = match direction {
        ReplayDirection::Out => (&mut departures.to_outside, &mut departures.to_inside),
        ReplayDirection::In => (&mut departures.to_inside, &mut departures.to_outside),
    };
    report.icmp += other.len() as u64;
    pool.give_back_burst(other);
    sink.send(pool, wanted)?;
    Ok(())
}

fn finish(pipeline: &Pipeline, source: &Pcap, sink: &Pcap, mut report: ReplayReport) -> ReplayReport {
    let drops = pipeline.ipsec().tables.drops();
    let without_policy = [DropReason::OutboundNoPolicy, DropReason::InboundNoPolicy];
    report.read = source.counters().received_packets;
    report.written = sink.counters().sent_packets;
    report.unprotected += without_policy.map(|reason| drops.get(reason)).iter().sum::<u64>();
    let others = drops.met().filter(|(reason, _)| !without_policy.contains(reason));
    report.dropped = others.map(|(reason, count)| (reason.name().to_owned(), count)).collect();
    report.engines = pipeline
        .stage()
        .snapshot()
        .engines
        .into_iter()
        .map(|engine| EngineShare {
            engine: engine.name,
            packets: engine.packets,
            multi_packets: engine.multi_packets,
        })
        .collect();
    report
}
