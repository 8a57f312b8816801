//! The traffic of a run, with progress.

use std::path::Path;

use convoy_sim::{
    Capture, CaptureLength, Packet, Setting, Synthetic, TraceFile, Traffic, TrafficError, by_destination,
};

use super::args::{Length, RunArgs, SaBy};
use super::{failure, policies};
use crate::progress::LabProgress;
use convoy_cli::Failure;
use convoy_cli::check::load_for_any_machine;

/// Packets between updates of the progress bar.
const STRIDE: u64 = 1 << 16;

enum TrafficSource {
    Pattern(Synthetic),
    Trace(TraceFile),
}

/// Traffic that updates a progress bar.
pub(super) struct TrackedTraffic {
    source: TrafficSource,
    read: u64,
    progress: LabProgress,
}

impl TrackedTraffic {
    /// Opens the traffic given on the command line.
    pub(super) fn open(args: &RunArgs, setting: &Setting) -> Result<Self, Failure> {
        let (source, total) = match &args.traffic.trace {
            Some(path) => (TrafficSource::Trace(open_trace(args, path)?), args.traffic.packets),
            None => {
                let packets = setting.packets.unwrap_or(convoy_sim::PAPER_PACKETS);
                (TrafficSource::Pattern(setting.traffic().map_err(failure)?), Some(packets))
            }
        };
        Ok(Self { source, read: 0, progress: LabProgress::new(total, "packets") })
    }

    /// The capture, if there is one, to query what it left out.
    pub(super) fn capture(&self) -> Option<&Capture> {
        match &self.source {
            TrafficSource::Trace(TraceFile::Capture(capture)) => Some(capture),
            _ => None,
        }
    }
}

impl Traffic for TrackedTraffic {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        let mut packets = Vec::with_capacity(1);
        self.fill(&mut packets, 1)?;
        Ok(packets.pop())
    }

    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        let before = packets.len();
        let filled = match &mut self.source {
            TrafficSource::Pattern(pattern) => pattern.fill(packets, most),
            TrafficSource::Trace(trace) => trace.fill(packets, most),
        };
        let seen = self.read / STRIDE;
        self.read += (packets.len() - before) as u64;
        if self.read / STRIDE != seen {
            self.progress.set(self.read);
        }
        filled
    }
}

fn open_trace(args: &RunArgs, path: &Path) -> Result<TraceFile, Failure> {
    let length = match args.traffic.length {
        Length::Payload => CaptureLength::Payload,
        Length::Packet => CaptureLength::Packet,
    };
    let classify = match (args.traffic.sa_by, &args.traffic.config) {
        (SaBy::Policies, Some(config)) => {
            policies::by_policies(&load_for_any_machine(config, &convoy_devices::KINDS)?)
        }
        _ => by_destination(),
    };
    let trace = TraceFile::open(path, length, classify)
        .map_err(|error: TrafficError| Failure::Failed(error.to_string()))?;
    if matches!(trace, TraceFile::Text(_)) && args.traffic.sa_by == SaBy::Policies {
        let what =
            "a text trace has no addresses to match with policies; --sa-by policies needs pcap or pcapng";
        return Err(Failure::Config(format!("{}: {what}", path.display())));
    }
    Ok(trace)
}
