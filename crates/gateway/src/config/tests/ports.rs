//! Rejected ports, and tunnels that do not fit their ports.

use convoy_packet::MacAddress;
use convoy_port::{CardSettings, DpdkSettings, FilterTable, PortSettings};

use super::{GOOD, changed, errors, refused};
use crate::config::Config;

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
fn a_card_port_has_a_line_and_addresses_and_stands_alone() {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    let card = "kind = \"card\"\ninterface = \"eth1\"\naddress = [\"192.0.2.1/24\"]";
    let holds = |to: &str, what: &str| {
        let text = errors(&changed(udp, to));
        assert!(text.contains(what), "{text}");
    };
    let keys = "mac = \"02:00:5e:10:00:0A\"\nfunction = \"3des-sha1\"";
    let config = Config::parse("test.toml", &changed(udp, &format!("{card}\n{keys}")));
    let port = config.expect("good").ports.pop().expect("two");
    let mac = Some(MacAddress([2, 0, 0x5e, 0x10, 0, 10]));
    let settings =
        CardSettings { interface: "eth1".to_owned(), mac, function: Some(4), ..CardSettings::default() };
    assert_eq!(port.settings, PortSettings::Card(settings));
    holds("kind = \"card\"\ninterface = \"eth1\"", "15:8: error: port.kind: a card port needs interface");
    let named = changed(udp, card).replace("[[engine]]", "[[engine]]\nname = \"outside\"");
    let text = errors(&named);
    assert!(text.contains("port.name: \"outside\" is also the name of an engine"), "{text}");
    let v6 = card.replace("192.0.2.1/24", "fd00::1/64");
    holds(&v6, "tunnel.local: port \"outside\" has no address 192.0.2.1; it has fd00::1");
    for mac in [
        "03:00:5e:10:00:01",
        "02:00:5e:10:00",
        "02:00:5e:10:00:001",
        "00:00:00:00:00:00",
        "02:00:5e:10:00:+1",
    ] {
        holds(&format!("{card}\nmac = \"{mac}\""), "is not a MAC address");
    }
    holds(
        &format!("{card}\nfunction = \"3des-sha2\""),
        "port.function: unknown \"3des-sha2\"; did you mean \"3des-sha1\"? Possible values: aes128gcm16",
    );
    holds(&format!("{card}\ngateway = \"fd00::1\""), "port.gateway: \"fd00::1\" is not an IPv4 address");
    holds(
        &format!("{udp}\ninterface = \"eth1\""),
        "port.interface: it is only for kind = \"af_xdp\" or \"af_packet\" or \"card\"",
    );
    let second = format!("{udp}\n[[port]]\nname = \"line\"\n{card}");
    holds(&second, "port: a card port must be the only outside port");
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
    assert_eq!(config.ports[1].settings, PortSettings::Dpdk(settings));
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
    let PortSettings::Dpdk(DpdkSettings { gateway, gateway_v6, .. }) = &config.ports[1].settings else {
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
        ("card", format!("{interface}\naddress = [\"192.0.2.1/24\"]")),
    ] {
        Config::parse("test.toml", &with(&format!("kind = \"{kind}\"\n{keys}"))).expect(kind);
    }
    let text = errors(&with("kind = \"raw\"\naddress = [\"192.0.2.1\"]"));
    let kinds = "\"udp\", \"af_packet\", \"af_xdp\", \"dpdk\" or \"card\", and there is none";
    assert!(text.contains(&format!("IKE needs an outside port of kind {kinds}")), "{text}");
}

#[test]
fn a_dpdk_port_carries_ipv6_on_both_sides_and_a_card_outside() {
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
    for kind in [
        "kind = \"dpdk\"\ndevice = \"net_ring0\"",
        "kind = \"card\"\ninterface = \"eth1\"\ngateway_v6 = \"fe80::1\"",
    ] {
        let outside = changed(udp, &format!("{kind}\naddress = [\"2001:db8::1/64\"]"));
        let ends = "local = \"192.0.2.1\"\nremote = \"192.0.2.2\"";
        let outside = outside.replace(ends, "local = \"2001:db8::1\"\nremote = \"2001:db8::2\"");
        Config::parse("test.toml", &outside).expect("IPv6 outside");
    }
}

