//! A file of WireGuard's wg-quick: its topology. WireGuard's keys authenticate no IKE.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_ipsec::TrafficSelector;
use ipnet::IpNet;

use super::findings::{FileLine, Finding, ImportEntry};
use super::gateway::{
    ImportedConnection, ImportedGateway, ImportedSecret, ImportedTunnel, Number, SwanctlKeys, is_one_family,
};
use super::source::ImportSource;
use crate::ends::is_host_name;

/// What the connections propose: AES-GCM, with a key exchange of its own at each rekeying.
const PROPOSALS: &str = "aes256gcm16-x25519-esn-noesn";

const KEYS: &str = "WireGuard's keys are not taken: charon authenticates by keys of its own; set them where swanctl's file \
                    says TO DO";
const ROUTES: &str =
    "the gateway routes by remote_ts, in a table of its own (route_table); see the guide, \"Routing\"";
const SCRIPTS: &str = "the gateway runs no commands; write forwarding and filters into /etc/sysctl.d and /etc/nftables.conf, \
                       for the interface convoy0";

/// Keys that are not taken, in lower case, and why.
const NOT_TAKEN: [(&str, &str); 12] = [
    ("privatekey", KEYS),
    ("publickey", KEYS),
    ("presharedkey", KEYS),
    ("listenport", "IKE and ESP are at UDP ports 500 and 4500; let the firewall pass these"),
    ("dns", "the gateway sets no name servers; write them where this host has its own"),
    ("table", ROUTES),
    ("fwmark", ROUTES),
    ("preup", SCRIPTS),
    ("postup", SCRIPTS),
    ("predown", SCRIPTS),
    ("postdown", SCRIPTS),
    ("saveconfig", "the gateway never writes its configuration; remove it"),
];
/// Keys that are taken, as wg-quick's page writes them.
const TAKEN: [&str; 5] = ["Address", "MTU", "AllowedIPs", "Endpoint", "PersistentKeepalive"];

/// One section.
struct WireguardSection {
    place: FileLine,
    is_peer: bool,
    entries: Vec<ImportEntry>,
}

impl WireguardSection {
    /// The items of all lines with a key, in lower case.
    fn items(&self, key: &'static str) -> impl Iterator<Item = (&ImportEntry, &str)> {
        let lines = self.entries.iter().filter(move |entry| entry.key.eq_ignore_ascii_case(key));
        lines.flat_map(|entry| entry.items().map(move |item| (entry, item)))
    }

    fn last(&self, key: &'static str) -> Option<(&ImportEntry, &str)> {
        self.items(key).last()
    }
}

/// The gateway, with a connection for each peer.
///
/// # Errors
/// What is wrong in the file, with its line.
pub(super) fn read(source: &ImportSource, left: &mut Vec<Finding>) -> Result<ImportedGateway, Finding> {
    let sections = sections(source)?;
    sections.iter().flat_map(|section| &section.entries).try_for_each(|entry| report(entry, left))?;
    let mut gateway = ImportedGateway::default();
    for section in sections.iter().filter(|section| !section.is_peer) {
        for (entry, item) in section.items("address") {
            let address = network(entry, item)?.addr();
            gateway.add_inside(address);
        }
        if let Some((entry, item)) = section.last("mtu") {
            // Linux gives an interface with less no IPv6 address.
            let least = if gateway.inside.iter().any(IpAddr::is_ipv6) { 1280 } else { 576 };
            let value = item.parse().ok().filter(|mtu| (least..=9400).contains(mtu));
            let wrong = || entry.finding(format!("{item:?}: a number from {least} to 9400 is expected"));
            let value = value.ok_or_else(wrong)?;
            gateway.inside_mtu = Some(Number { value, entry: entry.clone() });
        }
    }
    let peers: Vec<&WireguardSection> = sections.iter().filter(|section| section.is_peer).collect();
    if gateway.inside.is_empty() || peers.is_empty() {
        let what =
            "[Interface] with an Address, and a [Peer] are expected; name wg-quick's file, such as wg0.conf";
        return Err(source.place(0).finding("", what));
    }
    for (at, section) in peers.iter().enumerate() {
        peer(section, &format!("peer-{}", at + 1), &mut gateway, left)?;
    }
    Ok(gateway)
}

