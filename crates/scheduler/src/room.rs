//! How much may wait for an engine, and what becomes of a multi-packet if the best engine has no
//! room.

use std::fmt;
use std::str::FromStr;

/// What the finishing-time policy does if the engine with the lowest finishing time has a full
/// queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FullQueue {
    /// It waits for room there, as published (small-packets paper, section III-B). The packets stay
    /// in the window.
    #[default]
    Wait,
    /// It takes the lowest finishing time among the engines with room, and waits only if there are
    /// none.
    Skip,
}

/// The unit of an engine's depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DepthUnit {
    /// Multi-packets.
    #[default]
    MultiPackets,
    /// Packets. A multi-packet of more packets than the depth waits only where no other does.
    Packets,
    /// Bytes, as in an engine's local memory. A larger multi-packet waits only where no other does.
    Bytes,
}

impl FullQueue {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Wait, Self::Skip];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Skip => "skip",
        }
    }
}

impl DepthUnit {
    /// All.
    pub const ALL: [Self; 3] = [Self::MultiPackets, Self::Packets, Self::Bytes];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MultiPackets => "multi-packets",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }

    /// How much of the depth a multi-packet of this many packets and bytes takes.
    #[inline]
    pub(crate) fn places(self, packets: u32, bytes: u64) -> u32 {
        match self {
            Self::MultiPackets => 1,
            Self::Packets => packets,
            Self::Bytes => bytes.try_into().unwrap_or(u32::MAX),
        }
    }
}

impl fmt::Display for FullQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for DepthUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {given:?}; possible values: {expected}")]
pub struct NameError {
    /// The given name.
    pub given: String,
    /// The known names.
    pub expected: &'static str,
}

impl FromStr for FullQueue {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let known = Self::ALL.into_iter().find(|value| value.name() == name);
        known.ok_or_else(|| NameError { given: name.to_owned(), expected: "wait, skip" })
    }
}

impl FromStr for DepthUnit {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let known = Self::ALL.into_iter().find(|value| value.name() == name);
        known.ok_or_else(|| NameError { given: name.to_owned(), expected: "multi-packets, packets, bytes" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert!(FullQueue::ALL.iter().all(|value| value.to_string().parse() == Ok(*value)));
        assert!(DepthUnit::ALL.iter().all(|value| value.to_string().parse() == Ok(*value)));
        let error = "blocks".parse::<DepthUnit>().expect_err("no such unit").to_string();
        assert!(error.contains("multi-packets, packets, bytes"), "{error}");
    }
}
