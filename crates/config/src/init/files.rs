//! The text of the files.

use data_encoding::HEXLOWER;
use std::path::PathBuf;

use rand::rngs::SysRng;
use rand::{RngExt, TryRng};
use zeroize::Zeroizing;

use super::{KeySource, Reached, Site, SiteSide, TwoSites};
use crate::ends::unspecified_like;
use crate::genkey::{GenkeyError, genkey};
use crate::lines::Lines;

/// The anti-replay window of charon's SAs, as tunnels with static keys have it by default: charon's
/// own default of 32 is less than several queues of a network card reorder.
const REPLAY_WINDOW_PACKETS: u32 = 1024;
/// Bytes of a pre-shared key.
const PSK_BYTES: usize = 32;

/// A file of a site.
pub struct SiteFile {
    /// Its place under the root of the site's file system.
    pub path: PathBuf,
    /// Its text, with keys.
    pub text: Zeroizing<String>,
}

/// What both sites share and must stay secret.
pub enum Secrets {
    /// The SPI and the key of the packets to each site.
    Static([(u32, Zeroizing<String>); 2]),
    /// The pre-shared key in hexadecimal digits.
    Psk(Zeroizing<String>),
}

impl Secrets {
    /// Random ones for a plan.
    ///
    /// # Errors
    /// [`GenkeyError`].
    pub fn random(plan: &TwoSites) -> Result<Self, GenkeyError> {
        if plan.keys == KeySource::Psk {
            let mut key = Zeroizing::new(vec![0; PSK_BYTES]);
            SysRng.try_fill_bytes(&mut key)?;
            return Ok(Self::Psk(Zeroizing::new(HEXLOWER.encode(&key))));
        }
        // No two of a gateway's tunnels may have the same SPI, however many init makes.
        let spi = || rand::rng().random_range(0x0000_1000..=u32::MAX);
        let (first, second) = (spi(), spi());
        let second = if first == second { first ^ 1 } else { second };
        Ok(Self::Static([(first, genkey(&plan.proposal)?), (second, genkey(&plan.proposal)?)]))
    }
}

/// The files of each site.
pub fn files(plan: &TwoSites, secrets: &Secrets) -> [Vec<SiteFile>; 2] {
    SiteSide::BOTH.map(|side| {
        let convoy =
            SiteFile { path: "etc/convoy/convoy.toml".into(), text: convoy_toml(plan, side, secrets) };
        match secrets {
            Secrets::Static(_) => vec![convoy],
            Secrets::Psk(key) => {
                let path = "etc/swanctl/conf.d/convoy.conf".into();
                vec![convoy, SiteFile { path, text: swanctl_conf(plan, side, key) }]
            }
        }
    })
}

fn convoy_toml(plan: &TwoSites, side: SiteSide, secrets: &Secrets) -> Zeroizing<String> {
    let (own, peer) = (plan.site(side), plan.site(side.other()));
    let mut text = Lines::new();
    text.add(&format!("# The gateway of {} with a tunnel to {}, by convoy init.", own.name, peer.name));
    if plan.keys == KeySource::Psk {
        text.add("[gateway]");
        text.word("charon", "/run/convoy/charon.sock");
    }
    text.add("[[port]]");
    text.word("name", "inside");
    text.word("kind", "tun");
    text.word("device", "convoy0");
    let whole =
        |address: &std::net::IpAddr| format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
    text.list("address", &own.inside.iter().map(whole).collect::<Vec<_>>());
    text.add("[[port]]");
    text.word("name", "outside");
    text.word("kind", "udp");
    if plan.has_own_port() {
        text.add(&format!("udp_port = {}", plan.udp_port));
    }
    // charon chooses the source address of a gateway that moves.
    let is_any = plan.keys == KeySource::Psk && plan.roams(side);
    text.list("address", &[if is_any { unspecified_like(own.outside) } else { own.outside }]);
    tunnel_table(plan, side, secrets, &mut text);
    text.0
}

/// The `[[tunnel]]` of a side to the other one alone.
pub(super) fn tunnel(plan: &TwoSites, side: SiteSide, secrets: &Secrets) -> Zeroizing<String> {
    let mut text = Lines::new();
    tunnel_table(plan, side, secrets, &mut text);
    text.0
}