fn sections(source: &ImportSource) -> Result<Vec<WireguardSection>, Finding> {
    let mut sections: Vec<WireguardSection> = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        let place = source.place(at + 1);
        let text = line.split('#').next().unwrap_or_default().trim();
        match (text.to_lowercase().as_str(), text.split_once('=')) {
            ("", _) => {}
            (head @ ("[interface]" | "[peer]"), _) => {
                sections.push(WireguardSection { place, is_peer: head == "[peer]", entries: Vec::new() });
            }
            (_, Some((key, value))) if !sections.is_empty() && is_setting(key, value) => {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                sections.iter_mut().last().into_iter().for_each(|section| {
                    section.entries.push(ImportEntry {
                        place: place.clone(),
                        key: key.clone(),
                        value: value.clone(),
                    });
                });
            }
            _ => {
                // The line is not repeated: it may be a key without its name.
                let what =
                    "[Interface], [Peer] or, in one of them, `Key = value` is expected; correct the line";
                return Err(place.finding("", what));
            }
        }
    }
    Ok(sections)
}

/// Whether a line is a key's name and a value, and not a key in base64, which may end in `=`.
fn is_setting(key: &str, value: &str) -> bool {
    let key = key.trim();
    !key.is_empty()
        && key.chars().all(|one| one.is_ascii_alphabetic())
        && value.chars().any(|one| one != '=' && !one.is_whitespace())
}

/// Says why a key is not taken.
fn report(entry: &ImportEntry, left: &mut Vec<Finding>) -> Result<(), Finding> {
    let key = entry.key.to_lowercase();
    if let Some((_, why)) = NOT_TAKEN.iter().find(|(known, _)| *known == key) {
        left.push(entry.finding(*why));
        return Ok(());
    }
    if TAKEN.iter().any(|known| known.eq_ignore_ascii_case(&key)) {
        return Ok(());
    }
    Err(entry.finding(convoy_settings::unknown("key", &entry.key, &TAKEN) + "; correct or remove it"))
}

fn network(entry: &ImportEntry, item: &str) -> Result<IpNet, Finding> {
    convoy_settings::parse_prefix(item).ok_or_else(|| {
        entry.finding(format!("{item:?}: a network is expected, such as 10.9.0.1/24 or fd00::1/64"))
    })
}

/// The networks behind a peer.
fn allowed(peer: &WireguardSection) -> Result<Vec<IpNet>, Finding> {
    let networks = peer.items("allowedips").map(|(entry, item)| Ok(network(entry, item)?.trunc()));
    let networks = networks.collect::<Result<Vec<_>, Finding>>()?;
    if networks.is_empty() {
        let what =
            "the peer has no AllowedIPs, so nothing would be routed to it; write the networks behind it";
        return Err(peer.place.finding("AllowedIPs", what));
    }
    Ok(networks)
}

fn peer(
    section: &WireguardSection,
    name: &str,
    gateway: &mut ImportedGateway,
    left: &mut Vec<Finding>,
) -> Result<(), Finding> {
    let networks = allowed(section)?;
    let selector = |network: &IpNet| {
        let read = network.to_string().parse::<TrafficSelector>();
        read.map_err(|error| section.place.finding("AllowedIPs", error.to_string()))
    };
    let remote_ts = networks.iter().map(selector).collect::<Result<Vec<_>, _>>()?;
    let endpoint = section.last("endpoint").map(|(entry, item)| host(entry, item)).transpose()?;
    let keepalive = section.last("persistentkeepalive").map(|(entry, item)| seconds(entry, item));
    let keepalive = keepalive.transpose()?.flatten();
    let address = endpoint.as_deref().and_then(|host| host.parse::<IpAddr>().ok());
    let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let fits = |any: &IpAddr| address.is_none_or(|address| is_one_family(address, *any));
    any.into_iter().filter(fits).for_each(|any| gateway.add_outside(any));
    let what = "set its authentication where swanctl's file says TO DO; until then charon refuses it";
    left.push(section.place.finding("[Peer]", format!("connection {name}: {what}")));
    let child = child_keys(&networks, endpoint.is_some(), keepalive.is_some());
    let keys = connection_keys(endpoint.as_deref(), keepalive);
    gateway.connections.push(connection(name, keys, child, gateway.inside.first(), &networks));
    let proposal = Some(PROPOSALS.to_owned());
    gateway.add_tunnel(ImportedTunnel {
        name: name.to_owned(),
        remote_ts,
        proposal,
        ..ImportedTunnel::default()
    });
    Ok(())
}

