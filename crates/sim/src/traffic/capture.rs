//! Packets of a capture, pcap or pcapng.

use std::fs::File;
use std::io::{BufReader, Read};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};

use super::{Header, Hosts, Packet, Traffic, TrafficError};

/// The SA and class that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToSa {
    /// Its SA; small numbers, since tables are indexed by it.
    pub sa: u32,
    /// Its traffic class, 0 highest.
    pub class: u8,
}

/// Says which SA protects a packet; `None` if none does: it is left out. A gateway's policies are one such.
pub type Classify = Box<dyn FnMut(&Header) -> Option<ToSa> + Send>;

/// What counts as a captured packet's `L`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureLength {
    /// What TCP or UDP carries.
    #[default]
    Payload,
    /// The IP packet less the 40 bytes of header that a platform adds, so that `b` is the whole IP packet.
    Packet,
}

enum Reader {
    Pcap(PcapReader<BufReader<File>>),
    PcapNg(PcapNgReader<BufReader<File>>),
}

/// A capture of Ethernet, Linux "cooked", BSD loopback or raw IP packets.
pub struct Capture {
    name: String,
    reader: Reader,
    classify: Classify,
    length: CaptureLength,
    /// Of the block that is read next.
    number: u64,
    last: Option<Duration>,
    skipped: u64,
}

/// The first bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

impl Capture {
    /// A capture whose SAs are its destination addresses.
    ///
    /// # Errors
    /// [`TrafficError`] if the file cannot be read or is neither pcap nor pcapng.
    pub fn open(path: &Path, length: CaptureLength) -> Result<Self, TrafficError> {
        let mut hosts = Hosts::<IpAddr>::default();
        let by_destination =
            move |header: &Header| Some(ToSa { sa: hosts.number(&header.destination), class: 0 });
        Self::open_with(path, length, Box::new(by_destination))
    }

    /// A capture whose SAs are what `classify` says.
    ///
    /// # Errors
    /// [`TrafficError`] if the file cannot be read or is neither pcap nor pcapng.
    pub fn open_with(path: &Path, length: CaptureLength, classify: Classify) -> Result<Self, TrafficError> {
        let name = path.display().to_string();
        let wrong = |what: String| TrafficError { place: name.clone(), what };
        let open = || File::open(path).map_err(|error| wrong(error.to_string()));
        let mut magic = Vec::new();
        open()?.take(4).read_to_end(&mut magic).map_err(|error| wrong(error.to_string()))?;
        let file = BufReader::with_capacity(1 << 20, open()?);
        let reader = if magic == PCAPNG_MAGIC {
            PcapNgReader::new(file).map(Reader::PcapNg).map_err(|error| wrong(error.to_string()))?
        } else {
            let reason = |error| wrong(format!("neither pcap nor pcapng ({error}); tcpdump -w makes one"));
            PcapReader::new(file).map(Reader::Pcap).map_err(reason)?
        };
        Ok(Self { name, reader, classify, length, number: 0, last: None, skipped: 0 })
    }

    /// Packets that were left out so far: not IP, cut off in their IP header, or of no SA.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next packet's headers and time; the outer `None` at the end, the inner for what is not an IP packet.
    fn next_header(&mut self) -> Option<Result<Option<(Header, Duration)>, String>> {
        self.number += 1;
        match &mut self.reader {
            Reader::Pcap(reader) => {
                let link = reader.header().datalink;
                let packet = reader.next_packet()?.map_err(|error| error.to_string());
                Some(
                    packet.map(|packet| {
                        Header::parse(link, &packet.data).map(|header| (header, packet.timestamp))
                    }),
                )
            }
            Reader::PcapNg(reader) => next_pcapng(reader),
        }
    }

    fn packet(&mut self, header: &Header, time: Duration) -> Option<Packet> {
        let ToSa { sa, class } = (self.classify)(header)?;
        let payload_bytes = match self.length {
            CaptureLength::Payload => header.payload_bytes,
            CaptureLength::Packet => header.packet_bytes.saturating_sub(40),
        };
        // Clocks of captures step back now and then.
        let gap = self.last.map_or(Duration::ZERO, |last| time.saturating_sub(last));
        self.last = Some(time);
        let gap_ticks = u64::try_from(gap.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX / 2);
        Some(Packet { payload_bytes, sa, class, gap_ticks })
    }
}

fn next_pcapng(
    reader: &mut PcapNgReader<BufReader<File>>,
) -> Option<Result<Option<(Header, Duration)>, String>> {
    let block = match reader.next_block()? {
        Ok(block) => block,
        Err(error) => return Some(Err(error.to_string())),
    };
    // A header fits into this; the rest of the packet is not needed.
    let mut start = [0; 512];
    let (interface, data, time) = match &block {
        Block::EnhancedPacket(packet) => (packet.interface_id, &packet.data, packet.timestamp),
        Block::SimplePacket(packet) => (0, &packet.data, Duration::ZERO),
        _ => return Some(Ok(None)),
    };
    let kept = data.len().min(start.len());
    start[..kept].copy_from_slice(&data[..kept]);
    drop(block);
    let Some(interface) = reader.interfaces().get(interface as usize) else {
        return Some(Err(format!("it names interface {interface}, which the file does not describe")));
    };
    let time = in_units_of(interface, time);
    Some(Ok(Header::parse(interface.linktype, &start[..kept]).map(|header| (header, time))))
}

/// The library takes every unit for a nanosecond; the interface says what it is, 1 us unless told otherwise.
fn in_units_of(interface: &InterfaceDescriptionBlock<'_>, raw: Duration) -> Duration {
    let resolution = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    let resolution = resolution.unwrap_or(6);
    let (base, exponent) =
        if resolution & 0x80 == 0 { (10f64, resolution) } else { (2f64, resolution & 0x7f) };
    match base.powi(i32::from(exponent)) {
        1e9 => raw,
        // Exact, since the raw number has more digits than a double where it counts from 1970.
        1e6 => Duration::from_micros(raw.as_nanos() as u64),
        units => Duration::try_from_secs_f64(raw.as_nanos() as f64 / units).unwrap_or(Duration::ZERO),
    }
}

impl Traffic for Capture {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        while let Some(next) = self.next_header() {
            let place = || format!("{}: packet {}", self.name, self.number);
            let found = next.map_err(|what| TrafficError { place: place(), what })?;
            match found.and_then(|(header, time)| self.packet(&header, time)) {
                Some(packet) => return Ok(Some(packet)),
                None => self.skipped += 1,
            }
        }
        Ok(None)
    }
}