fn tunnel_table(plan: &TwoSites, side: SiteSide, secrets: &Secrets, text: &mut Lines) {
    let (own, peer) = (plan.site(side), plan.site(side.other()));
    text.add("[[tunnel]]");
    text.word("name", &peer.name);
    if let Secrets::Static(_) = secrets {
        text.word("local", own.outside);
        if let Reached::At { host, .. } = &peer.reached {
            text.word("remote", host);
        }
        if plan.roams(side.other()) {
            text.add("roaming = true");
        }
    }
    text.list("local_ts", &own.networks);
    text.list("remote_ts", &peer.networks);
    text.word("esp_proposal", &plan.proposal);
    if let Secrets::Static(keys) = secrets {
        static_keys(plan, side, keys, text);
    }
}

/// What only a tunnel with static keys has.
fn static_keys(plan: &TwoSites, side: SiteSide, keys: &[(u32, Zeroizing<String>); 2], text: &mut Lines) {
    let peers_port = plan.reached_port(side.other());
    if peers_port != convoy_port::NATT_PORT {
        text.add(&format!("remote_port = {peers_port}"));
    }
    if plan.site(side).is_behind_nat() || plan.roams(side) {
        text.word("nat_keepalive", "always");
    }
    let ((spi_in, key_in), (spi_out, key_out)) = (&keys[side.index()], &keys[side.other().index()]);
    text.add("[tunnel.manual]");
    text.add(&format!("spi_in = {spi_in:#010x}"));
    text.add(&format!("spi_out = {spi_out:#010x}"));
    text.word("key_in", &**key_in);
    text.word("key_out", &**key_out);
}

/// The ends of a connection in swanctl.conf, and what this end does by itself.
struct FileEnds<'a> {
    remote_addrs: &'a str,
    start_action: &'static str,
    dpd_action: &'static str,
}

/// An end that is reached nowhere begins; the other one waits for it.
fn ends<'a>(own: &Site, peer: &'a Site) -> FileEnds<'a> {
    match (&own.reached, &peer.reached) {
        (_, Reached::Nowhere) => FileEnds { remote_addrs: "%any", start_action: "none", dpd_action: "clear" },
        (Reached::Nowhere, Reached::At { host, .. }) => {
            FileEnds { remote_addrs: host, start_action: "trap|start", dpd_action: "trap" }
        }
        (_, Reached::At { host, .. }) => {
            FileEnds { remote_addrs: host, start_action: "trap", dpd_action: "trap" }
        }
    }
}

fn swanctl_conf(plan: &TwoSites, side: SiteSide, key: &str) -> Zeroizing<String> {
    let (own, peer) = (plan.site(side), plan.site(side.other()));
    let FileEnds { remote_addrs, start_action, dpd_action } = ends(own, peer);
    let list = |site: &Site| site.networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (local_ts, remote_ts) = (list(own), list(peer));
    let local_addrs = if plan.roams(side) { "%any".to_owned() } else { own.outside.to_string() };
    let mut text = Lines::new();
    text.add(&Zeroizing::new(format!(
        "# The connection of {own_name} to {name}, by convoy init.
connections {{
  {name} {{
    version = 2
    local_addrs = {local_addrs}
    remote_addrs = {remote_addrs}
    encap = yes
    dpd_delay = 30s
    local {{
      auth = psk
      id = {own_name}
    }}
    remote {{
      auth = psk
      id = {name}
    }}
    children {{
      net {{
        local_ts = {local_ts}
        remote_ts = {remote_ts}
        esp_proposals = {proposal}
        replay_window = {REPLAY_WINDOW_PACKETS}
        start_action = {start_action}
        dpd_action = {dpd_action}
      }}
    }}
  }}
}}
secrets {{
  ike-{name} {{
    id-own = {own_name}
    id-peer = {name}
    secret = 0x{key}
  }}
}}",
        own_name = own.name,
        name = peer.name,
        proposal = plan.proposal,
    )));
    text.0
}

#[cfg(test)]
mod tests;
