//! AWS' text of a site-to-site VPN for a generic device: two tunnels, each with an interface.

mod proposals;

use std::net::IpAddr;

use ipnet::IpNet;
use zeroize::Zeroizing;

use self::proposals::ProposalSuite;
use super::findings::{FileLine, Finding, ImportEntry};
use super::gateway::{
    ImportedConnection, ImportedGateway, ImportedInterface, ImportedSecret, Number, SwanctlKeys,
};
use super::source::ImportSource;

/// One of the tunnels: its lines under the headings that tell equal keys apart.
struct AwsTunnel {
    number: u32,
    place: FileLine,
    entries: Vec<(Heading, ImportEntry)>,
}

/// The headings whose keys are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading {
    Ike,
    Esp,
    Outside,
    Inside,
    Bgp,
    Routes,
    Other,
}

/// What a line without a key of its own begins.
const HEADINGS: [(&str, Heading); 7] = [
    ("internet key exchange configuration", Heading::Ike),
    ("ipsec configuration", Heading::Esp),
    ("outside ip addresses", Heading::Outside),
    ("inside ip addresses", Heading::Inside),
    ("border gateway protocol", Heading::Bgp),
    ("static route configuration", Heading::Routes),
    ("tunnel interface configuration", Heading::Other),
];

impl AwsTunnel {
    fn entry(&self, heading: Heading, key: &str) -> Option<&ImportEntry> {
        let is_it =
            |(of, entry): &&(Heading, ImportEntry)| *of == heading && entry.key.eq_ignore_ascii_case(key);
        self.entries.iter().find(is_it).map(|(_, entry)| entry)
    }

    fn needed(&self, heading: Heading, key: &str) -> Result<&ImportEntry, Finding> {
        self.entry(heading, key).ok_or_else(|| {
            let what = format!(
                "IPSec Tunnel #{} has no line \"- {key} : …\"; download the text for the vendor \"Generic\" again",
                self.number
            );
            self.place.finding(key, what)
        })
    }

    fn read<T: std::str::FromStr>(&self, heading: Heading, key: &str, expected: &str) -> Result<T, Finding> {
        let entry = self.needed(heading, key)?;
        entry.value.parse().map_err(|_| entry.finding(format!("{:?}: {expected} is expected", entry.value)))
    }

    /// The number with which a value begins, such as that of `1436 bytes`, and its line.
    fn number(&self, key: &str, least: u16) -> Result<Option<Number>, Finding> {
        let Some((_, entry)) = self.entries.iter().find(|(_, entry)| entry.key.eq_ignore_ascii_case(key))
        else {
            return Ok(None);
        };
        let number = entry.value.split_whitespace().next().and_then(|number| number.parse().ok());
        match number.filter(|number| (least..=9400).contains(number)) {
            Some(value) => Ok(Some(Number { value, entry: entry.clone() })),
            None => {
                Err(entry.finding(format!("{:?}: a number from {least} to 9400 is expected", entry.value)))
            }
        }
    }
}

/// The gateway, with an interface and a connection for each tunnel.
///
/// # Errors
/// What is missing or wrong in the text, with its line.
pub(super) fn read(source: &ImportSource, left: &mut Vec<Finding>) -> Result<ImportedGateway, Finding> {
    let tunnels = tunnels(source);
    if tunnels.is_empty() {
        let what = "no line \"IPSec Tunnel #1\" is in it; download the text for the vendor \"Generic\"";
        return Err(source.place(0).finding("", what));
    }
    let mut gateway = ImportedGateway::default();
    for tunnel in &tunnels {
        add(tunnel, &mut gateway, left)?;
    }
    Ok(gateway)
}

fn tunnels(source: &ImportSource) -> Vec<AwsTunnel> {
    let mut tunnels: Vec<AwsTunnel> = Vec::new();
    let mut heading = Heading::Other;
    for (at, line) in source.text.lines().enumerate() {
        let place = source.place(at + 1);
        let (text, lower) = (line.trim(), line.trim().to_lowercase());
        if lower.starts_with("ipsec tunnel #") {
            // Counted, so that no two have the same number, whatever the text says.
            let number = u32::try_from(tunnels.len() + 1).unwrap_or(u32::MAX);
            tunnels.push(AwsTunnel { number, place, entries: Vec::new() });
            heading = Heading::Other;
        } else if let (Some(item), Some(tunnel)) = (text.strip_prefix("- "), tunnels.last_mut()) {
            if let Some((key, value)) = item.split_once(':') {
                let key = key.split_whitespace().collect::<Vec<_>>().join(" ");
                tunnel.entries.push((heading, ImportEntry { place, key, value: value.trim().to_owned() }));
            }
        } else if let Some((_, found)) = HEADINGS.iter().find(|(words, _)| is_heading(&lower, words)) {
            heading = *found;
        }
    }
    tunnels
}

/// A heading may have a number before it and a colon behind it.
fn is_heading(line: &str, words: &str) -> bool {
    let unnumbered =
        line.trim_start_matches(|one: char| one == '#' || one == ':' || one == ' ' || one.is_ascii_digit());
    unnumbered.starts_with(words)
}

