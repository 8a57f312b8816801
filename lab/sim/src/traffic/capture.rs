//! Packets of a pcap or pcapng capture.

use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use convoy_capture::{CaptureError, Packets, Reason, Unread};

use super::{Header, Hosts, Packet, Traffic, TrafficError};

/// The SA and the traffic class of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToSa {
    /// Its SA, a small number because tables are indexed by it.
    pub sa: u32,
    /// Its traffic class, 0 being the highest.
    pub class: u8,
}

/// Returns the SA that protects a packet, or `None` for a packet without protection, which is left
/// out. The policies of a gateway are one such function.
pub type Classify = Box<dyn FnMut(&Header) -> Option<ToSa> + Send>;

/// Assigns an SA to each destination address.
pub fn by_destination() -> Classify {
    let mut hosts = Hosts::<IpAddr>::default();
    Box::new(move |header| Some(ToSa { sa: hosts.number(&header.destination), class: 0 }))
}

/// Which length of a captured packet is its `L`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureLength {
    /// The payload of TCP or UDP.
    #[default]
    Payload,
    /// The length of the IP packet less the 40 bytes of header that a platform adds, so that `b` is
    /// the length of the whole IP packet.
    Packet,
}

/// A capture of Ethernet, Linux "cooked", BSD loopback or raw IP packets. A packet that a snap
/// length truncated after its IP header counts with its original length.
pub struct Capture {
    packets: Packets<BufReader<File>>,
    classify: Classify,
    length: CaptureLength,
    last: Option<Duration>,
    without_sa: u64,
}

impl Capture {
    /// Opens a capture whose SAs `classify` assigns.
    ///
    /// # Errors
    /// [`TrafficError`] if the file cannot be read or is neither pcap nor pcapng.
    pub fn open(path: &Path, length: CaptureLength, classify: Classify) -> Result<Self, TrafficError> {
        let packets = Packets::open(path).map_err(wrong)?;
        Ok(Self::over(packets, length, classify))
    }

    /// Reads a capture from a file that is already open.
    pub(super) fn new(
        name: &str,
        file: BufReader<File>,
        length: CaptureLength,
        classify: Classify,
    ) -> Result<Self, TrafficError> {
        let packets = Packets::new(name, file).map_err(wrong)?;
        Ok(Self::over(packets, length, classify))
    }

    fn over(packets: Packets<BufReader<File>>, length: CaptureLength, classify: Classify) -> Self {
        Self { packets, classify, length, last: None, without_sa: 0 }
    }

    /// Number of packets left out so far because no SA protects them.
    pub fn without_sa(&self) -> u64 {
        self.without_sa
    }

    /// Number of packets left out so far because they were unusable, by reason.
    pub fn unread(&self) -> &Unread {
        self.packets.unread()
    }

    /// Where and why the capture is cut off or damaged, once reading has reached that place; the
    /// rest is not read.
    pub fn damage(&self) -> Option<String> {
        self.packets.damage().map(ToString::to_string)
    }

    /// Time from the capture of the previous packet to that of this one, in ticks.
    fn gap_ticks(&mut self, time: Option<Duration>) -> u64 {
        let Some(time) = time else { return 0 };
        // The clock of a capture may step backwards.
        let gap = self.last.replace(time).map_or(Duration::ZERO, |last| time.saturating_sub(last));
        u64::try_from(gap.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX / 2)
    }
}

fn wrong(error: CaptureError) -> TrafficError {
    let (place, what) = match error {
        CaptureError::Io { name, source } => (name, source.to_string()),
        CaptureError::NotACapture { name, what } => (name, format!("neither pcap nor pcapng: {what}")),
    };
    TrafficError { place, what }
}

impl Traffic for Capture {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        while let Some(captured) = self.packets.next_packet().map_err(wrong)? {
            let (time, is_truncated) = (captured.time, captured.is_truncated());
            let Some(header) = Header::parse(captured.bytes) else {
                let reason = if is_truncated { Reason::HeaderCutOff } else { Reason::NotIp };
                self.packets.unread_mut().count(reason);
                continue;
            };
            let Some(ToSa { sa, class }) = (self.classify)(&header) else {
                self.without_sa += 1;
                continue;
            };
            let payload_bytes = match self.length {
                CaptureLength::Payload => header.payload_bytes,
                CaptureLength::Packet => header.packet_bytes.saturating_sub(40),
            };
            return Ok(Some(Packet { payload_bytes, sa, class, gap_ticks: self.gap_ticks(time) }));
        }
        Ok(None)
    }
}
