//! Whether packets of hosts behind this gateway reach a tunnel: the kernel forwards them into an
//! inside port of kind `tun`.

use std::collections::{BTreeMap, BTreeSet};

use convoy_ipsec::{AddressRange, Mode};
use convoy_port::PortConfig;
use convoy_settings::{Checker, HostEnvironment, Interface};
use ipnet::IpNet;
use toml::Spanned;

use super::TunnelConfig;
use super::file;

/// Networks behind routers that are looked for, at most, and inside interfaces for which chains
/// are: each is a question to the kernel.
const MOST: usize = 64;

/// Tunnels with one inside interface.
type InterfaceTunnels<'a> = Vec<&'a (&'a file::Tunnel, TunnelConfig)>;

/// Warns if a network of hosts behind this gateway is to be protected, but the kernel forwards
/// nothing from it, or a chain of nftables drops what it forwards.
pub(super) fn hosts_are_forwarded(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    ports: &[PortConfig],
) {
    let mut shared = ports.iter().filter(|port| !port.is_outside);
    let shared = shared.find_map(|port| port.settings.routed_interface());
    let mut by_device: BTreeMap<&str, InterfaceTunnels<'_>> = BTreeMap::new();
    for tunnel in tunnels {
        let device = tunnel.1.interface.as_deref().or(shared);
        device.into_iter().for_each(|device| by_device.entry(device).or_default().push(tunnel));
    }
    let own: BTreeSet<&str> = by_device.keys().copied().chain(shared).collect();
    let mut said = BTreeSet::new();
    for (place, (device, tunnels)) in by_device.iter().enumerate() {
        let links = behind(c, &own, tunnels);
        for ProtectedHosts { span, hosts } in &links {
            let unforwarded = hosts.unforwarded(c.environment()).filter(|what| said.insert(what.clone()));
            unforwarded.into_iter().for_each(|what| c.warn(span, "tunnel.local_ts", what));
        }
        let Some(ProtectedHosts { span, hosts: InterfaceHosts { interface, .. } }) =
            links.first().filter(|_| place < MOST)
        else {
            continue;
        };
        for chain in c.environment().chains_without(device) {
            let what = format!("the kernel forwards packets of hosts on interface {interface}, but {chain}");
            c.warn(span, "tunnel.local_ts", what);
        }
    }
}

/// What keeps packets of hosts with these addresses from a gateway's inside interface, in words:
/// the kernel forwards none that come by their interface.
pub fn unforwarded(machine: &dyn HostEnvironment, device: &str, ranges: &[AddressRange]) -> Vec<String> {
    let interfaces = machine.interfaces().unwrap_or_default();
    let links = interfaces.iter().filter(|link| !link.is_tun && link.name != device && link.name != "lo");
    let networks = links.flat_map(|link| link.networks.iter().map(move |network| (link, *network)));
    let protected = networks
        .filter(|(_, network)| has_hosts(network) && ranges.iter().any(|range| holds(range, *network)));
    let hosts =
        |(link, network): (&Interface, IpNet)| InterfaceHosts { interface: link.name.clone(), network };
    let all: BTreeSet<String> = protected.map(hosts).filter_map(|hosts| hosts.unforwarded(machine)).collect();
    all.into_iter().collect()
}

/// Hosts by an interface of the machine.
struct InterfaceHosts {
    interface: String,
    network: IpNet,
}

impl InterfaceHosts {
    /// That the kernel forwards none of their packets, with what to do.
    fn unforwarded(&self, machine: &dyn HostEnvironment) -> Option<String> {
        let Self { interface, network } = self;
        let is_v6 = network.addr().is_ipv6();
        let setting = if is_v6 { "net.ipv6.conf.all.forwarding" } else { "net.ipv4.ip_forward" };
        (machine.forwards_from(interface, is_v6) == Some(false)).then(|| {
            format!(
                "hosts on interface {interface} are in it ({}), but the kernel forwards none of their packets \
                 into the tunnel; run: sysctl -w {setting}=1, and write it in /etc/sysctl.d",
                network.trunc()
            )
        })
    }
}

/// Hosts that a tunnel is to protect.
struct ProtectedHosts {
    /// Where the configuration has them.
    span: std::ops::Range<usize>,
    hosts: InterfaceHosts,
}

/// The hosts that tunnels protect, but for those by the gateway's own interfaces: of the machine's
/// networks, and of networks that it reaches by a router.
fn behind(c: &Checker<'_>, own: &BTreeSet<&str>, tunnels: &InterfaceTunnels<'_>) -> Vec<ProtectedHosts> {
    let is_own = |link: &Interface| link.is_tun || link.name == "lo" || own.contains(link.name.as_str());
    let interfaces = c.interfaces().unwrap_or_default().iter().filter(|link| !is_own(link));
    let networks = interfaces.flat_map(|link| link.networks.iter().map(move |network| (link, *network)));
    let networks: Vec<(&Interface, IpNet)> = networks.filter(|(_, network)| has_hosts(network)).collect();
    let span =
        |entry: &file::Tunnel| entry.local_ts.as_ref().map_or_else(|| entry.at.span.clone(), Spanned::span);
    let connected = networks.iter().filter_map(|(link, network)| {
        let (entry, _) = tunnels.iter().find(|(_, tunnel)| protects(tunnel, *network))?;
        let hosts = InterfaceHosts { interface: link.name.clone(), network: *network };
        Some(ProtectedHosts { span: span(entry), hosts })
    });
    let mut found: Vec<ProtectedHosts> = connected.collect();
    let mut asked = BTreeSet::new();
    let ranges =
        tunnels.iter().filter(|(_, tunnel)| tunnel.mode != Mode::Transport).flat_map(|(entry, tunnel)| {
            tunnel.local_ts.iter().filter_map(move |local| Some((*entry, local.addresses.as_prefix()?)))
        });
    for (entry, (address, bits)) in ranges {
        let Ok(network) = IpNet::new(address, bits) else { continue };
        let is_connected =
            || networks.iter().any(|(_, known)| known.contains(&network) || network.contains(known));
        if bits == 0 || is_connected() || asked.len() >= MOST || !asked.insert(network) {
            continue;
        }
        let behind = c.environment().interface_behind(address).filter(|name| !own.contains(name.as_str()));
        found.extend(behind.map(|interface| ProtectedHosts {
            span: span(entry),
            hosts: InterfaceHosts { interface, network },
        }));
    }
    found
}

/// Whether a network has room for hosts besides this one.
fn has_hosts(network: &IpNet) -> bool {
    network.max_prefix_len() - network.prefix_len() > 1
}

/// Whether a tunnel's selectors name hosts of a network.
fn protects(tunnel: &TunnelConfig, network: IpNet) -> bool {
    tunnel.mode != Mode::Transport
        && tunnel.local_ts.iter().any(|selector| holds(&selector.addresses, network))
}

/// Whether addresses are hosts of a network, or around it. All addresses name none, and this host's
/// own address in it is not another host's.
fn holds(range: &AddressRange, network: IpNet) -> bool {
    let is_all = range.as_prefix().is_some_and(|(_, bits)| bits == 0);
    let is_own = range.first() == range.last() && range.first() == network.addr();
    !is_all && !is_own && (range.contains(network.network()) || network.contains(&range.first()))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
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

        fn interface_behind(&self, address: IpAddr) -> Option<String> {
            (address == IpAddr::from([10, 7, 0, 0])).then(|| "lan0".to_owned())
        }

        fn chains_without(&self, interface: &str) -> Vec<String> {
            self.has_chain.then(|| format!("a chain without {interface}")).into_iter().collect()
        }
    }

    fn warnings(host: &Host, inside: &str, local_ts: &str) -> Vec<String> {
        warnings_of(host, inside, local_ts, "")
    }

    fn warnings_of(host: &Host, inside: &str, local_ts: &str, more: &str) -> Vec<String> {
        let text = format!(
            "[[port]]\nname = \"inside\"\n{inside}\n\
             [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"0.0.0.0\"]\n\
             [[tunnel]]\nname = \"site-b\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [{local_ts}]\nremote_ts = [\"10.2.0.0/16\", \"fd00:2::/64\"]\n\
             esp_proposal = \"aes128gcm16\"\n{more}\n"
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
    fn hosts_behind_a_router_or_by_the_interface_of_a_tunnel_are_warned_of_like_neighbours() {
        let off = Host { forwards: false, has_chain: false };
        let [line] = &warnings(&off, TUN, "\"10.7.0.0/16\"")[..] else { panic!("one warning") };
        assert!(line.contains("hosts on interface lan0 are in it (10.7.0.0/16)"), "{line}");
        assert!(warnings(&off, TUN, "\"10.8.0.0/16\"").is_empty(), "by the default route, if at all");
        let chained = Host { forwards: false, has_chain: true };
        let keyed = "interface = \"ipsec-b\"\n[tunnel.manual]\nspi_in = 0x1001\nspi_out = 0x1002\n\
                     key_in = \"00112233445566778899aabbccddeeff00112233\"\n\
                     key_out = \"ffeeddccbbaa99887766554433221100ffeeddcc\"";
        let own = format!("{TUN}\n[[interface]]\nname = \"ipsec-b\"");
        let reported = warnings_of(&chained, &own, "\"10.1.0.0/24\"", keyed);
        let [hosts, chain] = &reported[..] else { panic!("{reported:?}") };
        assert!(hosts.contains("hosts on interface lan0 are in it"), "{hosts}");
        assert!(chain.contains("but a chain without ipsec-b"), "{chain}");
    }

    #[test]
    fn ranges_that_charon_negotiates_are_looked_at_likewise() {
        let range = |text: &str| text.parse::<AddressRange>().expect("a range");
        let of =
            |forwards, text| unforwarded(&Host { forwards, has_chain: false }, "convoy0", &[range(text)]);
        let reported = of(false, "10.1.0.0/16");
        assert!(
            reported.len() == 1 && reported[0].contains("sysctl -w net.ipv4.ip_forward=1"),
            "{reported:?}"
        );
        assert!(of(false, "10.1.0.1").is_empty(), "this host's own address");
        assert!(of(true, "10.1.0.0/16").is_empty() && of(false, "0.0.0.0/0").is_empty());
    }

    #[test]
    fn chains_that_drop_what_is_forwarded_are_warned_of_where_hosts_are_behind() {
        let host = Host { forwards: true, has_chain: true };
        let [line] = &warnings(&host, TUN, "\"10.1.0.0/24\"")[..] else { panic!("one warning") };
        assert!(line.contains("packets of hosts on interface lan0, but a chain without convoy0"), "{line}");
        assert!(warnings(&host, TUN, "\"10.1.9.0/24\"").is_empty(), "nothing is forwarded");
    }
}
