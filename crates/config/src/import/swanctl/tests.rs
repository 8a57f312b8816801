//! swanctl.conf in the forms that strongSwan documents, and what of it is left out.

use std::path::Path;

use super::*;
use crate::Config;
use crate::import::{ImportFormat, Imported, import};
use convoy_settings::Nowhere;

fn imported(text: &str) -> Imported {
    let source = ImportSource::new(Path::new("swanctl.conf"), text);
    import(&source, Some(ImportFormat::Swanctl), &Nowhere).unwrap_or_else(|error| panic!("{error}"))
}

fn config(imported: &Imported) -> Config {
    Config::parse("convoy.toml", &imported.convoy)
        .unwrap_or_else(|errors| panic!("{errors}\n{}", *imported.convoy))
}

fn left(imported: &Imported) -> String {
    imported.left.iter().map(|finding| format!("{finding}\n")).collect()
}

const SITE: &str = "connections {
  site {
    version = 2
    local_addrs = 192.0.2.1
    remote_addrs = 192.0.2.2
    encap = yes
    local { auth = psk }
    remote { auth = psk }
    children {
      net {
        local_ts = 10.1.0.0/24, fd00:1::/64
        remote_ts = 10.2.0.0/24, fd00:2::/64
        esp_proposals = aes256gcm16-x25519-esn-noesn
        start_action = trap
      }
    }
  }
}
secrets { ike-1 { secret = \"do not copy\" } }
";

#[test]
fn site_to_site_becomes_a_tunnel_and_charon_keeps_its_file() {
    let imported = imported(SITE);
    assert!(imported.charon.is_none() && !imported.convoy.contains("do not copy"));
    let config = config(&imported);
    assert!(config.charon.is_some() && config.warnings.is_empty(), "{:?}", config.warnings);
    assert_eq!(config.ports.len(), 2, "without a raw port, as encap = yes");
    assert_eq!((config.tunnels.len(), &*config.tunnels[0].name), (1, "site-net"));
    assert_eq!(config.tunnels[0].remote_ts.len(), 2);
    assert!(
        imported.convoy.contains("address = [\"10.1.0.1/32\", \"fd00:1::1/128\"]"),
        "{}",
        *imported.convoy
    );
    assert!(
        left(&imported).contains("swanctl.conf: local_ts: no interface of this machine"),
        "{}",
        left(&imported)
    );
}

#[test]
fn connection_without_encap_gets_a_port_for_native_esp_or_has_to_have_it() {
    let native = imported(&SITE.replace("encap = yes", ""));
    assert!(native.convoy.contains("kind = \"raw\""), "{}", *native.convoy);
    config(&native);
    let anywhere = imported(&SITE.replace("encap = yes", "").replace("local_addrs = 192.0.2.1", ""));
    assert!(anywhere.convoy.contains("address = [\"0.0.0.0\"]") && !anywhere.convoy.contains("raw"));
    assert!(left(&anywhere).contains("swanctl.conf:2: connections.site.encap: "), "{}", left(&anywhere));
    config(&anywhere);
}

#[test]
fn native_esp_and_ah_come_to_known_addresses_alone() {
    let both = format!(
        "{}connections {{ office {{ remote_addrs = 192.0.2.9\n children {{ net {{ remote_ts = 10.9.0.0/24\n ah_proposals = sha256 }} }} }} }}",
        SITE.replace("encap = yes", "")
    );
    let imported = imported(&both);
    let config = config(&imported);
    let addresses: Vec<_> = config
        .ports
        .iter()
        .map(|port| port.addresses.iter().map(|(one, _)| one.to_string()).collect::<Vec<_>>())
        .collect();
    let expected: [Vec<String>; 3] =
        [vec!["10.1.0.1".into(), "fd00:1::1".into()], vec!["0.0.0.0".into()], vec!["192.0.2.1".into()]];
    assert_eq!(addresses, expected);
    assert!(
        left(&imported).contains("net.ah_proposals: AH comes to known addresses alone"),
        "{}",
        left(&imported)
    );
}

#[test]
fn pool_and_a_virtual_ip_become_what_is_routed() {
    let clients = imported(
        "connections {
  certificates { local_addrs = 192.0.2.1\n encap = yes\n pools = office\n children { net { local_ts = 10.1.0.0/24 } } }
  passwords { local_addrs = 192.0.2.1\n encap = yes\n pools = office, radius\n children { net { local_ts = 10.1.0.0/24 } } }
}
pools { office { addrs = 10.3.0.1-10.3.0.100 } }",
    );
    let read = config(&clients);
    assert_eq!(read.tunnels.len(), 1, "both connections route the same");
    assert_eq!(read.tunnels[0].remote_ts[0].to_string(), "10.3.0.1-10.3.0.100");
    assert!(
        left(&clients).contains("swanctl.conf:8: connections.passwords.pools: the addresses of \"radius\"")
    );
    let client = imported(
        "connections { office { remote_addrs = vpn.example.org\n vips = 0.0.0.0\n encap = yes
           children { net { remote_ts = 10.1.0.0/24 } } } }",
    );
    assert!(
        config(&client).tunnels[0]
            .local_ts
            .iter()
            .all(|one| one.addresses.as_prefix().is_some_and(|(_, bits)| bits == 0))
    );
    assert!(client.convoy.contains("address = [\"0.0.0.0\", \"::\"]"), "{}", *client.convoy);
}

