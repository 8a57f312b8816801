//! The six columns of the Internet Traffic Archive's TCP traces: timestamp in seconds, source,
//! destination, source port, destination port, payload bytes.

use std::io::BufRead;

use super::{Hosts, Packet, Traffic, TrafficError};
use crate::time::ticks;

/// A text trace; the SA of a packet is its destination.
pub struct TextTrace<R> {
    name: String,
    lines: R,
    line: String,
    number: u64,
    hosts: Hosts<String>,
    last_s: Option<f64>,
}

/// Upper bound of a line, far above that of six numbers, so that input that is not a trace cannot
/// fill memory.
const LINE_MAX: u64 = 4096;

impl<R: BufRead> TextTrace<R> {
    /// A trace from any reader; error messages use `name` as its name.
    pub fn new(name: &str, lines: R) -> Self {
        Self {
            name: name.to_owned(),
            lines,
            line: String::new(),
            number: 0,
            hosts: Hosts::default(),
            last_s: None,
        }
    }

    fn wrong(&self, what: impl Into<String>) -> TrafficError {
        TrafficError { place: format!("{}:{}", self.name, self.number), what: what.into() }
    }

    fn packet(&mut self) -> Result<Packet, String> {
        let expected = "six columns: timestamp source destination source-port destination-port bytes";
        let mut columns = self.line.split_ascii_whitespace();
        let mut column = || columns.next().ok_or_else(|| format!("too few columns; expected {expected}"));
        let (time, _, destination) = (column()?, column()?, column()?);
        let (source_port, destination_port, bytes) = (column()?, column()?, column()?);
        if columns.next().is_some() {
            return Err(format!("too many columns; expected {expected}"));
        }
        let time_s: f64 = time.parse().map_err(|_| format!("{time:?} is not a timestamp in seconds"))?;
        if !time_s.is_finite() {
            return Err(format!("{time:?} is not a timestamp in seconds"));
        }
        for port in [source_port, destination_port] {
            let _: u16 = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
        }
        let payload: u16 =
            bytes.parse().map_err(|_| format!("{bytes:?} is not a number of bytes up to 65535"))?;
        // The clock of a capture may step backwards.
        let gap_s = self.last_s.map_or(0.0, |last| (time_s - last).max(0.0));
        self.last_s = Some(time_s);
        let sa = self.hosts.number(destination);
        Ok(Packet { payload_bytes: payload.into(), sa, class: 0, gap_ticks: ticks(gap_s) })
    }
}

impl<R: BufRead> Traffic for TextTrace<R> {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut limited = std::io::Read::take(&mut self.lines, LINE_MAX);
            let read = limited.read_line(&mut self.line).map_err(|error| self.wrong(error.to_string()))?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LINE_MAX {
                return Err(self.wrong("a line of more than 4095 bytes is no packet"));
            }
            if !self.line.trim().is_empty() && !self.line.starts_with('#') {
                return self.packet().map(Some).map_err(|what| self.wrong(what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Packet>, TrafficError> {
        let mut trace = TextTrace::new("lbl.tcp", text.as_bytes());
        std::iter::from_fn(|| trace.next_packet().transpose()).collect()
    }

    #[test]
    fn the_archives_columns_are_read_and_the_destination_is_the_sa() {
        let text = "0.010445 2 1 2436 23 2\n\n0.023775 1 2 23 2436 0\n0.026558 7 1 2436 23 1460\n";
        let packets = read(text).expect("a trace");
        let of = |packet: &Packet| (packet.payload_bytes, packet.sa, packet.gap_ticks);
        assert_eq!(
            packets.iter().map(of).collect::<Vec<_>>(),
            [(2, 0, 0), (0, 1, 13_330_000_000), (1460, 0, 2_783_000_000)]
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, what) in [
            ("1.0 1 2 3 4 5\n1.0 1 2 3 4\n", "too few"),
            ("1.0 1 2 3 4 5\n1.0 1 2 3 4 5 6\n", "too many"),
            ("1.0 1 2 3 4 5\nx 1 2 3 4 5\n", "timestamp"),
            ("1.0 1 2 3 4 5\nNaN 1 2 3 4 5\n", "timestamp"),
            ("1.0 1 2 3 4 5\n1 1 2 3 70000 5\n", "port"),
            ("1.0 1 2 3 4 5\n1 1 2 3 4 -5\n", "bytes"),
        ] {
            let error = read(text).expect_err("no trace");
            assert_eq!(error.place, "lbl.tcp:2");
            assert!(error.what.contains(what), "{error}");
        }
        assert!(read(&"9".repeat(5000)).is_err());
        assert!(TextTrace::new("binary", &b"\xff\xfe"[..]).next_packet().is_err());
    }
}
