//! What is refused, each with its whole message.

use convoy_packet::MacAddress;
use convoy_port::{CardSettings, DpdkSettings, PortSettings};

use super::{GOOD, changed, errors};
use crate::config::Config;
use crate::config::file::File;

/// The good configuration with one thing changed is refused with this message, first.
fn refused(from: &str, to: &str, message: &str) {
    let text = errors(&changed(from, to));
    let (place, what) = message.split_once(": ").expect("a place");
    assert!(text.starts_with(&format!("site-a.toml:{place}: error: {what}")), "{text}");
}

/// The same with lines at its end.
fn refused_with(lines: &str, message: &str) {
    let text = errors(&format!("{GOOD}{lines}"));
    assert!(text.contains(message), "{text}");
}

#[test]
fn errors_in_several_tables_are_told_at_once() {
    let text = changed("device = ", "devise = ").replace("kind = \"software\"", "kind = 7");
    let text = errors(&format!("{text}[schedular]\nwindow = 1\n"));
    for what in [
        "site-a.toml:10:1: error: port.devise: there is no such key; did you mean \"device\"?",
        "site-a.toml:5:8: error: engine.kind: invalid type: integer `7`, expected a string",
        "schedular: there is no such table; did you mean \"scheduler\"?",
    ] {
        assert!(text.contains(what), "{text}");
    }
}

#[test]
fn a_flow_cache_is_a_power_of_two_within_bounds() {
    let gateway = |flows: &str| changed("[gateway]\n", &format!("[gateway]\nflow_cache = {flows}\n"));
    assert_eq!(Config::parse("site-a.toml", &gateway("4096")).expect("good").flow_cache, 4_096);
    let text = errors(&gateway("10000"));
    let what = "gateway.flow_cache: 10000 is not a power of two; the nearest are 8192 and 16384";
    assert!(text.contains(what), "{text}");
    for flows in ["32", "2097152"] {
        let text = errors(&gateway(flows));
        assert!(text.contains("out of range; it must be 64 to 1048576"), "{text}");
    }
}

#[test]
fn a_list_written_as_a_table_is_told_how_to_be_written() {
    refused(
        "[[engine]]",
        "[engine]",
        "4:1: engine: there may be several; write [[engine]], with two brackets",
    );
}

#[test]
fn broken_toml_is_shown_at_its_place() {
    refused("name = \"site-b\"", "name = site-b", "19:8: tunnel.name: ");
}

#[test]
fn keys_are_in_no_message_wherever_they_are_written() {
    let key = "00112233445566778899aabbccddeeff00112233";
    for text in [
        changed("spi_in = 0x00001001", &format!("spi_in = \"{key}\"")),
        changed("key_in = ", "kee_in = "),
        changed(&format!("key_in = \"{key}\""), &format!("key_in = \"{key}")),
        changed("spi_in = 0x00001001", "spi_in = 7"),
        changed(&format!("key_in = \"{key}\""), &format!("key_in = \"\"\"\n{key}00\"\"\"")),
        changed("[tunnel.manual]", &format!("{key} = 1\n[tunnel.manual]")),
    ] {
        let shown = errors(&text);
        assert!(!shown.contains("00112233"), "{shown}");
    }
}

#[test]
fn outbound_spis_of_one_peer_must_differ_too() {
    let tunnel = &GOOD[GOOD.find("[[tunnel]]").expect("a tunnel")..];
    let second = tunnel.replace("site-b", "site-c").replace("0x00001001", "0x00001003");
    let message = "tunnel.manual.spi_out: SPI 0x00001002 of tunnel \"site-c\" is also that of tunnel \"site-b\"; \
                   give one of them another";
    refused_with(&second, message);
    let elsewhere = second.replace("192.0.2.2", "192.0.2.3").replace("10.2.0.0", "10.3.0.0");
    let elsewhere = elsewhere.replace("001122", "101122").replace("ffeedd", "efeedd");
    assert!(Config::parse("site-a.toml", &format!("{GOOD}{elsewhere}")).is_ok());
}

