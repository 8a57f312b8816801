//! A plan in the making: one field after the other, each held against those before it.

use std::fmt;
use std::io;
use std::net::IpAddr;

use convoy_port::NATT_PORT;
use convoy_settings::HostEnvironment;
use ipnet::IpNet;

use super::parse::{self, OutsideEnd};
use super::{KeySource, Reached, Site, SiteSide, TwoSites};
use crate::usual_address::usual_address;

/// What is to be said of two gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Where keys come from: `no` (static) or `psk`.
    Ike,
    /// A gateway's name.
    Name(SiteSide),
    /// A gateway's outside address, or the name that resolves to it.
    Outside(SiteSide),
    /// The networks behind a gateway.
    Networks(SiteSide),
    /// The addresses of a gateway's inside interface.
    Inside(SiteSide),
    /// Where a gateway is reached from the other one.
    Reached(SiteSide),
    /// `esp_proposal`.
    Proposal,
    /// The UDP port of both gateways.
    UdpPort,
}

use SiteSide::{Local, Remote};

impl Field {
    /// All, in the order in which they are to be said: each may depend on those before it.
    pub const ALL: [Self; 13] = [
        Self::Ike,
        Self::Name(Local),
        Self::Name(Remote),
        Self::Outside(Remote),
        Self::Outside(Local),
        Self::Networks(Local),
        Self::Networks(Remote),
        Self::Inside(Local),
        Self::Inside(Remote),
        Self::Reached(Local),
        Self::Reached(Remote),
        Self::Proposal,
        Self::UdpPort,
    ];

    /// The option of the command line.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Ike => "--ike",
            Self::Name(Local) => "--local-name",
            Self::Name(Remote) => "--remote-name",
            Self::Outside(Local) => "--local",
            Self::Outside(Remote) => "--remote",
            Self::Networks(Local) => "--local-ts",
            Self::Networks(Remote) => "--remote-ts",
            Self::Inside(Local) => "--local-inside",
            Self::Inside(Remote) => "--remote-inside",
            Self::Reached(Local) => "--local-public",
            Self::Reached(Remote) => "--remote-public",
            Self::Proposal => "--proposal",
            Self::UdpPort => "--udp-port",
        }
    }

    /// What it is, as a question on a terminal.
    pub const fn question(self) -> &'static str {
        match self {
            Self::Ike => "IKE: no (static keys, in both files) or psk (strongSwan negotiates keys)",
            Self::Name(Local) => "Name of this site",
            Self::Name(Remote) => "Name of the other site",
            Self::Outside(Local) => "Outside address of this gateway",
            Self::Outside(Remote) => "Outside address or name of the other gateway",
            Self::Networks(Local) => "Networks behind this gateway, such as 10.1.0.0/24, fd00:1::/64",
            Self::Networks(Remote) => "Networks behind the other gateway",
            Self::Inside(Local) => "Inside addresses of this gateway",
            Self::Inside(Remote) => "Inside addresses of the other gateway",
            Self::Reached(Local) => {
                "Address, name or ADDRESS:PORT by which the other gateway reaches this one, through a NAT if there is one"
            }
            Self::Reached(Remote) => "The same for the other gateway",
            Self::Proposal => "ESP proposal",
            Self::UdpPort => "UDP port of both gateways",
        }
    }
}

/// Why something that was said is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", field.flag())]
pub struct DraftRefusal {
    /// What was said.
    pub field: Field,
    /// What is wrong with it, and what is expected.
    pub what: String,
}

/// Fields without which there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Incomplete(pub Vec<Field>);

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "these options are missing; on a terminal, convoy init without options asks for all")?;
        self.0.iter().try_for_each(|field| {
            let what = field.question();
            write!(f, "\n  {} <VALUE>: {}{}", field.flag(), what[..1].to_lowercase(), &what[1..])
        })
    }
}

/// What was said of one gateway so far.
#[derive(Default)]
struct SiteDraft {
    name: Option<String>,
    outside: Option<IpAddr>,
    reached: Option<Reached>,
    networks: Vec<IpNet>,
    inside: Vec<IpAddr>,
}