/// A connection whose ends are known by their addresses in the tunnel, as both files have them.
fn connection(
    name: &str,
    keys: SwanctlKeys,
    child: SwanctlKeys,
    own: Option<&IpAddr>,
    networks: &[IpNet],
) -> ImportedConnection {
    let own = own.map(ToString::to_string);
    let of_host = networks.iter().find(|one| one.prefix_len() == one.max_prefix_len());
    let peer = of_host.map(|one| one.addr().to_string());
    let end = |id: &Option<String>| {
        let mut keys: SwanctlKeys = vec![("auth", "psk".to_owned())];
        keys.extend(id.clone().map(|id| ("id", id)));
        keys
    };
    ImportedConnection {
        name: name.to_owned(),
        keys,
        local: end(&own),
        remote: end(&peer),
        child: ("net".to_owned(), child),
        secret: ImportedSecret::Missing(own.into_iter().chain(peer).collect()),
    }
}

fn connection_keys(endpoint: Option<&str>, keepalive: Option<u16>) -> SwanctlKeys {
    let delay_s = keepalive.unwrap_or(30);
    vec![
        ("version", "2".to_owned()),
        ("remote_addrs", endpoint.unwrap_or("%any").to_owned()),
        ("encap", "yes".to_owned()),
        ("dpd_delay", format!("{delay_s}s")),
    ]
}

/// Both ends offer everything on their own side, and IKE narrows it to what the other end has of
/// them in its AllowedIPs, as WireGuard does with each packet.
fn child_keys(networks: &[IpNet], begins: bool, is_kept: bool) -> SwanctlKeys {
    let has = |is_v4: bool| networks.iter().any(|network| network.addr().is_ipv4() == is_v4);
    let all = [(true, "0.0.0.0/0"), (false, "::/0")];
    let all: Vec<&str> = all.into_iter().filter(|(is_v4, _)| has(*is_v4)).map(|(_, all)| all).collect();
    let start = match (begins, is_kept) {
        (false, _) => "none",
        (true, false) => "trap",
        (true, true) => "trap|start",
    };
    vec![
        ("local_ts", all.join(", ")),
        ("remote_ts", networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        ("esp_proposals", PROPOSALS.to_owned()),
        ("replay_window", "1024".to_owned()),
        ("start_action", start.to_owned()),
        ("dpd_action", if begins { "trap" } else { "clear" }.to_owned()),
    ]
}

/// The host of `HOST:PORT`.
fn host(entry: &ImportEntry, item: &str) -> Result<String, Finding> {
    let host = item.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map(|(host, _)| host);
    let host =
        host.map(|host| host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host));
    let is_host = |host: &&str| host.parse::<IpAddr>().is_ok() || is_host_name(host);
    host.filter(is_host).map(str::to_owned).ok_or_else(|| {
        entry.finding(format!(
            "{item:?}: ADDRESS:PORT, NAME:PORT or [IPv6]:PORT is expected, such as 192.0.2.1:51820"
        ))
    })
}

/// Seconds; none if it is off.
fn seconds(entry: &ImportEntry, item: &str) -> Result<Option<u16>, Finding> {
    if item == "off" {
        return Ok(None);
    }
    let seconds = item.parse::<u16>();
    let seconds =
        seconds.map_err(|_| entry.finding(format!("{item:?}: seconds up to 65535 or off is expected")))?;
    Ok(Some(seconds).filter(|seconds| *seconds > 0))
}

#[cfg(test)]
mod tests;