#[test]
fn what_would_be_ignored_is_refused() {
    refused(
        "kind = \"software\"",
        "kind = \"software\"\ndepth = 4",
        "6:9: engine.depth: it is only for kind = \"model\"",
    );
    refused(
        "kind = \"software\"",
        "kind = \"model\"\ncore = 1",
        "6:8: engine.core: it is only for kind = \"software\" or \"multibuffer\"",
    );
    refused(
        "device = \"convoy0\"",
        "device = \"convoy0\"\nudp_port = 1",
        "11:12: port.udp_port: it is only for kind = \"udp\"",
    );
    refused(
        "encap = \"udp\"",
        "encap = \"udp\"\nmode = \"transport\"\ntfc_bytes = 9",
        "22:12: tunnel.local_ts: in transport",
    );
    refused_with("[scheduler]\nfull_queue = \"drop\"\n", "unknown value \"drop\"; one of wait, skip");
    refused_with("[scheduler]\ndepth_unit = \"bytes\"\n", "one of multi-packets, packets");
    refused_with("[scheduler]\nlate_margin_us = 9000000\n", "late_margin_us");
    refused_with("[scheduler]\npacket_size_threshold = 9\n", "it is only for policy = \"packet-size\"");
    let bus = "[[bus]]\nname = \"pci\"\nclock_mhz = 66.0\nwidth_bytes = 4\n";
    refused_with(bus, "bus.name: no [[engine]] has bus = \"pci\"; assign an engine to it, or remove it");
    for outer in ["df = \"set\"", "dscp = \"46\"", "ecn = false"] {
        let transport = format!("encap = \"udp\"\nmode = \"transport\"\n{outer}");
        let text = errors(&changed("encap = \"udp\"", &transport));
        let key = &outer[..outer.find(' ').expect("a key")];
        let message = format!("27:{}: error: tunnel.{key}: it is only for mode = \"tunnel\"", key.len() + 4);
        assert!(text.contains(&message), "{text}");
    }
}