/// Returns the addresses of a name, the best first.
pub type Resolve = dyn Fn(&str) -> io::Result<Vec<IpAddr>>;

/// A plan in the making.
pub struct Draft<'a> {
    environment: &'a dyn HostEnvironment,
    resolve: &'a Resolve,
    keys: Option<KeySource>,
    proposal: Option<String>,
    udp_port: Option<u16>,
    peer_roams: bool,
    sites: [SiteDraft; 2],
}

impl<'a> Draft<'a> {
    /// Nothing is said yet. The environment is that of the local gateway, as far as it is known.
    pub fn new(environment: &'a dyn HostEnvironment, resolve: &'a Resolve) -> Self {
        Self {
            environment,
            resolve,
            keys: None,
            proposal: None,
            udp_port: None,
            peer_roams: false,
            sites: Default::default(),
        }
    }

    /// The other gateway moves, or is behind a NAT: this one follows the source of its packets.
    pub const fn set_roaming(&mut self) {
        self.peer_roams = true;
    }

    /// Takes what was said, if it fits what was said before.
    ///
    /// # Errors
    /// [`DraftRefusal`]; the draft is then as before.
    pub fn set(&mut self, field: Field, text: &str) -> Result<(), DraftRefusal> {
        self.take(field, text.trim()).map_err(|what| DraftRefusal { field, what })
    }

    fn take(&mut self, field: Field, text: &str) -> Result<(), String> {
        match field {
            Field::Ike => self.keys = Some(parse::keys(text)?),
            Field::Name(side) => self.site_mut(side).name = Some(self.fitting_name(side, text)?),
            Field::Outside(side) => self.take_outside(side, text)?,
            Field::Networks(side) => self.site_mut(side).networks = self.fitting_networks(side, text)?,
            Field::Inside(side) => self.site_mut(side).inside = self.fitting_inside(side, text)?,
            Field::Reached(side) => self.site_mut(side).reached = Some(self.fitting_reached(side, text)?),
            Field::Proposal => self.proposal = Some(parse::proposal(text, self.keys())?),
            Field::UdpPort if !self.is_asked_for(field) => {
                return Err("it is for static keys; charon has UDP ports 500 and 4500".to_owned());
            }
            Field::UdpPort => self.udp_port = Some(parse::port(text)?),
        }
        Ok(())
    }

    /// The outside address of a gateway, if it was said.
    pub fn outside(&self, side: SiteSide) -> Option<IpAddr> {
        self.site(side).outside
    }

    /// Whether a field has a meaning with what was said so far.
    pub fn is_asked_for(&self, field: Field) -> bool {
        field != Field::UdpPort || self.keys() == KeySource::Static
    }

    /// Whether a field was said.
    pub fn is_set(&self, field: Field) -> bool {
        match field {
            Field::Ike => self.keys.is_some(),
            Field::Name(side) => self.site(side).name.is_some(),
            Field::Outside(side) => self.site(side).outside.is_some(),
            Field::Networks(side) => !self.site(side).networks.is_empty(),
            Field::Inside(side) => !self.site(side).inside.is_empty(),
            Field::Reached(side) => self.site(side).reached.is_some(),
            Field::Proposal => self.proposal.is_some(),
            Field::UdpPort => self.udp_port.is_some(),
        }
    }

    /// What holds where a field is not said, if anything.
    pub fn default_of(&self, field: Field) -> Option<String> {
        match field {
            Field::Ike => Some("no".to_owned()),
            Field::Name(Local) => Some("site-a".to_owned()),
            Field::Name(Remote) => Some("site-b".to_owned()),
            Field::Outside(Local) => {
                let remote = self.site(Remote).outside?;
                self.environment.source_to(remote).map(|source| source.to_string())
            }
            Field::Outside(Remote) | Field::Networks(_) => None,
            Field::Inside(side) => self.usual_inside(side),
            Field::Reached(Remote) if self.peer_roams && self.keys() == KeySource::Psk => {
                Some("any".to_owned())
            }
            Field::Reached(side) => self.site(side).outside.map(|outside| outside.to_string()),
            Field::Proposal => Some(parse::usual_proposal(self.keys()).to_owned()),
            Field::UdpPort => Some(NATT_PORT.to_string()),
        }
    }

