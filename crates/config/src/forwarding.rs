//! Whether the kernel forwards what a gateway is to encrypt.

use convoy_ipsec::{Mode, TrafficSelector};
use convoy_port::{PortConfig, PortEntry};
use convoy_settings::Checker;
use toml::Spanned;

use super::TunnelConfig;
use super::file;

/// Warns if the kernel forwards packets beside an inside port that takes them from its interface.
/// The kernel has routes to the same networks: packets that the port misses would leave
/// unencrypted, and so would all while the gateway is stopped, were it not for the guard.
pub(super) fn kernel_forwards_nothing(c: &mut Checker<'_>, file: &[PortEntry], ports: &[PortConfig]) {
    let is_beside = |port: &PortConfig| !port.is_outside && port.traits().is_beside_kernel;
    for (entry, _) in file.iter().zip(ports).filter(|(_, port)| is_beside(port)) {
        let settings = c.environment().forwarding();
        if !settings.is_empty() {
            let what = format!(
                "{} = 1: the kernel forwards what this port does not take, and only the guard keeps packets to the \
                 tunnels' networks from leaving unencrypted; set it to 0, as the gateway forwards packets itself",
                settings.join(" = 1 and ")
            );
            c.warn(&entry.word.as_ref().map_or_else(|| entry.span(), Spanned::span), "port.kind", what);
        }
    }
}

/// Warns of a gateway without a guard, whatever its ports: others are then responsible for what it
/// protects.
pub(super) fn guard_is_on(c: &mut Checker<'_>, guard: Option<&Spanned<bool>>) {
    if let Some(guard) = guard.filter(|guard| !*guard.get_ref()) {
        let what = "without the guard, the kernel forwards unencrypted packets from and to the tunnels' \
            networks past the tunnels; let a firewall drop them";
        c.warn(&guard.span(), "gateway.guard", what);
    }
}

/// Warns of a hub whose kernel sends ICMP redirects: traffic from one peer to another leaves by the
/// interface by which it came, so that the kernel tells its sender to send it directly. A gateway
/// has them off for its own interfaces, but the setting for all is as good as the interface's.
pub(super) fn redirects_are_off(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    ports: &[PortConfig],
) {
    let has_tun = ports.iter().any(|port| !port.is_outside && !port.settings.forwards());
    if !has_tun || !c.environment().sends_redirects() {
        return;
    }
    let Some((entry, from, to)) = tunnels.iter().enumerate().find_map(|(at, (_, from))| {
        let leads_to = |(_, to): &&(&file::Tunnel, TunnelConfig)| is_between_peers(from, to);
        tunnels[at + 1..].iter().find(leads_to).map(|(entry, to)| (entry, from, to))
    }) else {
        return;
    };
    let what = format!(
        "net.ipv4.conf.all.send_redirects = 1: packets from tunnel {:?} to tunnel {:?} leave by the interface by \
         which they came, so the kernel sends ICMP redirects to their senders; set it to 0",
        from.name, to.name
    );
    let span = entry.remote_ts.as_ref().map_or_else(|| entry.at.span.clone(), Spanned::span);
    c.warn(&span, "tunnel.remote_ts", what);
}

/// Whether IPv4 packets may go from the networks behind one tunnel's peer to those behind the
/// other's, both ways, by one interface.
fn is_between_peers(a: &TunnelConfig, b: &TunnelConfig) -> bool {
    let may_go = |from: &TunnelConfig, to: &TunnelConfig| {
        from.local_ts.iter().any(|local| {
            let is_there = |remote: &TrafficSelector| {
                let (local, remote) = (local.addresses, remote.addresses);
                local.first().is_ipv4() && (local.contains(remote.first()) || remote.contains(local.first()))
            };
            to.remote_ts.iter().any(is_there)
        })
    };
    let are_networks = a.mode != Mode::Transport && b.mode != Mode::Transport;
    are_networks && a.interface == b.interface && may_go(a, b) && may_go(b, a)
}

