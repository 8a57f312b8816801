//! Captured packets that could not be used, by reason.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// Why a captured packet could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A snap length truncated the packet.
    Truncated,
    /// The packet does not fit into the reader's packet buffers.
    TooLarge,
    /// The packet is neither IPv4 nor IPv6.
    NotIp,
    /// The packet ends inside its link-layer or IP header.
    HeaderCutOff,
    /// The link type is not supported.
    LinkType(u16),
    /// pcapng: the file does not describe the packet's interface, or only after 65,536 others.
    UnknownInterface,
    /// pcapng: the block does not parse.
    MalformedBlock,
}

impl Reason {
    /// The reason's key in serialised output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::TooLarge => "too_large",
            Self::NotIp => "not_ip",
            Self::HeaderCutOff => "header_cut_off",
            Self::LinkType(_) => "link_type",
            Self::UnknownInterface => "unknown_interface",
            Self::MalformedBlock => "malformed_block",
        }
    }
}

/// Completes a sentence that begins with a number of packets.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("truncated in the capture, by a snap length"),
            Self::TooLarge => f.write_str("larger than a packet buffer"),
            Self::NotIp => f.write_str("not IP"),
            Self::HeaderCutOff => f.write_str("cut off before the end of the IP header"),
            Self::LinkType(link) => write!(f, "of link type {link}, which convoy does not read"),
            Self::UnknownInterface => f.write_str(
                "of an interface that the capture does not describe, or describes after 65,536 others",
            ),
            Self::MalformedBlock => f.write_str("in a malformed block"),
        }
    }
}

/// Number of packets that could not be used, by reason. Serialised as an object from names to
/// counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread(BTreeMap<Reason, u64>);

impl Unread {
    /// Counts one packet.
    pub fn count(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// The number of packets of all reasons.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Counts by name; all unsupported link types share one name.
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut names = BTreeMap::new();
        for (reason, count) in self.iter() {
            *names.entry(reason.name()).or_default() += count;
        }
        names
    }

    /// Each reason that occurred, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }
}

impl Serialize for Unread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.by_name())
    }
}
