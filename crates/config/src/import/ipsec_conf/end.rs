//! `left` and `right` of a connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_ipsec::TrafficSelector;
use convoy_settings::HostEnvironment;

use super::conns::Conn;
use crate::ends::is_host_name;
use crate::import::findings::{Finding, ImportEntry};
use crate::import::gateway::{SwanctlKeys, is_one_family};

/// Where an end is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndHost {
    /// At any address.
    Any,
    Address(IpAddr),
    Name(String),
}

impl fmt::Display for EndHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("%any"),
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// One end of a connection.
pub(super) struct ConnEnd<'a> {
    conn: &'a Conn,
    /// `left` or `right`.
    side: &'static str,
    pub(super) host: EndHost,
}

/// Both ends of a connection.
pub(super) struct ConnEnds<'a> {
    /// This gateway's.
    pub(super) local: ConnEnd<'a>,
    /// The peer's.
    pub(super) remote: ConnEnd<'a>,
}

impl<'a> ConnEnds<'a> {
    /// `left` is this gateway's, unless the machine has the address of `right`.
    pub(super) fn of(conn: &'a Conn, machine: &dyn HostEnvironment) -> Result<Self, Finding> {
        let end = |side| Ok(ConnEnd { conn, side, host: host(conn, side)? });
        let (left, right) = (end("left")?, end("right")?);
        let has = |end: &ConnEnd<'_>| match end.host {
            EndHost::Address(address) => machine.has_address(address) == Some(true),
            _ => false,
        };
        if left.host == right.host {
            let what = "both ends are the same; write this gateway's address as left and the peer's as right";
            return Err(conn.place.finding(format!("conn {}", conn.name), what));
        }
        let (local, remote) = if has(&right) && !has(&left) { (right, left) } else { (left, right) };
        Ok(Self { local, remote })
    }
}

impl ConnEnd<'_> {
    fn entry(&self, key: &str) -> Option<&ImportEntry> {
        self.conn.entry(&format!("{}{key}", self.side))
    }

    /// The gateway's outside addresses for this end: its own, or all of the peer's family.
    pub(super) fn outside(&self, peer: &Self) -> Vec<IpAddr> {
        if let EndHost::Address(address) = self.host {
            return vec![address];
        }
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let fits = |any: &IpAddr| match peer.host {
            EndHost::Address(peer) => is_one_family(peer, *any),
            _ => true,
        };
        any.into_iter().filter(fits).collect()
    }

    /// The addresses that this gateway gives out to clients at this end.
    pub(super) fn pool(&self) -> Option<&str> {
        let value = &*self.entry("sourceip")?.value;
        (!value.starts_with('%')).then_some(value)
    }

    /// Whether it has a virtual IP in place of networks.
    pub(super) fn is_dynamic(&self) -> bool {
        self.entry("sourceip").is_some() && self.entry("subnet").or_else(|| self.entry("subnets")).is_none()
    }

    /// The virtual IPs that this end asks for.
    pub(super) fn vips(&self) -> Option<String> {
        match &*self.entry("sourceip")?.value {
            "%config" | "%config4" | "%modeconfig" => Some("0.0.0.0".to_owned()),
            "%config6" => Some("::".to_owned()),
            _ if self.source().is_some() => None,
            addresses => Some(addresses.to_owned()),
        }
    }

    /// The inside address of this gateway: a source that its own networks have, as libreswan means
    /// it.
    pub(super) fn source(&self) -> Option<IpAddr> {
        let address = self.entry("sourceip")?.value.parse::<IpAddr>().ok()?;
        let networks = self.selectors().ok()?;
        networks.iter().any(|network| network.addresses.contains(address)).then_some(address)
    }

    /// The networks of this end; none is everything, or nothing that is known.
    pub(super) fn selectors(&self) -> Result<Vec<TrafficSelector>, Finding> {
        let ports = self.entry("protoport").map(|entry| ports(&entry.value)).unwrap_or_default();
        let Some(entry) = self.entry("subnet").or_else(|| self.entry("subnets")) else {
            let address = match (self.entry("sourceip"), &self.host) {
                (Some(entry), _) if entry.value.starts_with('%') => return Ok(Vec::new()),
                (Some(entry), _) => entry.value.clone(),
                (None, EndHost::Address(address)) => address.to_string(),
                (None, _) => return Ok(Vec::new()),
            };
            let entry = self.entry("sourceip").or_else(|| self.entry("")).map(|entry| entry.place.clone());
            let place = entry.unwrap_or_else(|| self.conn.place.clone());
            return selectors_of(&ImportEntry { place, key: self.side.to_owned(), value: address }, &ports);
        };
        selectors_of(entry, &ports)
    }

    /// What `local` or `remote` of the connection says.
    pub(super) fn authentication(&self, left: &mut Vec<Finding>) -> Result<SwanctlKeys, Finding> {
        let entry = self.entry("auth").or_else(|| self.conn.entry("authby"));
        let method = match entry.map(|entry| &*entry.value) {
            Some("secret" | "psk") => "psk".to_owned(),
            None | Some("pubkey" | "rsasig" | "ecdsasig") => "pubkey".to_owned(),
            Some(other)
                if ["rsa", "ecdsa", "pubkey", "eap", "ike:"].iter().any(|known| other.starts_with(known)) =>
            {
                other.to_owned()
            }
            Some(other) => {
                let what = format!("{other:?}: charon's psk, pubkey or eap is expected; write one of them");
                return Err(entry
                    .map_or_else(|| self.conn.place.finding("auth", &*what), |entry| entry.finding(&*what)));
            }
        };
        let is_eap = method.starts_with("eap");
        let mut keys: SwanctlKeys = vec![("auth", method)];
        keys.extend(self.identity().map(|id| ("id", id)));
        if let Some(entry) = self.entry("cert") {
            if entry.value.starts_with('%') || entry.value.contains('/') {
                left.push(entry.finding(
                    "put the certificate into /etc/swanctl/x509, its key into /etc/swanctl/private",
                ));
            }
            let file = entry.value.rsplit('/').next().unwrap_or_default();
            keys.push(("certs", file.to_owned()));
        }
        keys.extend(
            self.conn.value(&["eap_identity"]).filter(|_| is_eap).map(|id| ("eap_id", id.to_owned())),
        );
        Ok(keys)
    }

    /// The identity in IKE: the address, if nothing else is said; none if it may be any.
    pub(super) fn identity(&self) -> Option<String> {
        match (self.entry("id"), &self.host, self.entry("cert")) {
            (Some(entry), ..) => Some(entry.value.clone()).filter(|id| id != "%any" && id != "%fromcert"),
            (None, _, Some(_)) | (None, EndHost::Any, None) => None,
            (None, host, None) => Some(host.to_string()),
        }
    }
}