#[test]
fn a_port_in_memory_is_for_tests_alone() {
    refused("kind = \"udp\"", "kind = \"memory\"", "15:8: port.kind: unknown \"memory\"; there are tun, udp");
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
    let config = Config::parse("test.toml", &changed(udp, &format!("{card}\nmac = \"02:00:5e:10:00:0A\"")));
    let port = config.expect("good").ports.pop().expect("two");
    let mac = Some(MacAddress([2, 0, 0x5e, 0x10, 0, 10]));
    let settings = CardSettings { interface: "eth1".to_owned(), gateway: None, mac };
    assert_eq!(port.settings, PortSettings::Card(settings));
    holds("kind = \"card\"\ninterface = \"eth1\"", "15:8: error: port.kind: a card port needs interface");
    let named = changed(udp, card).replace("[[engine]]", "[[engine]]\nname = \"outside\"");
    let text = errors(&named);
    assert!(text.contains("port.name: \"outside\" is an engine's name too"), "{text}");
    holds(&card.replace("192.0.2.1/24", "fd00::1/64"), "port.address: this kind of port has IPv4 addresses");
    for mac in [
        "03:00:5e:10:00:01",
        "02:00:5e:10:00",
        "02:00:5e:10:00:001",
        "00:00:00:00:00:00",
        "02:00:5e:10:00:+1",
    ] {
        holds(&format!("{card}\nmac = \"{mac}\""), "is not a MAC address");
    }
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
fn transport_mode_protects_the_two_ends_alone() {
    let text = changed("encap = \"udp\"", "encap = \"udp\"\nmode = \"transport\"");
    let shown = errors(&text);
    let message = "tunnel.local_ts: in transport mode packets go between the two ends themselves; write \
                   [\"192.0.2.1\"]";
    assert!(shown.contains(message), "{shown}");
    let text =
        text.replace("10.1.0.0/24\"]\nremote", "192.0.2.1\"]\nremote").replace("10.2.0.0/24", "192.0.2.2");
    assert!(Config::parse("site-a.toml", &text).is_ok());
}

#[test]
fn numbers_have_their_range() {
    for (lines, message) in [
        ("window = 0", "scheduler.window: 0 is out of range; it must be 1 to 1024"),
        ("window = 1025", "scheduler.window: 1025 is out of range; it must be 1 to 1024"),
        ("max_wait_us = 9000000000000000000", "scheduler.max_wait_us: ... is out of range"),
        ("window_min = 64", "window = 32 must lie between window_min = 64 and window_max = 1024"),
        ("classes = 9", "scheduler.classes: 9 is out of range; it must be 1 to 8"),
        ("classes = 2\nweights = [1]", "scheduler.weights: give one weight for each class"),
        ("classes = 2\ndscp = { 46 = 2 }", "scheduler.dscp.46: 2 is out of range; it must be 0 to 1"),
        ("classes = 2\ndscp = { ef = 0 }", "scheduler.dscp.ef: a DSCP is a number from 0 to 63"),
    ] {
        refused_with(&format!("[scheduler]\n{lines}\n"), message);
    }
    let model = "kind = \"model\"\nt_init_us = nan";
    refused("kind = \"software\"", model, "6:13: engine.t_init_us: NaN is out of range");
    refused(
        "encap = \"udp\"",
        "encap = \"udp\"\nesn = true\nreplay_window = 0",
        "27:17: tunnel.replay_window: ESN",
    );
}

#[test]
fn a_soft_lifetime_must_come_before_the_hard_one() {
    let lifetimes = "soft = { packets = 10 }\nhard = { packets = 10 }\nencap = \"udp\"";
    refused("encap = \"udp\"", lifetimes, "25:8: tunnel.soft: each soft limit must be below the hard one");
}

#[test]
fn dscps_choose_their_class_and_the_rest_is_the_lowest() {
    let text = format!("{GOOD}[scheduler]\nclasses = 3\ndscp = {{ 46 = 0, 26 = 1 }}\n");
    let classes = Config::parse("site-a.toml", &text).expect("good").classes;
    assert_eq!([46, 26, 0].map(|dscp: u8| classes.class_of(dscp << 2)), [0, 1, 2]);
}

#[test]
fn workers_share_what_can_be_shared() {
    let two_workers = |text: String| text.replacen("[gateway]\n", "[gateway]\nworkers = 2\n", 1);
    let with = |engines: &str| two_workers(changed("[[engine]]\nkind = \"software\"\n", engines));
    let pinned = "[[engine]]\nkind = \"multibuffer\"\ncore = 1\n";
    let workers_of = |text: &str| -> Vec<Option<u16>> {
        let config = Config::parse("site-a.toml", &with(text)).expect("good");
        config.engines.iter().map(|engine| engine.worker).collect()
    };
    assert_eq!(workers_of(pinned), [None], "one core for both workers");
    assert_eq!(workers_of(&pinned.replace("multibuffer", "software")), [None]);
    let text = errors(&with(&format!("{pinned}worker = 0\n")));
    assert!(
        text.contains("engine: worker 1 has none; add one without core, or one with worker = 1"),
        "{text}"
    );
    let text = errors(&with(&format!("{pinned}worker = 2\n")));
    assert!(text.contains("engine.worker: 2 is"), "{text}");
    let text = errors(&with("[[engine]]\nkind = \"software\"\nworker = 1\n"));
    assert!(text.contains("engine.worker: it is only for engines with their own core or device"), "{text}");
    let two = format!("{pinned}{}", pinned.replace("= 1", "= 0"));
    assert_eq!(workers_of(&two), [Some(0), Some(1)], "a core for each");
    let two = Config::parse("site-a.toml", &with(&"[[engine]]\nkind = \"card\"\n".repeat(2)));
    let dealt: Vec<_> = two.expect("good").engines.iter().map(|engine| engine.worker).collect();
    assert_eq!(dealt, [Some(0), Some(1)]);
    let capture = changed("kind = \"tun\"\ndevice = \"convoy0\"", "kind = \"pcap\"\nread = \"a.pcap\"");
    let text = errors(&two_workers(capture));
    assert!(text.contains("port.kind: it has one queue; set workers = 1"), "{text}");
}

#[test]
fn a_dpdk_port_has_a_device_and_addresses_and_no_ike() {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    let dpdk = "kind = \"dpdk\"\ndevice = \"net_ring0\"\naddress = [\"192.0.2.1/24\"]";
    let config = Config::parse("test.toml", &changed(udp, dpdk)).expect("good");
    let settings =
        DpdkSettings { device: "net_ring0".to_owned(), gateway: None, mac: None, descriptors: 1024 };
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
        "port.device: \"net_ring_of_18_let\" has 18 characters, and DPDK makes no net_ring device whose name has more than 17",
    );
    let longest = dpdk.replace("net_ring0", "net_ring_of_17_ch");
    Config::parse("test.toml", &changed(udp, &longest)).expect("17 characters are possible");
    holds(&dpdk.replace("192.0.2.1/24", "fd00::1/64"), "this kind of port has IPv4 addresses of its own");
    holds(&format!("{dpdk}\ndescriptors = 63"), "port.descriptors: 63 is out of range");
    holds(&format!("{dpdk}\nmac = \"03:00:5e:10:00:01\""), "is not a MAC address");
    let second = format!("{dpdk}\n[[port]]\nname = \"other\"\nkind = \"raw\"\naddress = [\"192.0.2.1\"]");
    holds(&second, "a dpdk port must be the only outside port");
    let with_charon = changed(udp, dpdk).replace("[gateway]\n", "[gateway]\ncharon = \"/run/charon.sock\"\n");
    let text = errors(&with_charon);
    assert!(text.contains("a port of kind \"dpdk\" does not carry IKE"), "{text}");
}

