//! A child of swanctl.conf: a tunnel, an interface or a bypass.

use convoy_ipsec::{SaProtocol, TrafficSelector};

use super::{Limit, SwanctlEnds, SwanctlReader};
use crate::import::braces::BraceSection;
use crate::import::findings::{Finding, ImportEntry};
use crate::import::gateway::{ImportedInterface, ImportedTunnel, NETWORKS_OF_THE_PEER, known_proposal, word};

const MARKS: &str = "the gateway has no marks and refuses the SAs; remove it, or use if_id_in and if_id_out with an [[interface]]";
const SCRIPTS: &str = "charon runs the script, but the kernel sees no IPsec, so rules for IPsec policies match nothing; \
                       filter by the interface, convoy0 or that of the [[interface]]";

/// Of a child.
const LIMITS: [Limit; 12] = [
    ("mark_in", &["0"], MARKS),
    ("mark_out", &["0"], MARKS),
    ("set_mark_in", &["0"], MARKS),
    ("set_mark_out", &["0"], MARKS),
    (
        "hw_offload",
        &["no", "auto"],
        "the gateway refuses it; remove it: engines are in convoy.toml, and chosen if none are",
    ),
    ("ipcomp", &["no"], "the gateway has no IPComp and refuses the SAs; remove it"),
    ("label", &[], "the gateway has no security labels and refuses the SAs; remove it"),
    (
        "policies",
        &["yes"],
        "the gateway sends by policies alone; remove it, or use if_id_in and if_id_out with an [[interface]]",
    ),
    ("copy_dscp", &["out", "no"], "the gateway never copies it to inner packets; write out or no"),
    ("interface", &[], "the gateway routes to its own inside interface; remove it"),
    ("updown", &[], SCRIPTS),
    ("hostaccess", &["no"], SCRIPTS),
];