fn add(tunnel: &AwsTunnel, gateway: &mut ImportedGateway, left: &mut Vec<Finding>) -> Result<(), Finding> {
    let name = format!("aws-{}", tunnel.number);
    let (own, cloud) = ("Customer Gateway", "Virtual Private Gateway");
    let outside: IpAddr = tunnel.read(Heading::Outside, own, "an address, such as 203.0.113.1")?;
    let peer: IpAddr = tunnel.read(Heading::Outside, cloud, "an address, such as 198.51.100.1")?;
    let inside: IpNet =
        tunnel.read(Heading::Inside, own, "an address with a prefix, such as 169.254.6.2/30")?;
    gateway.add_outside(outside);
    let mss = tunnel.number("TCP MSS Adjustment", 88)?.map(|mss| mss.value);
    gateway.mss_clamp = mss.into_iter().chain(gateway.mss_clamp).min();
    gateway.interfaces.push(ImportedInterface {
        name: name.clone(),
        if_id: tunnel.number,
        addresses: vec![inside],
        mtu: tunnel.number("Tunnel interface MTU", 576)?,
    });
    gateway.add_native(outside);
    let key = tunnel.needed(Heading::Ike, "Pre-Shared Key")?;
    report(tunnel, &name, left);
    let end =
        |address: IpAddr| -> SwanctlKeys { vec![("auth", "psk".to_owned()), ("id", address.to_string())] };
    gateway.connections.push(ImportedConnection {
        keys: keys(tunnel, outside, peer, left),
        local: end(outside),
        remote: end(peer),
        child: ("net".to_owned(), child(tunnel, left)),
        secret: ImportedSecret::Known(
            vec![outside.to_string(), peer.to_string()],
            Zeroizing::new(key.value.clone()),
        ),
        name,
    });
    Ok(())
}

fn keys(tunnel: &AwsTunnel, outside: IpAddr, peer: IpAddr, left: &mut Vec<Finding>) -> SwanctlKeys {
    let mut keys = vec![
        ("version", "2".to_owned()),
        ("local_addrs", outside.to_string()),
        ("remote_addrs", peer.to_string()),
    ];
    let suite = ProposalSuite {
        is_ike: true,
        place: &tunnel.place,
        encryption: tunnel.entry(Heading::Ike, "Encryption Algorithm"),
        integrity: tunnel.entry(Heading::Ike, "Authentication Algorithm"),
        group: tunnel.entry(Heading::Ike, "Diffie-Hellman"),
    };
    keys.extend(suite.proposal(left).map(|proposal| ("proposals", proposal)));
    let delay = tunnel.number("DPD Interval", 1).ok().flatten().map_or(10, |delay| delay.value);
    keys.push(("dpd_delay", format!("{delay}s")));
    keys
}

fn child(tunnel: &AwsTunnel, left: &mut Vec<Finding>) -> SwanctlKeys {
    let suite = ProposalSuite {
        is_ike: false,
        place: &tunnel.place,
        encryption: tunnel.entry(Heading::Esp, "Encryption Algorithm"),
        integrity: tunnel.entry(Heading::Esp, "Authentication Algorithm"),
        group: tunnel.entry(Heading::Esp, "Perfect Forward Secrecy"),
    };
    let mut keys = vec![
        ("if_id_in", tunnel.number.to_string()),
        ("if_id_out", tunnel.number.to_string()),
        ("local_ts", "0.0.0.0/0".to_owned()),
        ("remote_ts", "0.0.0.0/0".to_owned()),
    ];
    keys.extend(suite.proposal(left).map(|proposal| ("esp_proposals", proposal)));
    keys.push(("replay_window", "1024".to_owned()));
    // The link of the interface follows the SAs, so that BGP and routes leave a dead tunnel.
    keys.push(("start_action", "start".to_owned()));
    keys.push(("dpd_action", "restart".to_owned()));
    keys.push(("close_action", "start".to_owned()));
    keys
}

/// What the operator still has to do.
fn report(tunnel: &AwsTunnel, name: &str, left: &mut Vec<Finding>) {
    if let Some(version) =
        tunnel.entry(Heading::Ike, "IKE version").filter(|entry| entry.value.contains("IKEv1"))
    {
        left.push(version.finding(
            "IKEv1 was never tried with convoy; the connection has version = 2, which the tunnel options at AWS have to \
             allow",
        ));
    }
    for key in ["Lifetime"] {
        for heading in [Heading::Ike, Heading::Esp] {
            left.extend(tunnel.entry(heading, key).map(|entry| {
                entry
                    .finding("with IKEv2 each end has its own; charon rekeys in time by default (rekey_time)")
            }));
        }
    }
    let neighbour = tunnel.entry(Heading::Bgp, "Neighbor IP Address");
    if let Some(neighbour) = neighbour {
        let number = tunnel
            .entry(Heading::Bgp, "Virtual Private Gateway ASN")
            .map_or("its ASN", |entry| &*entry.value);
        left.push(neighbour.finding(format!(
            "BGP is a routing daemon's: `neighbor {} remote-as {number}` in FRR; see the guide, \"Tunnels as interfaces\"",
            neighbour.value
        )));
    }
    if let Some(hop) = tunnel.entry(Heading::Routes, "Next hop") {
        left.push(hop.finding(format!(
            "the gateway sets no routes to interfaces; for the networks of your VPC: ip route add NETWORK dev {name}"
        )));
    }
}

#[cfg(test)]
mod tests;
