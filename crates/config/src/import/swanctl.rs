//! strongSwan's swanctl.conf: charon keeps the file, and the gateway gets what it routes by.

mod child;

use std::net::IpAddr;

use super::braces::{self, BraceSection};
use super::findings::{Finding, ImportEntry};
use super::gateway::{ImportedGateway, is_one_family};
use super::source::ImportSource;

/// A key that means something for the gateway, the values that do no harm, and what to say of the
/// others.
type Limit = (&'static str, &'static [&'static str], &'static str);

/// Of a connection.
const LIMITS: [Limit; 3] = [
    (
        "version",
        &["0", "2"],
        "IKEv1 is charon's alone and was never tried with convoy; write version = 2 at both ends",
    ),
    ("local_port", &["500"], "the gateway receives IKE at UDP ports 500 and 4500; remove it"),
    ("remote_port", &["500", "4500"], "the gateway sends IKE to UDP ports 500 and 4500; remove it"),
];

/// What convoy needs of the file.
///
/// # Errors
/// What is no swanctl.conf, or what cannot be in one.
pub(super) fn read(source: &ImportSource, left: &mut Vec<Finding>) -> Result<ImportedGateway, Finding> {
    let whole = braces::read(source)?;
    let connections = whole.section("connections").filter(|all| !all.sections.is_empty());
    let connections = connections.ok_or_else(|| {
        let what = "there are none; name the file that has connections { NAME { … } }";
        source.place(0).finding("connections", what)
    })?;
    let mut reader = SwanctlReader { whole: &whole, gateway: ImportedGateway::default(), left };
    connections.sections.iter().try_for_each(|one| reader.connection(one))?;
    if reader.gateway.tunnels.is_empty() && reader.gateway.interfaces.is_empty() {
        let why: String = reader.left.iter().map(|finding| format!("\n  {finding}")).collect();
        let what = format!("no child can be taken:{why}\nwrite convoy.toml by hand, as the guide has it");
        return Err(connections.place.finding("connections", what));
    }
    Ok(reader.gateway)
}

/// The gateway as far as it is read.
struct SwanctlReader<'a> {
    whole: &'a BraceSection,
    gateway: ImportedGateway,
    left: &'a mut Vec<Finding>,
}

/// A connection's ends.
struct SwanctlEnds {
    /// The path of its keys, for messages.
    path: String,
    /// The addresses that are known.
    local: Vec<IpAddr>,
    remote: Vec<IpAddr>,
    /// The addresses of its pools, as they are written.
    pools: Vec<String>,
    /// Whether charon asks for a virtual IP.
    has_vips: bool,
}

impl SwanctlReader<'_> {
    fn connection(&mut self, connection: &BraceSection) -> Result<(), Finding> {
        let path = format!("connections.{}", connection.name);
        self.report(&path, connection, &LIMITS);
        let addresses =
            |key| connection.entry(key).into_iter().flat_map(ImportEntry::items).map(str::parse::<IpAddr>);
        let (local, remote) = (addresses("local_addrs"), addresses("remote_addrs"));
        let ends = SwanctlEnds {
            local: local.flatten().collect(),
            remote: remote.flatten().collect(),
            pools: self.pools(&path, connection),
            has_vips: connection.entry("vips").is_some(),
            path,
        };
        self.outside(connection, &ends);
        let children = connection.section("children").map_or(&[][..], |children| &children.sections);
        if children.is_empty() {
            self.left.push(
                connection.place.finding(&*ends.path, "it has no children, so nothing is routed for it"),
            );
        }
        children.iter().try_for_each(|child| self.child(connection, child, &ends))
    }

    /// The gateway has the connection's addresses outside, or all of a family.
    fn outside(&mut self, connection: &BraceSection, ends: &SwanctlEnds) {
        let all = connection.entry("local_addrs").map_or(0, |entry| entry.items().count());
        let is_known = all > 0 && all == ends.local.len();
        let any: [IpAddr; 2] =
            [std::net::Ipv4Addr::UNSPECIFIED.into(), std::net::Ipv6Addr::UNSPECIFIED.into()];
        if is_known {
            ends.local.iter().for_each(|address| self.gateway.add_outside(*address));
        } else {
            let fits = |any: &&IpAddr| {
                ends.remote.is_empty() || ends.remote.iter().any(|remote| is_one_family(*remote, **any))
            };
            any.iter().filter(fits).for_each(|any| self.gateway.add_outside(*any));
        }
        if connection.entry("encap").is_some_and(ImportEntry::is_yes) {
            return;
        }
        if is_known {
            ends.local.iter().for_each(|address| self.gateway.add_native(*address));
        } else {
            let place = connection.entry("encap").map_or(&connection.place, |entry| &entry.place);
            let what = "a gateway without local_addrs has ESP in UDP alone; write encap = yes in the connection, or its \
                        own addresses as local_addrs";
            self.left.push(place.finding(format!("{}.encap", ends.path), what));
        }
    }

    /// The addresses of a connection's pools.
    fn pools(&mut self, path: &str, connection: &BraceSection) -> Vec<String> {
        let Some(names) = connection.entry("pools") else { return Vec::new() };
        let mut addresses = Vec::new();
        for name in names.items() {
            let pool = self.whole.section("pools").and_then(|pools| pools.section(name)?.entry("addrs"));
            match pool {
                Some(pool) => addresses.push(pool.value.clone()),
                None => self.left.push(names.place.finding(
                    format!("{path}.pools"),
                    format!(
                        "the addresses of {name:?} are not in this file; write a [[tunnel]] whose remote_ts covers them"
                    ),
                )),
            }
        }
        addresses
    }

    /// Reports keys with values that the gateway has nothing for.
    fn report(&mut self, path: &str, section: &BraceSection, limits: &[Limit]) {
        for (key, harmless, what) in limits {
            let harms = |entry: &&ImportEntry| !harmless.contains(&&*entry.value);
            if let Some(entry) = section.entry(key).filter(harms) {
                self.left.push(entry.place.finding(format!("{path}.{key}"), *what));
            }
        }
    }
}

#[cfg(test)]
mod tests;
