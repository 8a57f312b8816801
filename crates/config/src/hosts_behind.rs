//! Whether packets of hosts behind this gateway reach a tunnel: the kernel forwards them into an
//! inside port of kind `tun`.

use convoy_ipsec::{AddressRange, Mode};
use convoy_port::PortConfig;
use convoy_settings::{Checker, Interface};
use ipnet::IpNet;
use toml::Spanned;

use super::TunnelConfig;
use super::file;

/// Warns if a network of hosts behind this gateway is to be protected, but the kernel forwards
/// nothing from it, or a chain of nftables drops what it forwards.
pub(super) fn hosts_are_forwarded(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    ports: &[PortConfig],
) {
    let shared = ports.iter().filter(|port| !port.is_outside);
    let Some(device) = shared.filter_map(|port| port.settings.routed_interface()).next() else { return };
    let links = behind(c, device, tunnels);
    for Behind { span, interface, network } in &links {
        let is_v6 = network.addr().is_ipv6();
        if c.environment().forwards_from(interface, is_v6) == Some(false) {
            let setting = if is_v6 { "net.ipv6.conf.all.forwarding" } else { "net.ipv4.ip_forward" };
            let what = format!(
                "hosts on interface {interface} are in it ({network}), but the kernel forwards none of their packets \
                 into the tunnel; run: sysctl -w {setting}=1, and write it in /etc/sysctl.d"
            );
            c.warn(span, "tunnel.local_ts", what);
        }
    }
    let Some(Behind { span, interface, .. }) = links.first() else { return };
    for chain in c.environment().chains_without(device) {
        let what = format!("the kernel forwards packets of hosts on interface {interface}, but {chain}");
        c.warn(span, "tunnel.local_ts", what);
    }
}

/// A network of hosts that a tunnel is to protect.
struct Behind {
    /// Where the configuration has it.
    span: std::ops::Range<usize>,
    interface: String,
    network: IpNet,
}

/// The networks of the machine's interfaces that a tunnel protects, but for the gateway's own
/// `device` and those of certain tunnels.
fn behind(c: &Checker<'_>, device: &str, tunnels: &[(&file::Tunnel, TunnelConfig)]) -> Vec<Behind> {
    let is_own = |link: &Interface| {
        let is_of_tunnel = |(_, tunnel): &(_, TunnelConfig)| tunnel.interface.as_ref() == Some(&link.name);
        link.is_tun || link.name == device || link.name == "lo" || tunnels.iter().any(is_of_tunnel)
    };
    let interfaces = c.interfaces().unwrap_or_default().iter().filter(|link| !is_own(link));
    let networks = interfaces.flat_map(|link| link.networks.iter().map(move |network| (link, *network)));
    let has_hosts = |(_, network): &(_, IpNet)| network.max_prefix_len() - network.prefix_len() > 1;
    let found = networks.filter(has_hosts).filter_map(|(link, network)| {
        let is_in = |(_, tunnel): &&(&file::Tunnel, TunnelConfig)| protects(tunnel, network);
        let (entry, _) = tunnels.iter().find(is_in)?;
        let span = entry.local_ts.as_ref().map_or_else(|| entry.at.span.clone(), Spanned::span);
        Some(Behind { span, interface: link.name.clone(), network: network.trunc() })
    });
    found.collect()
}

/// Whether a tunnel's selectors name hosts of a network. Selectors of all addresses name none.
fn protects(tunnel: &TunnelConfig, network: IpNet) -> bool {
    let is_all = |range: &AddressRange| range.as_prefix().is_some_and(|(_, bits)| bits == 0);
    tunnel.mode != Mode::Transport
        && tunnel.local_ts.iter().map(|selector| selector.addresses).any(|range| {
            !is_all(&range) && (range.contains(network.network()) || network.contains(&range.first()))
        })
}

#[cfg(test)]
mod tests {
    use convoy_settings::Interface;

