//! The MTU of the inside interface: the longest packet that every tunnel carries unfragmented, and
//! the reason for it.

use std::fmt;

use convoy_ipsec::{Envelope, Mode, Proposal, SaProtocol};
use convoy_packet::{aggfrag, ipv4, ipv6};
use serde::Serialize;

use super::{Config, InterfaceConfig, TunnelConfig};

/// The one of strongSwan's default proposals that leaves the least room: what charon may negotiate
/// if the file does not say.
const LONGEST_DEFAULT: &str = "aes128-sha512";

/// An MTU with its reason. Its display has both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InnerMtu {
    /// The MTU in bytes.
    pub bytes: u16,
    /// The reason, in a few words.
    pub reason: String,
}

impl fmt::Display for InnerMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes ({})", self.bytes, self.reason)
    }
}

/// The MTU of the inside interface: as its `[[port]]` says, or the least that a tunnel of the
/// configuration leaves of the outer MTU. Smaller path MTUs are reported to senders by ICMP.
pub fn inner_mtu(config: &Config) -> InnerMtu {
    if let Some(bytes) =
        config.ports.iter().filter(|port| !port.is_outside).find_map(|port| port.settings.mtu())
    {
        return InnerMtu { bytes, reason: "set in [[port]]".to_owned() };
    }
    least(config, None)
}

/// The MTU of an inside interface that certain tunnels have for themselves, likewise.
pub fn interface_mtu(config: &Config, interface: &InterfaceConfig) -> InnerMtu {
    match interface.mtu {
        Some(bytes) => InnerMtu { bytes, reason: "set in [[interface]]".to_owned() },
        None => least(config, Some(&interface.name)),
    }
}

/// What is wrong with an inside MTU that the configuration sets above what its tunnels carry.
pub fn too_wide(config: &Config) -> Vec<String> {
    let shared = config.ports.iter().filter(|port| !port.is_outside).filter_map(|port| {
        Some((port.settings.routed_interface()?, port.settings.mtu()?, least(config, None)))
    });
    let own = config.interfaces.iter().filter_map(|interface| {
        Some((&*interface.name, interface.mtu?, least(config, Some(&interface.name))))
    });
    let wide = shared.chain(own).filter(|(_, set, least)| *set > least.bytes);
    let text = |(device, set, least): (&str, u16, InnerMtu)| {
        format!(
            "mtu = {set} of {device} is more than a tunnel carries whole, which is {least}: longer packets are cut, or \
             dropped with a notice to their sender"
        )
    };
    wide.map(text).collect()
}

/// The least that a tunnel of this interface leaves, or without one what may be negotiated.
fn least(config: &Config, interface: Option<&str>) -> InnerMtu {
    let tunnels = config.tunnels.iter().filter(|tunnel| tunnel.interface.as_deref() == interface);
    let tunnels = tunnels.map(|tunnel| of_tunnel(tunnel, config));
    let (bytes, shape) = tunnels.min_by_key(|(bytes, _)| *bytes).unwrap_or_else(|| {
        let (bytes, shape) = of_default(has_v6_outside(config), config);
        (bytes, format!("no [[tunnel]], so {shape}"))
    });
    InnerMtu { bytes: bytes as u16, reason: format!("{shape}, in {} bytes outside", config.mtu) }
}

/// The MTU that a tunnel leaves, with its form in words.
fn of_tunnel(tunnel: &TunnelConfig, config: &Config) -> (usize, String) {
    let TunnelConfig { name, protocol, mode, proposal, local, remote, is_encapsulated, .. } = tunnel;
    let in_udp = *is_encapsulated && *protocol == SaProtocol::Esp;
    let is_unknown = local.is_unspecified() && remote.is_unspecified();
    let is_v6 = remote.is_ipv6() || is_unknown && has_v6_outside(config);
    let (bytes, shape) = if tunnel.is_assumed {
        of_default(is_v6, config)
    } else {
        let envelope = Envelope::new(*protocol, *mode, proposal.transform, is_v6, in_udp);
        let header_len = if is_v6 { ipv6::HEADER_BYTES } else { ipv4::HEADER_BYTES };
        let shape = shape(*protocol, *mode, *proposal, is_v6, in_udp);
        // In AGGFRAG mode the longest packet that stands whole in one outer packet: longer ones
        // cross too, but are lost with any of several.
        let header = if *mode == Mode::Iptfs { aggfrag::HEADER_BYTES } else { 0 };
        (envelope.inner_mtu(config.mtu.into(), header_len) - header, shape)
    };
    (bytes, format!("tunnel {name}: {shape}"))
}

/// The MTU that a tunnel leaves if only charon knows the proposal.
fn of_default(is_v6: bool, config: &Config) -> (usize, String) {
    let in_udp = config.ports.iter().any(|port| port.is_outside && port.traits().carries_udp);
    let proposal: Proposal = LONGEST_DEFAULT.parse().expect("a proposal in swanctl's words");
    let envelope = Envelope::new(SaProtocol::Esp, Mode::Tunnel, proposal.transform, is_v6, in_udp);
    let shape = shape(SaProtocol::Esp, Mode::Tunnel, proposal, is_v6, in_udp);
    (envelope.inner_mtu(config.mtu.into(), 0), format!("the longest of strongSwan's defaults, {shape}"))
}

fn has_v6_outside(config: &Config) -> bool {
    let outside = config.ports.iter().filter(|port| port.is_outside);
    outside.flat_map(|port| &port.addresses).any(|(address, _)| address.is_ipv6())
}

