//! The files of two gateways that are to be connected: what `convoy init` writes.
//!
//! A [`Draft`] takes what an operator says, one [`Field`] at a time, and refuses what does not fit
//! the rest. Once it is complete it is a [`TwoSites`], whose [`files`] are made with random
//! [`Secrets`]. [`check`] reads them as a gateway does, [`write()`] puts them in their places.

mod draft;
mod existing;
mod files;
mod parse;
mod write;

pub use draft::{Draft, DraftRefusal, Field, Incomplete, Resolve};
pub use existing::{Existing, Extended, Prepared};
pub use files::{Secrets, SiteFile, files};
pub use write::{Tree, WriteError, check, write};

use std::net::IpAddr;

use convoy_port::NATT_PORT;
use ipnet::IpNet;

use self::files::tunnel;
use crate::ends::is_private;

/// One of the two gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteSide {
    /// That of this host.
    Local,
    /// The other one.
    Remote,
}

impl SiteSide {
    /// Both, in the order of [`TwoSites::sites`].
    pub const BOTH: [Self; 2] = [Self::Local, Self::Remote];

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Local => Self::Remote,
            Self::Remote => Self::Local,
        }
    }

    /// Its place in [`TwoSites::sites`].
    const fn index(self) -> usize {
        self as usize
    }
}

/// Where keys come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeySource {
    /// From the files: the same until somebody replaces them.
    #[default]
    Static,
    /// From IKEv2, by strongSwan's charon, which authenticates the peer by a pre-shared key.
    Psk,
}

/// Where a gateway is reached from the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Nowhere: it has an address that is not known, and begins itself.
    Nowhere,
    /// At a host, and a UDP port other than the gateway's own if a NAT has another one.
    At {
        /// An address or a name.
        host: String,
        /// The UDP port.
        port: Option<u16>,
    },
}

/// One gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Unlike the other's.
    pub name: String,
    /// Its own outside address.
    pub outside: IpAddr,
    /// Where the other one reaches it.
    pub reached: Reached,
    /// The networks behind it.
    pub networks: Vec<IpNet>,
    /// The addresses of its inside interface.
    pub inside: Vec<IpAddr>,
}

impl Site {
    /// Whether a NAT is known to be before it: it is reached at another address than its own.
    pub fn is_behind_nat(&self) -> bool {
        match &self.reached {
            Reached::Nowhere => true,
            Reached::At { host, port } => {
                port.is_some() || host.parse::<IpAddr>().is_ok_and(|host| host != self.outside)
            }
        }
    }
}

/// Two gateways, and what connects them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoSites {
    /// Where keys come from.
    pub keys: KeySource,
    /// `esp_proposal` of both.
    pub proposal: String,
    /// The UDP port of both.
    pub udp_port: u16,
    /// Whether the remote gateway's address is learned from its packets.
    pub peer_roams: bool,
    /// Local, remote.
    pub sites: [Site; 2],
}

impl TwoSites {
    /// One of the gateways.
    pub fn site(&self, side: SiteSide) -> &Site {
        &self.sites[side.index()]
    }

    /// The UDP port at which the other gateway reaches this one.
    pub fn reached_port(&self, side: SiteSide) -> u16 {
        match &self.site(side).reached {
            Reached::At { port: Some(port), .. } => *port,
            _ => self.udp_port,
        }
    }

    /// Whether the gateway of this side roams.
    fn roams(&self, side: SiteSide) -> bool {
        self.peer_roams && side == SiteSide::Remote
    }

    /// What is probably a mistake: with IKE, a private address at which the other gateway cannot
    /// reach this one. Tunnels with static keys are checked for that with their files.
    pub fn warnings(&self) -> Vec<String> {
        SiteSide::BOTH.into_iter().filter_map(|side| self.private_address(side)).collect()
    }

    fn private_address(&self, side: SiteSide) -> Option<String> {
        let (outside, other) = (self.site(side).outside, self.site(side.other()).outside);
        let Reached::At { host, .. } = &self.site(side).reached else { return None };
        let is_own = host.parse() == Ok(outside);
        let is_between = is_own && is_private(outside) && !is_private(other);
        (is_between && self.keys == KeySource::Psk).then(|| {
            let remedy = match side {
                SiteSide::Local => "--local-public, or --local-public any if it is not known",
                SiteSide::Remote => "--remote-public, or --roaming if it is not known",
            };
            format!(
                "{outside} is a private address and {other} is not, so a NAT is probably between them; give the NAT's \
                 address as {remedy}"
            )
        })
    }

    /// Whether the UDP port is another than every gateway's.
    fn has_own_port(&self) -> bool {
        self.udp_port != NATT_PORT
    }
}
