//! The configurations of the demo's two gateways: what an operator would write, with fresh keys.

use std::fmt::Write as _;

use convoy_scheduler::Policy;
use rand::RngCore;

use crate::config::Config;

/// Tunnels between the two sites; each has one SA a way.
pub(super) const TUNNELS: usize = 8;

/// Two modelled accelerators of 10 Gbit/s (128 bit / 12.8 ns) that take 2 us to set up, on one bus of 4 GB/s.
const MODELS: &str = r#"
[[bus]]
name = "pcie"
clock_mhz = 1000.0
address_cycles = 20
width_bytes = 4

[[engine]]
kind = "model"
name = "model-a"
t_init_us = 2.0
t_block_ns = 12.8
bus = "pcie"

[[engine]]
kind = "model"
name = "model-b"
t_init_us = 2.0
t_block_ns = 12.8
bus = "pcie"
"#;

/// The GRIP card's RTL as Verilator runs it.
#[cfg(feature = "card")]
const CARD: &str = "\n[[engine]]\nkind = \"card\"\nname = \"card-model\"\n";

/// The engines that the demo uses, as a configuration names them.
pub(super) enum Engines {
    /// The processor's, and modelled accelerators on a bus.
    AtHand {
        /// Whether Intel's library is there.
        has_multibuffer: bool,
        /// The core for its thread; `None` where it works on the gateways' own.
        crypto_core: Option<usize>,
    },
    /// The verilated card and nothing else.
    #[cfg(feature = "card")]
    Card,
}

impl Engines {
    fn text(&self) -> String {
        match self {
            Self::AtHand { has_multibuffer, crypto_core } => {
                let mut text = String::new();
                if *has_multibuffer {
                    text += "\n[[engine]]\nkind = \"multibuffer\"\nname = \"multibuffer\"\n";
                    if let Some(core) = crypto_core {
                        let _ = writeln!(text, "core = {core}");
                    }
                }
                text + "\n[[engine]]\nkind = \"software\"\nname = \"software\"\n" + MODELS
            }
            #[cfg(feature = "card")]
            Self::Card => CARD.to_owned(),
        }
    }
}

/// Both sites' configurations.
pub(super) fn both(policy: Policy, window: usize, engines: &Engines) -> [Config; 2] {
    let mut random = rand::rng();
    let mut key = || {
        let mut bytes = [0; 20];
        random.fill_bytes(&mut bytes);
        hex::encode(bytes)
    };
    let keys: Vec<(String, String)> = (0..TUNNELS).map(|_| (key(), key())).collect();
    [1, 2].map(|site| {
        let text = text(site, policy, window, engines, &keys);
        Config::parse("demo.toml", &text).expect("the demo's own configuration is good")
    })
}

fn text(site: u8, policy: Policy, window: usize, engines: &Engines, keys: &[(String, String)]) -> String {
    let mut text = format!("[scheduler]\npolicy = \"{policy}\"\nwindow = {window}\n");
    text += &engines.text();
    for (k, (there, back)) in keys.iter().enumerate() {
        let peer = 3 - site;
        let (out, inward) = if site == 1 { (there, back) } else { (back, there) };
        let v6 = |site: u8| if k == 0 { format!(", \"fd00:{site}::/64\"") } else { String::new() };
        let _ = write!(
            text,
            r#"
[[tunnel]]
name = "tunnel-{k}"
local = "192.0.2.{site}"
remote = "192.0.2.{peer}"
local_ts = ["10.{site}.{k}.0/24"{}]
remote_ts = ["10.{peer}.{k}.0/24"{}]
esp_proposal = "aes128gcm16"
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
    text
}
