//! Files of wg-quick.

use std::path::Path;

use super::*;
use crate::Config;
use crate::import::{Imported, import};
use convoy_settings::Nowhere;

fn imported(text: &str) -> Imported {
    import(&ImportSource::new(Path::new("wg0.conf"), text), None, &Nowhere)
        .unwrap_or_else(|error| panic!("{error}"))
}

const FILE: &str = "[Interface]
Address = 10.9.0.1/24, fd09::1/64
PrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=
ListenPort = 51820
MTU = 1380
PostUp = iptables -A FORWARD -i %i -j ACCEPT

[Peer] # the other site
PublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=
AllowedIPs = 10.9.0.2/32, 10.2.0.0/24
AllowedIPs = fd02::/64
Endpoint = 198.51.100.2:51820
PersistentKeepalive = 25

[Peer]
PublicKey = TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=
AllowedIPs = 10.9.0.3/32
";

#[test]
fn topology_is_taken_and_no_key() {
    let imported = imported(FILE);
    let config = Config::parse("convoy.toml", &imported.convoy).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.tunnels.len(), 2);
    assert_eq!(config.tunnels[0].remote_ts.len(), 3);
    assert!(
        imported.convoy.contains("mtu = 1380")
            && imported.convoy.contains("\"10.9.0.1/32\", \"fd09::1/128\"")
    );
    let charon = imported.charon.as_ref().expect("connections");
    for text in [&*imported.convoy, charon] {
        assert!(!text.contains("yAnz5TF") && !text.contains("xTIBA5"), "{text}");
    }
    for line in [
        "remote_addrs = 198.51.100.2\n",
        "dpd_delay = 25s",
        "local_ts = 0.0.0.0/0, ::/0",
        "remote_ts = 10.9.0.2/32, 10.2.0.0/24, fd02::/64",
        "start_action = trap|start",
        "remote_addrs = %any",
        "start_action = none",
        "      id = 10.9.0.2",
        "# TO DO: set the authentication",
    ] {
        assert!(charon.contains(line), "{line}: {}", **charon);
    }
    let left: String = imported.left.iter().map(|finding| format!("{finding}\n")).collect();
    for line in [
        "wg0.conf:3: PrivateKey: WireGuard's keys are not taken",
        "wg0.conf:4: ListenPort: IKE and ESP are at UDP ports 500 and 4500",
        "wg0.conf:6: PostUp: the gateway runs no commands",
        "wg0.conf:8: [Peer]: connection peer-1: set its authentication",
    ] {
        assert!(left.contains(line), "{line}: {left}");
    }
    assert!(!left.contains("yAnz5TF"), "{left}");
}

#[test]
fn bad_lines_are_errors_that_repeat_no_key() {
    for (text, expected) in [
        (
            FILE.replace("10.2.0.0/24", "10.2.0.0/33"),
            "wg0.conf:10: AllowedIPs: \"10.2.0.0/33\": a network is expected",
        ),
        (
            FILE.replace("198.51.100.2:51820", "198.51.100.2"),
            "wg0.conf:12: Endpoint: \"198.51.100.2\": ADDRESS:PORT",
        ),
        (FILE.replace("MTU = 1380", "MTU = 80"), "wg0.conf:5: MTU: \"80\": a number from 1280 to 9400"),
        (FILE.replace("= 25", "= often"), "wg0.conf:13: PersistentKeepalive: \"often\": seconds"),
        (FILE.replace("Address", "Adress"), "wg0.conf:2: Adress: unknown key; did you mean \"Address\"?"),
        (FILE.replace("AllowedIPs = 10.9.0.3/32", ""), "wg0.conf:15: AllowedIPs: the peer has no AllowedIPs"),
        (
            "[Interface]\nAddress = 10.9.0.1/24\n".to_owned(),
            "wg0.conf: [Interface] with an Address, and a [Peer]",
        ),
        ("[Interface]\nsecret words\n".to_owned(), "wg0.conf:2: [Interface], [Peer] or"),
        (FILE.replace("PrivateKey = ", ""), "wg0.conf:3: [Interface], [Peer] or"),
        (FILE.replace("PrivateKey = ", "").replace("+", ""), "wg0.conf:3: [Interface], [Peer] or"),
        ("[Interface]\nsecretwords=\n".to_owned(), "wg0.conf:2: [Interface], [Peer] or"),
        ("[Interface]\nsecretwords==\n".to_owned(), "wg0.conf:2: [Interface], [Peer] or"),
    ] {
        let error =
            import(&ImportSource::new(Path::new("wg0.conf"), &text), None, &Nowhere).err().expect(expected);
        assert!(error.to_string().starts_with(expected), "{error}");
        let error = error.to_string().to_lowercase();
        assert!(["secret words", "secretwords", "yanz5tf"].iter().all(|key| !error.contains(key)), "{error}");
    }
}