#[test]
fn ipv6_behind_a_port_for_ipv4_alone_is_refused() {
    let tun = "kind = \"tun\"\ndevice = \"convoy0\"";
    let inside = changed(tun, "kind = \"dpdk\"\ndevice = \"net_ring0\"");
    Config::parse("test.toml", &inside).expect("IPv4 selectors fit");
    for (key, v4, both) in [
        ("local_ts", "[\"10.1.0.0/24\"]", "[\"10.1.0.0/24\", \"fd00:1::/64\"]"),
        ("remote_ts", "[\"10.2.0.0/24\"]", "[\"fd00:2::/64\", \"10.2.0.0/24\"]"),
    ] {
        let (v4, both) = (format!("{key} = {v4}"), format!("{key} = {both}"));
        let text = errors(&inside.replace(&v4, &both));
        let told = format!(
            "tunnel.{key}: no IPv6 packet comes or goes by port \"inside\", whose kind \"dpdk\" is for IPv4 alone"
        );
        assert!(text.contains(&told) && text.matches("error").count() <= 1, "{text}");
        // It may cross a DPDK port outside, in a tunnel of IPv4.
        let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
        let outside = changed(udp, "kind = \"dpdk\"\ndevice = \"net_ring0\"\naddress = [\"192.0.2.1/24\"]");
        Config::parse("test.toml", &outside.replace(&v4, &both)).expect("tun carries IPv6");
    }
}

#[test]
fn a_tunnel_by_ipv6_over_a_port_for_ipv4_alone_is_refused() {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    let outside = changed(udp, "kind = \"dpdk\"\ndevice = \"net_ring0\"\naddress = [\"192.0.2.1/24\"]");
    let ends = "local = \"192.0.2.1\"\nremote = \"192.0.2.2\"";
    let text = errors(&outside.replace(ends, "local = \"2001:db8::1\"\nremote = \"2001:db8::2\""));
    assert!(
        text.contains("tunnel.local: port \"outside\" is of kind \"dpdk\", which is for IPv4 alone"),
        "{text}"
    );
}

#[test]
fn dpdk_s_scheduler_device_is_not_asked_for_order() {
    let engine = |device: &str| {
        let device =
            format!("kind = \"cryptodev\"\ndevice = \"crypto_scheduler0,worker=crypto_aesni_mb0{device}\"");
        changed("kind = \"software\"", &device)
    };
    Config::parse("test.toml", &engine(",mode=round-robin")).expect("without order");
    let text = errors(&engine(",mode=round-robin,ordering=enable"));
    assert!(text.contains("engine.device: leave ordering=enable out"), "{text}");
}

#[test]
fn the_whole_of_what_is_documented_is_read() {
    let text = include_str!("documented.toml");
    let config = Config::parse("documented.toml", text).expect("good");
    assert_eq!((config.engines.len(), config.ports.len(), config.tunnels.len()), (2, 2, 1));
}