impl SwanctlReader<'_> {
    /// Takes a child, or says why not.
    pub(super) fn child(
        &mut self,
        connection: &BraceSection,
        child: &BraceSection,
        ends: &SwanctlEnds,
    ) -> Result<(), Finding> {
        let path = format!("{}.children.{}", ends.path, child.name);
        self.report(&path, child, &LIMITS);
        let mode = child.entry("mode").map_or("tunnel", |entry| &entry.value);
        if let Some(if_id) = self.if_id(connection, child, &path) {
            self.interface(child, &path, if_id);
            return Ok(());
        }
        match mode {
            "tunnel" | "iptfs" | "transport" | "pass" => {}
            _ => {
                let place = child.entry("mode").map_or(&child.place, |entry| &entry.place);
                let what = format!(
                    "the gateway has no mode {mode:?}, so the child was left out; tunnel or transport is expected"
                );
                self.left.push(place.finding(format!("{path}.mode"), what));
                return Ok(());
            }
        }
        let local: Vec<String> = ends.local.iter().map(ToString::to_string).collect();
        let remote: Vec<String> = ends.remote.iter().map(ToString::to_string).collect();
        let local = selectors(child, &path, "local_ts", if ends.has_vips { &[] } else { &local })?;
        let dynamic = if ends.pools.is_empty() { &remote } else { &ends.pools };
        let remote = selectors(child, &path, "remote_ts", dynamic)?;
        if remote.is_empty() {
            self.networks_of_the_peer(connection, child, ends, mode, local);
        } else if mode == "pass" {
            let pairs = local.iter().flat_map(|local| remote.iter().map(move |remote| (*local, *remote)));
            self.gateway.bypasses.extend(pairs);
        } else {
            let name = word(&format!("{}-{}", connection.name, child.name));
            let networks =
                ImportedTunnel { name, local_ts: local, remote_ts: remote, ..ImportedTunnel::default() };
            self.tunnel(child, &path, ends, networks);
        }
        Ok(())
    }

    /// A child whose peer alone names the networks behind it: a tunnel without `remote_ts` takes
    /// them from charon, for all children of the connection whose name it has.
    fn networks_of_the_peer(
        &mut self,
        connection: &BraceSection,
        child: &BraceSection,
        ends: &SwanctlEnds,
        mode: &str,
        local_ts: Vec<TrafficSelector>,
    ) {
        let path = format!("{}.children.{}", ends.path, child.name);
        let place = child.entry("remote_ts").map_or(&child.place, |entry| &entry.place);
        let is_named = word(&connection.name) == connection.name;
        if !is_named || !matches!(mode, "tunnel" | "iptfs") {
            let what = "which networks are behind the peer is only known once it connects; write a [[tunnel]] whose \
                        remote_ts covers them";
            self.left.push(place.finding(format!("{path}.remote_ts"), what));
            return;
        }
        self.left.push(place.finding(format!("{path}.remote_ts"), NETWORKS_OF_THE_PEER));
        if !self.gateway.tunnels.iter().any(|known| known.name == connection.name) {
            let name = connection.name.clone();
            self.tunnel(child, &path, ends, ImportedTunnel { name, local_ts, ..ImportedTunnel::default() });
        }
    }

    fn tunnel(&mut self, child: &BraceSection, path: &str, ends: &SwanctlEnds, networks: ImportedTunnel) {
        let ah = child.entry("ah_proposals");
        if let Some(entry) = ah {
            ends.local.iter().for_each(|address| self.gateway.add_native(*address));
            if ends.local.is_empty() {
                let what = "AH comes to known addresses alone; write this gateway's own as local_addrs";
                self.left.push(entry.place.finding(format!("{path}.ah_proposals"), what));
            }
        }
        let protocol = if ah.is_some() { SaProtocol::Ah } else { SaProtocol::Esp };
        let proposal = ah.or_else(|| child.entry("esp_proposals"));
        let proposal = proposal.and_then(|entry| {
            let named = ImportEntry { key: format!("{path}.{}", entry.key), ..entry.clone() };
            known_proposal(&named, protocol, self.left)
        });
        self.gateway.add_tunnel(ImportedTunnel {
            is_ah: ah.is_some(),
            is_transport: child.entry("mode").is_some_and(|mode| mode.value == "transport"),
            proposal,
            ..networks
        });
    }

    /// charon's number of the interface, if the child has one.
    fn if_id(&mut self, connection: &BraceSection, child: &BraceSection, path: &str) -> Option<u32> {
        let number = |key| child.entry(key).or_else(|| connection.entry(key));
        let (of_in, of_out) = (number("if_id_in"), number("if_id_out"));
        let entry = of_in.or(of_out).filter(|entry| entry.value != "0")?;
        let value = of_in.zip(of_out).filter(|(one, other)| one.value == other.value);
        let found = value.and_then(|(entry, _)| if_id_of(&entry.value));
        if found.is_none() {
            let what = "a number that is the same for if_id_in and if_id_out is expected, so it was left out; write one \
                        that [[interface]] has as if_id";
            self.left.push(entry.place.finding(format!("{path}.{}", entry.key), what));
        }
        found
    }

    fn interface(&mut self, child: &BraceSection, path: &str, if_id: u32) {
        if self.gateway.interfaces.iter().any(|known| known.if_id == if_id) {
            return;
        }
        let name = format!("ipsec{if_id}");
        let what = format!(
            "the interface of if_id {if_id} is {name} of convoy's; remove the kernel's XFRM interface, write its \
             addresses as `address` of [[interface]], and its routes to {name}"
        );
        let place = child.entry("if_id_in").map_or(&child.place, |entry| &entry.place);
        self.left.push(place.finding(format!("{path}.if_id_in"), what));
        self.gateway.interfaces.push(ImportedInterface { name, if_id, addresses: Vec::new(), mtu: None });
    }
}

/// A number in decimal or hexadecimal digits, with or without a mask of ones.
fn if_id_of(text: &str) -> Option<u32> {
    let number = text.strip_suffix("/0xffffffff").unwrap_or(text);
    let read = match number.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    read.ok().filter(|number| *number > 0)
}

/// The selectors of one side, where `dynamic` stands for these addresses.
fn selectors(
    child: &BraceSection,
    path: &str,
    key: &str,
    dynamic: &[String],
) -> Result<Vec<TrafficSelector>, Finding> {
    let Some(entry) = child.entry(key) else {
        let entry =
            ImportEntry { place: child.place.clone(), key: key.to_owned(), value: "dynamic".to_owned() };
        return selectors_of(&entry, path, dynamic);
    };
    selectors_of(entry, path, dynamic)
}

fn selectors_of(
    entry: &ImportEntry,
    path: &str,
    dynamic: &[String],
) -> Result<Vec<TrafficSelector>, Finding> {
    let mut selectors = Vec::new();
    for item in entry.items() {
        let texts: Vec<String> = match item.strip_prefix("dynamic") {
            Some(ports) => dynamic.iter().map(|address| format!("{address}{ports}")).collect(),
            None => vec![item.to_owned()],
        };
        for text in texts {
            let wrong = |error| {
                let what =
                    format!("{error}; networks are expected, such as 10.1.0.0/24 or 10.1.0.0/24[tcp/443]");
                entry.place.finding(format!("{path}.{}", entry.key), what)
            };
            selectors.push(text.parse().map_err(wrong)?);
        }
    }
    Ok(selectors)
}