fn shape(protocol: SaProtocol, mode: Mode, proposal: Proposal, is_v6: bool, in_udp: bool) -> String {
    let protocol = if protocol == SaProtocol::Ah { " AH" } else { "" };
    let mode = match mode {
        Mode::Tunnel => "",
        Mode::Transport => " in transport mode",
        Mode::Iptfs => " in AGGFRAG mode",
    };
    let way = if in_udp { " in UDP" } else { "" };
    let family = if is_v6 { "IPv6" } else { "IPv4" };
    format!("{proposal}{protocol}{mode}{way} over {family}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway whose outside has one family and encapsulation, with a tunnel for each proposal.
    fn config(proposals: &[&str], is_v6: bool, in_udp: bool, more: &str) -> Config {
        let (local, remote) = if is_v6 { ("2001:db8::a", "2001:db8::b") } else { ("192.0.2.1", "192.0.2.2") };
        let kind = if in_udp { "udp" } else { "raw" };
        let mut text = format!(
            "[gateway]\nallow_weak = true\n{more}\n\
             [[port]]\nname = \"outside\"\nkind = \"{kind}\"\naddress = [\"{local}\"]\n"
        );
        for (at, proposal) in proposals.iter().enumerate() {
            let protocol = if proposal.starts_with("sha") { "ah" } else { "esp" };
            text += &format!(
                "[[tunnel]]\nname = \"t{at}\"\nprotocol = \"{protocol}\"\nlocal = \"{local}\"\nremote = \"{remote}\"\n\
                 local_ts = [\"10.1.{at}.0/24\"]\nremote_ts = [\"10.2.{at}.0/24\"]\nesp_proposal = \"{proposal}\"\n"
            );
        }
        let mut config = Config::parse("test.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        // Without keys charon decides, and UDP is assumed.
        config.tunnels.iter_mut().for_each(|tunnel| tunnel.is_encapsulated = in_udp);
        config
    }

    const INSIDE: &str = "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\n";

    fn with_inside(more: &str) -> String {
        format!("{INSIDE}{more}")
    }

    #[test]
    fn the_documented_table_is_what_the_gateway_takes() {
        let page = include_str!("../../../docs/reference/configuration.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        let mut checked = 0;
        for (names, values) in rows.filter(|(_, values)| values.matches('|').count() == 4) {
            let values: Vec<Option<u16>> = values.split('|').map(|value| value.trim().parse().ok()).collect();
            for proposal in names.split("`, `") {
                for (place, (is_v6, in_udp)) in
                    [(false, true), (false, false), (true, true), (true, false)].iter().enumerate()
                {
                    let Some(bytes) = values[place] else { continue };
                    let found = inner_mtu(&config(&[proposal], *is_v6, *in_udp, &with_inside("")));
                    assert_eq!(found.bytes, bytes, "{proposal}: {found}");
                    checked += 1;
                }
            }
        }
        assert!(checked >= 40, "{checked} values were found in docs/reference/configuration.md");
    }

    #[test]
    fn of_several_tunnels_the_one_that_leaves_the_least_decides_and_is_named() {
        let config =
            config(&["aes128gcm16", "aes256-sha512", "aes128-sha256"], false, true, &with_inside(""));
        assert_eq!(
            inner_mtu(&config).to_string(),
            "1406 bytes (tunnel t1: aes256-sha512 in UDP over IPv4, in 1500 bytes outside)"
        );
    }

    #[test]
    fn in_aggfrag_mode_its_header_counts_too() {
        let mut config = config(&["aes128gcm16"], false, true, &with_inside(""));
        config.tunnels[0].mode = Mode::Iptfs;
        let found = inner_mtu(&config);
        assert_eq!(found.bytes, 1_434);
        assert!(found.reason.contains("aes128gcm16 in AGGFRAG mode in UDP over IPv4"), "{found}");
    }

    #[test]
    fn without_tunnels_the_longest_of_strongswans_defaults_is_taken() {
        let found = inner_mtu(&config(&[], false, true, &with_inside("")));
        assert_eq!(found.bytes, 1_406);
        assert!(found.reason.contains("strongSwan's defaults, aes128-sha512 in UDP over IPv4"), "{found}");
    }

    #[test]
    fn a_tunnel_of_which_charon_alone_knows_the_proposal_counts_with_the_longest() {
        let text = with_inside("").replace("[[port]]", "charon = \"/run/c.sock\"\n[[port]]");
        let tunnel = "[[tunnel]]\nname = \"a\"\nremote_ts = [\"10.2.0.0/24\"]\n";
        let with = |more: &str| {
            let file = format!(
                "[gateway]\n{text}[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n{tunnel}{more}"
            );
            inner_mtu(&Config::parse("test.toml", &file).unwrap_or_else(|errors| panic!("{errors}")))
        };
        assert_eq!(with("").bytes, 1_406);
        assert!(
            with("").reason.starts_with("tunnel a: the longest of strongSwan's defaults"),
            "{}",
            with("")
        );
        assert_eq!(with("esp_proposal = \"aes128gcm16\"\n").bytes, 1_438);
    }

    #[test]
    fn the_ports_own_mtu_comes_before_all() {
        let found = inner_mtu(&config(&["aes128gcm16"], false, true, &with_inside("mtu = 1300\n")));
        assert_eq!(found.to_string(), "1300 bytes (set in [[port]])");
    }
}
