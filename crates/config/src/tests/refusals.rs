//! Errors of the file as a whole and of its tables except ports, each with its complete message.

use super::{GOOD, changed, errors, refused, refused_with};
use crate::Config;

#[test]
fn errors_in_several_tables_are_reported_at_once() {
    let text = changed("device = ", "devise = ").replace("kind = \"software\"", "kind = 7");
    let text = errors(&format!("{text}[schedular]\nwindow = 1\n"));
    for what in [
        "site-a.toml:10:1: error: port.devise: unknown key; did you mean \"device\"?",
        "site-a.toml:5:8: error: engine.kind: invalid type: integer `7`, expected a string",
        "schedular: unknown table; did you mean \"scheduler\"?",
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
fn a_page_of_metrics_without_an_address_is_refused_and_off_by_default() {
    let gateway = |lines: &str| changed("[gateway]\n", &format!("[gateway]\n{lines}"));
    let address = "metrics = \"127.0.0.1:9464\"\n";
    let has_page = |lines: &str| Config::parse("site-a.toml", &gateway(lines)).expect("good").metrics_page;
    assert!(!has_page(address) && !has_page("metrics_page = false\n"));
    assert!(has_page(&format!("{address}metrics_page = true\n")));
    let text = errors(&gateway("metrics_page = true\n"));
    let what = "gateway.metrics_page: the page is served at the address of gateway.metrics, which is not set";
    assert!(text.contains(what), "{text}");
}

#[test]
fn a_list_written_as_a_table_is_reported_how_to_be_written() {
    refused(
        "[[engine]]",
        "[engine]",
        "4:1: engine: there may be several; write [[engine]], with two brackets",
    );
}

#[test]
fn arguments_after_which_dpdk_ends_the_gateway_are_refused() {
    refused(
        "[[engine]]",
        "[dpdk]\narguments = [\"--no-pci\", \"-h\"]\n[[engine]]",
        "5:26: dpdk.arguments: DPDK prints a help text for \"-h\" and ends the gateway; remove it",
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
    let message = "tunnel.manual.spi_out: SPI 0x00001002 of tunnel \"site-c\" is also used by tunnel \"site-b\"; \
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
        "kind = \"software\"\ndescriptors = 64",
        "6:15: engine.descriptors: it is only for kind = \"cryptodev\"",
    );
    refused(
        "kind = \"software\"",
        "kind = \"software\"\ncore_is_shared = true",
        "6:18: engine.core_is_shared: it is only for an engine with a core",
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
    refused_with("[scheduler]\nwindow_order = \"arrival\"\n", "window_order");
    refused_with("[scheduler]\nlate_margin_us = 9000000\n", "late_margin_us");
    let bus = "[[bus]]\nname = \"pci\"\nclock_mhz = 66.0\nwidth_bytes = 4\n";
    refused_with(
        bus,
        "bus: a bus is simulated, which only the laboratory has: install the package convoy-lab",
    );
    for outer in ["df = \"set\"", "dscp = \"46\"", "ecn = false"] {
        let transport = format!("encap = \"udp\"\nmode = \"transport\"\n{outer}");
        let text = errors(&changed("encap = \"udp\"", &transport));
        let key = &outer[..outer.find(' ').expect("a key")];
        let message = format!("27:{}: error: tunnel.{key}: it is only for mode = \"tunnel\"", key.len() + 4);
        assert!(text.contains(&message), "{text}");
    }
}

#[test]
fn settings_of_iptfs_are_for_that_mode_and_within_their_limits() {
    let with = |tunnel: &str, iptfs: &str| {
        let text = changed("encap = \"udp\"", &format!("encap = \"udp\"\n{tunnel}"));
        text.replace("[tunnel.manual]", &format!("{iptfs}\n[tunnel.manual]"))
    };
    let iptfs = "mode = \"iptfs\"";
    assert!(Config::parse("site-a.toml", &with(iptfs, "[tunnel.iptfs]\npkt_size = 576")).is_ok());
    for (tunnel, keys, message) in [
        ("", "[tunnel.iptfs]", "tunnel.iptfs: it is only for mode = \"iptfs\""),
        (
            iptfs,
            "[tunnel.iptfs]\npkt_size = 100",
            "pkt_size: it must be 0 (the path MTU) or at least 576 bytes",
        ),
        (iptfs, "[tunnel.iptfs]\nreorder_window = 257", "tunnel.iptfs.reorder_window"),
        (iptfs, "[tunnel.iptfs]\nmax_queue_size = 9", "it is only for a constant rate (packet_rate)"),
        (iptfs, "[tunnel.iptfs]\npacket_rate = 9\ninit_delay = 1", "it has no effect at a constant rate"),
        ("mode = \"iptfs\"\ntfc_bytes = 9", "", "padding is only for ESP in tunnel mode"),
        ("mode = \"iptfs\"\necn = true", "", "with \"iptfs\" the outer header has no ECN"),
        ("mode = \"iptfs\"\nprotocol = \"ah\"", "", "AH has no AGGFRAG mode"),
    ] {
        let text = errors(&with(tunnel, keys));
        assert!(text.contains(message), "{text}");
    }
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
        text.contains("engine: worker 1 has no engine; add one without core, or one with worker = 1"),
        "{text}"
    );
    let text = errors(&with(&format!("{pinned}worker = 2\n")));
    assert!(text.contains("engine.worker: 2 is"), "{text}");
    let text = errors(&with("[[engine]]\nkind = \"software\"\nworker = 1\n"));
    assert!(text.contains("engine.worker: it is only for engines with their own core or device"), "{text}");
    let two = format!("{pinned}{}", pinned.replace("= 1", "= 0"));
    assert_eq!(workers_of(&two), [Some(0), Some(1)], "a core for each");
    let capture = changed("kind = \"tun\"\ndevice = \"convoy0\"", "kind = \"pcap\"\nread = \"a.pcap\"");
    let text = errors(&two_workers(capture));
    assert!(text.contains("port.kind: it has one queue; set workers = 1"), "{text}");
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
    assert!(text.contains("engine.device: remove ordering=enable"), "{text}");
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let text = changed("device = \"convoy0\"", "devise = \"convoy0\"\nside = 7")
        .replace("kind = \"udp\"", "kind = \"udb\"")
        .replace("encap = \"udp\"", "encap = \"upd\"\nesn = 1\nmod = \"tunnel\"")
        .replace("spi_in = 0x00001001", "spi_in = 1")
        .replace("remote = \"192.0.2.2\"\n", "");
    let reported = Config::parse("site-a.toml", &text).expect_err("many errors").0;
    let shown: Vec<String> = reported.iter().map(|it| format!("{} {}", it.key, it.what)).collect();
    let expected = [
        "port.devise unknown key; did you mean \"device\"?",
        "port.side invalid type: integer `7`, expected a string",
        "port.kind unknown \"udb\"; did you mean \"udp\"?",
        "tunnel.remote it is missing; add remote = \"192.0.2.2\"",
        "tunnel.encap unknown \"upd\"; did you mean \"udp\"?",
        "tunnel.esn invalid type: integer `1`, expected a boolean",
        "tunnel.mod unknown key; did you mean \"mode\"?",
        "tunnel.manual.spi_in SPI 0x00000001 is reserved",
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown}\nwas to be\n{expected}");
    }
}

#[test]
fn ipv6_inside_needs_an_mtu_that_carries_it() {
    let v6 = changed("10.1.0.1/24\"", "10.1.0.1/24\", \"fd00:1::1/64\"");
    let with = |mtu: u16| v6.replacen("[gateway]\n", &format!("[gateway]\nmtu = {mtu}\n"), 1);
    let text = errors(&with(1300));
    assert!(text.starts_with("site-a.toml:2:7: error: gateway.mtu: it leaves "), "{text}");
    let least =
        text.split("needs 1280; use ").nth(1).and_then(|rest| rest.split(' ').next()).expect("the least");
    let least: u16 = least.parse().expect("a number");
    let config = Config::parse("site-a.toml", &with(least)).expect("enough");
    assert!(crate::inner_mtu::inner_mtu(&config).bytes >= 1280);
    assert!(errors(&with(least - 1)).contains("needs 1280"));
    let v4 = GOOD.replacen("[gateway]\n", "[gateway]\nmtu = 1300\n", 1);
    assert!(Config::parse("site-a.toml", &v4).is_ok(), "IPv4 alone may have less");
}