fn host(conn: &Conn, side: &'static str) -> Result<EndHost, Finding> {
    let Some(entry) = conn.entry(side) else { return Ok(EndHost::Any) };
    match &*entry.value {
        "%any" | "%any4" | "%any6" | "%defaultroute" | "0.0.0.0" | "::" => Ok(EndHost::Any),
        text => match text.parse() {
            Ok(address) => Ok(EndHost::Address(address)),
            Err(_) if is_host_name(text) => Ok(EndHost::Name(text.to_owned())),
            Err(_) => {
                let what =
                    format!("{text:?}: an address, a name or %any is expected, such as 192.0.2.1; write one");
                Err(entry.finding(what))
            }
        },
    }
}

/// `tcp/80` as what stands behind a network in swanctl.conf.
fn ports(text: &str) -> String {
    let (protocol, port) = text.split_once('/').unwrap_or((text, "%any"));
    match (protocol, port) {
        ("%any" | "0", _) => String::new(),
        (protocol, "%any" | "any" | "0" | "") => format!("[{protocol}]"),
        (protocol, "%opaque") => format!("[{protocol}/opaque]"),
        (protocol, port) => format!("[{protocol}/{port}]"),
    }
}

fn selectors_of(entry: &ImportEntry, ports: &str) -> Result<Vec<TrafficSelector>, Finding> {
    let braces = |one: char| ['{', '}', ',', ' ', '\t'].contains(&one);
    let mut selectors = Vec::new();
    for item in entry.value.split(braces).filter(|item| !item.is_empty() && *item != "%dynamic") {
        let text = if item.contains('[') { item.to_owned() } else { format!("{item}{ports}") };
        let wrong = |error| {
            entry.finding(format!("{error}; networks are expected, such as 10.1.0.0/24 or fd00:1::/64"))
        };
        selectors.push(text.parse().map_err(wrong)?);
    }
    Ok(selectors)
}