/// Warns of a tunnel to groups, none of whose packets come in: an inside port that takes packets
/// from a link takes those to its own address on the link, as a router of unicast does.
pub(super) fn groups_come_in(
    c: &mut Checker<'_>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    ports: &[PortConfig],
) {
    let Some(port) = ports.iter().find(|port| !port.is_outside && port.settings.forwards()) else { return };
    for (entry, tunnel) in tunnels {
        let list = entry.remote_ts.as_ref().map_or(&[][..], |list| list.get_ref());
        for (text, selector) in list.iter().zip(&tunnel.remote_ts) {
            if !(selector.addresses.first().is_multicast() && selector.addresses.last().is_multicast()) {
                continue;
            }
            let what = format!(
                "{} is multicast, and an inside port of kind {} takes no frames to groups, so nothing of it enters \
                 the tunnel; use an inside port of kind \"tun\", into which the kernel or a multicast router \
                 forwards, or carry multicast in GRE",
                text.get_ref(),
                port.kind()
            );
            c.warn(&text.span(), "tunnel.remote_ts", what);
        }
    }
}

/// Transport mode protects this host's own packets: they come in by an interface of the tunnels'
/// own, into which the guard has them routed. Anything else would leave them unencrypted.
pub(super) fn transport_comes_in(
    c: &mut Checker<'_>,
    guard: Option<&Spanned<bool>>,
    tunnels: &[(&file::Tunnel, TunnelConfig)],
    ports: &[PortConfig],
) {
    let has_guard = guard.is_none_or(|guard| *guard.get_ref());
    let has_tun = ports.iter().any(|port| !port.is_outside && port.settings.routed_interface().is_some());
    let what = match (ports.is_empty(), has_guard, has_tun) {
        (true, ..) | (_, true, true) => return,
        (_, false, _) => {
            "transport mode needs the guard, which routes this host's packets into the inside port; remove \
             guard = false"
        }
        _ => {
            "transport mode protects this host's own packets, which only come in by an inside port of kind \
             \"tun\"; use mode = \"tunnel\""
        }
    };
    for (entry, _) in tunnels.iter().filter(|(_, tunnel)| tunnel.mode == Mode::Transport) {
        let span = entry.mode.as_ref().map_or_else(|| entry.at.span.clone(), Spanned::span);
        c.add(&span, "tunnel.mode", what);
    }
}

/// Gives an inside interface of the tunnels' own the address of a tunnel in transport mode, if it
/// has none of IPv4: the kernel's reverse path filter, also the loose one, drops what comes from an
/// interface without an address unless the route back leads to it.
pub(super) fn give_address_for_transport(
    ports: &mut [PortConfig],
    tunnels: &[(&file::Tunnel, TunnelConfig)],
) {
    let transport = tunnels.iter().map(|(_, tunnel)| tunnel).filter(|tunnel| tunnel.mode == Mode::Transport);
    let Some(local) = transport.map(|tunnel| tunnel.local).find(|local| local.is_ipv4()) else { return };
    let is_without = |port: &&mut PortConfig| {
        let is_of_tunnels = !port.is_outside && port.settings.routed_interface().is_some();
        is_of_tunnels && !port.addresses.iter().any(|(address, _)| address.is_ipv4())
    };
    ports.iter_mut().filter(is_without).for_each(|port| port.addresses.push((local, 32)));
}

#[cfg(test)]
mod tests {
    use crate::PRODUCT;
    use crate::{Basis, Config, HostEnvironment};

    struct Router(Vec<&'static str>);

    impl HostEnvironment for Router {
        fn forwarding(&self) -> Vec<&'static str> {
            self.0.clone()
        }
    }

    fn port(name: &str, kind: &str) -> String {
        format!("[[port]]\nname = \"{name}\"\nkind = \"{kind}\"\n")
    }

