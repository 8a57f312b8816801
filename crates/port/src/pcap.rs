//! Captures as ports: one is read, another is written.

mod settings;

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use convoy_capture::{CaptureError, CapturedPacket, Damage, Packets, Reason, Unread, Writer};
use convoy_packet::{Frame, FramePool, FrameSize, Layout, udp};

pub use settings::PcapSettings;

use crate::{Port, PortCounters, PortDescription, PortError, PortKind};

/// Tailroom of frames that are handed out, in bytes: what ESP may add behind a packet.
const TAILROOM: usize = 320;

/// A port over captures: it hands out the IP packets of one, and writes what it sends to another,
/// as raw IP.
pub struct Pcap {
    description: PortDescription,
    counters: PortCounters,
    reader: Option<Packets<BufReader<File>>>,
    writer: Option<Writer<BufWriter<File>>>,
    fills_up: bool,
    completes_checksums: bool,
    packet: Vec<u8>,
    /// Read, but no frame was free for it.
    has_pending: bool,
}

impl Pcap {
    /// A port that hands out the packets of `read` and writes what it sends to `write` as raw IP
    /// packets. What cannot be handed out, because it is not IP or truncated by a snap length, is
    /// counted ([`Self::unread`]).
    ///
    /// # Errors
    /// [`PortError`] names the file and what is wrong with it.
    pub fn open(name: &str, read: Option<&Path>, write: Option<&Path>) -> Result<Self, PortError> {
        let description =
            PortDescription { name: name.to_owned(), kind: PortKind::of::<PcapSettings>(), mtu: 65_535 };
        let create = |path: &Path| {
            let writer = File::create(path).and_then(|file| Writer::new(BufWriter::new(file)));
            writer.map_err(|source| PortError::Io {
                port: name.to_owned(),
                action: format!("write {}", path.display()),
                source,
            })
        };
        Ok(Self {
            description,
            counters: PortCounters::default(),
            reader: read.map(Packets::open).transpose().map_err(|error| refused(name, error))?,
            writer: write.map(create).transpose()?,
            fills_up: false,
            completes_checksums: false,
            packet: Vec::new(),
            has_pending: false,
        })
    }

    /// Also hands out packets that a snap length truncated behind their IP headers, filled up with
    /// zeros to their original length: for users that need only sizes and addresses.
    #[must_use]
    pub fn filling_up_truncated(mut self) -> Self {
        self.fills_up = true;
        self
    }

    /// Computes the checksum of UDP over IPv6 if it is missing, like the kernel behind port `udp`:
    /// for packets sent outside, where ESP in UDP arrives here without one.
    #[must_use]
    pub fn completing_udp_checksums(mut self) -> Self {
        self.completes_checksums = true;
        self
    }

    /// Packets of the capture that were not handed out so far, by reason.
    pub fn unread(&self) -> Unread {
        self.reader.as_ref().map(|reader| reader.unread().clone()).unwrap_or_default()
    }

    /// The damage that ended the capture early, once that has been reached.
    pub fn damage(&self) -> Option<&Damage> {
        self.reader.as_ref().and_then(Packets::damage)
    }

    /// Reads the next packet that can be handed out into `self.packet`; returns its frame's size,
    /// or `None` at the end of the capture.
    fn read_packet(&mut self, pool: &FramePool) -> Result<Option<FrameSize>, PortError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        loop {
            let next = reader.next_packet().map_err(|error| refused(&self.description.name, error))?;
            let Some(packet) = next else { return Ok(None) };
            let reason = match take(&packet, self.fills_up, &mut self.packet) {
                Ok(()) => match pool.size_for(self.packet.len(), TAILROOM) {
                    Some(size) => return Ok(Some(size)),
                    None => Reason::TooLarge,
                },
                Err(reason) => reason,
            };
            reader.unread_mut().count(reason);
        }
    }

    /// Writes out what is still buffered.
    ///
    /// # Errors
    /// [`PortError::Io`] if the system refuses, for instance because the disk is full.
    pub fn flush(&mut self) -> Result<(), PortError> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        writer.flush().map_err(|source| self.not_written(source))
    }

    fn not_written(&self, source: std::io::Error) -> PortError {
        self.description.failed("write the capture", source)
    }
}

fn refused(port: &str, error: CaptureError) -> PortError {
    PortError::Invalid { port: port.to_owned(), reason: error.to_string() }
}

/// Copies a captured packet, if it is whole or can be filled up.
fn take(packet: &CapturedPacket<'_>, fills_up: bool, into: &mut Vec<u8>) -> Result<(), Reason> {
    if packet.is_truncated() && !(fills_up && Layout::parse_quoted(packet.bytes).is_ok()) {
        return Err(Reason::Truncated);
    }
    // Whatever the file says: no IP packet is longer.
    let len = packet.original_len.min(usize::from(u16::MAX)).max(packet.bytes.len());
    into.clear();
    into.extend_from_slice(packet.bytes);
    into.resize(len, 0);
    Ok(())
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
            let size = if self.has_pending {
                pool.size_for(self.packet.len(), TAILROOM)
            } else {
                self.read_packet(pool)?
            };
            let Some(size) = size else { break };
            self.has_pending = true;
            let Some(mut frame) = pool.take(size) else { break };
            self.has_pending = false;
            if frame.fill(&self.packet).is_err() {
                pool.give_back(frame);
                continue;
            }
            self.counters.count_received(frame.len());
            burst.push(frame);
            count += 1;
        }
        Ok(count)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let count = burst.len();
        for mut frame in burst.drain(..) {
            if let Some(writer) = &mut self.writer {
                if self.completes_checksums {
                    udp::complete_checksum(&mut frame);
                }
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                writer.write(now, &frame).map_err(|source| self.not_written(source))?;
            }
            self.counters.count_sent(frame.len());
            pool.give_back(frame);
        }
        Ok(count)
    }

    fn is_ended(&self) -> bool {
        self.reader.as_ref().is_none_or(Packets::is_ended) && !self.has_pending
    }

    fn counters(&self) -> PortCounters {
        let receive_dropped = self.reader.as_ref().map_or(0, |reader| reader.unread().total());
        PortCounters { receive_dropped, ..self.counters }
    }

    fn device_counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        let Some(reader) = &self.reader else { return Vec::new() };
        let damaged = ("damaged", u64::from(reader.damage().is_some()));
        let all = reader.unread().by_name().into_iter().chain([damaged]);
        all.map(|(name, count)| (name.into(), count)).collect()
    }
}

#[cfg(test)]
mod tests;
