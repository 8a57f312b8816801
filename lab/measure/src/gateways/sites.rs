//! Configurations of two gateways that connect two sites, as an operator would write them.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use convoy_config::{Basis, Config, unknown_proposal};
use convoy_ipsec::Proposal;

use crate::device::MeasureError;
use crate::family::{Families, Family};

/// Large enough, in bytes, for the longest test packet with its outer headers.
const MTU: u16 = 9200;

/// What the gateways do with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// Forwarding in plaintext, by bypass policies.
    Forward,
    /// ESP in tunnel mode with this proposal, such as `aes128gcm16`.
    Ipsec(String),
}

/// Key material of one tunnel in hexadecimal. It is fixed, since no packet leaves the process.
fn key(from: u8, tunnel: u16, bytes: usize) -> String {
    let begin = format!("{from:02x}{tunnel:04x}");
    (3..bytes).fold(begin, |mut text, at| {
        let _ = write!(text, "{:02x}", (at * 37 + 11) as u8);
        text
    })
}

/// The configuration of site 1 or 2, with one tunnel per host at site 2; `engine` is its
/// `[[engine]]` tables.
pub(crate) fn site(
    service: &Service,
    tunnels: u16,
    families: Families,
    engine: &str,
    site: u8,
) -> Result<Config, MeasureError> {
    let mut text = format!("[gateway]\nmtu = {MTU}\nallow_weak = true\n{engine}\n");
    match service {
        Service::Forward => {
            for all in ["0.0.0.0/0", "::/0"] {
                let _ = write!(text, "[[bypass]]\nlocal_ts = \"{all}\"\nremote_ts = \"{all}\"\n");
            }
        }
        Service::Ipsec(proposal) => {
            let invalid = |error| MeasureError::Invalid(unknown_proposal(proposal, &error));
            let parsed = proposal.parse::<Proposal>().map_err(invalid)?;
            let key_bytes = parsed.transform.key_material_len();
            (0..tunnels).for_each(|at| tunnel(&mut text, site, families, at, proposal, key_bytes));
        }
    }
    Config::parse_at("measured.toml", &text, &Basis::of(&convoy_devices::KINDS))
        .map_err(|errors| MeasureError::Gateway(errors.to_string()))
}

/// The network of a site: one network at site 1, one host per tunnel at site 2.
fn network(family: Family, site: u8, tunnel: u16) -> String {
    match (family, site) {
        (Family::V4, 1) => "10.1.0.0/16".to_owned(),
        (Family::V6, 1) => "fd00:1::/64".to_owned(),
        (Family::V4, _) => format!("{}/32", Ipv4Addr::from(0x0a02_0001 + u32::from(tunnel))),
        (Family::V6, _) => format!("fd00:2::{:x}/128", 1 + tunnel),
    }
}

fn tunnel(text: &mut String, site: u8, families: Families, tunnel: u16, proposal: &str, key_bytes: usize) {
    let peer = 3 - site;
    let network = |of| network(families.inner, of, tunnel);
    let outer = match families.outer {
        Family::V4 => "192.0.2.",
        Family::V6 => "2001:db8::",
    };
    let spi = |of: u8| 0x10_0000 * u32::from(of) + u32::from(tunnel);
    let _ = write!(
        text,
        r#"
[[tunnel]]
name = "tunnel-{tunnel}"
local = "{outer}{site}"
remote = "{outer}{peer}"
local_ts = ["{}"]
remote_ts = ["{}"]
esp_proposal = "{proposal}"
encap = "none"
replay_window = 4096
[tunnel.manual]
spi_in = {}
spi_out = {}
key_in = "{}"
key_out = "{}"
"#,
        network(site),
        network(peer),
        spi(site),
        spi(peer),
        key(peer, tunnel, key_bytes),
        key(site, tunnel, key_bytes),
    );
}
