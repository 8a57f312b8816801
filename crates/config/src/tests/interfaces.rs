//! Tunnels with an inside interface of their own.

use convoy_ipsec::Mode;

use super::errors;
use crate::Config;
use crate::inner_mtu::interface_mtu;

const KEY: &str = "000102030405060708090a0b0c0d0e0f10111213";
const OTHER: &str = "202122232425262728292a2b2c2d2e2f30313233";

/// A gateway with these tables before two tunnels, of which the second has `more`.
fn text(tables: &str, more: &str) -> String {
    let tunnel = |name: &str, spi: u32, keys: [&str; 2], more: &str| {
        format!(
            "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.{spi}\"\n\
             esp_proposal = \"aes128gcm16\"\n{more}\n[tunnel.manual]\nspi_in = 0x1{spi:03}\nspi_out = 0x2{spi:03}\n\
             key_in = \"{}\"\nkey_out = \"{}\"\n",
            keys[0], keys[1]
        )
    };
    let third = "404142434445464748494a4b4c4d4e4f50515253";
    let fourth = "606162636465666768696a6b6c6d6e6f70717273";
    [
        tables,
        "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n",
        &tunnel("a", 2, [KEY, OTHER], "interface = \"ipsec-a\""),
        &tunnel("b", 3, [third, fourth], more),
    ]
    .concat()
}

fn config(tables: &str, more: &str) -> Config {
    Config::parse("test.toml", &text(tables, more)).unwrap_or_else(|errors| panic!("{errors}"))
}

const TABLE: &str = "[[interface]]\nname = \"ipsec-b\"\naddress = [\"169.254.1.1/30\"]\n";

#[test]
fn interfaces_with_a_table_come_first_and_those_that_tunnels_name_behind_them() {
    let config = config(TABLE, "interface = \"ipsec-b\"\nmode = \"iptfs\"\nremote_ts = [\"10.2.0.0/16\"]");
    let names: Vec<&str> = config.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    assert_eq!(names, ["ipsec-b", "ipsec-a"]);
    assert_eq!(
        [None, Some("ipsec-a"), Some("ipsec-x")].map(|name| config.interface_number(name)),
        [Some(0), Some(2), None]
    );
    assert_eq!(config.tunnels[0].remote_ts.len(), 2, "everything of both families");
    assert_eq!(config.tunnels[1].mode, Mode::Iptfs);
    let mtus: Vec<u16> = config.interfaces.iter().map(|it| interface_mtu(&config, it).bytes).collect();
    assert_eq!(mtus, [1_434, 1_438]);
}

#[test]
fn two_tunnels_may_select_everything_on_two_interfaces_but_not_on_one() {
    config("", "interface = \"ipsec-b\"");
    let same = errors(&text("", "interface = \"ipsec-a\""));
    assert!(same.contains("tunnels \"a\" and \"b\" both have 0.0.0.0/0 === 0.0.0.0/0"), "{same}");
}

#[test]
fn what_cannot_be_is_refused_at_its_place() {
    let port = "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"ipsec-a\"\n";
    let clash = errors(&text(port, "interface = \"ipsec-b\""));
    assert!(clash.contains("tunnel.interface: \"ipsec-a\" is a [[port]]"), "{clash}");
    let transport = errors(&text("", "interface = \"ipsec-b\"\nmode = \"transport\""));
    assert!(transport.contains("transport mode carries only packets of the host itself"), "{transport}");
    let number = errors(&text(&format!("{TABLE}if_id = 7\n"), "interface = \"ipsec-b\""));
    assert!(number.contains("interface.if_id: it is only used with charon"), "{number}");
    let twice =
        format!("[gateway]\ncharon = \"/run/c\"\n{TABLE}if_id = 7\n[[interface]]\nname = \"c\"\nif_id = 7\n");
    let twice = errors(&text(&twice, "interface = \"ipsec-b\""));
    assert!(twice.contains("another [[interface]] already has the number 7"), "{twice}");
    let keyless = "[gateway]\ncharon = \"/run/c\"\n[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
                   [[tunnel]]\nname = \"c\"\ninterface = \"ipsec-c\"\n";
    let keyless = errors(keyless);
    assert!(keyless.contains("charon chooses the interface of a child by if_id_in"), "{keyless}");
    let chosen = "[gateway]\ncharon = \"/run/c\"\n[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
                  [[interface]]\nname = \"ipsec-c\"\nif_id = 7\n[[tunnel]]\nname = \"c\"\ninterface = \"ipsec-c\"\n";
    let chosen = Config::parse("a.toml", chosen).expect("charon chooses the interface by its number");
    assert_eq!(chosen.tunnels[0].interface.as_deref(), Some("ipsec-c"));
    let narrow = "[[interface]]\nname = \"ipsec-b\"\naddress = [\"fd00::1/64\"]\nmtu = 1000\n";
    let narrow = errors(&text(narrow, "interface = \"ipsec-b\""));
    assert!(
        narrow.contains("interface.mtu: an interface with an IPv6 address needs an MTU of at least 1280"),
        "{narrow}"
    );
}
