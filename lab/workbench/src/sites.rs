//! Configurations of the two gateways, as an operator would write them, with random keys.

use data_encoding::HEXLOWER;
use std::fmt::Write as _;

use convoy_config::{Basis, Config};
use convoy_ipsec::Proposal;
use rand::Rng;

use super::platform::Platform;
use super::rule::{ClassCredits, Rule};
use super::traffic::URGENT_DSCP;

/// Tunnels between the two sites, each with one SA per direction.
pub(crate) const TUNNELS: usize = 8;

/// Configurations of both sites; the first has the platform's engines, the second those of the
/// peer.
pub(crate) fn both(rule: Rule, window: usize, platform: &Platform) -> [Config; 2] {
    let proposal: Proposal = platform.proposal.parse().expect("the demo's proposals are good");
    let mut random = rand::rng();
    let mut key = || {
        let mut bytes = vec![0; proposal.transform.key_material_len()];
        random.fill_bytes(&mut bytes);
        HEXLOWER.encode(bytes.as_ref())
    };
    let keys: Vec<(String, String)> = (0..platform.tunnels).map(|_| (key(), key())).collect();
    [(1, &platform.site), (2, &platform.peer)].map(|(site, engines)| {
        let classes = match rule.classes {
            Some(_) => format!("classes = 2\ndscp = {{ {URGENT_DSCP} = 0 }}\n"),
            None => String::new(),
        };
        let mut text =
            format!("[scheduler]\npolicy = \"{}\"\nwindow = {window}\n{classes}{engines}", rule.policy);
        tunnels(&mut text, site, platform, &keys);
        let mut config = Config::parse_at("demo.toml", &text, &Basis::of(&convoy_devices::KINDS))
            .expect("the demo's own configuration is good");
        if let Some(ClassCredits(credits)) = rule.classes {
            config.scheduler.research.class_credits = credits;
        }
        config.scheduler.research.full_queue = rule.full_queue;
        config.scheduler.research.heuristic = rule.rival;
        config
    })
}

fn tunnels(text: &mut String, site: u8, platform: &Platform, keys: &[(String, String)]) {
    let Platform { mode, proposal, .. } = platform;
    for (k, (there, back)) in keys.iter().enumerate() {
        let peer = 3 - site;
        let (out, inward) = if site == 1 { (there, back) } else { (back, there) };
        let v6 = |site: u8| if k == 0 { format!(", \"fd00:{site}::/64\"") } else { String::new() };
        let _ = write!(
            text,
            r#"
[[tunnel]]
name = "tunnel-{k}"
mode = "{mode}"
local = "192.0.2.{site}"
remote = "192.0.2.{peer}"
local_ts = ["10.{site}.{k}.0/24"{}]
remote_ts = ["10.{peer}.{k}.0/24"{}]
esp_proposal = "{proposal}"
encap = "udp"
replay_window = 4096
[tunnel.manual]
spi_in = {}
spi_out = {}
key_in = "{inward}"
key_out = "{out}"
"#,
            v6(site),
            v6(peer),
            0x1000 * u32::from(site) + k as u32,
            0x1000 * u32::from(peer) + k as u32,
        );
    }
}
