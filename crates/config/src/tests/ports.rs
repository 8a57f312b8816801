//! Rejected ports, and tunnels that do not fit their ports.

use convoy_port::DpdkSettings;

use super::{GOOD, changed, errors, refused};
use crate::Config;

#[test]
fn a_port_in_memory_is_for_tests_alone() {
    let unknown = "15:8: port.kind: unknown \"memory\"; possible values: tun, udp";
    refused("kind = \"udp\"", "kind = \"memory\"", unknown);
}

#[test]
fn a_port_must_have_what_its_kind_needs() {
    refused("device = \"convoy0\"\n", "", "9:8: port.kind: a tun port needs device = \"convoy0\"");
    refused(
        "address = [\"192.0.2.1\"]\n",
        "",
        "15:8: port.kind: this kind of port needs address = [\"192.0.2.1\"]",
    );
    refused(
        "kind = \"udp\"\naddress = [\"192.0.2.1\"]",
        "kind = \"raw\"\naddress = [\"0.0.0.0\"]",
        "16:12: port.address: list the address itself",
    );
    refused("10.1.0.1/24", "10.1.0.1/33", "11:12: port.address: \"10.1.0.1/33\" is not an address");
}

#[test]
fn a_port_at_an_interface_has_that_its_addresses_and_a_side() {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    for kind in ["af_xdp", "af_packet"] {
        let with = |rest: &str| changed(udp, &format!("kind = \"{kind}\"\n{rest}"));
        let whole = "interface = \"eth1\"\naddress = [\"192.0.2.1\"]";
        let config = Config::parse("test.toml", &with(whole)).expect("good");
        let port = config.ports.iter().find(|port| port.is_outside).expect("by its name");
        assert_eq!((port.settings.interface(), port.settings.udp_port()), (Some("eth1"), Some(4500)));
        let holds = |rest: &str, what: &str| {
            let text = errors(&with(rest));
            assert!(text.contains(what), "{text}");
        };
        holds("address = [\"192.0.2.1\"]", &format!("an {kind} port needs interface = \"eth1\""));
        holds("interface = \"eth1\"\naddress = [\"192.0.2.1/24\"]", "write 192.0.2.1 alone");
        holds("interface = \"eth1\"\naddress = [\"0.0.0.0\"]", "list the address itself");
        holds(&format!("{whole}\nudp_port = 500"), "port 500 is for IKE");
    }
}

#[test]
fn both_sides_must_have_their_port() {
    let tun = "kind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]";
    refused(tun, "kind = \"raw\"\naddress = [\"192.0.2.1\"]", "13:8: port: there is no inside port");
    let text = changed("kind = \"udp\"\naddress = [\"192.0.2.1\"]", "kind = \"tun\"\ndevice = \"convoy1\"");
    let text = errors(&text);
    assert!(text.contains("there are several inside ports"), "{text}");
    assert!(text.contains("there is no outside port; add one with kind = \"udp\" or \"raw\""), "{text}");
}

#[test]
fn a_udp_port_of_every_address_fits_the_tunnels_of_its_family() {
    let any = |address: &str| changed("address = [\"192.0.2.1\"]", &format!("address = [\"{address}\"]"));
    Config::parse("site-a.toml", &any("0.0.0.0")).expect("every IPv4 address is the tunnel's too");
    assert!(errors(&any("::")).contains("has no address 192.0.2.1; it has ::"));
}

#[test]
fn a_tunnel_must_fit_the_ports() {
    refused(
        "local = \"192.0.2.1\"",
        "local = \"192.0.2.9\"",
        "20:9: tunnel.local: port \"outside\" has no address 192.0.2.9; it has 192.0.2.1",
    );
    refused(
        "encap = \"udp\"",
        "encap = \"none\"",
        "25:9: tunnel.encap: native ESP and AH need an outside port of kind \"raw\"",
    );
    refused(
        "kind = \"udp\"",
        "kind = \"raw\"",
        "25:9: tunnel.encap: ESP in UDP needs an outside port of kind \"udp\"",
    );
    let auto = changed("kind = \"udp\"", "kind = \"raw\"").replace("encap = \"udp\"", "encap = \"auto\"");
    let config = Config::parse("site-a.toml", &auto).expect("auto follows the port");
    assert!(!config.tunnels[0].is_encapsulated);
}

