//! The traffic of one run, and who watches how much of it has been read.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use convoy_sim::{Capture, CaptureLength, Packet, Setting, Synthetic, TextTrace, Traffic, TrafficError};

use super::args::{Length, RunArgs, SaBy};
use super::progress::Progress;
use super::{failure, policies};
use crate::Failure;
use crate::check::load;

/// Packets between two looks at the clock.
const STRIDE: u64 = 1 << 16;

enum Source {
    Pattern(Synthetic),
    Capture(Capture),
    Text(TextTrace<BufReader<File>>),
}

/// Traffic that shows how far it is.
pub(super) struct Watched {
    source: Source,
    read: u64,
    skipped: Rc<Cell<u64>>,
    progress: Progress,
}

impl Watched {
    /// Opens what the command line names.
    pub(super) fn open(args: &RunArgs, setting: &Setting) -> Result<Self, Failure> {
        let (source, total) = match &args.traffic.trace {
            Some(path) => (open_trace(args, path)?, args.traffic.packets),
            None => {
                let packets = setting.packets.unwrap_or(convoy_sim::PAPER_PACKETS);
                (Source::Pattern(setting.traffic().map_err(failure)?), Some(packets))
            }
        };
        Ok(Self { source, read: 0, skipped: Rc::default(), progress: Progress::new(total, "packets") })
    }

    /// How many packets of a capture were left out, once it has been read.
    pub(super) fn skipped(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.skipped)
    }
}

impl Traffic for Watched {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        let mut packets = Vec::with_capacity(1);
        self.fill(&mut packets, 1)?;
        Ok(packets.pop())
    }

    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        let before = packets.len();
        let filled = match &mut self.source {
            Source::Pattern(pattern) => pattern.fill(packets, most),
            Source::Text(trace) => trace.fill(packets, most),
            Source::Capture(capture) => {
                let filled = capture.fill(packets, most);
                self.skipped.set(capture.skipped());
                filled
            }
        };
        let seen = self.read / STRIDE;
        self.read += (packets.len() - before) as u64;
        if self.read / STRIDE != seen {
            self.progress.set(self.read);
        }
        filled
    }
}

fn open_trace(args: &RunArgs, path: &Path) -> Result<Source, Failure> {
    let cannot = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let wrong = |error: TrafficError| Failure::Failed(error.to_string());
    let mut magic = Vec::new();
    File::open(path).map_err(cannot)?.take(4).read_to_end(&mut magic).map_err(cannot)?;
    if !is_capture(&magic) {
        if args.traffic.sa_by == SaBy::Policies {
            let what = "its hosts are numbers, which no policy knows; --sa-by policies needs pcap or pcapng";
            return Err(Failure::Config(format!("{}: {what}", path.display())));
        }
        return TextTrace::open(path).map(Source::Text).map_err(wrong);
    }
    let length = match args.traffic.length {
        Length::Payload => CaptureLength::Payload,
        Length::Packet => CaptureLength::Packet,
    };
    let capture = match (args.traffic.sa_by, &args.traffic.config) {
        (SaBy::Policies, Some(config)) => {
            Capture::open_with(path, length, policies::by_policies(&load(config)?))
        }
        _ => Capture::open(path, length),
    };
    capture.map(Source::Capture).map_err(wrong)
}

/// pcapng, or pcap of micro- or nanoseconds in either order of bytes.
fn is_capture(magic: &[u8]) -> bool {
    const MAGICS: [u32; 5] = [0x0a0d_0d0a, 0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1];
    magic.try_into().is_ok_and(|magic| MAGICS.contains(&u32::from_be_bytes(magic)))
}
