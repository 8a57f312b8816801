//! What is read of the other gateway's file: a gateway of convoy's and connections of charon's.

use std::net::IpAddr;

use convoy_ipsec::{AddressRange, ProposalList, SaProtocol, TrafficSelector};
use convoy_settings::HostEnvironment;
use ipnet::IpNet;
use zeroize::Zeroizing;

use super::findings::{Finding, ImportEntry};
use crate::usual_address::usual_address;

/// A gateway.
#[derive(Default)]
pub(super) struct ImportedGateway {
    pub(super) mss_clamp: Option<u16>,
    /// Outside addresses; unspecified ones stand for all of the host.
    pub(super) outside: Vec<IpAddr>,
    /// Those at which ESP or AH may come without UDP, each of them known.
    pub(super) native: Vec<IpAddr>,
    pub(super) inside_mtu: Option<Number>,
    pub(super) inside: Vec<IpAddr>,
    pub(super) interfaces: Vec<ImportedInterface>,
    pub(super) tunnels: Vec<ImportedTunnel>,
    /// Local and remote selectors that pass unprotected.
    pub(super) bypasses: Vec<(TrafficSelector, TrafficSelector)>,
    /// Of charon; none where it keeps its own file.
    pub(super) connections: Vec<ImportedConnection>,
    /// charon's pools: names and addresses.
    pub(super) pools: Vec<(String, String)>,
}

/// An `[[interface]]` for children of charon's with this number.
pub(super) struct ImportedInterface {
    pub(super) name: String,
    pub(super) if_id: u32,
    pub(super) addresses: Vec<IpNet>,
    pub(super) mtu: Option<Number>,
}

/// A number, and where it is said.
pub(super) struct Number {
    pub(super) value: u16,
    pub(super) entry: ImportEntry,
}

/// A `[[tunnel]]` with keys from charon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImportedTunnel {
    pub(super) name: String,
    pub(super) is_ah: bool,
    pub(super) is_transport: bool,
    /// None stands for everything.
    pub(super) local_ts: Vec<TrafficSelector>,
    pub(super) remote_ts: Vec<TrafficSelector>,
    pub(super) proposal: Option<String>,
}