    fn warnings(inside: &str, router: Router) -> Vec<String> {
        let outside = format!("{}address = [\"192.0.2.1\"]\n", port("outside", "udp"));
        let text = format!("{inside}{outside}");
        let config = Config::parse_at("a.toml", &text, &Basis { kinds: &PRODUCT, machine: &router })
            .expect("good but for warnings");
        config.warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_kernel_that_forwards_beside_a_port_at_its_interface_is_warned_of() {
        for kind in ["af_packet", "af_xdp"] {
            let inside = format!("{}interface = \"lan0\"\naddress = [\"10.1.0.1\"]\n", port("inside", kind));
            let both = vec!["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
            let [reported] = &warnings(&inside, Router(both))[..] else { panic!("one warning") };
            let what = "warning: port.kind: net.ipv4.ip_forward = 1 and net.ipv6.conf.all.forwarding = 1: the kernel";
            assert!(reported.contains(what), "{reported}");
            assert_eq!(warnings(&inside, Router(vec!["net.ipv6.conf.all.forwarding"])).len(), 1);
            assert!(warnings(&inside, Router(Vec::new())).is_empty());
        }
        let tun = format!("{}device = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n", port("inside", "tun"));
        assert!(warnings(&tun, Router(vec!["net.ipv4.ip_forward"])).is_empty(), "it is routed into");
    }

    #[test]
    fn a_gateway_without_a_guard_is_warned_of() {
        let tun = format!("{}device = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n", port("inside", "tun"));
        let [reported] = &warnings(&format!("[gateway]\nguard = false\n{tun}"), Router(Vec::new()))[..]
        else {
            panic!("one warning")
        };
        assert!(reported.contains("a.toml:2:9: warning: gateway.guard: without the guard"), "{reported}");
        assert!(warnings(&format!("[gateway]\nguard = true\n{tun}"), Router(Vec::new())).is_empty());
    }

    #[test]
    fn groups_that_do_not_enter_the_tunnel_are_warned_of() {
        let tunnel = |to: &str| {
            format!(
                "[[tunnel]]\nname = \"groups\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                 local_ts = [\"10.1.0.0/24\", \"fd00:1::/64\"]\nremote_ts = [{to}]\n\
                 esp_proposal = \"aes128gcm16\"\n"
            )
        };
        let link = |kind| format!("{}interface = \"lan0\"\naddress = [\"10.1.0.1\"]\n", port("inside", kind));
        let tun = format!("{}device = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n", port("inside", "tun"));
        let about_groups = |inside: &str, to: &str| {
            let all = warnings(&(inside.to_owned() + &tunnel(to)), Router(Vec::new()));
            all.into_iter().filter(|reported| reported.contains("multicast")).collect::<Vec<_>>()
        };
        for kind in ["af_packet", "af_xdp"] {
            let reported = about_groups(&link(kind), "\"10.2.0.0/24\", \"239.1.0.0/16\", \"ff0e::/16\"");
            assert_eq!(reported.len(), 2, "{reported:?}");
            let what = format!(
                "tunnel.remote_ts: 239.1.0.0/16 is multicast, and an inside port of kind {kind} takes"
            );
            assert!(reported[0].contains(&what), "{reported:?}");
            assert!(
                about_groups(&link(kind), "\"0.0.0.0/0\", \"::/0\"").is_empty(),
                "it is not about groups"
            );
        }
        assert!(about_groups(&tun, "\"239.1.0.0/16\"").is_empty(), "the kernel forwards into it");
    }

    struct Redirecting(bool);

    impl HostEnvironment for Redirecting {
        fn sends_redirects(&self) -> bool {
            self.0
        }
    }

    #[test]
    fn a_hub_whose_kernel_sends_redirects_is_warned_of() {
        let tunnel = |number: u8, local: &str| {
            format!(
                "[[tunnel]]\nname = \"site-{number}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.{number}\"\n\
                 local_ts = [\"{local}\"]\nremote_ts = [\"10.{number}.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n"
            )
        };
        let reported = |kind: &str, local: &str, sends: bool| {
            let text = format!("{kind}{}", [tunnel(2, local), tunnel(3, local)].concat());
            let basis = Basis { kinds: &PRODUCT, machine: &Redirecting(sends) };
            let config = Config::parse_at("a.toml", &text, &basis).expect("good but for warnings");
            let all = config.warnings.iter().map(ToString::to_string);
            all.filter(|line| line.contains("send_redirects")).collect::<Vec<_>>()
        };
        let outside = format!("{}address = [\"192.0.2.1\"]\n", port("outside", "udp"));
        let tun =
            format!("{}device = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n{outside}", port("inside", "tun"));
        let link =
            port("inside", "af_packet") + "interface = \"lan0\"\naddress = [\"10.1.0.1\"]\n" + &outside;
        let [line] = &reported(&tun, "10.0.0.0/8", true)[..] else { panic!("one warning") };
        assert!(line.contains("from tunnel \"site-2\" to tunnel \"site-3\""), "{line}");
        assert!(reported(&tun, "10.0.0.0/8", false).is_empty(), "the gateway's own interface has them off");
        assert!(reported(&tun, "10.1.0.0/24", true).is_empty(), "no packet goes from peer to peer");
        assert!(reported(&link, "10.0.0.0/8", true).is_empty(), "the kernel does not forward them");
    }
}