#[test]
fn every_key_is_in_the_documentation_and_is_read_there() {
    let text = include_str!("../../../../../docs/configuration.md");
    let block =
        |at| text.split("```toml\n").nth(at).and_then(|rest| rest.split("```").next()).expect("a block");
    let (toml, card, dpdk) = (block(1), block(2), block(3));
    let config = Config::parse("configuration.md", toml).expect("good");
    assert_eq!((config.engines.len(), config.ports.len(), config.tunnels.len()), (5, 3, 1));
    let udp = "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
    Config::parse("configuration.md", &changed(udp, card)).expect("good");
    Config::parse("configuration.md", &changed(udp, dpdk)).expect("good");
    let shown_elsewhere = ["read", "write", "side"];
    for key in File::keys().filter(|key| !shown_elsewhere.contains(key)) {
        let is_there = toml.lines().chain(card.lines()).chain(dpdk.lines()).any(|line| {
            line.starts_with(&format!("{key} = "))
                || line.contains(&format!("{key}]"))
                || line.contains(&format!(" {key} = "))
        });
        assert!(is_there, "{key} is not documented");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let text = changed("device = \"convoy0\"", "devise = \"convoy0\"\nside = 7")
        .replace("kind = \"udp\"", "kind = \"udb\"")
        .replace("encap = \"udp\"", "encap = \"upd\"\nesn = 1\nmod = \"tunnel\"")
        .replace("spi_in = 0x00001001", "spi_in = 1")
        .replace("remote = \"192.0.2.2\"\n", "");
    let told = Config::parse("site-a.toml", &text).expect_err("many errors").0;
    let shown: Vec<String> = told.iter().map(|it| format!("{} {}", it.key, it.what)).collect();
    let expected = [
        "port.devise there is no such key; did you mean \"device\"?",
        "port.side invalid type: integer `7`, expected a string",
        "port.kind unknown \"udb\"; did you mean \"udp\"?",
        "tunnel.remote it is missing; add remote = \"192.0.2.2\"",
        "tunnel.encap unknown \"upd\"; did you mean \"udp\"?",
        "tunnel.esn invalid type: integer `1`, expected a boolean",
        "tunnel.mod there is no such key; did you mean \"mode\"?",
        "tunnel.manual.spi_in SPI 0x00000001 is reserved",
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown}\nwas to be\n{expected}");
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
    let message = "10:10: port.device: \"convoy0123456789\" has 16 bytes; an interface's name has 15 at most";
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
fn ipv6_inside_needs_an_mtu_that_carries_it() {
    let v6 = changed("10.1.0.1/24\"", "10.1.0.1/24\", \"fd00:1::1/64\"");
    let with = |mtu: u16| v6.replacen("[gateway]\n", &format!("[gateway]\nmtu = {mtu}\n"), 1);
    let text = errors(&with(1300));
    assert!(text.starts_with("site-a.toml:2:7: error: gateway.mtu: it leaves "), "{text}");
    let least = text.split("needs 1280; ").nth(1).and_then(|rest| rest.split(' ').next()).expect("the least");
    let least: u16 = least.parse().expect("a number");
    let config = Config::parse("site-a.toml", &with(least)).expect("enough");
    assert!(crate::inner_mtu::inner_mtu(&config).bytes >= 1280);
    assert!(errors(&with(least - 1)).contains("needs 1280"));
    let v4 = GOOD.replacen("[gateway]\n", "[gateway]\nmtu = 1300\n", 1);
    assert!(Config::parse("site-a.toml", &v4).is_ok(), "IPv4 alone may have less");
}

#[test]
fn a_file_without_ports_is_warned_of() {
    let tunnel = &GOOD[GOOD.find("[[tunnel]]").expect("a tunnel")..];
    let config = Config::parse("a.toml", tunnel).expect("good for replay");
    let told = config.warnings[0].to_string();
    assert!(told.starts_with("a.toml: warning: there is no [[port]]: this is for `convoy replay`"), "{told}");
}

#[test]
fn a_bus_is_written_as_in_the_simulators_platforms() {
    for text in [
        include_str!("../../../../../platforms/grip.toml"),
        include_str!("../../../../../platforms/pci-accelerators.toml"),
    ] {
        let platform = convoy_sim::Platform::from_toml("platform.toml", text).expect("good");
        let start = text.find("[[bus]]").expect("a bus");
        let bus = &text[start..start + text[start..].find("[[processor]]").expect("it ends")];
        let engine = "[[engine]]\nkind = \"model\"\nname = \"far\"\nbus = \"pci\"\n";
        let config = Config::parse("site-a.toml", &format!("{GOOD}{bus}{engine}")).expect("good");
        assert_eq!(config.buses["pci"], platform.buses[0]);
    }
}