/// Keys of swanctl.conf with their values.
pub(super) type SwanctlKeys = Vec<(&'static str, String)>;

/// A connection of swanctl.conf.
pub(super) struct ImportedConnection {
    pub(super) name: String,
    pub(super) keys: SwanctlKeys,
    pub(super) local: SwanctlKeys,
    pub(super) remote: SwanctlKeys,
    pub(super) child: (String, SwanctlKeys),
    pub(super) secret: ImportedSecret,
}

/// What is said of a tunnel without `remote_ts`.
pub(super) const NETWORKS_OF_THE_PEER: &str = "the peer alone names the networks behind it, so they are routed and \
     guarded only while it is connected; write them as remote_ts of the [[tunnel]] if you know them";

/// The secret of a connection.
pub(super) enum ImportedSecret {
    /// None, or charon has it: a certificate's key.
    Elsewhere,
    /// The operator has to write it; for these identities.
    Missing(Vec<String>),
    /// The file that is imported has it; for these identities.
    Known(Vec<String>, Zeroizing<String>),
}

impl ImportedGateway {
    /// Adds a tunnel, unless one routes the same.
    pub(super) fn add_tunnel(&mut self, tunnel: ImportedTunnel) {
        let is_same = |known: &ImportedTunnel| {
            (&known.local_ts, &known.remote_ts, known.is_transport)
                == (&tunnel.local_ts, &tunnel.remote_ts, tunnel.is_transport)
        };
        if !self.tunnels.iter().any(is_same) {
            let name = free_name(&tunnel.name, |name| self.tunnels.iter().any(|known| known.name == name));
            self.tunnels.push(ImportedTunnel { name, ..tunnel });
        }
    }

    /// Adds an outside address once. One that stands for all replaces those of its family.
    pub(super) fn add_outside(&mut self, address: IpAddr) {
        let is_covered =
            |known: &IpAddr| *known == address || (known.is_unspecified() && is_one_family(*known, address));
        if self.outside.iter().any(is_covered) {
            return;
        }
        if address.is_unspecified() {
            self.outside.retain(|known| !is_one_family(*known, address));
        }
        self.outside.push(address);
    }

    /// Adds an inside address once.
    pub(super) fn add_inside(&mut self, address: IpAddr) {
        if !self.inside.contains(&address) {
            self.inside.push(address);
        }
    }

    /// Takes ESP and AH without UDP at an address.
    pub(super) fn add_native(&mut self, address: IpAddr) {
        if !self.native.contains(&address) {
            self.native.push(address);
        }
    }

    /// Gives the inside interface an address of each local network in which it has none: this
    /// host's, or the first. Returns those that were added.
    pub(super) fn choose_inside(&mut self, machine: &dyn HostEnvironment) -> Vec<IpAddr> {
        let given = self.inside.clone();
        let own: Vec<IpAddr> = machine
            .interfaces()
            .unwrap_or_default()
            .iter()
            .flat_map(|one| &one.networks)
            .map(IpNet::addr)
            .collect();
        let tunnels = self.tunnels.iter().filter(|tunnel| !tunnel.is_transport);
        for selector in tunnels.flat_map(|tunnel| &tunnel.local_ts) {
            if given.iter().any(|address| selector.addresses.contains(*address)) {
                continue;
            }
            let Some(address) = inside_of(&selector.addresses, &own) else { continue };
            // An address that is outside already stays there alone.
            if !self.inside.contains(&address) && !self.outside.contains(&address) {
                self.inside.push(address);
            }
        }
        self.inside[given.len()..].to_vec()
    }
}

pub(super) fn is_one_family(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4()
}

fn inside_of(range: &AddressRange, own: &[IpAddr]) -> Option<IpAddr> {
    match range.as_prefix() {
        Some((_, 0)) => None,
        Some((address, bits)) => usual_address(&IpNet::new(address, bits).ok()?, own),
        None => own.iter().find(|own| range.contains(**own)).copied().or_else(|| Some(range.first())),
    }
}

/// A name for convoy's and charon's files, which may stand in both without quotes.
pub(super) fn word(text: &str) -> String {
    let fits = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_';
    let word: String = text.chars().take(64).map(|one| if fits(one) { one } else { '-' }).collect();
    if word.is_empty() { "tunnel".to_owned() } else { word }
}

/// A name, with a number behind it if it is taken.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

/// What a proposal of ESP or AH says of the inside MTU, if the gateway has its algorithms; anything
/// else is reported.
pub(super) fn known_proposal(
    entry: &ImportEntry,
    protocol: SaProtocol,
    left: &mut Vec<Finding>,
) -> Option<String> {
    // A group of any other form would be taken for one of charon's, and may end a line or a quote.
    let is_of_word = |one: char| one.is_ascii_alphanumeric() || "-_, ".contains(one);
    if !entry.value.chars().all(is_of_word) {
        left.push(
            entry
                .finding("letters, digits and - between algorithms are expected, such as aes256gcm16-x25519"),
        );
        return None;
    }
    match entry.value.parse::<ProposalList>() {
        Err(error) => {
            left.push(entry.finding(format!(
                "{error}; charon negotiates what convoy lacks in vain, so name an algorithm of `convoy engines`"
            )));
            None
        }
        Ok(list) => {
            if let Some(weak) = list.proposals.iter().find(|one| one.transform.is_weak(protocol)) {
                left.push(entry.finding(format!(
                    "{weak} is weak, and convoy refuses it; name a stronger one at both ends, such as \
                     aes256gcm16-x25519, or write allow_weak = true in [gateway]"
                )));
                return None;
            }
            (!list.proposals.is_empty()).then(|| entry.value.clone())
        }
    }
}
