//! Captured packets that could not be used, by reason.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// Why a captured packet could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The capture has only its beginning: a snap length.
    Truncated,
    /// It is larger than the packet buffers of its reader.
    TooLarge,
    /// It is something else than IPv4 or IPv6.
    NotIp,
    /// It ends before its IP header does.
    HeaderCutOff,
    /// Its link type is not one of those that are read.
    LinkType(u16),
    /// pcapng: the file does not describe its interface, or only after 65,536 others.
    UnknownInterface,
    /// pcapng: its block does not parse.
    MalformedBlock,
}

impl Reason {
    /// Its name for machines.
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

/// What follows a number of packets.
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

/// How many captured packets could not be used, by reason. Serialised as an object of names and
/// numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread(BTreeMap<Reason, u64>);

impl Unread {
    /// Counts one.
    pub fn count(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// How often each name of a reason was met.
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut names = BTreeMap::new();
        for (reason, count) in self.iter() {
            *names.entry(reason.name()).or_default() += count;
        }
        names
    }

    /// Each reason that was met, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }
}

impl Serialize for Unread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.by_name())
    }
}