#[test]
fn a_wrong_kind_is_one_error() {
    for (from, to) in
        [("kind = \"tun\"", "kind = \"tum\""), ("kind = \"udp\"", "kind = 7"), ("kind = \"udp\"\n", "")]
    {
        let told = Config::parse("site-a.toml", &changed(from, to)).expect_err("one error").0;
        assert!(told.len() == 1 && told[0].key == "port.kind", "{told:#?}");
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
    let told = config.warnings[0].to_string();
    assert!(told.starts_with("a.toml: warning: there is no [[port]], so only `convoy replay`"), "{told}");
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

/// A configuration with a card port that has these tables.
fn with_card(tables: &str) -> String {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
    let card = "kind = \"card\"\ninterface = \"eth1\"\naddress = [\"192.0.2.1/24\"]\n";
    changed(udp, &format!("{card}{tables}"))
}

fn card_settings(tables: &str) -> CardSettings {
    let config = Config::parse("test.toml", &with_card(tables)).expect("good");
    match config.ports.into_iter().find(|port| port.is_outside).expect("one").settings {
        PortSettings::Card(settings) => settings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rules_of_a_card_keep_their_order_and_their_directions() {
    let filters = card_settings(
        "filter_default = \"drop\"\n\
         [[port.filter]]\nsource = \"10.2.0.9\"\nprotocol = \"icmp\"\naction = \"drop\"\ndirection = \"in\"\n\
         [[port.filter]]\nprotocol = \"50\"\naction = \"accept\"\n\
         [[port.filter]]\ndestination = \"fd00::/64\"\nprotocol = \"udp\"\ndestination_port = 53\n\
         action = \"accept\"\ndirection = \"out\"\n",
    )
    .checks;
    let names = |table: &FilterTable| {
        table.rules.iter().map(|rule| (rule.name.clone(), rule.accepts)).collect::<Vec<_>>()
    };
    assert_eq!(names(&filters.inbound), [("1".to_owned(), false), ("2".to_owned(), true)]);
    assert_eq!(names(&filters.outbound), [("2".to_owned(), true), ("3".to_owned(), true)]);
    assert!(!filters.inbound.accepts_rest && !filters.outbound.accepts_rest);
    let ping = &filters.inbound.rules[0];
    assert_eq!((ping.source, ping.protocol), (Some(([10, 2, 0, 9].into(), 32)), Some(1)));
    let dns = &filters.outbound.rules[1];
    assert_eq!((dns.protocol, dns.destination_port, dns.source_port), (Some(17), Some(53), None));
    assert!(card_settings("checksum = true\n").checks.checksum && !card_settings("").checks.checksum);
    assert!(card_settings("").checks.inbound.is_open(), "without rules, everything passes");
}

#[test]
fn rules_that_a_card_cannot_apply_are_refused() {
    let holds = |rule: &str, what: &str| {
        let text = errors(&with_card(&format!("[[port.filter]]\n{rule}\n")));
        assert!(text.contains(what), "{rule}: {text}");
    };
    let drop = "action = \"drop\"";
    holds(
        "source = \"10.1.0.0/16\"",
        "port.filter.action: it is missing; add action = \"drop\" or \"accept\"",
    );
    holds("action = \"reject\"", "port.filter.action: unknown \"reject\"; possible values: accept, drop");
    holds(&format!("{drop}\ndirection = \"inside\""), "port.filter.direction: unknown \"inside\"");
    holds(
        &format!("{drop}\nprotocol = \"tpc\""),
        "port.filter.protocol: unknown \"tpc\"; did you mean \"tcp\"?",
    );
    holds(&format!("{drop}\nprotocol = \"256\""), "or a number up to 255 as text");
    holds(
        &format!("{drop}\nsource_port = 53"),
        "port.filter.source_port: only TCP and UDP have ports; add protocol",
    );
    holds(
        &format!("{drop}\nprotocol = \"icmp\"\ndestination_port = 53"),
        "port.filter.destination_port: only TCP and UDP have ports",
    );
    holds(
        &format!("{drop}\nprotocol = \"tcp\"\nsource_port = 0"),
        "0 is out of range; it must be 1 to 65535",
    );
    holds(&format!("{drop}\nsource = \"10.1.0.7/16\""), "has bits behind its prefix; write 10.1.0.0/16");
    holds(
        &format!("{drop}\nsource = \"10.1.0.0/16\"\ndestination = \"fd00::/64\""),
        "source and destination must both be IPv4 or both be IPv6",
    );
    holds(&format!("{drop}\nport = 53"), "port.filter.port: unknown key");
    let text = errors(&with_card("filter_default = \"reject\"\n"));
    assert!(text.contains("port.filter_default: unknown \"reject\""), "{text}");
    let text = errors(&with_card(&"[[port.filter]]\naction = \"drop\"\n".repeat(17)));
    assert!(text.contains("the card has room for 16 rules for what comes, and this is one more"), "{text}");
    assert_eq!(text.matches("room for 16").count(), 2, "once for each direction");
    let sixteen_each = ["in", "out"]
        .map(|way| format!("[[port.filter]]\naction = \"drop\"\ndirection = \"{way}\"\n").repeat(16));
    assert_eq!(card_settings(&sixteen_each.concat()).checks.outbound.rules.len(), 16);
    let of_udp = changed("kind = \"udp\"\n", "kind = \"udp\"\nfilter_default = \"drop\"\n");
    assert!(errors(&of_udp).contains("port.filter_default: it is only for kind = \"card\""));
}

#[test]
fn signatures_of_a_card_are_compiled_and_wrong_ones_refused() {
    let signature = |rule: &str| format!("[[port.signature]]\nrule = '{rule}'\n");
    let (one, two) = (
        "alert tcp any any -> any 80 (content:\"x\"; sid:7;)",
        "alert ip any any -> any any (content:\"y\"; sid:8;)",
    );
    let checks = card_settings(&[signature(one), signature(two)].concat()).checks;
    assert_eq!(checks.signatures.signatures().iter().map(|rule| rule.sid).collect::<Vec<_>>(), [7, 8]);
    let told = |tables: &str, what: &str| {
        let text = errors(&with_card(tables));
        assert!(text.contains(what), "{text}");
    };
    told(
        &signature("alert tcp any any -> any 80 (pcre:\"x\"; sid:1;)"),
        "port.signature.rule: the card does not know the option \"pcre\"",
    );
    told(&signature("alert icmp any any -> any any (sid:1;)"), "expected alert PROTOCOL any any -> any PORT");
    told("[[port.signature]]\n", "port.signature.rule: it is missing; add rule = 'alert tcp");
    told(&[signature(one), signature(one)].concat(), "sid 7 is also that of rule 1");
    let long = "0123456789".repeat(26);
    told(&signature(&format!("alert ip any any -> any any (content:\"{long}\"; sid:1;)")), "261 states");
}
