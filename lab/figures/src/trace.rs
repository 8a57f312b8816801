//! A trace file in place of the synthetic trace.

use std::collections::HashSet;
use std::path::Path;

use convoy_sim::{CaptureLength, Packet, TraceFile, Traffic, TrafficError, by_destination};

/// The packets of a trace file, each with its destination as SA.
pub(super) struct Trace {
    name: String,
    packets: Vec<Packet>,
}

impl Trace {
    /// Reads the first packets of a file: the six columns of the Internet Traffic Archive, or a
    /// capture.
    ///
    /// # Errors
    /// [`TrafficError`] says which line or packet cannot be read and what was expected.
    pub(super) fn open(path: &Path, most: u64) -> Result<Self, TrafficError> {
        let mut file = TraceFile::open(path, CaptureLength::Payload, by_destination())?;
        let mut packets = Vec::new();
        while (packets.len() as u64) < most
            && let Some(packet) = file.next_packet()?
        {
            packets.push(packet);
        }
        let name = path.display().to_string();
        if packets.is_empty() {
            return Err(TrafficError { place: name, what: "it has no packets".to_owned() });
        }
        Ok(Self { name, packets })
    }

    /// Up to this many packets, from the start.
    pub(super) fn first(&self, most: u64) -> First<'_> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.packets.len());
        First(self.packets[..most].iter())
    }

    /// Its name and the parameters of the paper's table I, to compare it with the paper's trace.
    pub(super) fn described(&self) -> String {
        let mut sizes: Vec<u32> = self.packets.iter().map(|packet| packet.payload_bytes).collect();
        sizes.sort_unstable();
        let count = sizes.len() as f64;
        let mean = sizes.iter().map(|size| f64::from(*size)).sum::<f64>() / count;
        let squares = sizes.iter().map(|size| (f64::from(*size) - mean).powi(2)).sum::<f64>();
        let destinations = self.packets.iter().map(|packet| packet.sa).collect::<HashSet<_>>().len();
        format!(
            "{}: {} packets to {destinations} destinations; payload {} to {} bytes, average {mean:.0}, median {}, std. dev. {:.0}",
            self.name,
            sizes.len(),
            sizes[0],
            sizes[sizes.len() - 1],
            sizes[sizes.len() / 2],
            (squares / count).sqrt()
        )
    }
}

/// The traffic of a run.
pub(super) struct First<'a>(std::slice::Iter<'a, Packet>);

impl Traffic for First<'_> {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        Ok(self.0.next().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    #[test]
    fn the_first_packets_of_an_archives_file_are_read_and_described() {
        let text = "0.1 1 2 20 30 100\n0.2 2 1 30 20 0\n0.3 1 2 20 30 500\n0.4 1 3 20 30 9\n";
        let trace = Trace::open(file(text).path(), 3).expect("a trace");
        let described = trace.described();
        let expected =
            "3 packets to 2 destinations; payload 0 to 500 bytes, average 200, median 100, std. dev. 216";
        assert!(described.ends_with(expected), "{described}");
        let of = |packet: Packet| (packet.payload_bytes, packet.sa);
        assert_eq!(trace.first(2).0.copied().map(of).collect::<Vec<_>>(), [(100, 0), (0, 1)]);
        assert_eq!(trace.first(9).0.count(), 3);
    }

    #[test]
    fn a_wrong_line_and_an_empty_file_are_named() {
        let refused = |text: &str| {
            let file = file(text);
            let error = Trace::open(file.path(), 10).err().expect("no trace").to_string();
            error.replace(&file.path().display().to_string(), "FILE")
        };
        let wrong = refused("0.1 1 2 20 30 100\n0.2 1 2 20 30\n");
        assert!(wrong.starts_with("FILE:2: too few columns; expected six columns: timestamp"), "{wrong}");
        assert_eq!(refused("# nothing\n"), "FILE: it has no packets");
        assert!(Trace::open("/nowhere/trace".as_ref(), 1).is_err());
    }
}