#[test]
fn a_dpdk_port_has_a_device_and_addresses_of_both_families_and_carries_ike() {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    let dpdk = "kind = \"dpdk\"\ndevice = \"net_ring0\"\naddress = [\"192.0.2.1/24\"]";
    let config = Config::parse("test.toml", &changed(udp, dpdk)).expect("good");
    let device = "net_ring0".to_owned();
    let settings = DpdkSettings { device, gateway: None, gateway_v6: None, mac: None, descriptors: 1024 };
    assert_eq!(config.ports[1].settings.of(), Some(&settings));
    assert_eq!(config.ports[1].settings.dpdk_device(), Some("net_ring0"));
    let holds = |to: &str, what: &str| {
        let text = errors(&changed(udp, to));
        assert!(text.contains(what), "{text}");
    };
    holds("kind = \"dpdk\"\ndevice = \"net_ring0\"", "a dpdk port needs device = \"0000:1a:00.0\"");
    holds("kind = \"dpdk\"\naddress = [\"192.0.2.1/24\"]", "a dpdk port needs device = \"0000:1a:00.0\"");
    holds(&dpdk.replace("net_ring0", ""), "port.device: name a device");
    holds(&dpdk.replace("net_ring0", ",iface=lan0"), "port.device: name a device");
    holds(
        &dpdk.replace("net_ring0", "net_ring_of_18_let,a=b"),
        "port.device: \"net_ring_of_18_let\" has 18 characters, and the name of a net_ring device has at most 17",
    );
    let longest = dpdk.replace("net_ring0", "net_ring_of_17_ch");
    Config::parse("test.toml", &changed(udp, &longest)).expect("17 characters are possible");
    let both = dpdk.replace("\"192.0.2.1/24\"", "\"192.0.2.1/24\", \"2001:db8::1/64\"");
    let with_gateways = format!("{both}\ngateway = \"192.0.2.254\"\ngateway_v6 = \"fe80::1\"");
    let config = Config::parse("test.toml", &changed(udp, &with_gateways)).expect("both families");
    let Some(DpdkSettings { gateway, gateway_v6, .. }) = config.ports[1].settings.of() else {
        panic!("another kind")
    };
    assert_eq!(*gateway, Some([192, 0, 2, 254].into()));
    assert_eq!(gateway_v6.map(|address| address.to_string()).as_deref(), Some("fe80::1"));
    for group in ["ff02::1/64", "0.0.0.0/0", "::/0", "224.0.0.1/24"] {
        holds(&dpdk.replace("192.0.2.1/24", group), "this kind of port needs an address of a host");
    }
    let of_v4 = "port.gateway_v6: \"192.0.2.254\" is not an IPv6 address";
    holds(&format!("{dpdk}\ngateway_v6 = \"192.0.2.254\""), of_v4);
    holds(&format!("{dpdk}\ndescriptors = 63"), "port.descriptors: 63 is out of range");
    holds(&format!("{dpdk}\nmac = \"03:00:5e:10:00:01\""), "is not a MAC address");
    let second = format!("{dpdk}\n[[port]]\nname = \"other\"\nkind = \"raw\"\naddress = [\"192.0.2.1\"]");
    holds(&second, "a dpdk port must be the only outside port");
    let with_charon = changed(udp, dpdk).replace("[gateway]\n", "[gateway]\ncharon = \"/run/charon.sock\"\n");
    Config::parse("test.toml", &with_charon).expect("IKE comes by the same device");
}

#[test]
fn ike_needs_a_port_outside_that_carries_it() {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    let with = |port: &str| {
        changed(udp, port)
            .replace("[gateway]\n", "[gateway]\ncharon = \"/run/charon.sock\"\n")
            .replace("encap = \"udp\"", "encap = \"auto\"")
    };
    let interface = "interface = \"eth1\"";
    for (kind, keys) in [
        ("af_packet", format!("{interface}\naddress = [\"192.0.2.1\"]")),
        ("af_xdp", format!("{interface}\naddress = [\"192.0.2.1\"]")),
        ("dpdk", "device = \"net_ring0\"\naddress = [\"192.0.2.1/24\"]".to_owned()),
    ] {
        Config::parse("test.toml", &with(&format!("kind = \"{kind}\"\n{keys}"))).expect(kind);
    }
    let text = errors(&with("kind = \"raw\"\naddress = [\"192.0.2.1\"]"));
    let kinds = "\"udp\", \"af_packet\", \"af_xdp\" or \"dpdk\", and there is none";
    assert!(text.contains(&format!("IKE needs an outside port of kind {kinds}")), "{text}");
}