    use crate::PRODUCT;
    use crate::{Basis, Config, HostEnvironment};

    /// A host with a LAN, whose kernel forwards or not.
    struct Host {
        forwards: bool,
        has_chain: bool,
    }

    impl HostEnvironment for Host {
        fn interfaces(&self) -> Option<Vec<Interface>> {
            let link = |name: &str, networks: &[&str], is_tun| Interface {
                name: name.to_owned(),
                mtu: 1500,
                is_tun,
                networks: networks.iter().filter_map(|network| network.parse().ok()).collect(),
            };
            Some(vec![
                link("lo", &["127.0.0.1/8"], false),
                link("wan0", &["192.0.2.1/24"], false),
                link("lan0", &["10.1.0.1/24", "fd00:1::1/64"], false),
                link("convoy0", &["10.1.0.1/24"], true),
            ])
        }

        fn forwards_from(&self, interface: &str, _: bool) -> Option<bool> {
            (interface == "lan0").then_some(self.forwards)
        }

        fn chains_without(&self, interface: &str) -> Vec<String> {
            self.has_chain.then(|| format!("a chain without {interface}")).into_iter().collect()
        }
    }

    fn warnings(host: &Host, inside: &str, local_ts: &str) -> Vec<String> {
        let text = format!(
            "[[port]]\nname = \"inside\"\n{inside}\n\
             [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"0.0.0.0\"]\n\
             [[tunnel]]\nname = \"site-b\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [{local_ts}]\nremote_ts = [\"10.2.0.0/16\", \"fd00:2::/64\"]\n\
             esp_proposal = \"aes128gcm16\"\n"
        );
        let basis = Basis { kinds: &PRODUCT, machine: host };
        let config = Config::parse_at("a.toml", &text, &basis).unwrap_or_else(|errors| panic!("{errors}"));
        let all = config.warnings.iter().map(ToString::to_string);
        all.filter(|line| line.contains("tunnel.local_ts")).collect()
    }

    const TUN: &str = "kind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]";

    #[test]
    fn hosts_from_whom_the_kernel_forwards_nothing_are_warned_of() {
        let (off, on) =
            (Host { forwards: false, has_chain: false }, Host { forwards: true, has_chain: false });
        let reported = warnings(&off, TUN, "\"10.1.0.0/16\", \"fd00:1::/64\"");
        let [v4, v6] = &reported[..] else { panic!("{reported:?}") };
        assert!(v4.contains("a.toml:14:12: warning: tunnel.local_ts: hosts on interface lan0"), "{v4}");
        assert!(v4.contains("(10.1.0.0/24)") && v4.contains("sysctl -w net.ipv4.ip_forward=1"), "{v4}");
        assert!(v6.contains("sysctl -w net.ipv6.conf.all.forwarding=1"), "{v6}");
        assert!(warnings(&on, TUN, "\"10.1.0.0/16\"").is_empty());
        for none_behind in ["\"10.1.9.0/24\"", "\"0.0.0.0/0\""] {
            assert!(warnings(&off, TUN, none_behind).is_empty(), "{none_behind}");
        }
        let link = "kind = \"af_packet\"\ninterface = \"lan0\"\naddress = [\"10.1.0.1\"]";
        assert!(warnings(&off, link, "\"10.1.0.0/24\"").is_empty(), "the gateway forwards itself");
    }

    #[test]
    fn chains_that_drop_what_is_forwarded_are_warned_of_where_hosts_are_behind() {
        let host = Host { forwards: true, has_chain: true };
        let [line] = &warnings(&host, TUN, "\"10.1.0.0/24\"")[..] else { panic!("one warning") };
        assert!(line.contains("packets of hosts on interface lan0, but a chain without convoy0"), "{line}");
        assert!(warnings(&host, TUN, "\"10.1.9.0/24\"").is_empty(), "nothing is forwarded");
    }
}