#[test]
fn peers_that_alone_name_the_networks_behind_them_become_a_tunnel_of_the_connections_name() {
    let clients = imported(
        "connections { rw { local_addrs = 192.0.2.1
  children { net { local_ts = 10.1.0.0/24 }
    dmz { local_ts = 10.9.0.0/24 } } } }",
    );
    let read = config(&clients);
    assert_eq!((read.tunnels.len(), &*read.tunnels[0].name), (1, "rw"), "of both children");
    assert!(read.tunnels[0].remote_ts.is_empty());
    assert!(
        left(&clients).contains("rw.children.dmz.remote_ts: the peer alone names the networks"),
        "{}",
        left(&clients)
    );
    // The name would be another than charon's, and transport mode needs the networks.
    for text in [
        "connections { r+w { local_addrs = 192.0.2.1\n children { net { } } } }",
        "connections { rw { local_addrs = 192.0.2.1\n children { net { mode = transport } } } }",
    ] {
        let error = import(&ImportSource::new(Path::new("swanctl.conf"), text), None, &Nowhere)
            .err()
            .expect("without a tunnel")
            .to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[0], "swanctl.conf:1: connections: no child can be taken:");
        assert!(lines[1].starts_with("  swanctl.conf:2: connections.r"), "{error}");
        assert!(lines[1].contains("is only known once it connects"), "{error}");
    }
}

#[test]
fn number_of_an_interface_becomes_an_interface() {
    let text = SITE.replace("start_action", "if_id_in = 0x2a\n if_id_out = 42\n start_action");
    assert!(
        import(&ImportSource::new(Path::new("swanctl.conf"), &text), None, &Nowhere).is_ok(),
        "differ, so left out"
    );
    let imported = imported(&SITE.replace("start_action", "if_id_in = 42\n if_id_out = 42\n start_action"));
    let config = config(&imported);
    assert_eq!((config.interfaces[0].name.as_str(), config.interfaces[0].if_id), ("ipsec42", Some(42)));
    assert!(config.tunnels.is_empty());
    assert!(
        left(&imported).contains("if_id_in: the interface of if_id 42 is ipsec42"),
        "{}",
        left(&imported)
    );
}

#[test]
fn what_the_gateway_has_nothing_for_is_reported_with_its_line_and_what_to_do() {
    for (line, expected) in [
        ("mark_in = 42", "swanctl.conf:11: connections.site.children.net.mark_in: the gateway has no marks"),
        ("ipcomp = yes", "net.ipcomp: the gateway has no IPComp"),
        ("hw_offload = packet", "net.hw_offload: the gateway refuses it"),
        ("updown = /etc/updown", "net.updown: charon runs the script"),
        ("esp_proposals = 3des-sha1", "net.esp_proposals: 3des-sha1 is weak"),
    ] {
        let text = SITE.replace("        local_ts", &format!("        {line}\n        local_ts"));
        let text = if line.starts_with("esp") {
            text.replace("esp_proposals = aes256gcm16-x25519-esn-noesn", "")
        } else {
            text
        };
        let imported = imported(&text);
        let found = left(&imported);
        assert!(found.contains(expected), "{found}");
        config(&imported);
    }
    for mode in ["beet", "drop"] {
        let text = SITE.replace("start_action", &format!("mode = {mode}\n start_action"));
        let error =
            import(&ImportSource::new(Path::new("swanctl.conf"), &text), None, &Nowhere).err().expect(mode);
        assert!(error.to_string().contains("no child can be taken"), "{error}");
    }
}

#[test]
fn bad_selectors_and_a_file_without_connections_are_errors() {
    for (text, expected) in [
        (
            SITE.replace("10.2.0.0/24", "10.2.0.0/33"),
            "swanctl.conf:12: connections.site.children.net.remote_ts: `10.2.0.0/33`",
        ),
        ("secrets { }".to_owned(), "swanctl.conf: connections: there are none"),
    ] {
        let error = import(&ImportSource::new(Path::new("swanctl.conf"), &text), None, &Nowhere)
            .err()
            .expect("wrong");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
