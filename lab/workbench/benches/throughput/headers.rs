//! Which headers the measured packets have.

use std::str::FromStr;

/// The headers of packets, inside and outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) inner_v6: bool,
    pub(crate) outer_v6: bool,
    /// Whether ESP is in UDP.
    pub(crate) in_udp: bool,
}

impl FromStr for Headers {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let headers = |inner_v6, outer_v6, in_udp| Ok(Self { inner_v6, outer_v6, in_udp });
        match word {
            "ipv4" => headers(false, false, false),
            "ipv6" => headers(true, true, false),
            "ipv6-in-ipv4" => headers(true, false, false),
            "ipv4-in-udp" => headers(false, false, true),
            "ipv6-in-udp" => headers(true, true, true),
            other => {
                Err(format!("{other}: ipv4, ipv6, ipv6-in-ipv4, ipv4-in-udp and ipv6-in-udp are measured"))
            }
        }
    }
}

impl Headers {
    /// The outer address of a site.
    pub(crate) fn gateway(self, site: u8) -> String {
        if self.outer_v6 { format!("2001:db8::{site}") } else { format!("192.0.2.{site}") }
    }

    /// A host of a site; the first has one host.
    pub(crate) fn host(self, site: u8, host: usize) -> String {
        match (self.inner_v6, site) {
            (false, 1) => "10.1.0.9".to_owned(),
            (false, _) => format!("10.2.{}.{}", host >> 8, host & 255),
            (true, 1) => "fd00:1::9".to_owned(),
            (true, _) => format!("fd00:2::{host:x}"),
        }
    }

    /// The prefix of one host, as selectors have it.
    pub(crate) fn selector(self, site: u8, host: usize) -> String {
        format!("{}/{}", self.host(site, host), if self.inner_v6 { 128 } else { 32 })
    }

    /// How a tunnel's ESP is encapsulated, as the configuration has it.
    pub(crate) fn encap(self) -> &'static str {
        if self.in_udp { "udp" } else { "none" }
    }
}