    /// Whether something was not said for which nothing holds by default.
    pub fn needs_more(&self) -> bool {
        Field::ALL.into_iter().any(|field| self.is_open(field) && self.default_of(field).is_none())
    }

    /// Whether a field was not said, but may be: what it follows from is there.
    fn is_open(&self, field: Field) -> bool {
        let follows = match field {
            Field::Inside(side) => !self.is_set(Field::Networks(side)),
            Field::Reached(side) => !self.is_set(Field::Outside(side)),
            _ => false,
        };
        !self.is_set(field) && self.is_asked_for(field) && !follows
    }

    /// The plan, with defaults for what was not said.
    ///
    /// # Errors
    /// [`DraftRefusal`] of a default that does not fit; `Ok(Err(Incomplete))` if something without
    /// a default was not said.
    pub fn finish(mut self) -> Result<Result<TwoSites, Incomplete>, DraftRefusal> {
        let mut missing = Vec::new();
        for field in Field::ALL {
            match self.default_of(field) {
                _ if !self.is_open(field) => {}
                Some(text) => self.set(field, &text)?,
                None => missing.push(field),
            }
        }
        Ok(self.plan().filter(|_| missing.is_empty()).ok_or(Incomplete(missing)))
    }

    fn plan(self) -> Option<TwoSites> {
        let keys = self.keys();
        let [local, remote] = self.sites.map(|site| {
            let (networks, inside) = (site.networks, site.inside);
            Some(Site { name: site.name?, outside: site.outside?, reached: site.reached?, networks, inside })
        });
        let udp_port = self.udp_port.unwrap_or(NATT_PORT);
        let peer_roams = self.peer_roams;
        Some(TwoSites { keys, proposal: self.proposal?, udp_port, peer_roams, sites: [local?, remote?] })
    }

    fn keys(&self) -> KeySource {
        self.keys.unwrap_or_default()
    }

    fn site(&self, side: SiteSide) -> &SiteDraft {
        &self.sites[side.index()]
    }

    fn site_mut(&mut self, side: SiteSide) -> &mut SiteDraft {
        &mut self.sites[side.index()]
    }

    fn fitting_name(&self, side: SiteSide, text: &str) -> Result<String, String> {
        let name = parse::name(text)?;
        if self.site(side.other()).name.as_ref() == Some(&name) {
            return Err(format!("both sites would be called {name}"));
        }
        Ok(name)
    }

    /// A name stands for the address to which it resolves now, and the other gateway gets the name.
    fn take_outside(&mut self, side: SiteSide, text: &str) -> Result<(), String> {
        let (address, reached) = match parse::end(text)? {
            OutsideEnd::Address(address) => (address, None),
            OutsideEnd::Name(name) => {
                let address = self.resolved(side, &name)?;
                (address, Some(Reached::At { host: name, port: None }))
            }
        };
        if let Some(other) = self.site(side.other()).outside {
            same_family(address, other)?;
            if address == other {
                return Err(format!("both gateways would have {address}"));
            }
        }
        if side == Remote && self.environment.has_address(address) == Some(true) {
            return Err(format!(
                "{address} is this host's own; run init at one site only, as it writes the files of both"
            ));
        }
        let site = self.site_mut(side);
        site.outside = Some(address);
        site.reached = reached.or(site.reached.take());
        Ok(())
    }

    fn resolved(&self, side: SiteSide, name: &str) -> Result<IpAddr, String> {
        let flag = Field::Reached(side).flag();
        let advice = format!("give its own address here, and the name as {flag}");
        let found = (self.resolve)(name);
        let found = found.map_err(|error| format!("{name} does not resolve: {error}; {advice}"))?;
        let other = self.site(side.other()).outside;
        let fits = |address: &&IpAddr| other.is_none_or(|other| other.is_ipv4() == address.is_ipv4());
        let first = found.iter().find(fits).copied();
        first.ok_or_else(|| format!("{name} has no address of the other gateway's family; {advice}"))
    }

