//! Captures as ports: one is read, another is written.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use convoy_packet::{Frame, FramePool, FrameSize, ethernet};
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::{Port, PortCounters, PortDescription, PortError, PortKind};

/// Tailroom of frames that are handed out, in bytes: what ESP may add behind a packet.
const TAILROOM: usize = 320;
/// The first bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

enum Reader {
    Pcap(PcapReader<BufReader<File>>),
    PcapNg(PcapNgReader<BufReader<File>>),
}

/// A port over captures, pcap or pcapng, of Ethernet, Linux "cooked" or raw IP packets.
pub struct Pcap {
    description: PortDescription,
    counters: PortCounters,
    reader: Option<Reader>,
    writer: Option<PcapWriter<BufWriter<File>>>,
    /// Of the packet that is read next, for errors.
    number: u64,
    path: String,
    packet: Vec<u8>,
    /// Read, but no frame was free for it.
    has_pending: bool,
}

impl Pcap {
    /// A port that hands out the packets of `read` and writes what it sends to `write` as raw IP packets.
    ///
    /// # Errors
    /// [`PortError`] names the file and what is wrong with it.
    pub fn open(name: &str, read: Option<&Path>, write: Option<&Path>) -> Result<Self, PortError> {
        let description = PortDescription { name: name.to_owned(), kind: PortKind::Pcap, mtu: 65_535 };
        let mut port = Self {
            description,
            counters: PortCounters::default(),
            reader: None,
            writer: None,
            number: 1,
            path: read.map(|path| path.display().to_string()).unwrap_or_default(),
            packet: Vec::new(),
            has_pending: false,
        };
        if let Some(path) = read {
            port.reader = Some(port.open_reader(path)?);
        }
        if let Some(path) = write {
            let io = |source| port.io(format!("write {}", path.display()), source);
            let file = File::create(path).map_err(io)?;
            let header = PcapHeader { datalink: DataLink::RAW, snaplen: 65_535, ..PcapHeader::default() };
            let writer = PcapWriter::with_header(BufWriter::new(file), header);
            port.writer = Some(writer.map_err(|error| port.invalid(path, &error.to_string()))?);
        }
        Ok(port)
    }

    fn open_reader(&self, path: &Path) -> Result<Reader, PortError> {
        let open = || File::open(path).map_err(|source| self.io(format!("read {}", path.display()), source));
        let mut magic = Vec::new();
        open()?
            .take(4)
            .read_to_end(&mut magic)
            .map_err(|source| self.io(format!("read {}", path.display()), source))?;
        let file = BufReader::with_capacity(1 << 20, open()?);
        if magic == PCAPNG_MAGIC {
            let reader = PcapNgReader::new(file).map_err(|error| self.invalid(path, &error.to_string()))?;
            return Ok(Reader::PcapNg(reader));
        }
        let reader = PcapReader::new(file).map_err(|error| {
            self.invalid(path, &format!("neither pcap nor pcapng ({error}); tcpdump -w makes one"))
        })?;
        Ok(Reader::Pcap(reader))
    }

    fn io(&self, action: String, source: std::io::Error) -> PortError {
        PortError::Io { port: self.description.name.clone(), action, source }
    }

    fn invalid(&self, path: &Path, reason: &str) -> PortError {
        let reason = format!("{}: {reason}", path.display());
        PortError::Invalid { port: self.description.name.clone(), reason }
    }

    /// Reads the next IP packet into `self.packet`; `false` at the end of the capture.
    fn read_packet(&mut self) -> Result<bool, PortError> {
        loop {
            let number = self.number;
            let next = match &mut self.reader {
                None => return Ok(false),
                Some(Reader::Pcap(reader)) => next_pcap(reader, &mut self.packet),
                Some(Reader::PcapNg(reader)) => next_pcapng(reader, &mut self.packet),
            };
            let Some(next) = next else {
                self.reader = None;
                return Ok(false);
            };
            match next {
                Ok(Found::Packet(link, is_whole)) => {
                    self.number += 1;
                    match ip_start(link, &self.packet) {
                        Some(start) if is_whole => {
                            self.packet.drain(..start);
                            return Ok(true);
                        }
                        _ => self.counters.receive_dropped += 1,
                    }
                }
                Ok(Found::Other) => {}
                Err(reason) => {
                    self.reader = None;
                    let reason = format!("{}: packet {number}: {reason}", self.path);
                    return Err(PortError::Invalid { port: self.description.name.clone(), reason });
                }
            }
        }
    }

