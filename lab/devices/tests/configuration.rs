//! Simulated engines and ports in a configuration.

use convoy_config::{Basis, Config, ConfigErrors};
use convoy_devices::KINDS;
use convoy_devices::card_engine::CardEngineSettings;
use convoy_devices::card_port::{CardSettings, FilterTable};
use convoy_devices::model::ModelSettings;
use convoy_packet::MacAddress;

const GOOD: &str = r#"[gateway]
control = "/tmp/convoy.sock"

[[engine]]
kind = "software"

[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.1.0.1/24"]

[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.1"]

[[tunnel]]
name = "site-b"
local = "192.0.2.1"
remote = "192.0.2.2"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.2.0.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = 0x00001001
spi_out = 0x00001002
key_in = "00112233445566778899aabbccddeeff00112233"
key_out = "ffeeddccbbaa99887766554433221100ffeeddcc"
"#;

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse_at("site-a.toml", text, &Basis::of(&KINDS))
}

fn errors(text: &str) -> String {
    parse(text).expect_err("an error was expected").to_string()
}

/// The valid configuration with one change.
fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

/// Expects this message as the first error of the valid configuration with one change.
fn refused(from: &str, to: &str, message: &str) {
    let text = errors(&changed(from, to));
    let (place, what) = message.split_once(": ").expect("a place");
    assert!(text.starts_with(&format!("site-a.toml:{place}: error: {what}")), "{text}");
}

#[test]
fn product_refuses_simulated_kinds_and_names_the_program_that_has_them() {
    let model = changed("kind = \"software\"", "kind = \"model\"\nt_init_us = 2.0");
    let card = changed("kind = \"udp\"", "kind = \"card\"\ninterface = \"eth1\"");
    for (text, key) in [(model, "engine.kind"), (card, "port.kind")] {
        let reported =
            Config::parse("site-a.toml", &text).expect_err("not a kind of the product").to_string();
        assert!(reported.contains(key) && reported.contains("`convoy-lab run`"), "{reported}");
        assert!(!reported.contains("unknown key"), "its keys are not judged: {reported}");
    }
}

#[test]
fn unknown_kind_is_answered_with_all_kinds() {
    let known = "possible values: software, multibuffer, model, cryptodev, card";
    refused(
        "kind = \"software\"",
        "kind = \"quantum\"",
        &format!("5:8: engine.kind: unknown \"quantum\"; {known}"),
    );
}

#[test]
fn model_has_keys_of_its_own() {
    refused(
        "kind = \"software\"",
        "kind = \"software\"\ndepth = 3",
        "6:9: engine.depth: it is only for kind = \"model\"",
    );
    let model = "kind = \"model\"\nt_init_us = nan";
    refused("kind = \"software\"", model, "6:13: engine.t_init_us: NaN is out of range");
    let bus = "[[bus]]\nname = \"pci\"\nclock_mhz = 66.0\nwidth_bytes = 4\n";
    let model = changed("kind = \"software\"", "kind = \"model\"\nbus = \"pci\"");
    let config = parse(&format!("{model}{bus}")).expect("good");
    let settings: &ModelSettings = config.engines[0].settings.of().expect("a model");
    assert_eq!((settings.bus.as_deref(), config.buses["pci"].clock_mhz), (Some("pci"), 66.0));
    assert!(errors(&model).contains("engine.bus: there is no [[bus]] of this name"));
    let unused = errors(&format!("{GOOD}{bus}"));
    assert!(unused.contains("bus.name: no [[engine]] has bus = \"pci\"; assign an engine to it"), "{unused}");
}

#[test]
fn example_of_a_card_has_the_tunnel_of_the_other_examples() {
    let card = parse(include_str!("../../../examples/card.toml")).expect("good");
    let site = parse(include_str!("../../../examples/site-a.toml")).expect("good");
    assert!(card.tunnels == site.tunnels);
}

#[test]
fn cards_serve_one_worker_each() {
    let two = changed("[gateway]", "[gateway]\nworkers = 2")
        .replace("[[engine]]\nkind = \"software\"\n", &"[[engine]]\nkind = \"card\"\n".repeat(2));
    let workers: Vec<_> = parse(&two).expect("good").engines.iter().map(|engine| engine.worker).collect();
    assert_eq!(workers, [Some(0), Some(1)]);
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
    let config = parse(&changed(udp, &format!("{card}\n{keys}")));
    let port = config.expect("good").ports.pop().expect("two");
    let mac = Some(MacAddress([2, 0, 0x5e, 0x10, 0, 10]));
    let settings =
        CardSettings { interface: "eth1".to_owned(), mac, function: Some(4), ..CardSettings::default() };
    assert_eq!(port.settings.of(), Some(&settings));
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

/// A configuration with a card port that has these tables.
fn with_card(tables: &str) -> String {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
    let card = "kind = \"card\"\ninterface = \"eth1\"\naddress = [\"192.0.2.1/24\"]\n";
    changed(udp, &format!("{card}{tables}"))
}

fn card_settings(tables: &str) -> CardSettings {
    let config = parse(&with_card(tables)).expect("good");
    let port = config.ports.into_iter().find(|port| port.is_outside).expect("one");
    port.settings.of::<CardSettings>().expect("a card").clone()
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
    let reported = |tables: &str, what: &str| {
        let text = errors(&with_card(tables));
        assert!(text.contains(what), "{text}");
    };
    reported(
        &signature("alert tcp any any -> any 80 (pcre:\"x\"; sid:1;)"),
        "port.signature.rule: the card does not know the option \"pcre\"",
    );
    reported(
        &signature("alert icmp any any -> any any (sid:1;)"),
        "expected alert PROTOCOL any any -> any PORT",
    );
    reported("[[port.signature]]\n", "port.signature.rule: it is missing; add rule = 'alert tcp");
    reported(&[signature(one), signature(one)].concat(), "sid 7 is also that of rule 1");
    let long = "0123456789".repeat(26);
    reported(&signature(&format!("alert ip any any -> any any (content:\"{long}\"; sid:1;)")), "261 states");
}

#[test]
fn a_card_engine_may_have_its_function_named() {
    let named = |function: &str| {
        changed("kind = \"software\"", &format!("kind = \"card\"\nfunction = \"{function}\""))
    };
    let functions = [
        "aes256gcm16",
        "aes128ctr-sha1",
        "aes192-sha1",
        "3des-sha1",
        "aes128ctr-sha512",
        "aes192gcm16-unrolled",
    ];
    for (function, id) in functions.iter().zip(1..) {
        let config = parse(&named(function)).expect("good");
        let settings = CardEngineSettings { function: Some(id) };
        assert_eq!(config.engines[0].settings.of(), Some(&settings), "{function}");
    }
    let text = errors(&named("aes128gcm"));
    assert!(text.contains("engine.function: unknown \"aes128gcm\"; did you mean \"aes128gcm16\"?"), "{text}");
}

#[test]
fn page_of_the_devices_is_valid_and_has_every_key() {
    use convoy_settings::Kind;
    let page = include_str!("../../../docs/lab/devices.md");
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let engines = parse(&format!("{}{GOOD}", blocks[0])).expect("good").engines;
    assert_eq!(engines.len(), 3);
    let udp = "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
    parse(&changed(udp, blocks[1])).expect("good");
    let simulated = [KINDS.engines.find("model"), KINDS.engines.find("card")].into_iter().flatten();
    let keys = simulated.flat_map(Kind::keys).chain(KINDS.ports.find("card").expect("a kind").keys());
    for key in keys.filter(|key| !["filter", "signature"].contains(key)) {
        let is_key = |line: &str| line.starts_with(&format!("{key} = "));
        assert!(blocks.iter().flat_map(|block| block.lines()).any(is_key), "{key} is not documented");
    }
}

#[test]
fn card_carries_ike_and_ipv6() {
    let udp = "kind = \"udp\"\naddress = [\"192.0.2.1\"]";
    let card = |keys: &str| changed(udp, &format!("kind = \"card\"\ninterface = \"eth1\"\n{keys}"));
    let charon = card("address = [\"192.0.2.1/24\"]")
        .replace("[gateway]\n", "[gateway]\ncharon = \"/run/charon.sock\"\n")
        .replace("encap = \"udp\"", "encap = \"auto\"");
    parse(&charon).expect("IKE comes by the card");
    let ends = "local = \"192.0.2.1\"\nremote = \"192.0.2.2\"";
    let v6 = card("gateway_v6 = \"fe80::1\"\naddress = [\"2001:db8::1/64\"]")
        .replace(ends, "local = \"2001:db8::1\"\nremote = \"2001:db8::2\"");
    parse(&v6).expect("IPv6 outside");
}

#[test]
fn product_names_the_program_that_has_each_baseline() {
    for baseline in convoy_rivals::baselines() {
        let text = format!("{GOOD}\n[scheduler]\npolicy = \"{}\"\n", baseline.name);
        let error = Config::parse("site-a.toml", &text).expect_err("a gateway has no baselines").to_string();
        assert!(error.contains("run this file by `convoy-lab run`"), "{error}");
        assert!(parse(&text).is_ok_and(|config| config.scheduler.research.heuristic == Some(baseline)));
    }
}