#[test]
fn dpdk_port_carries_ipv6_on_both_sides() {
    let tun = "kind = \"tun\"\ndevice = \"convoy0\"";
    let inside = changed(tun, "kind = \"dpdk\"\ndevice = \"net_ring0\"");
    for (key, v4, both) in [
        ("local_ts", "[\"10.1.0.0/24\"]", "[\"10.1.0.0/24\", \"fd00:1::/64\"]"),
        ("remote_ts", "[\"10.2.0.0/24\"]", "[\"fd00:2::/64\", \"10.2.0.0/24\"]"),
    ] {
        let (v4, both) = (format!("{key} = {v4}"), format!("{key} = {both}"));
        Config::parse("test.toml", &inside.replace(&v4, &both)).expect("IPv6 inside");
    }
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    let dpdk = "kind = \"dpdk\"\ndevice = \"net_ring0\"\naddress = [\"2001:db8::1/64\"]";
    let ends = "local = \"192.0.2.1\"\nremote = \"192.0.2.2\"";
    let outside = changed(udp, dpdk).replace(ends, "local = \"2001:db8::1\"\nremote = \"2001:db8::2\"");
    Config::parse("test.toml", &outside).expect("IPv6 outside");
}

#[test]
fn a_wrong_kind_is_one_error() {
    for (from, to) in
        [("kind = \"tun\"", "kind = \"tum\""), ("kind = \"udp\"", "kind = 7"), ("kind = \"udp\"\n", "")]
    {
        let reported = Config::parse("site-a.toml", &changed(from, to)).expect_err("one error").0;
        assert!(reported.len() == 1 && reported[0].key == "port.kind", "{reported:#?}");
    }
}

#[test]
fn an_interfaces_name_is_one_that_the_kernel_takes() {
    let message = "10:10: port.device: \"convoy0123456789\" has 16 bytes; an interface name has at most 15";
    refused("\"convoy0\"", "\"convoy0123456789\"", message);
    for name in ["", "a b", "a/b", "..", "convoy%d"] {
        refused("\"convoy0\"", &format!("{name:?}"), "10:10: port.device: ");
    }
}

#[test]
fn a_port_outside_has_addresses_without_prefix() {
    let message =
        "16:12: port.address: write 192.0.2.1 alone: packets leave with this address, and the prefix is the";
    refused("[\"192.0.2.1\"]", "[\"192.0.2.1/24\"]", message);
}

#[test]
fn ike_s_port_is_not_for_esp() {
    refused("kind = \"udp\"", "kind = \"udp\"\nudp_port = 500", "16:12: port.udp_port: port 500 is for IKE");
}

#[test]
fn a_file_without_ports_is_warned_of() {
    let tunnel = &GOOD[GOOD.find("[[tunnel]]").expect("a tunnel")..];
    let config = Config::parse("a.toml", tunnel).expect("good for replay");
    let reported = config.warnings[0].to_string();
    assert!(
        reported.starts_with("a.toml: warning: there is no [[port]], so only `convoy replay`"),
        "{reported}"
    );
}

#[test]
fn workers_with_udp_ports_of_their_own_need_room_above_the_common_one() {
    let text = |port: u32, resources: u32| {
        let with_port = changed("kind = \"udp\"", &format!("kind = \"udp\"\nudp_port = {port}"));
        let with_workers = with_port.replacen("[gateway]", "[gateway]\nworkers = 2", 1);
        format!("{with_workers}resources = {resources}\n")
    };
    Config::parse("site-a.toml", &text(65_533, 2)).expect("ports 65534 and 65535");
    Config::parse("site-a.toml", &text(65_534, 1)).expect("one port is enough");
    let error = errors(&text(65_534, 2));
    assert!(error.contains("port.udp_port: it must be at most 65533"), "{error}");
}