    /// Writes out what is still buffered.
    ///
    /// # Errors
    /// [`PortError::Io`] if the system refuses, for instance because the disk is full.
    pub fn flush(&mut self) -> Result<(), PortError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.into_writer().flush().map_err(|source| self.io("write the capture".to_owned(), source))
    }
}

enum Found {
    /// A packet is in the buffer: its link type, and whether it was captured whole.
    Packet(DataLink, bool),
    /// A block that is no packet.
    Other,
}

fn next_pcap(reader: &mut PcapReader<BufReader<File>>, into: &mut Vec<u8>) -> Option<Result<Found, String>> {
    let link = reader.header().datalink;
    let packet = match reader.next_packet()? {
        Ok(packet) => packet,
        Err(error) => return Some(Err(error.to_string())),
    };
    into.clear();
    into.extend_from_slice(&packet.data);
    Some(Ok(Found::Packet(link, packet.orig_len as usize <= packet.data.len())))
}

fn next_pcapng(
    reader: &mut PcapNgReader<BufReader<File>>,
    into: &mut Vec<u8>,
) -> Option<Result<Found, String>> {
    let block = match reader.next_block()? {
        Ok(block) => block,
        Err(error) => return Some(Err(error.to_string())),
    };
    let (interface, original_len) = match block {
        Block::EnhancedPacket(packet) => {
            into.clear();
            into.extend_from_slice(&packet.data);
            (packet.interface_id, packet.original_len)
        }
        Block::SimplePacket(packet) => {
            into.clear();
            into.extend_from_slice(&packet.data);
            (0, packet.original_len)
        }
        _ => return Some(Ok(Found::Other)),
    };
    let Some(interface) = reader.interfaces().get(interface as usize) else {
        return Some(Err(format!("it names interface {interface}, which the file does not describe")));
    };
    Some(Ok(Found::Packet(interface.linktype, original_len as usize <= into.len())))
}

/// Where the EtherType stands in a Linux "cooked" header, in bytes.
const COOKED_ETHERTYPE_AT: usize = 14;

/// Where the IP header starts behind a link's own header; `None` for what is not IP.
fn ip_start(link: DataLink, packet: &[u8]) -> Option<usize> {
    match link {
        DataLink::ETHERNET => ethernet::ip_start(packet, ethernet::ETHERTYPE_AT),
        DataLink::LINUX_SLL => ethernet::ip_start(packet, COOKED_ETHERTYPE_AT),
        DataLink::NULL | DataLink::LOOP => Some(4),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 | DataLink::Unknown(12 | 14) => Some(0),
        _ => None,
    }
}

impl Port for Pcap {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let mut count = 0;
        while count < limit {
            if !self.has_pending && !self.read_packet()? {
                break;
            }
            let Some(size) = FrameSize::for_packet(self.packet.len(), TAILROOM) else {
                self.has_pending = false;
                self.counters.receive_dropped += 1;
                continue;
            };
            self.has_pending = true;
            let Some(mut frame) = pool.take(size) else { break };
            self.has_pending = false;
            if frame.fill(&self.packet).is_err() {
                pool.give_back(frame);
                continue;
            }
            self.counters.received_packets += 1;
            self.counters.received_bytes += frame.len() as u64;
            burst.push(frame);
            count += 1;
        }
        Ok(count)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let count = burst.len();
        for frame in burst.drain(..) {
            if let Some(writer) = &mut self.writer {
                let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let packet = PcapPacket::new(timestamp, frame.len() as u32, &frame);
                writer.write_packet(&packet).map_err(|error| PortError::Invalid {
                    port: self.description.name.clone(),
                    reason: format!("the capture cannot be written: {error}"),
                })?;
            }
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += frame.len() as u64;
            pool.give_back(frame);
        }
        Ok(count)
    }

    fn is_ended(&self) -> bool {
        self.reader.is_none() && !self.has_pending
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
