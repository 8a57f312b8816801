//! Packet lengths.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::stamp;

/// CSIT's `IMIX_v4`: in every twelve packets, seven of 64 bytes, four of 570 and one of 1518.
const IMIX: [u16; 12] = [64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 64, 570];
/// Frame lengths of RFC 2544 section 9.1, with 1450 as in VPN papers, jumbo frames, and the mix.
const USUAL: [Lengths; 10] = [
    Lengths::All(64),
    Lengths::All(128),
    Lengths::All(256),
    Lengths::All(512),
    Lengths::All(1024),
    Lengths::All(1280),
    Lengths::All(1450),
    Lengths::All(1518),
    Lengths::All(9000),
    Lengths::Imix,
];

/// Lengths of a trial's plaintext IP packets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All packets have this length.
    All(u16),
    /// A mix of seven packets of 64 bytes, four of 570 and one of 1518 (CSIT's `IMIX_v4`).
    Imix,
}

impl Lengths {
    /// The lengths of a full test.
    pub const USUAL: &'static [Self] = &USUAL;

    /// The repeating sequence of lengths.
    pub fn cycle(&self) -> &[u16] {
        match self {
            Self::All(length) => std::slice::from_ref(length),
            Self::Imix => &IMIX,
        }
    }

    /// The longest packet, in bytes.
    pub fn longest(&self) -> u16 {
        self.cycle().iter().copied().max().unwrap_or(0)
    }

    /// The shortest packet, in bytes.
    pub fn shortest(&self) -> u16 {
        self.cycle().iter().copied().min().unwrap_or(0)
    }

    /// The mean length, in bytes.
    pub fn mean(&self) -> f64 {
        let cycle = self.cycle();
        cycle.iter().map(|length| f64::from(*length)).sum::<f64>() / cycle.len() as f64
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(length) => write!(f, "{length}"),
            Self::Imix => f.write_str("IMIX"),
        }
    }
}

impl Serialize for Lengths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Self::Imix);
        }
        match text.parse() {
            Ok(length @ stamp::LEAST_LENGTH..=9000) => Ok(Self::All(length)),
            _ => Err(format!(
                "a packet length is a number of bytes from {} to 9000, or imix",
                stamp::LEAST_LENGTH
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written_and_those_too_short_for_a_stamp_are_refused() {
        for lengths in Lengths::USUAL {
            assert_eq!(lengths.to_string().parse(), Ok(*lengths));
        }
        for wrong in ["51", "9001", "-1", "", "64B"] {
            assert!(wrong.parse::<Lengths>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_mix_is_that_of_csit() {
        let count = |length| Lengths::Imix.cycle().iter().filter(|other| **other == length).count();
        assert_eq!([64, 570, 1518].map(count), [7, 4, 1]);
        assert!((Lengths::Imix.mean() - 353.833).abs() < 0.001);
    }
}