    fn fitting_networks(&self, side: SiteSide, text: &str) -> Result<Vec<IpNet>, String> {
        let networks = parse::networks(text)?;
        let others = &self.site(side.other()).networks;
        if others.is_empty() {
            return Ok(networks);
        }
        for network in &networks {
            // Everything may be behind one gateway: its networks go before.
            let overlaps = |other: &&IpNet| {
                network.prefix_len() > 0
                    && other.prefix_len() > 0
                    && (network.contains(*other) || other.contains(network))
            };
            if let Some(other) = others.iter().find(overlaps) {
                return Err(format!(
                    "{network} and {other} of the other site overlap; hosts could not tell them apart"
                ));
            }
        }
        for is_v6 in [false, true] {
            let of_family = |network: &&IpNet| network.network().is_ipv6() == is_v6;
            let (here, there) = (networks.iter().find(of_family), others.iter().find(of_family));
            if let (Some(one), None) | (None, Some(one)) = (here, there) {
                let family = if is_v6 { "IPv6" } else { "IPv4" };
                return Err(format!(
                    "only one site has an {family} network, {one}; name one of the other site, or none"
                ));
            }
        }
        Ok(networks)
    }

    fn fitting_inside(&self, side: SiteSide, text: &str) -> Result<Vec<IpAddr>, String> {
        let addresses = parse::addresses(text)?;
        let networks = &self.site(side).networks;
        let is_outside = |address: &&IpAddr| !networks.iter().any(|network| network.contains(*address));
        if let Some(address) = addresses.iter().find(is_outside) {
            let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
            return Err(format!("{address} is in none of the site's networks ({})", networks.join(", ")));
        }
        Ok(addresses)
    }

    /// The address that the gateway has in each network, or else the network's first.
    fn usual_inside(&self, side: SiteSide) -> Option<String> {
        let interfaces = self.environment.interfaces().filter(|_| side == Local).unwrap_or_default();
        let own: Vec<IpAddr> = interfaces.iter().flat_map(|one| &one.networks).map(IpNet::addr).collect();
        let networks = self.site(side).networks.iter().filter(|network| network.prefix_len() > 0);
        let addresses: Vec<String> =
            networks.filter_map(|network| usual_address(network, &own)).map(|one| one.to_string()).collect();
        (!addresses.is_empty()).then(|| addresses.join(", "))
    }

    fn fitting_reached(&self, side: SiteSide, text: &str) -> Result<Reached, String> {
        let reached = parse::reached(text)?;
        match (&reached, self.keys()) {
            (Reached::Nowhere, KeySource::Static) if side == Remote && self.peer_roams => {}
            (Reached::Nowhere, KeySource::Static) => {
                return Err(
                    "a gateway without a known address needs --ike psk, or --roaming if it is the other one"
                        .to_owned(),
                );
            }
            (Reached::Nowhere, KeySource::Psk)
                if self.site(side.other()).reached == Some(Reached::Nowhere) =>
            {
                return Err("one of the gateways must be reachable at a known address".to_owned());
            }
            (Reached::At { port: Some(_), .. }, KeySource::Psk) => {
                return Err("a port is for static keys; charon has UDP ports 500 and 4500".to_owned());
            }
            (Reached::At { host, .. }, _) => {
                if let (Ok(host), Some(outside)) = (host.parse(), self.site(side).outside) {
                    same_family(host, outside)?;
                }
            }
            (Reached::Nowhere, KeySource::Psk) => {}
        }
        Ok(reached)
    }
}

fn same_family(one: IpAddr, other: IpAddr) -> Result<(), String> {
    if one.is_ipv4() == other.is_ipv4() {
        return Ok(());
    }
    Err(format!("{one} and {other} are of different families; both gateways need IPv4, or both IPv6"))
}

#[cfg(test)]
mod tests;
